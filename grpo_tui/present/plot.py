"""Draw a chart into a grid of characters: ticks, lines over a faint band, gaps, marks on the axis, a cursor.

A cell is two by four braille dots, or one character where only ASCII is available. The widget chooses the
color of each role.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from operator import itemgetter
from typing import NamedTuple

from grpo_tui.core.metrics import EVALUATED
from grpo_tui.present.big_chart import BigChartView, ChartBucket, ChartLine
from grpo_tui.present.formatting import clock_label, fixed, step_label, time_label, told_apart
from grpo_tui.present.train_view import MARKS, ChartView

Cell = tuple[str, str]

_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))

_Masks = tuple[tuple[int, ...], ...]


def _masks(across: int, *, shaded: bool) -> _Masks:
    """Return the dots of a cell's left or right half, by first and last row."""
    kept = [_DOTS[y][across] if not shaded or (across + y) % 2 == 0 else 0 for y in range(4)]
    return tuple(tuple(sum(kept[low : high + 1]) for high in range(4)) for low in range(4))


_FULL = (_masks(0, shaded=False), _masks(1, shaded=False))
_SHADED = (_masks(0, shaded=True), _masks(1, shaded=True))

PATTERNS: tuple[tuple[int, ...], ...] = (
    (1,),
    (1, 1, 1, 1, 0, 0, 0),
    (1, 0, 0),
    (1, 1, 1, 1, 1, 1, 0, 0, 1, 0, 0),
)
"""Dot patterns that distinguish lines without color: solid, dashed, dotted, dash-dot."""


