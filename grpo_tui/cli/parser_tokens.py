"""The words of `grpo-tui tokens`. Knows not what they do."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from grpo_tui.cli.words import add_trust, path, positive, seconds

if TYPE_CHECKING:
    from grpo_tui.cli.words import Commands

EPILOG = """\
examples:
  grpo-tui tokens RUN --group 412 --index 3              the newest checkpoint, else the live policy
  grpo-tui tokens RUN --group 412 --from live            the policy as it is now, at the end of the step
  grpo-tui tokens RUN --group 412 --from checkpoint=200 --base
  grpo-tui tokens RUN --group 412 --from base --prompt   with the prompt as the model gets it
GROUP and INDEX are those of `grpo-tui completions`. See docs/generations.md, Tokens.
"""


def add_tokens_command(commands: Commands) -> None:
    """Add `tokens`."""
    command = commands.add_parser(
        "tokens",
        help="log-probability, entropy, rank and KL of each token of a completion, by a policy of the run",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=EPILOG,
    )
    command.add_argument("run", type=path, metavar="RUN", help="run folder")
    command.add_argument("--group", type=positive, required=True, metavar="N", help="the group")
    command.add_argument(
        "--index", type=int, default=0, metavar="I", help="which of its completions, from 0 (default 0)"
    )
    command.add_argument(
        "--from", dest="source", metavar="WHO", help="live, checkpoint, checkpoint=STEP or base"
    )
    command.add_argument(
        "--base", action="store_true", help="compare with the base model, or the live run's reference: KL"
    )
    command.add_argument("--prompt", action="store_true", help="print the rendered prompt too")
    command.add_argument(
        "--limit", type=positive, metavar="N", help="the N most surprising tokens (default 20)"
    )
    command.add_argument(
        "--wait", type=seconds, default=60.0, metavar="S", help="wait so long for a live run (default 60)"
    )
    add_trust(command)
    command.add_argument("--json", action="store_true", help="one JSON object, with every token")
