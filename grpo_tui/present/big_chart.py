"""A full-screen chart as frozen data: lines of stretches, what happened along them, where the cursor stands.

All names and texts are safe to show here. Knows numbers and words, neither files nor cells.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from grpo_tui.present.zoom import Extent


@dataclass(frozen=True, slots=True)
class Stretch:
    """The values of one stretch of steps; a stretch of one value is that value."""

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
    stretches: tuple[Stretch, ...] = ()
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
    extent: Extent
    happenings: tuple[Happening, ...] = ()
    smoothing_span: int = 1
    """Values that the moving average spans; 1 for none."""
    live: bool = False

    @property
    def known(self) -> bool:
        """True when there is any number to draw."""
        return any(s.mean is not None for line in self.lines for s in line.stretches)

    @property
    def positive(self) -> bool:
        """True when every value can stand on a logarithmic axis."""
        lows = [s.low for line in self.lines for s in line.stretches if s.low is not None]
        return bool(lows) and min(lows) > 0

    @property
    def places(self) -> list[float]:
        """Where the cursor can stand: the stretches of the line that has most of them."""
        longest = max(self.lines, key=lambda line: len(line.stretches), default=None)
        if longest is None:
            return []
        return [s.x for s in longest.stretches if self.first <= s.x <= self.last]

    def happened_at(self, stretch: Stretch) -> list[Happening]:
        """What happened within a stretch."""
        return [h for h in self.happenings if stretch.first <= h.step <= stretch.last]


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


def stretch_at(line: ChartLine, x: float) -> Stretch | None:
    """The stretch of a line nearest to a place, None when the place lies beyond its ends."""
    xs = [s.x for s in line.stretches]
    index = nearest(xs, x)
    if index is None:
        return None
    room = max(1e-9, 1.5 * _apart(xs, index))
    return line.stretches[index] if abs(xs[index] - x) <= room else None


def _apart(xs: Sequence[float], index: int) -> float:
    """Distance to the nearer neighbour; a single value reaches half a step."""
    gaps = [abs(xs[index] - xs[i]) for i in (index - 1, index + 1) if 0 <= i < len(xs)]
    return min(gaps, default=1.0)


def moving_average(values: Iterable[tuple[float | None, int]], span: int) -> list[float | None]:
    """Bias-corrected exponential moving average of stretches given as (mean, number of values).

    With `a = 2 / (span + 1)`, each value x turns the sum s into `(1 - a) s + a x`, and the average is
    `s / (1 - (1 - a) ** n)` after n values, so that it does not start near zero (Kingma and Ba 2015,
    section 3). A stretch counts as that many values equal to its mean. A missing value leaves a gap and
    changes nothing.
    """
    keep = 1 - 2 / (span + 1)
    total = weight = 0.0
    averages: list[float | None] = []
    for mean, count in values:
        if mean is None or count < 1:
            averages.append(None)
            continue
        kept = keep**count
        total = kept * total + (1 - kept) * mean
        weight = kept * weight + (1 - kept)
        averages.append(total / weight)
    return averages


def converted(line: ChartLine, x: float, *, to_time: bool) -> float:
    """A place on the axis of steps as one on the axis of time, or the other way, between known stretches."""
    pairs = [((s.first + s.last) / 2, s.at - line.started_at) for s in line.stretches]
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
