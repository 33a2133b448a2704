"""Options and argument types that several commands share."""

from __future__ import annotations

import argparse
import math
import re
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

from grpo_tui.cli.errors import CommandError

Commands: TypeAlias = "argparse._SubParsersAction[Any]"
"""Where a command's parser is added. The standard library has no public name for this class."""


class Lines(argparse.HelpFormatter):
    """Keeps the lines of an epilog and wraps those wider than the terminal, but never inside a command."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        rows: list[str] = []
        for line in text.splitlines():
            table = re.match(r"  \S+ {2,}", line)
            command = re.match(r"(  grpo-tui .*?\S)(?: {2,}(\S.*))?$", line)
            if len(line) <= width:
                rows.append(line)
            elif command is not None:
                rows.append(command[1])
                rows += [f"      {row}" for row in textwrap.wrap(command[2] or "", max(1, width - 6))]
            else:
                hanging = " " * (table.end() if table is not None else 0)
                rows += textwrap.wrap(line, width, subsequent_indent=hanging, break_on_hyphens=False)
        return "\n".join(indent + row for row in rows)


class Parser(argparse.ArgumentParser):
    """Reports unknown arguments with the usage of the command they were given to."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """Parse arguments. Unknown ones end the program here, not in the parser above."""
        parsed, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return parsed, unknown


def add_command(commands: Commands, name: str, about: str, epilog: str = "") -> argparse.ArgumentParser:
    """Add a command. The lines of its `epilog` are kept."""
    return commands.add_parser(name, help=about, epilog=epilog or None, formatter_class=Lines)


def flag(command: argparse._ActionsContainer, name: str, about: str) -> None:
    """Add an option without a value."""
    command.add_argument(name, action="store_true", help=about)


def shared(command: argparse._ActionsContainer, *names: str, **others: Any) -> None:
    """Add arguments of `SHARED`, in this order. `others` replace what the table says."""
    for name in names:
        command.add_argument(name, **SHARED[name] | others)


def sets(overrides: Sequence[str], key: str) -> bool:
    """Return whether `--set` sets a key of the config or the section around it."""
    named = {text.partition("=")[0].strip() for text in overrides}
    return key in named or key.partition(".")[0] in named


def refuse_unused(parsed: Any, why: str, *options: str) -> None:
    """Reject options that have no effect; `why` says when, such as `with --count`."""
    for option in options:
        value = getattr(parsed, option.lstrip("-").replace("-", "_"))
        if value not in (None, False, "", (None, None)):
            raise CommandError(f"{option} has no effect {why}; leave it out")


def path(text: str) -> Path:
    """Parse a file or folder name. An empty one, as from an unset variable, is an error."""
    if not text:
        raise argparse.ArgumentTypeError("the name is empty")
    return Path(text)


def positive(text: str) -> int:
    """Parse an integer of at least 1."""
    try:
        number = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, not {number}")
    return number


def seed_list(text: str) -> list[int]:
    """Parse different seeds, separated by commas."""
    from grpo_tui.core.seed_noise import read_seeds

    try:
        return read_seeds(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def drill_list(text: str) -> list[str]:
    """Parse names of drills separated by commas, or `all`, in the order in which they run."""
    from grpo_tui.store.trials import DRILLS

    names = DRILLS if text == "all" else text.split(",")
    unknown = [name for name in names if name not in DRILLS]
    if unknown:
        raise argparse.ArgumentTypeError(f"unknown drill: {unknown[0]}. The drills are {', '.join(DRILLS)}")
    return [name for name in DRILLS if name in names]


def _number(text: str) -> float:
    """Parse a number, NaN if it is none."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def seconds(text: str) -> float:
    """Parse a number of seconds of at least 0."""
    if not 0 <= (found := _number(text)) < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds")
    return found


def time_limit(text: str) -> float:
    """Parse a number of seconds above 0."""
    if not (found := seconds(text)):
        raise argparse.ArgumentTypeError("must be more than 0 seconds")
    return found


def factor(text: str) -> float:
    """Parse a number above 0."""
    if not 0 < (found := _number(text)) < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return found


def steps(text: str) -> tuple[int | None, int | None]:
    """Parse `A:B`, `A:`, `:B` or `A` as first and last step, None where open."""
    first, colon, last = text.partition(":")
    try:
        bounds = (int(first) if first else None, int(last) if last else None)
    except ValueError:
        bounds = None
    if bounds is not None and not colon:
        bounds = (bounds[0], bounds[0])
    if bounds is None or not text.strip(":") or (None not in bounds and bounds[0] > bounds[1]):  # type: ignore[operator]
        raise argparse.ArgumentTypeError(f"{text!r} is not a range of steps. Use 100:200, 100:, :200 or 100")
    return bounds


SHARED: dict[str, dict[str, Any]] = {
    "run": {"type": path, "metavar": "RUN", "help": "run folder"},
    "runs": {"type": path, "nargs": "+", "metavar": "RUN", "help": "run folders"},
    "config": {"type": path, "metavar": "CONFIG", "help": "TRL YAML config, or a run folder"},
    "sources": {
        "metavar": "CONFIG_OR_FUNC",
        "help": "a config, a run folder, or functions: file.py:function, a name of TRL, a dotted path",
    },
    "--samples": {
        "type": path,
        "metavar": "FILE",
        "help": "JSONL of prompt, completion, columns; or TRL's parquet; or a YAML of cases",
    },
    "--set": {
        "action": "append", "default": [], "metavar": "K=V", "dest": "overrides", "help": "as in train",
    },
    "--run-dir": {"type": path, "help": "run folder (default: output_dir, else outputs/CONFIG)"},
    "--weights": {"metavar": "W,W,…", "help": "instead of the config's, in the functions' order"},
    "--correct": {
        "metavar": "NAME[>=X]",
        "help": "the reward that decides what is right, and its lowest passing score",
    },
    "--seed": {"type": int, "metavar": "S", "help": "seed of rows and sampling (default: the config's)"},
    "--because": {"metavar": "TEXT", "help": "why, for the history of the run"},
    "--timeout": {
        "type": time_limit, "default": 60.0, "metavar": "S",
        "help": "seconds that a call may take (default 60)",
    },
    "--trust": {
        "action": "store_true",
        "help": "run code of another user or of a run that you did not start; asks again after it changes",
    },
    "--json": {"action": "store_true", "help": "the documented JSON object"},
}  # fmt: skip
"""Arguments of several commands, as `add_argument` takes them."""
