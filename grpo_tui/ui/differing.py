"""Which cells of some lines are others than before, so that no more is painted and sent.

A terminal may hang on a slow line, and most of what a live view repaints stands there already.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import TYPE_CHECKING

from rich.cells import cell_len
from textual.geometry import Region, Size

if TYPE_CHECKING:
    from grpo_tui.ui.paint import Line

ONE_CELL_EACH = re.compile("[ -~\u00b7\u2013-\u2026\u2190-\u22ff\u2500-\u259f\u25b2-\u25d0\u2800-\u28ff]*")
"""Characters that take a cell each and join with no neighbour: what this program draws itself, and ASCII."""
APART = 10
"""Equal cells between two other stretches; fewer are sent along, for moving the cursor costs as much."""


def differing(old: Sequence[Line], new: Sequence[Line], size: Size) -> list[Region]:
    """Where two lots of lines differ, as regions of one line each.

    Args:
        old: The lines that stand there.
        new: The lines that shall.
        size: Cells that are seen of them.
    """
    regions = []
    for y in range(size.height):
        a, b = old[y] if y < len(old) else (), new[y] if y < len(new) else ()
        if a is b or list(a) == list(b):
            continue
        for start, end in _stretches(a, b, size.width):
            regions.append(Region(start, y, end - start, 1))
    return regions


def _stretches(a: Line, b: Line, width: int) -> Iterator[tuple[int, int]]:
    """First and last cell, exclusive, of what differs between two lines."""
    same, first = _same_spans(a, b)
    cells, others = _cells(a[same:], width - first), _cells(b[same:], width - first)
    if cells is None or others is None:
        yield min(first, width - 1), width  # the last cell may hold the sign of a cut
        return
    longest = max(len(cells), len(others))
    for short in (cells, others):
        short.extend([("", "", "")] * (longest - len(short)))
    start = end = -1
    for x, (one, other) in enumerate(zip(cells, others, strict=True), first):
        if one == other:
            continue
        if start < 0:
            start = x
        elif x - end > APART:
            yield start, end
            start = x
        end = x + 1
    if start >= 0:
        yield start, end


def _cells(line: Line, room: int) -> list[tuple[str, str, str]] | None:
    """Each cell's character, role and action.

    None when some character may take another number of cells, or when there are too many for the room and the
    line is cut.
    """
    cells: list[tuple[str, str, str]] = []
    for text, role, action in line:
        if ONE_CELL_EACH.fullmatch(text) is None:
            return None
        cells += zip(text, repeat(role), repeat(action), strict=False)
    return cells if len(cells) <= room else None


def _same_spans(a: Line, b: Line) -> tuple[int, int]:
    """How many spans both lines begin with, and their cells."""
    count = x = 0
    for one, other in zip(a, b, strict=False):
        if one != other:
            break
        count += 1
        x += cell_len(one.text)
    return count, x
