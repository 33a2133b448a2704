"""The words of `grpo-tui new`: files to begin with, a kind each. Knows not what they do."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from grpo_tui.cli.words import add_time_limit

if TYPE_CHECKING:
    from grpo_tui.cli.words import Commands


def add_new_command(commands: Commands) -> None:
    """Add `new` with a word for each kind of file."""
    new = commands.add_parser("new", help="begin a file: rewards, one at a time")
    kinds = new.add_subparsers(dest="kind", metavar="KIND", required=True)
    _rewards(kinds)


def _rewards(kinds: Commands) -> None:
    rewards = kinds.add_parser(
        "rewards",
        help="a rewards file with one simple function; --next adds one more when these work",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="examples:\n"
        "  grpo-tui new rewards rewards.py                    correctness alone\n"
        "  grpo-tui new rewards rewards.py --config my.yaml   in the form and with the columns of a config\n"
        "  grpo-tui new rewards rewards.py --next             tries what is there, adds what is missing\n"
        "  grpo-tui new rewards rewards.py --next length      adds this one; known are correctness,\n"
        "                                                     format, partial, length, style\n"
        "Exit 0: written; 1: --next found something to mend first, or nothing missing. See docs/rewards.md.",
    )
    rewards.add_argument("file", type=Path, metavar="FILE.py", help="never overwritten; --next adds to it")
    rewards.add_argument(
        "--config", type=Path, metavar="CONFIG", help="whose prompts and columns they are for"
    )
    rewards.add_argument(
        "--next", nargs="?", const="", metavar="NAME", help="add the next reward, or the one of this name"
    )
    add_time_limit(rewards)
