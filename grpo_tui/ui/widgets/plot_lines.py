"""Rows of a plot as lines of spans."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from grpo_tui.present.plot import Cell
from grpo_tui.ui.paint import Line, Span

EDGE = 1
"""Cells at the right that a plot leaves free, for its last step is a number."""


def plot_lines(rows: Sequence[Sequence[Cell]]) -> list[Line]:
    """One line per row, neighbours of one role in one span."""
    return [
        [Span("".join(char for char, _ in run), role) for role, run in groupby(row, key=lambda c: c[1])]
        for row in rows
    ]
