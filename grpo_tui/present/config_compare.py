"""Differences between an open config and something else, as lines for a screen.

`config.config_diff` compares; this module names the sides and formats the rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from grpo_tui.config.config_diff import Diff, Side, diff
from grpo_tui.config.draft import Draft
from grpo_tui.config.run_config import RunConfig
from grpo_tui.present.config_evaluate import shown
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.spec import read_spec

if TYPE_CHECKING:
    from grpo_tui.config.config_diff import DiffRow

Sign = Literal["+", "-", " ", "@"]
NOW = "current"


@dataclass(frozen=True, slots=True)
class Compared:
    """Two compared sides.

    Attributes:
        theirs: Name of the side with `-` lines.
        mine: Name of the side with `+` lines.
        lines: (sign, text) pairs; `@` is a title.
    """

    theirs: str
    mine: str
    lines: tuple[tuple[Sign, str], ...]


def against(what: str | Path, draft: Draft) -> Compared:
    """Compare an open config with something else.

    Args:
        what: `saved`, `preset`, `defaults`, or the folder of a run.

    Raises:
        OSError: A run's config cannot be read.
        ValueError: A file or a run's config is invalid.
    """
    if isinstance(what, Path):
        config = RunConfig.from_json(read_spec(RunFolder(what).spec).config, what)
        return _fields(diff(draft, Side.run(f"the run {what.name}", config)))
    if what == "defaults":
        return _fields(diff(draft, Side.defaults()))
    side = Side.preset(draft) if what == "preset" else None
    return _lines(diff(draft, side if side is not None else Side.saved(draft)))


def texts(theirs: str, title: str, draft: Draft) -> Compared:
    """Compare an open config with another version of its text."""
    return _lines(diff(draft, Side.of(Draft(theirs, draft.path), title)))


def _lines(found: Diff) -> Compared:
    """Compare line by line, or by fields where one side has no text."""
    if not found.lines:
        return _fields(found)
    lines: list[tuple[Sign, str]] = []
    for line in found.lines[2:]:
        if line.startswith("@@"):
            place = line.partition("+")[2].partition(" ")[0].partition(",")[0]
            lines.append(("@", f"line {place}"))
        elif line[:1] in ("+", "-", " "):
            sign: Sign = "+" if line[0] == "+" else "-" if line[0] == "-" else " "
            lines.append((sign, line[1:]))
    return Compared(found.there, NOW, tuple(lines))


def _fields(found: Diff) -> Compared:
    lines = tuple(line for row in found.rows for line in _row(row))
    return Compared(found.there, NOW, lines)


def _row(row: DiffRow) -> list[tuple[Sign, str]]:
    return [("-", f"{row.field}: {shown(row.there)}"), ("+", f"{row.field}: {shown(row.here)}")]
