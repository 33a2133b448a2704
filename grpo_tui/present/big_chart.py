"""A full-screen chart as frozen data: its window, lines of buckets, what happened, and all that in words.

The axis is in steps or in seconds since the start; both are plain numbers here. All names and texts are safe
to show. Pieces of a reading are (text, role) pairs, most important first, for the widget to fit into a line.
"""

from __future__ import annotations

import math
import time
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from grpo_tui.core.metrics import describe
from grpo_tui.core.text import one_line
from grpo_tui.present.formatting import MISSING, compact, decimals, fixed, step_label, time_label
from grpo_tui.present.series import Average
from grpo_tui.present.train_view import MARKS, Span

ZOOM = 0.5
"""What one press leaves of the width."""
PAN = 0.25
"""What one press moves, as a share of the width."""
NARROWEST = 8.0
"""The least width, in steps or seconds."""

SMOOTHINGS: dict[str, tuple[int, float]] = {"off": (1, 0.0), "light": (7, 0.01), "strong": (39, 0.1)}
"""Span of the moving average in values: at least so many, and at least so large a share of those shown."""


@dataclass(frozen=True, slots=True)
class Window:
    """What a person asked to see."""

    x: str = "step"
    """`step`, or `time` for seconds since the start."""
    span: tuple[float, float] | None = None
    """First and last place on the axis; None for the whole run."""
    following: bool = True
    """True while the right edge goes along with the newest value; only the width of `span` counts then."""
    smoothing: str = "light"


@dataclass(frozen=True, slots=True)
class AxisRange:
    """How far the data goes, in the unit of the axis."""

    first: float
    newest: float
    """Where the newest value stands."""
    end: float
    """Right edge of the whole run; a little ahead of the newest value while it trains."""


def shown_range(window: Window, bounds: AxisRange) -> tuple[float, float]:
    """First and last place of the axis."""
    if window.span is None:
        return bounds.first, max(bounds.end, bounds.first + 1)
    first, last = window.span
    if not window.following:
        return first, last
    width = last - first
    # The edge moves on in leaps: a chart that shifted with every step would be restless to look at.
    leap = width / 8
    ahead = (math.floor(bounds.newest / leap) + 1) * leap if bounds.end > bounds.newest else bounds.newest
    edge = min(bounds.end, ahead)
    return max(bounds.first, edge - width), edge


def zoomed(window: Window, bounds: AxisRange, factor: float, centre: float | None = None) -> Window:
    """The window `factor` as wide around `centre`; a window as wide as the run shows all of it.

    Without a centre the right edge stays while the window follows, else the middle.
    """
    first, last = shown_range(window, bounds)
    width = max(NARROWEST, (last - first) * factor)
    if width >= bounds.end - bounds.first:
        return whole(window)
    if centre is None:
        centre = last if window.following else (first + last) / 2
    share = min(1.0, max(0.0, (centre - first) / (last - first)))
    return _placed(window, bounds, centre - share * width, width)


def panned(window: Window, bounds: AxisRange, share: float) -> Window:
    """The window moved by a share of its width, at most to the ends of the run."""
    if window.span is None:
        return window
    first, last = shown_range(window, bounds)
    width = last - first
    if window.following and share < 0:
        first = min(first, bounds.newest - width)  # the empty part ahead is no part of the way back
    return _placed(window, bounds, first + share * width, width)


def whole(window: Window) -> Window:
    """The whole run, followed."""
    return replace(window, span=None, following=True)


def newest(window: Window) -> Window:
    """The same width at the newest value, followed."""
    return replace(window, following=True)


def showing(window: Window, bounds: AxisRange, place: float) -> Window:
    """The window moved so far that it shows a place."""
    first, last = shown_range(window, bounds)
    if first <= place <= last:
        return window
    width = last - first
    return _placed(window, bounds, place - width / 2, width)


def _placed(window: Window, bounds: AxisRange, first: float, width: float) -> Window:
    first = max(bounds.first, min(first, bounds.end - width))
    last = first + width
    # Held against rounding: a window whose edge stands on the newest value follows it.
    following = last >= bounds.newest - 1e-9 * max(1.0, abs(bounds.newest))
    return replace(window, span=(first, last), following=following)


