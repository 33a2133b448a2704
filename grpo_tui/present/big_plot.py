"""Draw a full-screen chart into cells: several lines told apart by pattern, a band, ticks, marks, a cursor.

Knows the frozen view it is given and cells; which colour a role has is the widget's concern.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, zip_longest

from grpo_tui.present.axes import (
    ValueAxis,
    clock_label,
    step_label,
    step_ticks,
    time_label,
    time_ticks,
    value_axis,
)
from grpo_tui.present.big_chart import BigChartView, ChartLine, Stretch
from grpo_tui.present.dots import PATTERNS, Cell, Dots
from grpo_tui.present.plot import MARKS

LINE_ROLES = ("line", "line2", "line3", "line4", "line5", "line6")
ASCII_LINES = "*o+x#%"
SIGNS = ("━━", "╍╍", "┈┈", "╍┈", "━━", "╍╍")
"""How a line's pattern is written in a title."""
LONG_S = 6 * 3600.0
"""From so long a span on, the axis of time has the wall clock at its ends."""
MOST_LINES = len(LINE_ROLES)


@dataclass(frozen=True, slots=True)
class Frame:
    """Where the plot stands within its cells, for turning a column into a place and back."""

    left: int
    """First column of the plot."""
    width: int
    first: float
    last: float

    def place(self, column: int) -> float:
        """The place on the axis in the middle of a column."""
        share = (column - self.left + 0.5) / max(1, self.width)
        return self.first + min(1.0, max(0.0, share)) * (self.last - self.first)

    def column(self, x: float, across: int = 1) -> int:
        """Column within the plot, in cells, or in dots with two of them `across` a cell."""
        share = (x - self.first) / (self.last - self.first)
        return round(share * (self.width * across - 1))


@dataclass(frozen=True, slots=True)
class Drawing:
    """Rows of cells, and where the plot stands in them."""

    rows: list[list[Cell]]
    frame: Frame
    axis: ValueAxis


def line_sign(index: int, *, ascii_only: bool) -> str:
    """How a line looks, in two characters."""
    return ASCII_LINES[index % MOST_LINES] * 2 if ascii_only else SIGNS[index % MOST_LINES]


def draw(
    view: BigChartView,
    width: int,
    height: int,
    *,
    braille: bool = True,
    logarithmic: bool = False,
) -> Drawing | None:
    """The chart in `height` rows of `width` cells, None without room or values.

    Args:
        view: What to draw.
        width, height: In cells.
        braille: False for one ASCII character to a cell.
        logarithmic: The axis of values; only where all of them are positive.
    """
    rows = height - 2
    if width < 24 or rows < 2 or not view.known:
        return None
    axis = _value_axis(view, rows, logarithmic=logarithmic and view.positive)
    gutter = 1 + max(len(label) for label in axis.labels)
    frame = Frame(gutter + 1, width - gutter - 1, view.first, max(view.last, view.first + 1e-9))
    grid = _grid(view, frame, axis, rows, braille)
    places = {axis.row(v, rows): label for v, label in zip(axis.ticks, axis.labels, strict=True)}
    lines: list[list[Cell]] = []
    cells = grid.rows()
    for row in range(rows):
        label = places.get(row, "")
        edge = ("┤" if label else "│", "axis")
        lines.append([*_cells(label.rjust(gutter), "tick"), edge, *cells[row]])
    ticks = _ticks(view, frame)
    lines.append([*_cells(" " * gutter, "tick"), *_bottom(view, frame, ticks)])
    lines.append([*_cells(" " * (gutter + 1), "tick"), *_labels(view, frame, ticks)])
    return Drawing(lines, frame, axis)


def with_cursor(drawing: Drawing, place: float | None) -> list[list[Cell]]:
    """The rows with the column of a place marked; as they are without one, or with one outside."""
    frame = drawing.frame
    if place is None or not frame.first <= place <= frame.last:
        return drawing.rows
    at = frame.left + frame.column(place)
    rows = []
    for row in drawing.rows[:-1]:  # the labels below keep their words
        char, role = row[at]
        if role == "axis":
            cell = ("┼", "cursor")
        else:
            cell = ("┊", "cursor") if char == " " else (char, f"{role} cursor")
        rows.append([*row[:at], cell, *row[at + 1 :]])
    return [*rows, drawing.rows[-1]]


def _value_axis(view: BigChartView, rows: int, *, logarithmic: bool) -> ValueAxis:
    lows: list[float] = []
    highs: list[float] = []
    for line in view.lines:
        for s in line.stretches:
            # The lead-in of the average, left of the window, must not stretch the axis.
            if s.low is None or s.high is None or s.mean is None or not view.first <= s.x <= view.last:
                continue
            lows.append(s.low)
            highs.append(s.high)
            if s.spread is not None:
                highs.append(s.mean + s.spread)
                if not logarithmic:  # a band that reaches zero has no lower end there
                    lows.append(max(0.0, s.mean - s.spread) if s.low >= 0 else s.mean - s.spread)
    if not lows:
        lows, highs = [0.0], [1.0]
    most = 7 if rows >= 24 else 6 if rows >= 14 else 5 if rows >= 9 else 3 if rows >= 4 else 2
    return value_axis(min(lows), max(highs), most, logarithmic=logarithmic)


