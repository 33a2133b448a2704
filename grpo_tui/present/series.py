"""A metric's values over the steps, kept small however long the run is.

Values are gathered into at most `MOST_BUCKETS` stretches of steps with their lowest, highest and smoothed
value, so adding a value costs the same at step 10 and at step 100,000. Knows numbers, not what they measure.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from grpo_tui.core.statistics import is_number

if TYPE_CHECKING:
    from grpo_tui.store.reader import SeriesBucket

MOST_BUCKETS = 512
SMOOTHING = 0.25
"""Weight of the newest value in the moving average that a chart draws as its line."""
KEPT_RECENT = 64
KEPT_OPENING = 10


@dataclass(frozen=True, slots=True)
class Bucket:
    """The values of one stretch of steps."""

    first: int
    last: int
    low: float | None
    """Lowest raw value; None when the stretch holds only missing values, which a chart shows as a gap."""
    high: float | None
    smooth: float | None
    """Mean of the moving average over the stretch."""
    mean: float | None
    count: int
    first_at: float = 0.0
    """When its first value was logged, seconds since the epoch; 0 when that is not known."""
    last_at: float = 0.0

    @property
    def middle(self) -> float:
        """Where the stretch stands on the axis of steps."""
        return (self.first + self.last) / 2


@dataclass(frozen=True, slots=True)
class Recent:
    """One of the newest values, raw and smoothed."""

    step: int
    value: float
    smooth: float


class _Open:
    """A stretch that still takes values in; a frozen one for every value would cost ten times as much."""

    __slots__ = ("count", "first", "first_at", "high", "known", "last", "last_at", "low", "smooths", "values")

    def __init__(self, step: int, at: float) -> None:
        self.first = self.last = step
        self.first_at = self.last_at = at
        self.low: float | None = None
        self.high: float | None = None
        self.smooths = self.values = 0.0
        self.known = self.count = 0

    def add(self, step: int, at: float, number: float | None, smooth: float | None) -> None:
        self.last = max(self.last, step)
        self.last_at = max(self.last_at, at)
        self.count += 1
        if number is None or smooth is None:
            return
        self.low = number if self.low is None or number < self.low else self.low
        self.high = number if self.high is None or number > self.high else self.high
        self.smooths += smooth
        self.values += number
        self.known += 1

    def bucket(self) -> Bucket:
        smooth = self.smooths / self.known if self.known else None
        mean = self.values / self.known if self.known else None
        ends = (self.first_at, self.last_at)
        return Bucket(self.first, self.last, self.low, self.high, smooth, mean, self.count, *ends)


class Series:
    """One metric, folded value by value."""

    def __init__(self) -> None:
        self._closed: list[Bucket] = []
        self._open: _Open | None = None
        self._width = 1
        self._average = 0.0
        self._weight = 0.0
        self.recent: deque[Recent] = deque(maxlen=KEPT_RECENT)
        """The newest values that are numbers, oldest first."""
        self.opening: list[float] = []
        """The first `KEPT_OPENING` values that are numbers."""
        self.last_step: int | None = None
        self.count = 0
        """Values seen, missing ones not counted."""
        self.rows = 0
        """Values seen, missing ones too."""
        self.gap = 0
        """How many of the newest values are missing."""
        self.infinite = False
        """True when the newest value is infinite."""

    def begin(self, opening: Iterable[float], past: Iterable[SeriesBucket]) -> None:
        """Start with a past that is known in stretches; the mean of a stretch is smooth already.

        Args:
            opening: The first values that are numbers.
            past: Stretches of many values each, by step.
        """
        self.opening = list(opening)[:KEPT_OPENING]
        for stretch in past:
            if stretch.mean is not None:
                kept = (1 - SMOOTHING) ** stretch.known
                self._average = kept * self._average + (1 - kept) * stretch.mean
                self._weight = kept * self._weight + (1 - kept)
            self.rows += stretch.count
            self.count += stretch.known
            self.gap = 0 if stretch.known else self.gap + stretch.count
            self.last_step = stretch.last
            self._closed.append(
                Bucket(stretch.first, stretch.last, stretch.low, stretch.high, stretch.mean, stretch.mean,
                       stretch.count, stretch.first_at, stretch.last_at)
            )  # fmt: skip
        if self._closed:
            # What follows is gathered as coarsely, or the newest rows would stand in one column of a chart.
            usual = sorted(b.last - b.first + 1 for b in self._closed)[len(self._closed) // 2]
            self._width = 1 << max(0, usual.bit_length() - 1)
            self._gather_closed()

    def copy(self) -> Series:
        """The same series, to be added to without changing this one."""
        twin = copy(self)
        twin._closed = list(self._closed)
        twin._open = copy(self._open)
        twin.recent = deque(self.recent, maxlen=KEPT_RECENT)
        twin.opening = list(self.opening)
        return twin

    def append(self, step: int, value: Any, at: float = 0.0) -> None:
        """Add the value logged at a step; None, NaN, infinities and texts are gaps."""
        number = float(value) if is_number(value) else None
        smooth = None
        self.rows += 1
        self.gap = 0 if number is not None else self.gap + 1
        self.infinite = isinstance(value, float) and math.isinf(value)
        if number is not None:
            self._average += SMOOTHING * (number - self._average)
            self._weight += SMOOTHING * (1 - self._weight)
            # Divided by the weight so far: an average that starts at zero would start too low.
            smooth = self._average / self._weight
            self.recent.append(Recent(step, number, smooth))
            self.count += 1
            if len(self.opening) < KEPT_OPENING:
                self.opening.append(number)
        self.last_step = step
        self._gather(step, at, number, smooth)

    @property
    def buckets(self) -> tuple[Bucket, ...]:
        """The stretches, by step."""
        return (*self._closed, self._open.bucket()) if self._open is not None else tuple(self._closed)

    @property
    def last(self) -> float | None:
        """The newest value that is a number."""
        return self.recent[-1].value if self.recent else None

    def gain(self) -> float | None:
        """Mean of the last ten values less the mean of the first ten, None with fewer than twenty."""
        if self.count < 2 * KEPT_OPENING:
            return None
        closing = [r.value for r in self.recent][-KEPT_OPENING:]
        return sum(closing) / len(closing) - sum(self.opening) / len(self.opening)

    def change(self, steps: int) -> float | None:
        """How much the smoothed value moved over the last so many steps, None with too few values."""
        if len(self.recent) < 2:
            return None
        newest = self.recent[-1]
        before = [r for r in self.recent if r.step <= newest.step - steps]
        past = before[-1] if before else self.recent[0]
        return None if past is newest else newest.smooth - past.smooth

    def _gather(self, step: int, at: float, number: float | None, smooth: float | None) -> None:
        """Count a value into the newest stretch, which stays open for its next ones."""
        stretch = self._open
        if stretch is None or stretch.first // self._width != step // self._width:
            self._close()
            self._open = _Open(step, at)
            stretch = self._open
        stretch.add(step, at, number, smooth)
        if len(self._closed) >= MOST_BUCKETS:
            self._close()
            self._widen()

    def _close(self) -> None:
        if self._open is not None:
            self._closed.append(self._open.bucket())
            self._open = None

    def _widen(self) -> None:
        self._width *= 2
        self._gather_closed()

    def _gather_closed(self) -> None:
        joined: list[Bucket] = []
        for bucket in self._closed:
            if joined and joined[-1].first // self._width == bucket.first // self._width:
                joined[-1] = _merged(joined[-1], bucket)
            else:
                joined.append(bucket)
        self._closed = joined
        if len(joined) >= MOST_BUCKETS:
            self._widen()


def _merged(a: Bucket, b: Bucket) -> Bucket:
    lows = [x for x in (a.low, b.low) if x is not None]
    highs = [x for x in (a.high, b.high) if x is not None]
    count = a.count + b.count
    return Bucket(
        first=min(a.first, b.first),
        last=max(a.last, b.last),
        low=min(lows, default=None),
        high=max(highs, default=None),
        smooth=_weighted(a.smooth, a.count, b.smooth, b.count),
        mean=_weighted(a.mean, a.count, b.mean, b.count),
        count=count,
        first_at=min(a.first_at, b.first_at),
        last_at=max(a.last_at, b.last_at),
    )


def _weighted(a: float | None, a_count: int, b: float | None, b_count: int) -> float | None:
    if a is None or b is None:
        return b if a is None else a
    return (a * a_count + b * b_count) / (a_count + b_count)
