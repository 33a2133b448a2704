"""The content of a full-screen chart: its window, lines of buckets, events, and all that as text.

The axis is in steps or in seconds since the start, both as plain numbers. All names and texts are safe to
show. A reading is a list of (text, role) pairs, most important first, which the widget fits into a line.
"""

from __future__ import annotations

import math
import time
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from grpo_tui.core.metrics import EVALUATED, describe
from grpo_tui.core.text import one_line
from grpo_tui.present.formatting import MISSING, compact, decimals, fixed, step_label, time_label
from grpo_tui.present.series import Average
from grpo_tui.present.train_view import MARKS, Span

ZOOM = 0.5
PAN = 0.25
NARROWEST = 8.0

SMOOTHINGS: dict[str, tuple[int, float]] = {"off": (1, 0.0), "light": (7, 0.01), "strong": (39, 0.1)}
"""Span of the moving average: a minimum number of values, and a minimum fraction of those shown."""


@dataclass(frozen=True, slots=True)
class Window:
    """The part of the run that the user chose to see."""

    x: str = "step"
    """`step`, or `time` for seconds since the start."""
    span: tuple[float, float] | None = None
    """First and last position on the axis; None for the whole run."""
    following: bool = True
    """Whether the right edge follows the newest value. If so, only the width of `span` matters."""
    smoothing: str = "light"


@dataclass(frozen=True, slots=True)
class AxisRange:
    """Extent of the data, in the unit of the axis."""

    first: float
    newest: float
    end: float
    """Right edge of the whole run, slightly ahead of the newest value while training."""


def shown_range(window: Window, bounds: AxisRange) -> tuple[float, float]:
    """Return first and last position of the axis."""
    if window.span is None:
        return bounds.first, max(bounds.end, bounds.first + 1)
    first, last = window.span
    if not window.following:
        return first, last
    width = last - first
    # Move the edge in leaps. A chart that shifted with every step would be restless.
    leap = width / 8
    ahead = (math.floor(bounds.newest / leap) + 1) * leap if bounds.end > bounds.newest else bounds.newest
    edge = min(bounds.end, ahead)
    return max(bounds.first, edge - width), edge


def zoomed(window: Window, bounds: AxisRange, factor: float, centre: float | None = None) -> Window:
    """Scale the window's width by `factor` around `centre`. Showing the whole run resets it.

    Without a centre, keep the right edge if the window follows the run, otherwise the middle.
    """
    first, last = shown_range(window, bounds)
    width = max(NARROWEST, (last - first) * factor)
    if width >= bounds.end - bounds.first:
        return replace(window, span=None, following=True)
    if centre is None:
        centre = last if window.following else (first + last) / 2
    share = min(1.0, max(0.0, (centre - first) / (last - first)))
    return _placed(window, bounds, centre - share * width, width)


def panned(window: Window, bounds: AxisRange, share: float) -> Window:
    """Move the window by a fraction of its width, at most to the ends of the run."""
    if window.span is None:
        return window
    first, last = shown_range(window, bounds)
    width = last - first
    if window.following and share < 0:
        first = min(first, bounds.newest - width)  # panning back skips the empty part ahead
    return _placed(window, bounds, first + share * width, width)


def showing(window: Window, bounds: AxisRange, place: float) -> Window:
    """Move the window if needed to show a position."""
    first, last = shown_range(window, bounds)
    if first <= place <= last:
        return window
    width = last - first
    return _placed(window, bounds, place - width / 2, width)


def _placed(window: Window, bounds: AxisRange, first: float, width: float) -> Window:
    first = max(bounds.first, min(first, bounds.end - width))
    last = first + width
    # The tolerance absorbs rounding: a window that ends at the newest value follows it.
    following = last >= bounds.newest - 1e-9 * max(1.0, abs(bounds.newest))
    return replace(window, span=(first, last), following=following)