def average_span(smoothing: str, values: int) -> int:
    """Span of the moving average, in values.

    It grows by doubling with what is shown, for the line to stay quiet over a long run and to keep its shape
    from one step to the next.
    """
    least, share = SMOOTHINGS[smoothing]
    span = least
    while span < share * values:
        span = 2 * span + 1
    return span


@dataclass(frozen=True, slots=True)
class ChartBucket:
    """The values of one bucket of steps; a bucket of one value is that value."""

    first: int
    last: int
    x: float
    """Where it stands on the axis."""
    at: float
    """When its last value was logged."""
    low: float | None
    """None when it holds only missing values, which the chart shows as a gap."""
    high: float | None
    mean: float | None
    smooth: float | None
    count: int
    """Values that are numbers."""
    missing: int = 0
    """Values that are None, NaN or infinite."""
    spread: float | None = None
    """Mean of the standard deviation inside a group, for the reward alone."""


@dataclass(frozen=True, slots=True)
class ChartLine:
    """One line: a metric of a run."""

    key: str
    name: str
    """What tells it from the other lines: `train`, `eval`, or the name of a run."""
    buckets: tuple[ChartBucket, ...] = ()
    newest: float | None = None
    newest_step: int | None = None
    started_at: float = 0.0
    trouble: str = ""
    """Why it cannot be shown, in a sentence."""


@dataclass(frozen=True, slots=True)
class Happening:
    """Something that happened at a step."""

    step: int
    x: float
    kind: str
    """`checkpoint`, `setting` or `resume`."""
    text: str


@dataclass(frozen=True, slots=True)
class BigChartView:
    """What a full-screen chart shows, at one moment."""

    key: str
    lines: tuple[ChartLine, ...]
    x: str
    """`step` or `time`."""
    first: float
    last: float
    bounds: AxisRange
    happenings: tuple[Happening, ...] = ()
    smoothing_span: int = 1
    """Values that the moving average spans; 1 for none."""
    live: bool = False

    @property
    def known(self) -> bool:
        """True when there is any number to draw."""
        return any(s.mean is not None for line in self.lines for s in line.buckets)

    @property
    def positive(self) -> bool:
        """True when every value can stand on a logarithmic axis."""
        lows = [s.low for line in self.lines for s in line.buckets if s.low is not None]
        return bool(lows) and min(lows) > 0

    @property
    def places(self) -> list[float]:
        """Where the cursor can stand: the buckets of the line that has most of them."""
        longest = max(self.lines, key=lambda line: len(line.buckets), default=None)
        if longest is None:
            return []
        return [s.x for s in longest.buckets if self.first <= s.x <= self.last]

    def happened_at(self, bucket: ChartBucket) -> list[Happening]:
        """What happened within a bucket."""
        return [h for h in self.happenings if bucket.first <= h.step <= bucket.last]


def nearest(places: Sequence[float], x: float) -> int | None:
    """Index of the place nearest to `x`, None when there is none."""
    if not places:
        return None
    after = bisect_left(places, x)
    if after == 0:
        return 0
    if after == len(places):
        return after - 1
    return after if places[after] - x < x - places[after - 1] else after - 1


def bucket_at(line: ChartLine, x: float) -> ChartBucket | None:
    """The bucket of a line nearest to a place, None when the place lies beyond its ends."""
    xs = [s.x for s in line.buckets]
    index = nearest(xs, x)
    if index is None:
        return None
    room = max(1e-9, 1.5 * _apart(xs, index))
    return line.buckets[index] if abs(xs[index] - x) <= room else None


def _apart(xs: Sequence[float], index: int) -> float:
    """Distance to the nearer neighbour; a single value reaches half a step."""
    gaps = [abs(xs[index] - xs[i]) for i in (index - 1, index + 1) if 0 <= i < len(xs)]
    return min(gaps, default=1.0)


def moving_average(values: Iterable[tuple[float | None, int]], span: int) -> list[float | None]:
    """Moving average, with `a = 2 / (span + 1)`, of buckets given as (mean, number of values).

    A missing value leaves a gap and changes nothing.
    """
    average = Average(1 - 2 / (span + 1))
    return [None if mean is None or count < 1 else average.add(mean, count) for mean, count in values]


