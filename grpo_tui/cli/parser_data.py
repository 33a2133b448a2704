"""The words of `grpo-tui data`. Knows not what it does."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from grpo_tui.cli.words import add_overrides, add_time_limit, add_trust, path, positive

if TYPE_CHECKING:
    from grpo_tui.cli.words import Commands


def add_data_command(commands: Commands) -> None:
    """Add `data`."""
    data = commands.add_parser(
        "data",
        help="the rows of a config as training will see them, and what is wrong with them",
        epilog=(
            "Without an option: all rows in figures. Exit 0: nothing stops a run; 1: an error was found. "
            "See docs/config.md."
        ),
        formatter_class=argparse.HelpFormatter,
    )
    data.add_argument("config", type=path, metavar="CONFIG", help="TRL YAML config")
    which = data.add_mutually_exclusive_group()
    which.add_argument("--row", type=positive, metavar="N", help="row N of the source, from 1")
    which.add_argument(
        "--search", metavar="TEXT", help="the first row that holds TEXT anywhere, and how many do"
    )
    which.add_argument("--random", action="store_true", help="a row by chance")
    data.add_argument(
        "--no-rewards", action="store_true", help="with a row: leave out the rewards of its right answer"
    )
    add_time_limit(data)
    data.set_defaults(timeout=None)
    add_overrides(data)
    add_trust(data)
    data.add_argument("--json", action="store_true", help="facts and findings, or the row, as JSON")