def average_span(smoothing: str, values: int) -> int:
    """Return the span of the moving average, in values.

    It doubles with the number of values, so that a long run looks smooth and the line keeps its shape from
    step to step.
    """
    least, share = SMOOTHINGS[smoothing]
    span = least
    while span < share * values:
        span = 2 * span + 1
    return span


@dataclass(frozen=True, slots=True)
class ChartBucket:
    """The values of one bucket of steps."""

    first: int
    last: int
    x: float
    at: float
    low: float | None
    """None when all values are missing; the chart shows a gap."""
    high: float | None
    mean: float | None
    smooth: float | None
    count: int
    missing: int = 0
    """Number of values that are None, NaN or infinite."""
    spread: float | None = None
    """Half the height of the band: the mean group std for the reward, half the 95 % interval for an
    evaluation."""


@dataclass(frozen=True, slots=True)
class ChartLine:
    """One metric of one run as a line."""

    key: str
    name: str
    """Label among the other lines: `train`, `eval`, or the name of a run or of a set of seeds."""
    buckets: tuple[ChartBucket, ...] = ()
    newest: float | None = None
    newest_step: int | None = None
    started_at: float = 0.0
    trouble: str = ""
    runs: int = 1
    """Number of runs it is the median of. If more than one, low and high of a bucket are over the runs."""


@dataclass(frozen=True, slots=True)
class Happening:
    """An event at a step."""

    step: int
    x: float
    kind: str
    """`checkpoint`, `setting` or `resume`."""
    text: str


@dataclass(frozen=True, slots=True)
class BigChartView:
    """Everything a full-screen chart shows at one moment."""

    key: str
    lines: tuple[ChartLine, ...]
    x: str
    first: float
    last: float
    bounds: AxisRange
    happenings: tuple[Happening, ...] = ()
    smoothing_span: int = 1
    live: bool = False

    @property
    def known(self) -> bool:
        """Whether there is any number to draw."""
        return any(s.mean is not None for line in self.lines for s in line.buckets)

    @property
    def positive(self) -> bool:
        """Whether every value fits on a logarithmic axis."""
        lows = [s.low for line in self.lines for s in line.buckets if s.low is not None]
        return bool(lows) and min(lows) > 0

    @property
    def places(self) -> list[float]:
        """Cursor positions: the buckets of the line that has the most."""
        longest = max(self.lines, key=lambda line: len(line.buckets), default=None)
        if longest is None:
            return []
        return [s.x for s in longest.buckets if self.first <= s.x <= self.last]

    def happened_at(self, bucket: ChartBucket) -> list[Happening]:
        """Return the events within a bucket."""
        return [h for h in self.happenings if bucket.first <= h.step <= bucket.last]


def nearest(places: Sequence[float], x: float) -> int | None:
    """Return the index of the position nearest to `x`; None without any."""
    if not places:
        return None
    after = bisect_left(places, x)
    if after == 0:
        return 0
    if after == len(places):
        return after - 1
    return after if places[after] - x < x - places[after - 1] else after - 1


def bucket_at(line: ChartLine, x: float) -> ChartBucket | None:
    """Return the bucket of a line nearest to a position; None beyond its ends."""
    index = reaching([s.x for s in line.buckets], x)
    return None if index is None else line.buckets[index]


def reaching(xs: Sequence[float], x: float) -> int | None:
    """Return the index of the position nearest to `x`; None beyond their ends or in a gap."""
    index = nearest(xs, x)
    if index is None:
        return None
    return index if abs(xs[index] - x) <= max(1e-9, 1.5 * _apart(xs, index)) else None


def _apart(xs: Sequence[float], index: int) -> float:
    gaps = [abs(xs[index] - xs[i]) for i in (index - 1, index + 1) if 0 <= i < len(xs)]
    return min(gaps, default=1.0)


