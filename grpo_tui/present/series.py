"""A metric's values over the steps, in bounded memory however long the run is.

Values are collected in at most `MOST_BUCKETS` stretches of steps with lowest, highest and smoothed value, so
adding a value costs the same at step 10 and at step 100,000. Series computed from groups are built step by
step. The newest steps may still get groups of slow ranks, so they are read again each time and kept separate
from settled ones.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from typing import Any

from grpo_tui.core.statistics import is_number
from grpo_tui.store.read_series import SeriesBucket, SeriesStart, StepStat, joined

MOST_BUCKETS = 512
SMOOTHING = 0.25
"""Weight of the newest value in the moving average that a chart draws as its line."""
KEPT_RECENT = 64
KEPT_OPENING = 10


@dataclass(frozen=True, slots=True)
class Recent:
    """A recent value, raw and smoothed."""

    step: int
    value: float
    smooth: float


class Average:
    """Bias-corrected exponential moving average.

    With `a = 1 - keep`, each value x turns the sum s into `(1 - a) s + a x`, and the average is
    `s / (1 - (1 - a) ** n)` after n values, so that it does not start near zero (Kingma and Ba 2015,
    section 3).
    """

    __slots__ = ("_keep", "_total", "_weight")

    def __init__(self, keep: float) -> None:
        self._keep, self._total, self._weight = keep, 0.0, 0.0

    def add(self, mean: float, count: int = 1) -> float:
        """Add `count` values equal to `mean`, and return the current average."""
        kept = self._keep**count
        self._total = kept * self._total + (1 - kept) * mean
        self._weight = kept * self._weight + (1 - kept)
        return self._total / self._weight


class _Open:
    """A mutable stretch. Creating a frozen one for every value would be ten times slower."""

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

    def bucket(self) -> SeriesBucket:
        smooth = self.smooths / self.known if self.known else None
        mean = self.values / self.known if self.known else None
        return SeriesBucket(
            self.first, self.last, self.first_at, self.last_at, self.low, self.high, mean, self.count,
            self.known, smooth,
        )  # fmt: skip


class Series:
    """One metric, added to value by value."""

    def __init__(self) -> None:
        self._closed: list[SeriesBucket] = []
        self._open: _Open | None = None
        self._width = 1
        self._average = Average(1 - SMOOTHING)
        self.recent: deque[Recent] = deque(maxlen=KEPT_RECENT)
        self.opening: list[float] = []
        """The first `KEPT_OPENING` finite values."""
        self.last_step: int | None = None
        self.count = 0
        """Values seen, without missing ones."""
        self.rows = 0
        """Values seen, including missing ones."""
        self.gap = 0
        """Number of missing values since the last finite one."""
        self.infinite = False

    @classmethod
    def of(cls, start: SeriesStart) -> Series:
        """Return the series of what a first look has read."""
        series = cls()
        series.begin(start.opening, start.past)
        for point in start.points:
            series.append(point.step, point.value, point.at)
        return series

    def begin(self, opening: Iterable[float], past: Iterable[SeriesBucket]) -> None:
        """Start with the first finite values, and older stretches by step. Their means count as smoothed."""
        self.opening = list(opening)[:KEPT_OPENING]
        for stretch in past:
            if stretch.mean is not None:
                self._average.add(stretch.mean, stretch.known)
            self.rows += stretch.count
            self.count += stretch.known
            self.gap = 0 if stretch.known else self.gap + stretch.count
            self.last_step = stretch.last
            self._closed.append(replace(stretch, smooth=stretch.mean))
        if self._closed:
            # Collect later values as coarsely, or the newest rows would share one column of a chart.
            usual = sorted(b.last - b.first + 1 for b in self._closed)[len(self._closed) // 2]
            self._width = 1 << max(0, usual.bit_length() - 1)
            self._gather_closed()

    def copy(self) -> Series:
        """Return an independent copy."""
        twin = copy(self)
        twin._closed = list(self._closed)
        twin._open, twin._average = copy(self._open), copy(self._average)
        twin.recent = deque(self.recent, maxlen=KEPT_RECENT)
        twin.opening = list(self.opening)
        return twin

    def since(self, step: int) -> Series:
        """Return the series of the values after a step. Its smoothing begins there.

        Values that are no longer among the recent ones are known by the means of their stretches.
        """
        part = Series()
        recent = [one for one in self.recent if one.step > step]
        if recent:
            past = [b for b in self.buckets if step < b.first and b.last < recent[0].step]
            opening = (b.mean for b in past if b.mean is not None for _ in range(b.known))
            part.begin(islice(opening, KEPT_OPENING), past)
        for one in recent:
            part.append(one.step, one.value)
        if self.gap and self.last_step is not None and self.last_step > step:
            part.gap, part.infinite = min(self.gap, self.last_step - step), self.infinite
            part.rows += part.gap
            part.last_step = self.last_step
        return part

    def append(self, step: int, value: Any, at: float = 0.0) -> None:
        """Add the value logged at a step. None, NaN, infinities and texts are gaps."""
        number = float(value) if is_number(value) else None
        smooth = None
        self.rows += 1
        self.gap = 0 if number is not None else self.gap + 1
        self.infinite = isinstance(value, float) and math.isinf(value)
        if number is not None:
            smooth = self._average.add(number)
            self.recent.append(Recent(step, number, smooth))
            self.count += 1
            if len(self.opening) < KEPT_OPENING:
                self.opening.append(number)
        self.last_step = step
        self._gather(step, at, number, smooth)

    @property
    def buckets(self) -> tuple[SeriesBucket, ...]:
        """The stretches, by step."""
        return (*self._closed, self._open.bucket()) if self._open is not None else tuple(self._closed)

    @property
    def last(self) -> float | None:
        """The newest finite value."""
        return self.recent[-1].value if self.recent else None

    def change(self, steps: int) -> float | None:
        """Return the change of the smoothed value over that many steps; None with too few values."""
        if len(self.recent) < 2:
            return None
        newest = self.recent[-1]
        before = [r for r in self.recent if r.step <= newest.step - steps]
        past = before[-1] if before else self.recent[0]
        return None if past is newest else newest.smooth - past.smooth

    def _gather(self, step: int, at: float, number: float | None, smooth: float | None) -> None:
        stretch = self._open
        if stretch is None or stretch.first // self._width != step // self._width:
            self._close()
            self._open = _Open(step, at)
            stretch = self._open
        stretch.add(step, at, number, smooth)
        if len(self._closed) >= MOST_BUCKETS:
            self._close()
            self._width *= 2
            self._gather_closed()

    def _close(self) -> None:
        if self._open is not None:
            self._closed.append(self._open.bucket())
            self._open = None

    def _gather_closed(self) -> None:
        kept: list[SeriesBucket] = []
        for bucket in self._closed:
            if kept and kept[-1].first // self._width == bucket.first // self._width:
                kept[-1] = joined((kept[-1], bucket))
            else:
                kept.append(bucket)
        self._closed = kept
        if len(kept) >= MOST_BUCKETS:
            self._width *= 2
            self._gather_closed()


SPREAD = "grpo_tui/spread"
FLAT = "grpo_tui/flat_share"
FLAT_TOP = "grpo_tui/flat_top"
FLAT_BOTTOM = "grpo_tui/flat_bottom"
MASKED = "grpo_tui/masked_share"
_FIELDS = {SPREAD: "spread", FLAT: "flat", MASKED: "masked", FLAT_TOP: "top", FLAT_BOTTOM: "bottom"}


class StepFold:
    """The series computed from a run's training groups."""

    def __init__(self) -> None:
        self.begin({})

    def begin(self, past: Mapping[str, Sequence[SeriesBucket]]) -> None:
        """Start over with the settled part of the run in stretches."""
        self._settled = {key: Series() for key in _FIELDS}
        self._whole = {key: Series() for key in _FIELDS}
        self._newest: tuple[StepStat, ...] = ()
        for key, stretches in past.items():
            self._settled[key].begin((), stretches)
            self._whole[key].begin((), stretches)

    def take(self, stats: Sequence[StepStat], settled: int) -> None:
        """Add the steps after those settled before. Steps up to `settled` are final."""
        known = len(self._newest)
        if tuple(stats[:known]) == self._newest:
            _append(self._whole, stats[known:])
        else:
            self._whole = {key: series.copy() for key, series in self._settled.items()}
            _append(self._whole, stats)
        _append(self._settled, [stat for stat in stats if stat.step <= settled])
        self._newest = tuple(stat for stat in stats if stat.step > settled)

    def series(self) -> dict[str, Series]:
        """Return the series by key, without those that never had a finite value."""
        return {key: series for key, series in self._whole.items() if series.count}