def converted(line: ChartLine, x: float, *, to_time: bool) -> float:
    """A place on the axis of steps as one on the axis of time, or the other way, between known buckets."""
    pairs = [((s.first + s.last) / 2, s.at - line.started_at) for s in line.buckets]
    if not pairs:
        return x
    if not to_time:
        pairs = [(b, a) for a, b in pairs]
    keys = [a for a, _ in pairs]
    at = bisect_left(keys, x)
    if len(pairs) == 1:
        return pairs[0][1]
    at = min(max(at, 1), len(pairs) - 1)
    (a0, b0), (a1, b1) = pairs[at - 1], pairs[at]
    return b0 if a1 == a0 else b0 + (x - a0) * (b1 - b0) / (a1 - a0)


def number(value: float | None, like: tuple[float | None, ...] = ()) -> str:
    """A value at the cursor, a digit more exact than on a small chart."""
    if value is None:
        return MISSING
    if value != 0 and (abs(value) < 0.001 or abs(value) >= 1e7):
        return compact(value)
    return fixed(value, decimals([value, *like]))


def title_of(key: str) -> str:
    """The metric's title, safe."""
    return one_line(describe(key).title, 60)


def smoothing_words(span: int) -> str:
    """How the line is smoothed."""
    return "not smoothed" if span <= 1 else f"moving average of {span:,} values"


def range_words(view: BigChartView) -> str:
    """What part of the run is shown."""
    label = time_label if view.x == "time" else step_label
    last = min(view.last, view.bounds.newest) if view.last >= view.bounds.newest else view.last
    unit = "" if view.x == "time" else "steps "
    words = f"{unit}{label(view.first)} to {label(last)}"
    if view.first > view.bounds.first or view.last < view.bounds.newest:
        words += f" of {label(view.bounds.newest)}"
    return words


def cursor_place(view: BigChartView, cursor: float | None) -> float | None:
    """Where the cursor stands: the bucket nearest to it, the newest one without a cursor."""
    places = view.places
    if not places:
        return None
    if cursor is None:
        return places[-1]
    index = nearest(places, cursor)
    return None if index is None else places[index]


def where_words(view: BigChartView, bucket: ChartBucket, line: ChartLine) -> list[Span]:
    """Step and time of a bucket."""
    steps = f"step {bucket.first:,}"
    if bucket.last > bucket.first:
        steps = f"steps {bucket.first:,} to {bucket.last:,}"
    moment = time_label(max(0.0, bucket.at - line.started_at))
    clock = time.strftime("%H:%M:%S", time.localtime(bucket.at))
    return [(steps, "strong"), (f"{moment} after the start, {clock}", "dim")]


def place_words(view: BigChartView, place: float) -> str:
    """A place that several lines share; each run has a clock of its own."""
    return f"{time_label(place)} after the start" if view.x == "time" else f"step {place:,.0f}"


def value_words(bucket: ChartBucket | None) -> list[Span]:
    """The values of a bucket: mean or raw, smoothed, and its extremes."""
    if bucket is None:
        return [(MISSING, "dim")]
    if bucket.mean is None:
        return [("missing" if bucket.missing <= 1 else f"{bucket.missing} missing", "attention")]
    raw = number(bucket.mean)
    if bucket.count == 1:
        words: list[Span] = [(f"value {raw}", "strong")]
    else:
        words = [(f"mean {raw}", "strong")]
        words.append((f"{number(bucket.low)} to {number(bucket.high)} in {bucket.count:,} values", "text"))
    if bucket.smooth is not None:
        words.insert(1, (f"smoothed {number(bucket.smooth)}", "text"))
    if bucket.spread is not None:
        words.append((f"group std {number(bucket.spread)}", "text"))
    if bucket.missing:
        words.append((f"{bucket.missing} missing", "attention"))
    return words


def short_value(bucket: ChartBucket | None) -> str:
    """One value of a bucket, where several lines share the reading."""
    if bucket is None:
        return MISSING
    if bucket.mean is None:
        return "missing"
    return number(bucket.smooth if bucket.smooth is not None else bucket.mean)


def happened_words(view: BigChartView, place: float) -> list[Span]:
    """What happened at the cursor."""
    for line in view.lines:
        bucket = bucket_at(line, place)
        if bucket is not None:
            return [
                (f"{MARKS.get(h.kind, '▴')} step {h.step:,}  {h.text}", "attention")
                for h in view.happened_at(bucket)
            ]
    return []