def moving_average(values: Iterable[tuple[float | None, int]], span: int) -> list[float | None]:
    """Return the moving average, with `a = 2 / (span + 1)`, of (mean, number of values) pairs.

    A missing value leaves a gap and does not affect the average.
    """
    average = Average(1 - 2 / (span + 1))
    return [None if mean is None or count < 1 else average.add(mean, count) for mean, count in values]


def converted(line: ChartLine, x: float, *, to_time: bool) -> float:
    """Convert a position between steps and time, interpolating between known buckets."""
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
    """Format a value at the cursor, with one digit more than on a small chart."""
    if value is None:
        return MISSING
    if value != 0 and (abs(value) < 0.001 or abs(value) >= 1e7):
        return compact(value)
    return fixed(value, decimals([value, *like]))


def title_of(key: str) -> str:
    """Return the metric's title, safe to show."""
    return one_line(describe(key).title, 60)


def smoothing_words(span: int) -> str:
    """Describe the smoothing."""
    return "not smoothed" if span <= 1 else f"moving average of {span:,} values"


def range_words(view: BigChartView) -> str:
    """Describe the part of the run that is shown."""
    label = time_label if view.x == "time" else step_label
    last = min(view.last, view.bounds.newest) if view.last >= view.bounds.newest else view.last
    unit = "" if view.x == "time" else "steps "
    words = f"{unit}{label(view.first)} to {label(last)}"
    if view.first > view.bounds.first or view.last < view.bounds.newest:
        words += f" of {label(view.bounds.newest)}"
    return words


def cursor_place(view: BigChartView, cursor: float | None) -> float | None:
    """Return the bucket position nearest to the cursor, or the newest one without a cursor."""
    places = view.places
    if not places:
        return None
    if cursor is None:
        return places[-1]
    index = nearest(places, cursor)
    return None if index is None else places[index]


def where_words(view: BigChartView, bucket: ChartBucket, line: ChartLine) -> list[Span]:
    """Describe step and time of a bucket."""
    steps = f"step {bucket.first:,}"
    if bucket.last > bucket.first:
        steps = f"steps {bucket.first:,} to {bucket.last:,}"
    moment = time_label(max(0.0, bucket.at - line.started_at))
    clock = time.strftime("%H:%M:%S", time.localtime(bucket.at))
    return [(steps, "strong"), (f"{moment} after the start, {clock}", "dim")]


def place_words(view: BigChartView, place: float) -> str:
    """Describe a position shared by several lines, without a clock time: each run has its own."""
    return f"{time_label(place)} after the start" if view.x == "time" else f"step {place:,.0f}"


def band_words(key: str) -> tuple[str, str]:
    """Return what the band around a metric is: before a figure, and alone."""
    return (
        ("95 % ±", "95 % interval of the gain") if key.startswith(EVALUATED) else ("group std", "group std")
    )


def value_words(bucket: ChartBucket | None, key: str) -> list[Span]:
    """Describe the values of a bucket: mean or single value, smoothed value, range and band."""
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
        words.append((f"{band_words(key)[0]} {number(bucket.spread)}", "text"))
    if bucket.missing:
        words.append((f"{bucket.missing} missing", "attention"))
    return words


def short_value(bucket: ChartBucket | None) -> str:
    """Return one value of a bucket, for a reading of several lines."""
    if bucket is None:
        return MISSING
    if bucket.mean is None:
        return "missing"
    return number(bucket.smooth if bucket.smooth is not None else bucket.mean)


def reach_words(bucket: ChartBucket) -> str:
    """Return the range of a bucket over the runs of a set; empty without values."""
    if bucket.low is None or bucket.high is None:
        return ""
    return f"({number(bucket.low)} to {number(bucket.high)})"


def happened_words(view: BigChartView, place: float) -> list[Span]:
    """Describe the events at the cursor."""
    for line in view.lines:
        bucket = bucket_at(line, place)
        if bucket is not None:
            return [
                (f"{MARKS.get(h.kind, '▴')} step {h.step:,}  {h.text}", "attention")
                for h in view.happened_at(bucket)
            ]
    return []
