"""The words of `grpo-tui completions`. Knows not what they do."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from grpo_tui.cli.words import path, positive, steps

if TYPE_CHECKING:
    from grpo_tui.cli.words import Commands

EPILOG = """\
examples:
  grpo-tui completions RUN --where 'reward<0.2 and tokens>400' --sort -tokens --limit 20
  grpo-tui completions RUN --search "wait" --over-steps       when did this begin?
  grpo-tui completions RUN --regex '\\\\boxed\\{.*\\}' --count
  grpo-tui completions RUN --where 'rewards.format is none' --format md > issue.md
RUN is a run folder, a folder with TRL's completions_*.parquet, or one with verl's STEP.jsonl.
Exit 0; 1 when the search was ended before its end. The language of --where is in docs/completions.md.
"""


_VALUES = ("--sort", "--search", "--regex")


def joined(words: Sequence[str]) -> list[str]:
    """The words of a command line with `--sort -reward` as `--sort=-reward`.

    argparse takes a value that begins with a dash for an option of its own.
    """
    found: list[str] = []
    for word in words:
        dashed = len(word) > 1 and word[0] == "-" and word[1] != "-"
        if dashed and "completions" in found and found[-1] in _VALUES:
            found[-1] = f"{found[-1]}={word}"
        else:
            found.append(word)
    return found


def add_completions_command(commands: Commands) -> None:
    """Add `completions`."""
    command = commands.add_parser(
        "completions",
        help="find completions of a run by a query, text or pattern, count them over steps, export them",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=EPILOG,
    )
    command.add_argument("run", type=path, nargs="?", metavar="RUN", help="run folder, or a folder of logs")
    command.add_argument(
        "--step", type=steps, default=(None, None), metavar="A:B", help="only steps A to B; A:, :B and A too"
    )
    command.add_argument("--where", metavar="EXPR", default="", help="a query, see below")
    words = command.add_mutually_exclusive_group()
    words.add_argument("--search", metavar="TEXT", help="only completions that hold TEXT, in any case")
    words.add_argument("--regex", metavar="RE", help="only completions that match RE, as in Python's re")
    command.add_argument(
        "--sort", metavar="KEY,…", help="a field, -field for the largest first (default step)"
    )
    command.add_argument("--limit", type=positive, metavar="N", help="only the first N")
    command.add_argument("--format", choices=("jsonl", "csv", "md"), help="default jsonl")
    command.add_argument("--all", action="store_true", help="every recorded field, columns and extras too")
    command.add_argument("--superseded", action="store_true", help="also steps that a resume has done again")
    shape = command.add_mutually_exclusive_group()
    shape.add_argument("--count", action="store_true", help="only how many there are")
    shape.add_argument("--over-steps", action="store_true", help="only how many there are, by step")
    command.add_argument(
        "--view", metavar="NAME", help="a saved view: its query, and its order without --sort"
    )
    command.add_argument("--save-view", metavar="NAME", help="keep --where and --sort under a name")
    command.add_argument("--views", action="store_true", help="list the saved views")


def add_course_command(commands: Commands) -> None:
    """Add `course`."""
    command = commands.add_parser(
        "course",
        help="how kinds of groups, lengths, variety and shares of the rewards change over a run",
        epilog="GROUP is the number that `grpo-tui completions` gives. See docs/generations.md.",
    )
    command.add_argument("run", type=path, metavar="RUN", help="run folder, or a folder of logs")
    command.add_argument(
        "--prompt",
        type=positive,
        metavar="GROUP",
        help="instead: each time that this group's prompt was answered",
    )
    command.add_argument(
        "--stretches", type=positive, metavar="N", help="at most so many stretches (default 48)"
    )
    command.add_argument("--json", action="store_true", help="one JSON object")