def _grid(view: BigChartView, frame: Frame, axis: ValueAxis, rows: int, braille: bool) -> Dots:
    shown = view.lines[:MOST_LINES]
    layers = {LINE_ROLES[i]: ASCII_LINES[i] for i in range(len(shown))}
    grid = Dots(frame.width, rows, braille, {**layers, "band": "."})
    across = 2 if braille else 1
    for index, line in enumerate(shown):
        for a, b in _joined(view, line):
            left, right = frame.column(a.x, across), frame.column(b.x, across)
            if len(shown) == 1:
                _band(grid, axis, a, b, left, right)
            if a.smooth is not None and b.smooth is not None:
                y0, y1 = axis.row(a.smooth, grid.dots), axis.row(b.smooth, grid.dots)
                grid.line(LINE_ROLES[index], left, y0, right, y1, PATTERNS[index % len(PATTERNS)])
    return grid


def _band(grid: Dots, axis: ValueAxis, a: Stretch, b: Stretch, left: int, right: int) -> None:
    """The spread inside the groups as an area, else the raw values as a faint line through their extremes."""
    if a.mean is None or b.mean is None or a.low is None or a.high is None or b.low is None or b.high is None:
        return
    if a.spread is not None and b.spread is not None:
        for x in range(left, right + 1):
            t = (x - left) / max(1, right - left)
            middle, spread = a.mean + t * (b.mean - a.mean), a.spread + t * (b.spread - a.spread)
            grid.shade("band", x, axis.row(middle + spread, grid.dots), axis.row(middle - spread, grid.dots))
        return
    for x, s in ((left, a), (right, b)):
        if s.low is not None and s.high is not None:
            grid.column("band", x, axis.row(s.high, grid.dots), axis.row(s.low, grid.dots))
    grid.line("band", left, axis.row(a.mean, grid.dots), right, axis.row(b.mean, grid.dots))


def _joined(view: BigChartView, line: ChartLine) -> list[tuple[Stretch, Stretch]]:
    """Neighbours to be joined; a missing value joins nothing, a value alone joins itself.

    On the axis of time, neighbours many times farther apart than usual stay apart: the run stood still there.
    """
    inside = [s for s in line.stretches if view.first <= s.x <= view.last]
    apart = sorted(b.x - a.x for a, b in pairwise(inside))
    most = 20 * apart[len(apart) // 2] if apart and view.x == "time" else float("inf")
    pairs: list[tuple[Stretch, Stretch]] = []
    alone = True
    for s, after in zip_longest(inside, inside[1:]):
        if s.mean is None:
            alone = True
            continue
        if after is not None and after.mean is not None and after.x - s.x <= most:
            pairs.append((s, after))
            alone = False
        else:
            if alone:
                pairs.append((s, s))
            alone = True
    return pairs


def _ticks(view: BigChartView, frame: Frame) -> list[tuple[int, str]]:
    """Columns and labels of the round places along the axis."""
    most = max(1, frame.width // 14)
    if view.x == "time":
        return [(frame.column(t), time_label(t)) for t in time_ticks(view.first, view.last, most)]
    return [(frame.column(t), step_label(t)) for t in step_ticks(view.first, view.last, most)]


def _bottom(view: BigChartView, frame: Frame, ticks: Sequence[tuple[int, str]]) -> list[Cell]:
    cells: list[Cell] = [("└", "axis"), *[("─", "axis")] * frame.width]
    for column, _ in ticks:
        cells[1 + column] = ("┴", "axis")
    for happening in view.happenings:
        if view.first <= happening.x <= view.last:
            cells[1 + frame.column(happening.x)] = (MARKS.get(happening.kind, "▴"), "mark")
    return cells


def _labels(view: BigChartView, frame: Frame, ticks: Sequence[tuple[int, str]]) -> list[Cell]:
    text = [" "] * frame.width
    taken = -2

    def put(start: int, label: str) -> None:
        nonlocal taken
        text[start : start + len(label)] = label
        taken = start + len(label)

    ends = _clock_ends(view, frame)
    right = frame.width
    if ends:
        put(0, ends[0])
        right = frame.width - len(ends[1])
        text[right:] = ends[1]
    for column, label in ticks:
        start = min(max(0, column - len(label) // 2), frame.width - len(label))
        if start >= taken + 2 and start + len(label) <= (right - 2 if ends else right):
            put(start, label)
    return _cells("".join(text[: frame.width]), "tick")


def _clock_ends(view: BigChartView, frame: Frame) -> tuple[str, str] | None:
    """The wall clock at both ends, for one run and a long stretch of time."""
    span = view.last - view.first
    starts = {line.started_at for line in view.lines if line.started_at}
    if view.x != "time" or span < LONG_S or len(starts) != 1 or frame.width < 40:
        return None
    start = starts.pop()
    return clock_label(start + view.first, span), clock_label(start + view.last, span)


def _cells(text: str, role: str) -> list[Cell]:
    return [(char, role) for char in text]
