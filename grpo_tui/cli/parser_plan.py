"""The words of `plan` and `gpus`, and those of a start that place it on GPUs or only try it.

Knows no plan and no GPU.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from grpo_tui.cli.words import add_overrides, add_trust, path, positive

if TYPE_CHECKING:
    from grpo_tui.cli.words import Commands


def add_plan_commands(commands: Commands) -> None:
    """Add `plan` and `gpus`."""
    plan = commands.add_parser(
        "plan",
        help="what a config comes to: prompts, steps, hours, checkpoints, memory; loads no model",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="\n".join(
            [
                "examples:",
                "  grpo-tui plan my.yaml",
                "  grpo-tui plan my.yaml --count",
                "  grpo-tui plan my.yaml --gpu 24GB --set use_peft=true",
                "  grpo-tui plan my.yaml --world-size 4 --gpu H100 --json",
                "See docs/plan.md.",
            ]
        ),
    )
    plan.add_argument("config", type=path, metavar="CONFIG", help="TRL YAML config, or a run folder")
    plan.add_argument(
        "--world-size",
        type=positive,
        metavar="N",
        help="training processes (default: what grpo_tui.launcher starts, else 1)",
    )
    plan.add_argument(
        "--gpu", metavar="NAME|80GB", help="fit on this card or so much memory (default: this machine's GPU)"
    )
    plan.add_argument("--rows", type=positive, metavar="N", help="training rows, when they are not counted")
    plan.add_argument(
        "--prompt-tokens", type=positive, metavar="N", help="tokens of the longest prompt (default 256)"
    )
    plan.add_argument(
        "--count", action="store_true", help="count rows, tokens and parameters first; takes seconds"
    )
    add_overrides(plan)
    add_trust(plan)
    plan.add_argument("--json", action="store_true", help="the documented JSON object")

    gpus = commands.add_parser(
        "gpus",
        help="every GPU of this machine: free memory, and who holds it",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="examples:\n  grpo-tui gpus\n  grpo-tui train my.yaml --gpus 2",
    )
    gpus.add_argument("--json", action="store_true", help="the documented JSON object")


def add_placing(command: argparse.ArgumentParser) -> None:
    """Give a command that starts a run the words for where, and for a trial."""
    command.add_argument(
        "--gpus", metavar="N,N", help="the GPUs it is put on, as `grpo-tui gpus` counts them (or UUIDs)"
    )
    command.add_argument(
        "--smoke",
        action="store_true",
        help="a trial: two steps on the longest prompts, saved and reloaded, in a folder that is removed",
    )
    command.add_argument("--keep", action="store_true", help="with --smoke: keep the folder of the trial")