def _append(series: Mapping[str, Series], stats: Iterable[StepStat]) -> None:
    for stat in stats:
        for key, name in _FIELDS.items():
            series[key].append(stat.step, getattr(stat, name), stat.at)


def aligned(stretches: Sequence[SeriesBucket], axis: Sequence[SeriesBucket]) -> tuple[float | None, ...]:
    """Return the mean of a metric in each stretch of another; None where the metric was not logged.

    Without another metric, return the means of the metric's own stretches.
    """
    found: list[float | None] = []
    start = 0
    for part in axis or stretches:
        while start < len(stretches) and stretches[start].last < part.first:
            start += 1
        end = start
        while end < len(stretches) and stretches[end].first <= part.last:
            end += 1
        means = [one.mean for one in stretches[start:end] if one.mean is not None]
        found.append(sum(means) / len(means) if means else None)
    return tuple(found)


def band_around(
    buckets: Sequence[SeriesBucket], spread: Sequence[SeriesBucket]
) -> tuple[tuple[float, float] | None, ...]:
    """Return mean ± mean group std per bucket; None where no group is known.

    A batch used for several steps has its groups at the first of them, and they count for the others too.
    """
    if not spread:
        return ()
    apart = sorted(b.first - a.last for a, b in pairwise(spread))
    usual = apart[len(apart) // 2] if apart else 1
    held, until = 0.0, -1
    band: list[tuple[float, float] | None] = []
    start = 0
    for bucket in buckets:
        while start < len(spread) and spread[start].last < bucket.first:
            start += 1
        total, count, at = 0.0, 0, start
        while at < len(spread) and spread[at].first <= bucket.last:
            width = spread[at].mean
            if width is not None:
                total += width * spread[at].count
                count += spread[at].count
            at += 1
        if count:
            held, until = total / count, spread[at - 1].last + usual - 1
        known = bucket.mean is not None and (count > 0 or bucket.first <= until)
        band.append((bucket.mean - held, bucket.mean + held) if known and bucket.mean is not None else None)
    return tuple(band)