class Dots:
    """Layers of dots. Where several cross in a cell, the topmost is shown.

    Args:
        braille: False for one ASCII character per cell.
        layers: Name of each layer, topmost first, and its ASCII character.
    """

    def __init__(self, width: int, height: int, braille: bool, layers: Mapping[str, str]) -> None:
        self._braille = braille
        self._across, self._down = (2, 4) if braille else (1, 1)
        self.columns, self.dots = width * self._across, height * self._down
        self._width = width
        self._plain = dict(layers)
        self._layers: dict[str, dict[tuple[int, int], int]] = {name: {} for name in layers}

    def copy(self) -> Dots:
        """Return an independent copy."""
        twin = copy(self)
        twin._layers = {name: dict(cells) for name, cells in self._layers.items()}
        return twin

    def dot(self, layer: str, x: int, y: int) -> None:
        """Set one dot. Dots outside the grid are ignored."""
        if not (0 <= x < self.columns and 0 <= y < self.dots):
            return
        cell = (x // self._across, y // self._down)
        bit = _DOTS[y % 4][x % 2] if self._braille else 1
        self._layers[layer][cell] = self._layers[layer].get(cell, 0) | bit

    def column(self, layer: str, x: int, top: int, bottom: int) -> None:
        """Fill a column of dots."""
        self._fill(layer, x, top, bottom, _FULL)

    def shade(self, layer: str, x: int, top: int, bottom: int) -> None:
        """Fill a column with every second dot, so that an area looks grey."""
        self._fill(layer, x, top, bottom, _SHADED)

    def _fill(self, layer: str, x: int, top: int, bottom: int, masks: Sequence[_Masks]) -> None:
        top, bottom = max(0, top), min(self.dots - 1, bottom)
        if not 0 <= x < self.columns or top > bottom:
            return
        cells, across, down = self._layers[layer], x // self._across, self._down
        for y in range(top // down, bottom // down + 1):
            bits = 1
            if self._braille:
                bits = masks[x % 2][max(top - y * 4, 0)][min(bottom - y * 4, 3)]
            if bits:
                cells[(across, y)] = cells.get((across, y), 0) | bits

    def line(
        self, layer: str, x0: int, y0: int, x1: int, y1: int, pattern: Sequence[int] = PATTERNS[0]
    ) -> None:
        """Draw a straight line of dots (Bresenham), with the gaps of a pattern.

        The pattern follows the line's main axis, so the existing part of a growing line does not change.
        """
        dx, dy = abs(x1 - x0), -abs(y1 - y0)
        sx, sy = (1 if x0 < x1 else -1), (1 if y0 < y1 else -1)
        steep = -dy > dx
        error = dx + dy
        if not self._braille:
            pattern = PATTERNS[0]
        while True:
            if pattern[(y0 if steep else x0) % len(pattern)]:
                self.dot(layer, x0, y0)
            if x0 == x1 and y0 == y1:
                return
            doubled = 2 * error
            if doubled >= dy:
                error += dy
                x0 += sx
            if doubled <= dx:
                error += dx
                y0 += sy

    def rows(self) -> list[list[Cell]]:
        """Return the cells row by row, blank with role `text` where nothing is set."""
        blank = (" ", "text")
        lines = [[blank] * self._width for _ in range(self.dots // self._down)]
        for layer, cells in reversed(self._layers.items()):
            for (x, y), bits in cells.items():
                lines[y][x] = (chr(0x2800 + bits) if self._braille else self._plain[layer], layer)
        return lines


_FACTORS = (1, 2, 2.5, 5, 10)
_SECONDS = (
    1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400, 172_800,
    432_000, 864_000,
)  # fmt: skip
_TINY = 1e-12
_LARGEST = 4e307
"""Larger values are drawn at the edge: the distance of two of them would overflow."""


@dataclass(frozen=True, slots=True)
class ValueAxis:
    """Range of values of a plot, with round ticks; `logarithmic` requires values above zero."""

    low: float
    high: float
    ticks: tuple[float, ...]
    labels: tuple[str, ...]
    logarithmic: bool = False

    def share(self, value: float) -> float:
        """Return a value's position from 0 (bottom) to 1 (top), clamped to the plot."""
        if self.logarithmic:
            low, high = math.log10(self.low), math.log10(self.high)
            at = (math.log10(max(value, self.low)) - low) / (high - low)
        else:
            at = (value - self.low) / (self.high - self.low)
        return min(1.0, max(0.0, at))

    def row(self, value: float, rows: int) -> int:
        """Return the row of a value, 0 at the top."""
        # A value halfway between two rows must not flicker with its last digit.
        return min(rows - 1, max(0, math.floor((1 - self.share(value)) * (rows - 1) + 0.5 - 1e-6)))


def value_axis(low: float, high: float, most: int, *, logarithmic: bool = False) -> ValueAxis:
    """Return an axis around `low` to `high` with at most `most` (two or more) round ticks, ends included."""
    low, high = (min(max(end, -_LARGEST), _LARGEST) for end in (low, high))
    if logarithmic and low > 0:
        return _logarithmic(low, high, most)
    low, high = _roomy(low, high)
    size = 10.0 ** math.floor(math.log10((high - low) / max(1, most - 1)))
    for factor in (*_FACTORS, 20, 25, 50, 100):
        step = factor * size
        bottom, top = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
        if top - bottom + 1 <= max(2, most):
            ticks = tuple(k * step for k in range(bottom, max(top, bottom + 1) + 1))
            return ValueAxis(ticks[0], ticks[-1], ticks, _linear_labels(ticks))
    return ValueAxis(low, high, (low, high), _linear_labels((low, high)))


def _roomy(low: float, high: float) -> tuple[float, float]:
    """Widen a range down to a zero that is near, and a range without an extent."""
    low = 0.0 if 0 < low < 0.5 * high else low
    pad = abs(high) * 0.1 or 1.0
    return (low, high) if high - low >= _TINY else ((0.0 if low == 0 else low - pad), high + pad)


def _linear_labels(ticks: Sequence[float]) -> tuple[str, ...]:
    largest = max(abs(v) for v in ticks)
    if largest < 0.001 or largest >= 1e6:
        return told_apart([v if abs(v) > _TINY * largest else 0.0 for v in ticks])
    near = 1e-6 * (max(ticks) - min(ticks))
    digits = next((d for d in range(9) if all(abs(round(v, d) - v) < near for v in ticks)), 4)
    return tuple(fixed(v, digits) for v in ticks)


def _logarithmic(low: float, high: float, most: int) -> ValueAxis:
    """Use whole powers of ten if there are enough, else also 2 and 5 times them."""
    first, last = math.floor(math.log10(low) + 1e-9), math.ceil(math.log10(high) - 1e-9)
    last = max(last, first + 1)
    steps = [m * 10.0**e for e in range(first, last + 1) for m in (1, 2, 5)]
    bottom = max(v for v in steps if v <= low * (1 + 1e-9))
    top = min((v for v in steps if v >= high * (1 - 1e-9)), default=10.0**last)
    if top <= bottom:
        top = next(v for v in steps if v > bottom)
    fine = [v for v in steps if bottom * (1 - 1e-9) <= v <= top * (1 + 1e-9)]
    if len(fine) > most:
        bottom, top = 10.0**first, 10.0**last
        every = math.ceil((last - first) / max(1, most - 1))
        fine = [10.0**e for e in range(first, last + 1, every)]
    return ValueAxis(bottom, top, tuple(fine), tuple(_power(v) for v in fine), logarithmic=True)


def _power(value: float) -> str:
    if 0.001 <= value < 1e6:
        return f"{value:g}" if value < 1000 else f"{value:,.0f}"
    mantissa, _, exponent = f"{value:.0e}".partition("e")
    return f"{mantissa}e{int(exponent)}"


def step_ticks(first: float, last: float, most: int) -> list[float]:
    """Return at most `most` round steps inside the range."""
    span = last - first
    if span <= 0 or most < 1:
        return []
    size = 10.0 ** math.floor(math.log10(max(span / most, 1)))
    step = next(f * size for f in (1, 2, 5, 10, 20) if span / (f * size) <= most)
    return [k * step for k in range(math.ceil(first / step - 1e-9), math.floor(last / step + 1e-9) + 1)]


def time_ticks(first: float, last: float, most: int) -> list[float]:
    """Return round times inside the range, in seconds since the start."""
    span = last - first
    if span <= 0 or most < 1:
        return []
    step = next((s for s in _SECONDS if span / s <= most), math.ceil(span / most / 864_000) * 864_000)
    return [float(k * step) for k in range(math.ceil(first / step), math.floor(last / step) + 1)]


Reach = tuple[float, float]
LAYERS = {"line": "*", "band": "."}
"""Layers of a small chart, topmost first. Its other roles are `axis`, `tick`, `mark`, `text`."""


class Stroke(NamedTuple):
    """From one position to the next, each with its range of values. The order of drawing does not matter."""

    kind: str
    left: int
    right: int
    a: Reach
    b: Reach


class Sketch:
    """Cache of drawn strokes: a new step draws only the last stroke."""

    def __init__(self) -> None:
        self._frame: tuple[object, ...] = ()
        self._dots: Dots | None = None
        self._drawn: list[list[Stroke]] = []

    def dots(
        self, layers: list[list[Stroke]], axis: ValueAxis, frame: tuple[object, ...], blank: Dots
    ) -> Dots:
        """Draw all strokes into `blank`, which must be equal for an equal `frame`."""
        known = self._frame == (axis, frame) and len(layers) == len(self._drawn)
        if not known or any(new[: len(old)] != old for new, old in zip(layers, self._drawn, strict=True)):
            self._frame, self._dots, self._drawn = (axis, frame), blank, [[] for _ in layers]
        assert self._dots is not None
        for strokes, drawn in zip(layers, self._drawn, strict=True):
            for stroke in strokes[len(drawn) : -1]:  # the newest one changes until its bucket is full
                _stroke(self._dots, stroke, axis)
                drawn.append(stroke)
        whole = self._dots.copy()
        for strokes in layers:
            for stroke in strokes[-1:]:
                _stroke(whole, stroke, axis)
        return whole


def plot(
    chart: ChartView,
    width: int,
    height: int,
    *,
    braille: bool = True,
    logarithmic: bool = False,
    sketch: Sketch | None = None,
) -> list[list[Cell]]:
    """Draw the chart in `height` rows of `width` cells; empty without space or data.

    `sketch` caches strokes between calls and does not affect the picture. `logarithmic` applies only where
    every value is above zero.
    """
    blank: list[list[Cell]] = [[(" ", "text")] * width for _ in range(height)]
    known = [b for b in chart.buckets if b.smooth is not None]
    if not known or width < 12 or height < 2:
        return blank
    with_steps = height >= 5
    rows = height - (2 if with_steps else 1)
    axis = log_scale_of(chart) if logarithmic and above_zero(chart) else scale_of(chart)
    gutter = 1 + max(len(label) for label in axis.labels)
    inner = width - gutter - 1
    if inner < 6 or rows < 1:
        return blank
    first = chart.buckets[0].first
    last = max(chart.buckets[-1].last, chart.end, first + 1)
    frame = Frame(gutter + 1, inner, first, last)
    blank_grid = Dots(inner, rows, braille, LAYERS)
    grid = (sketch or Sketch()).dots(
        _strokes(chart, frame, blank_grid.columns), axis, (rows, braille, frame), blank_grid
    )
    bottom, *between, top = axis.labels
    labels = {0: top}
    if axis.logarithmic and rows >= 5:
        places = zip(axis.ticks[1:-1], between, strict=True)
        labels = {axis.row(tick, rows): label for tick, label in places} | labels
    elif rows >= 5:
        labels[rows // 2] = between[0]
    lines = _rows(grid, labels, gutter)
    lines.append([*_cells(bottom.rjust(gutter), "tick"), *_bottom(frame, chart.marks)])
    if with_steps:
        lines.append([*_cells(" " * (gutter + 1), "tick"), *_step_labels(inner, first, last)])
    return lines


def above_zero(chart: ChartView) -> bool:
    """Return whether every value fits on a logarithmic axis."""
    lows = [b.low for b in chart.buckets if b.low is not None]
    return bool(lows) and min(lows) > 0


def log_scale_of(chart: ChartView) -> ValueAxis:
    """Return an axis whose ends and ticks are 1, 2 or 5 times a power of ten."""
    lows = [b.low for b in chart.buckets if b.low is not None]
    highs = [b.high for b in chart.buckets if b.high is not None]
    bands = [high for _, high in filter(None, chart.band)]
    axis = _logarithmic(min(lows), max(highs + bands), 5)
    if axis.ticks[-1] == axis.high:
        return axis
    ticks = (*axis.ticks, axis.high)
    return replace(axis, ticks=ticks, labels=tuple(map(_power, ticks)))


def scale_of(chart: ChartView) -> ValueAxis:
    """Return an axis with round ends around everything drawn, including zero when it is near."""
    lows = [b.low for b in chart.buckets if b.low is not None] + [r[0] for r in chart.band if r is not None]
    highs = [b.high for b in chart.buckets if b.high is not None] + [
        r[1] for r in chart.band if r is not None
    ]
    low, high = min(lows), max(highs)
    floor = min(b.low for b in chart.buckets if b.low is not None)
    if floor >= 0:
        low = max(low, 0.0)  # a band must not pull values that are never negative below zero
    low, high = _roomy(low, high)
    # Two steps of a round size, so that the middle tick is as round as the ends.
    unit = 10 ** math.floor(math.log10((high - low) / 2))
    for factor in (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10, 15, 20):
        step = factor * unit
        # Across zero, half a step is round enough. Whole steps would leave half of the plot empty.
        grain = step / 2 if low < 0 < high else step
        bottom = math.floor(low / grain + 1e-9) * grain
        if bottom + 2 * step >= high - 1e-9 * step:
            low, high = bottom, bottom + 2 * step
            break
    ticks = (low, (low + high) / 2, high)
    return ValueAxis(low, high, ticks, _linear_labels(ticks))


def _strokes(chart: ChartView, frame: Frame, across: int) -> list[list[Stroke]]:
    columns = [frame.column(b.middle, across // frame.width) for b in chart.buckets]
    dense = len(columns) > across
    found: list[list[Stroke]] = []
    # The first evaluation of a series has no gain, and later series cannot be compared with earlier ones.
    evaluated = chart.key.startswith(EVALUATED) and bool(chart.band)
    starts = {at for at, b in enumerate(chart.buckets) if evaluated and b.count == 1 and not chart.band[at]}

    def add(kind: str, values: Sequence[Reach | None], join: Callable[[list[Reach]], Reach]) -> None:
        places, known = _gathered(columns, values, join) if dense else (columns, values)
        strokes = []
        near = None if dense else lambda i: i + 1 not in starts
        for i, j in _neighbours([value is not None for value in known], near):
            a, b = known[i], known[j]
            assert a is not None
            assert b is not None
            strokes.append(Stroke(kind, places[i], places[j], a, b))
        found.append(strokes)

    if chart.band:
        add("band", chart.band, _middle)
    elif chart.raw:
        reach = [None if b.low is None or b.high is None else (b.low, b.high) for b in chart.buckets]
        add("reach", reach, _widest)
    add("line", [None if b.smooth is None else (b.smooth, b.smooth) for b in chart.buckets], _middle)
    return found


def _stroke(grid: Dots, stroke: Stroke, axis: ValueAxis) -> None:
    left, right, a, b = stroke.left, stroke.right, stroke.a, stroke.b
    if stroke.kind == "band":
        _area(grid, axis, left, right, a, b)
    elif stroke.kind == "reach":
        _extremes(grid, axis, left, right, a, b, (sum(a) / 2, sum(b) / 2))
    else:
        grid.line("line", left, axis.row(a[0], grid.dots), right, axis.row(b[0], grid.dots))


def _area(grid: Dots, axis: ValueAxis, left: int, right: int, a: Reach, b: Reach) -> None:
    for x in range(left, right + 1):
        t = (x - left) / max(1, right - left)
        low, high = a[0] + t * (b[0] - a[0]), a[1] + t * (b[1] - a[1])
        grid.shade("band", x, axis.row(high, grid.dots), axis.row(low, grid.dots))


def _extremes(grid: Dots, axis: ValueAxis, left: int, right: int, a: Reach, b: Reach, through: Reach) -> None:
    for x, (low, high) in ((left, a), (right, b)):
        grid.column("band", x, axis.row(high, grid.dots), axis.row(low, grid.dots))
    grid.line("band", left, axis.row(through[0], grid.dots), right, axis.row(through[1], grid.dots))


def _gathered(
    columns: Sequence[int], values: Sequence[Reach | None], join: Callable[[list[Reach]], Reach]
) -> tuple[list[int], list[Reach | None]]:
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


def _neighbours(
    known: Sequence[bool], near: Callable[[int], bool] | None = None
) -> Iterator[tuple[int, int]]:
    """Yield pairs of positions to join. Missing values are skipped; a single value joins itself."""
    alone = True
    for i, here in enumerate(known):
        joins = here and i + 1 < len(known) and known[i + 1] and (near is None or near(i))
        if joins or (here and alone):
            yield i, i + joins
        alone = not joins


def _rows(grid: Dots, labels: Mapping[int, str], gutter: int, edge: str = "│") -> list[list[Cell]]:
    lines: list[list[Cell]] = []
    for row, cells in enumerate(grid.rows()):
        label = labels.get(row, "")
        lines.append([*_cells(label.rjust(gutter), "tick"), (edge if label else "│", "axis"), *cells])
    return lines


def _bottom(frame: Frame, marks: Iterable[tuple[float, str]], ticks: Sequence[int] = ()) -> list[Cell]:
    cells: list[Cell] = [("└", "axis"), *[("─", "axis")] * frame.width]
    for column in ticks:
        cells[1 + column] = ("┴", "axis")
    for x, kind in marks:
        if frame.first <= x <= frame.last:
            cells[1 + frame.column(x)] = (MARKS.get(kind, "▴"), "mark")
    return cells


def _step_labels(inner: int, first: int, last: int) -> list[Cell]:
    left, right, middle = f"{first:,}", f"{last:,}", f"{(first + last) // 2:,}"
    text = list(" " * inner)
    text[: len(left)] = left
    text[inner - len(right) :] = right
    start = round(((first + last) // 2 - first) / (last - first) * (inner - 1)) - len(middle) // 2
    if last - first > 3 and start > len(left) + 3 and start + len(middle) < inner - len(right) - 3:
        text[start : start + len(middle)] = middle
    return _cells("".join(text[:inner]), "tick")


LINE_ROLES = ("line", "line2", "line3", "line4", "line5", "line6")
ASCII_LINES = "*o+x#%"
SIGNS = ("━━", "╍╍", "┈┈", "╍┈", "━━", "╍╍")
LONG_S = 6 * 3600.0
"""Time spans from this length on show the wall clock at the ends of the axis."""
MOST_LINES = len(LINE_ROLES)


@dataclass(frozen=True, slots=True)
class Frame:
    """Position of the plot within its cells; converts between columns and positions on the axis."""

    left: int
    width: int
    first: float
    last: float

    def place(self, column: int) -> float:
        """Return the axis position at the middle of a column."""
        share = (column - self.left + 0.5) / max(1, self.width)
        return self.first + min(1.0, max(0.0, share)) * (self.last - self.first)

    def column(self, x: float, across: int = 1) -> int:
        """Return the column within the plot, in units of 1/`across` of a cell."""
        share = (x - self.first) / (self.last - self.first)
        return round(share * (self.width * across - 1))


@dataclass(frozen=True, slots=True)
class Drawing:
    """Rows of cells, and the position of the plot in them."""

    rows: list[list[Cell]]
    frame: Frame
    axis: ValueAxis


def line_sign(index: int, *, ascii_only: bool) -> str:
    """Return a two-character sample of a line."""
    return ASCII_LINES[index % MOST_LINES] * 2 if ascii_only else SIGNS[index % MOST_LINES]


def draw(
    view: BigChartView,
    width: int,
    height: int,
    *,
    braille: bool = True,
    logarithmic: bool = False,
) -> Drawing | None:
    """Draw the chart in `height` rows of `width` cells; None without space or values."""
    rows = height - 2
    if width < 24 or rows < 2 or not view.known:
        return None
    axis = _value_axis(view, rows, logarithmic=logarithmic and view.positive)
    gutter = 1 + max(len(label) for label in axis.labels)
    frame = Frame(gutter + 1, width - gutter - 1, view.first, max(view.last, view.first + 1e-9))
    grid = _grid(view, frame, axis, rows, braille)
    places = {axis.row(v, rows): label for v, label in zip(axis.ticks, axis.labels, strict=True)}
    lines = _rows(grid, places, gutter, "┤")
    ticks = _ticks(view, frame)
    marks = [(happening.x, happening.kind) for happening in view.happenings]
    lines.append([*_cells(" " * gutter, "tick"), *_bottom(frame, marks, [column for column, _ in ticks])])
    lines.append([*_cells(" " * (gutter + 1), "tick"), *_labels(view, frame, ticks)])
    return Drawing(lines, frame, axis)


def with_cursor(drawing: Drawing, place: float | None) -> list[list[Cell]]:
    """Return the rows with the column of a position marked; unchanged without one inside the plot."""
    frame = drawing.frame
    if place is None or not frame.first <= place <= frame.last:
        return drawing.rows
    at = frame.left + frame.column(place)
    rows = []
    for row in drawing.rows[:-1]:  # leave the labels below unchanged
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
        for s in line.buckets:
            # Values left of the window, read for the moving average, must not stretch the axis.
            if s.low is None or s.high is None or s.mean is None or not view.first <= s.x <= view.last:
                continue
            lows.append(s.low)
            highs.append(s.high)
            if s.spread is not None:
                highs.append(s.mean + s.spread)
                if not logarithmic:  # a band that reaches zero has no lower end on that axis
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
            if line.runs > 1:
                _area(grid, axis, left, right, _ends(a), _ends(b))
            elif len(shown) == 1:
                _band(grid, axis, a, b, left, right)
            if a.smooth is not None and b.smooth is not None:
                y0, y1 = axis.row(a.smooth, grid.dots), axis.row(b.smooth, grid.dots)
                grid.line(LINE_ROLES[index], left, y0, right, y1, PATTERNS[index % len(PATTERNS)])
    return grid


def _ends(bucket: ChartBucket) -> Reach:
    middle = bucket.mean or 0.0
    return (middle if bucket.low is None else bucket.low, middle if bucket.high is None else bucket.high)


def _band(grid: Dots, axis: ValueAxis, a: ChartBucket, b: ChartBucket, left: int, right: int) -> None:
    """Draw the group std as an area, or the raw values as a faint line through their ranges."""
    if a.mean is None or b.mean is None or a.low is None or a.high is None or b.low is None or b.high is None:
        return
    if a.spread is not None and b.spread is not None:
        around_a, around_b = (a.mean - a.spread, a.mean + a.spread), (b.mean - b.spread, b.mean + b.spread)
        _area(grid, axis, left, right, around_a, around_b)
    else:
        _extremes(grid, axis, left, right, (a.low, a.high), (b.low, b.high), (a.mean, b.mean))


def _joined(view: BigChartView, line: ChartLine) -> list[tuple[ChartBucket, ChartBucket]]:
    """Return the pairs of adjacent buckets to join.

    On the time axis, buckets much farther apart than usual are not joined: the run was interrupted there. Nor
    are two series of evaluations.
    """
    inside = [s for s in line.buckets if view.first <= s.x <= view.last]
    apart = [b.x - a.x for a, b in pairwise(inside)]
    most = 20 * sorted(apart)[len(apart) // 2] if apart and view.x == "time" else math.inf
    known = [s.mean is not None for s in inside]
    banded = view.key.startswith(EVALUATED) and any(s.spread is not None for s in inside)
    starts = {at for at, s in enumerate(inside) if banded and s.count == 1 and s.spread is None}

    def near(at: int) -> bool:
        return apart[at] <= most and at + 1 not in starts

    return [(inside[i], inside[j]) for i, j in _neighbours(known, near)]


def _ticks(view: BigChartView, frame: Frame) -> list[tuple[int, str]]:
    most = max(1, frame.width // 14)
    if view.x == "time":
        return [(frame.column(t), time_label(t)) for t in time_ticks(view.first, view.last, most)]
    return [(frame.column(t), step_label(t)) for t in step_ticks(view.first, view.last, most)]


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
    span = view.last - view.first
    starts = {line.started_at for line in view.lines if line.started_at}
    if view.x != "time" or span < LONG_S or len(starts) != 1 or frame.width < 40:
        return None
    start = starts.pop()
    return clock_label(start + view.first, span), clock_label(start + view.last, span)


def _cells(text: str, role: str) -> list[Cell]:
    return [(char, role) for char in text]
