"""The words of `grpo-tui check`, and of a start that is checked first. Knows not what is checked."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from grpo_tui.cli.words import add_overrides, add_trust, path, positive

if TYPE_CHECKING:
    from grpo_tui.cli.words import Commands


def add_check_command(commands: Commands) -> None:
    """Add `check`."""
    check = commands.add_parser(
        "check",
        help="pre-flight: everything that would stop or spoil a run, without loading the model",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="\n".join(
            [
                "examples:",
                "  grpo-tui check my.yaml",
                "  grpo-tui check my.yaml --world-size 4 --set max_steps=50",
                "  grpo-tui check my.yaml --json | jq '.findings[] | select(.severity == \"error\")'",
                "Exit 0: nothing stops a start; 1: errors. See docs/check.md.",
            ]
        ),
    )
    check.add_argument("config", type=path, metavar="CONFIG", help="TRL YAML config, or a run folder")
    check.add_argument(
        "--world-size",
        type=positive,
        metavar="N",
        help="training processes to check for (default: what grpo_tui.launcher starts, else 1)",
    )
    add_overrides(check)
    add_trust(check)
    check.add_argument("--run-dir", type=path, help="run folder (default: output_dir, else outputs/CONFIG)")
    check.add_argument(
        "--quick", action="store_true", help="only what needs no process: no model, no data, no rewards"
    )
    check.add_argument("--json", action="store_true", help="the documented JSON object")


def add_start_check(command: argparse.ArgumentParser) -> None:
    """Give a command that starts a run the switches of the check before it."""
    add_trust(command)
    command.add_argument(
        "--force",
        action="store_true",
        help="start in spite of what the check before it found; the run's record says so",
    )
    command.add_argument(
        "--quick-check",
        action="store_true",
        help="check the config alone before the start, not model, data and rewards",
    )
