"""The samples of the pane Rewards line by line: which of them, in which order, and what stands in a cell.

Knows the frozen view; folds nothing and knows no widget.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from rich.cells import cell_len

from grpo_tui.core.text import one_line, shorten
from grpo_tui.present.formatting import fixed

if TYPE_CHECKING:
    from grpo_tui.present.rewards_view import RewardsView, SampleRow

TOTAL, ADVANTAGE = "total", "advantage"
CUT = " … "

# -- order ---------------------------------------------------------------------------------------


def ordered(
    view: RewardsView, by: str | int | None, *, low_first: bool = False, words: str = ""
) -> list[tuple[int, int]]:
    """Lines of the table as (group, row): by group with a heading (row -1) each, or sorted without.

    Args:
        view: the samples.
        by: `total`, `advantage`, a function's place, or None for groups in their order.
        low_first: lowest on top; what has no score comes last either way.
        words: only samples in which each of these stands; `#hard` is a tag.
    """
    kept = [row for row in view.rows if holds(view, row, words)] if words else view.rows
    if by is None and not words:
        return [(g, row) for g, group in enumerate(view.groups) for row in (-1, *group.rows)]
    if by is None:
        seen = {row.index for row in kept}
        groups = ((g, [i for i in group.rows if i in seen]) for g, group in enumerate(view.groups))
        return [(g, row) for g, rows in groups if rows for row in (-1, *rows)]

    def key(row: SampleRow) -> tuple[bool, float]:
        value = row.total if by == TOTAL else row.advantage if by == ADVANTAGE else row.scores[int(by)]
        if value is None or math.isnan(value):
            return True, 0.0
        return False, value if low_first else -value

    return [(row.group, row.index) for row in sorted(kept, key=key)]


def holds(view: RewardsView, row: SampleRow, words: str) -> bool:
    """Whether a sample has each of the words: a tag for one with #, else in completion, kind or prompt."""
    text = f"{row.text}\n{row.kind}\n{view.groups[row.group].prompt}".casefold()
    return all(
        word[1:] in row.tags if len(word) > 1 and word.startswith("#") else word.casefold() in text
        for word in words.split()
    )


def fitted(text: str, room: int) -> str:
    """A completion in so many cells: the beginning and, where they tell samples apart, the last words."""
    if cell_len(text) <= room or room < 12:
        return shorten(text, room)
    head = (room - len(CUT)) // 3 if room >= 40 else 0
    cut = CUT if head else "… "
    tail = room - head - len(cut)
    kept = text[-tail:]
    while cell_len(kept) > tail:
        kept = kept[1:]
    return (shorten(text, head).removesuffix("…") if head else "") + cut + kept


def next_order(view: RewardsView, by: str | int | None) -> str | int | None:
    """The order after this one: groups, total, advantage, then each function."""
    orders: list[str | int | None] = [None, TOTAL, ADVANTAGE, *range(len(view.columns))]
    return orders[(orders.index(by) + 1) % len(orders)] if by in orders else None


# -- cells ---------------------------------------------------------------------------------------


def cell(view: RewardsView, row: SampleRow, k: int) -> tuple[str, str]:
    """Text and colour role of what a function gave a sample."""
    column, score = view.columns[k], row.scores[k]
    if column.failure:
        return ("✗ here", "bad") if k in row.broke else ("failed", "bad" if not row.broke else "dim")
    text = shown(score, column.digits)
    if row.before is not None and k in row.before:
        return changed_text(row.before[k], score, column.digits), "accent"
    if score is None:
        return text, "dim"
    return text, "text" if math.isfinite(score) else "attention"


def changed_text(was: float | None, now: float | None, digits: int) -> str:
    """A score and what it was."""
    return f"{shown(was, digits)}→{shown(now, digits)}"


def shown(score: float | None, digits: int) -> str:
    """A score; None is an abstention."""
    return "none" if score is None else fixed(score, digits)


def file_name(path: str) -> str:
    """The name of a file, safe to show."""
    return one_line(Path(path).name, 60) if path else ""
