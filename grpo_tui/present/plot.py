"""Draw a chart into a grid of characters: ticks, a smoothed line over a faint band, gaps, marks on the axis.

Lines are braille, two by four dots to a cell; where only ASCII is to be had, one character to a cell. Knows
numbers and cells; which colour a role has is the widget's concern.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

from grpo_tui.present.dots import Cell, Dots
from grpo_tui.present.formatting import fixed, told_apart
from grpo_tui.present.train_view import ChartView

Reach = tuple[float, float]
LAYERS = {"line": "*", "band": "."}
"""Layers of a small chart, topmost first; its other roles are `axis`, `tick`, `mark`, `text`."""
MARKS = {"checkpoint": "◆", "setting": "▴", "resume": "↻"}


@dataclass(frozen=True, slots=True)
class Scale:
    """The range of values that the plot spans, with round ends."""

    low: float
    high: float

    def row(self, value: float, dots: int) -> int:
        """Dot row of a value, 0 at the top, clamped into the plot."""
        share = (value - self.low) / (self.high - self.low)
        # A value just between two rows must not flicker with its last digit.
        return min(dots - 1, max(0, math.floor((1 - share) * (dots - 1) + 0.5 - 1e-6)))


class Stroke(NamedTuple):
    """From one place to the next, each with the reach of its values; strokes may be drawn in any order."""

    kind: str
    """`band` shades, `reach` fills around the line, `line` draws it."""
    left: int
    right: int
    a: Reach
    b: Reach


class Sketch:
    """What stands of a chart already: a new step draws the last stroke of it, not all of them."""

    def __init__(self) -> None:
        self._frame: tuple[object, ...] = ()
        self._dots: Dots | None = None
        self._drawn: list[list[Stroke]] = []

    def dots(self, layers: list[list[Stroke]], scale: Scale, frame: tuple[object, ...], blank: Dots) -> Dots:
        """All strokes drawn into `blank`, which is equal for an equal `frame`."""
        known = self._frame == (scale, frame) and len(layers) == len(self._drawn)
        if not known or any(new[: len(old)] != old for new, old in zip(layers, self._drawn, strict=True)):
            self._frame, self._dots, self._drawn = (scale, frame), blank, [[] for _ in layers]
        assert self._dots is not None
        for strokes, drawn in zip(layers, self._drawn, strict=True):
            for stroke in strokes[len(drawn) : -1]:  # the newest one changes until its stretch is full
                _stroke(self._dots, stroke, scale)
                drawn.append(stroke)
        whole = self._dots.copy()
        for strokes in layers:
            for stroke in strokes[-1:]:
                _stroke(whole, stroke, scale)
        return whole


def plot(
    chart: ChartView, width: int, height: int, *, braille: bool = True, sketch: Sketch | None = None
) -> list[list[Cell]]:
    """The chart in `height` rows of `width` cells; empty rows when there is no room or nothing to draw.

    `sketch` remembers strokes from one call to the next; the picture is the same without.
    """
    blank: list[list[Cell]] = [[(" ", "text")] * width for _ in range(height)]
    known = [b for b in chart.buckets if b.smooth is not None]
    if not known or width < 12 or height < 2:
        return blank
    with_steps = height >= 5
    rows = height - (2 if with_steps else 1)
    scale = scale_of(chart)
    labels = _tick_labels(scale)
    gutter = 1 + max(len(label) for label in labels)
    inner = width - gutter - 1
    if inner < 6 or rows < 1:
        return blank
    first = chart.buckets[0].first
    last = max(chart.buckets[-1].last, chart.end, first + 1)
    blank_grid = Dots(inner, rows, braille, LAYERS)
    strokes = _strokes(chart, first, last, blank_grid.columns)
    grid = (sketch or Sketch()).dots(strokes, scale, (inner, rows, braille, first, last), blank_grid)
    lines: list[list[Cell]] = []
    cells = grid.rows()
    for row in range(rows):
        label = labels[2] if row == 0 else labels[1] if rows >= 5 and row == rows // 2 else ""
        lines.append([*_cells(label.rjust(gutter), "tick"), ("│", "axis"), *cells[row]])
    lines.append([*_cells(labels[0].rjust(gutter), "tick"), *_axis(chart, inner, first, last)])
    if with_steps:
        lines.append([*_cells(" " * (gutter + 1), "tick"), *_step_labels(inner, first, last)])
    return lines


def scale_of(chart: ChartView) -> Scale:
    """Round ends around all that is drawn; zero is one of them when it is near."""
    lows = [b.low for b in chart.buckets if b.low is not None] + [r[0] for r in chart.band if r is not None]
    highs = [b.high for b in chart.buckets if b.high is not None] + [
        r[1] for r in chart.band if r is not None
    ]
    low, high = min(lows), max(highs)
    floor = min(b.low for b in chart.buckets if b.low is not None)
    if floor >= 0:
        low = max(low, 0.0)  # a band must not pull values that are never negative below zero
    if low > 0 and low < 0.5 * high:
        low = 0.0
    if high - low < 1e-12:
        pad = abs(high) * 0.1 or 1.0
        low, high = (0.0 if low == 0 else low - pad), high + pad
    # Two steps of a round size, so that the tick in the middle is as round as those at the ends.
    unit = 10 ** math.floor(math.log10((high - low) / 2))
    for factor in (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10, 15, 20):
        step = factor * unit
        # Across zero half a step is round enough; whole ones would leave half of the plot empty.
        grain = step / 2 if low < 0 < high else step
        bottom = math.floor(low / grain + 1e-9) * grain
        if bottom + 2 * step >= high - 1e-9 * step:
            return Scale(bottom, bottom + 2 * step)
    return Scale(low, high)


def _tick_labels(scale: Scale) -> tuple[str, str, str]:
    values = (scale.low, (scale.low + scale.high) / 2, scale.high)
    largest = max(abs(v) for v in values)
    if largest < 0.001 or largest >= 1e6:
        return told_apart(values)  # type: ignore[return-value]
    near = 1e-6 * (scale.high - scale.low)
    digits = next((d for d in range(9) if all(abs(round(v, d) - v) < near for v in values)), 4)
    return tuple(fixed(v, digits) for v in values)  # type: ignore[return-value]


def _strokes(chart: ChartView, first: int, last: int, across: int) -> list[list[Stroke]]:
    """What is to be drawn: the band or the raw values, and the line; `across` is in dots."""
    columns = [round((b.middle - first) / (last - first) * (across - 1)) for b in chart.buckets]
    dense = len(columns) > across
    found: list[list[Stroke]] = []

    def add(kind: str, values: Sequence[Reach | None], join: Callable[[list[Reach]], Reach]) -> None:
        places, known = _gathered(columns, values, join) if dense else (columns, values)
        found.append([Stroke(kind, *stretch) for stretch in _stretches(places, known)])

    if chart.band:
        add("band", chart.band, _middle)
    elif chart.raw:
        reach = [None if b.low is None or b.high is None else (b.low, b.high) for b in chart.buckets]
        add("reach", reach, _widest)
    add("line", [None if b.smooth is None else (b.smooth, b.smooth) for b in chart.buckets], _middle)
    return found


def _stroke(grid: Dots, stroke: Stroke, scale: Scale) -> None:
    left, right, a, b = stroke.left, stroke.right, stroke.a, stroke.b
    if stroke.kind == "band":
        for x in range(left, right + 1):
            t = (x - left) / max(1, right - left)
            low, high = a[0] + t * (b[0] - a[0]), a[1] + t * (b[1] - a[1])
            grid.shade("band", x, scale.row(high, grid.dots), scale.row(low, grid.dots))
    elif stroke.kind == "reach":
        grid.column("band", left, scale.row(a[1], grid.dots), scale.row(a[0], grid.dots))
        middle_a, middle_b = (a[0] + a[1]) / 2, (b[0] + b[1]) / 2
        grid.line("band", left, scale.row(middle_a, grid.dots), right, scale.row(middle_b, grid.dots))
        grid.column("band", right, scale.row(b[1], grid.dots), scale.row(b[0], grid.dots))
    else:
        grid.line("line", left, scale.row(a[0], grid.dots), right, scale.row(b[0], grid.dots))


def _gathered(
    columns: Sequence[int], values: Sequence[Reach | None], join: Callable[[list[Reach]], Reach]
) -> tuple[list[int], list[Reach | None]]:
    """One value for each column that several share; a column is missing when all of its values are."""
    places: list[int] = []
    found: list[Reach | None] = []
    for place, group in groupby(zip(columns, values, strict=True), key=itemgetter(0)):
        known = [value for _, value in group if value is not None]
        places.append(place)
        found.append(join(known) if known else None)
    return places, found


def _widest(values: list[Reach]) -> Reach:
    return min(low for low, _ in values), max(high for _, high in values)


def _middle(values: list[Reach]) -> Reach:
    return sum(low for low, _ in values) / len(values), sum(high for _, high in values) / len(values)


def _stretches(
    places: Sequence[int], values: Sequence[tuple[float, float] | None]
) -> Iterator[tuple[int, int, tuple[float, float], tuple[float, float]]]:
    """Pairs of neighbours to be joined; a missing value joins nothing, a value alone joins itself."""
    for i, value in enumerate(values):
        if value is None:
            continue
        following = values[i + 1] if i + 1 < len(values) else None
        if following is not None:
            yield places[i], places[i + 1], value, following
        elif i == 0 or values[i - 1] is None:
            yield places[i], places[i], value, value


def _axis(chart: ChartView, inner: int, first: int, last: int) -> list[Cell]:
    cells: list[Cell] = [("└", "axis"), *[("─", "axis")] * inner]
    for mark in chart.marks:
        if first <= mark.step <= last:
            place = 1 + round((mark.step - first) / (last - first) * (inner - 1))
            cells[place] = (MARKS.get(mark.kind, "▴"), "mark")
    return cells


def _step_labels(inner: int, first: int, last: int) -> list[Cell]:
    """First, middle and last step under the axis, each where it stands."""
    left, right, middle = f"{first:,}", f"{last:,}", f"{(first + last) // 2:,}"
    text = list(" " * inner)
    text[: len(left)] = left
    text[inner - len(right) :] = right
    start = round(((first + last) // 2 - first) / (last - first) * (inner - 1)) - len(middle) // 2
    if last - first > 3 and start > len(left) + 3 and start + len(middle) < inner - len(right) - 3:
        text[start : start + len(middle)] = middle
    return _cells("".join(text[:inner]), "tick")


def _cells(text: str, role: str) -> list[Cell]:
    return [(char, role) for char in text]
