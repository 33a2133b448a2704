"""Track one metric over a run in bounded memory: its start, recent values and best level."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from itertools import islice
from statistics import median

EARLY = 5
RECENT = 50
AFTER = 3
"""Number of newest values that define the current level when `turned` locates a change."""
LEVEL = 10
"""Window of the moving average behind `best`."""
NORMAL = 0.954
"""Median absolute difference of two independent normal values, in standard deviations."""


class Course:
    """One metric over a run. Values that are not finite are not in `count`.

    Attributes:
        best: Highest mean of `LEVEL` consecutive values, and the step at which they end.
    """

    __slots__ = (
        "_differences", "_early", "_ends", "_last", "_missing", "_noise", "best", "best_step", "count",
        "high", "low",
    )  # fmt: skip

    def __init__(self) -> None:
        self.count = 0
        self.low, self.high = math.inf, -math.inf
        self.best, self.best_step = -math.inf, 0
        self._early: list[float] = []
        self._last: deque[float] = deque(maxlen=RECENT)
        self._ends: deque[int] = deque(maxlen=RECENT)
        self._differences: deque[float] = deque(maxlen=RECENT)
        self._missing: deque[bool] = deque(maxlen=RECENT)
        self._noise: float | None = None

    def add(self, step: int, value: float, *, missing: bool = False) -> None:
        """Add the value of a step. `missing` means that some value of the step is NaN or infinite."""
        finite = math.isfinite(value)
        self._missing.append(missing or not finite)
        if not finite:
            return
        if self._last:
            self._differences.append(abs(value - self._last[-1]))
            self._noise = None
        if len(self._early) < EARLY:
            self._early.append(value)
        self.count += 1
        self._last.append(value)
        self._ends.append(step)
        if value < self.low:
            self.low = value
        if value > self.high:
            self.high = value
        if self.count >= LEVEL and (level := self.level(LEVEL)) > self.best:
            self.best, self.best_step = level, step

    @property
    def start(self) -> float:
        """Median of the first `EARLY` values; NaN without any."""
        return median(self._early) if self._early else math.nan

    @property
    def opening(self) -> float:
        """The first value; NaN without any."""
        return self._early[0] if self._early else math.nan

    @property
    def first(self) -> float:
        """Higher of the first two values, for runs that break within a few steps; NaN without two."""
        return max(self._early[:2]) if self.count >= 2 else math.nan

    @property
    def span(self) -> float:
        """Highest minus lowest value; 0 without any."""
        return self.high - self.low if self.count else 0.0

    @property
    def noise(self) -> float:
        """Standard deviation of a value about its trend, estimated from consecutive differences."""
        if self._noise is None:
            self._noise = median(self._differences) / NORMAL if self._differences else 0.0
        return self._noise

    def error(self, values: float) -> float:
        """Return the standard error of a mean of that many values."""
        return self.noise / math.sqrt(values)

    def newest(self, values: float) -> Sequence[float]:
        """Return that many of the newest values, at most `RECENT`."""
        kept = list(self._last)
        return kept[max(0, len(kept) - int(values)) :]

    def level(self, values: float) -> float:
        """Return the mean of that many of the newest values; NaN without any."""
        kept = self.newest(values)
        return sum(kept) / len(kept) if kept else math.nan

    def middle(self, values: float) -> float:
        """Return the median of that many of the newest values; NaN without any."""
        kept = self.newest(values)
        return median(kept) if kept else math.nan

    def turned(self, before: float | None = None, part: float = 0.5) -> int | None:
        """Return the step at which the values left an earlier level for the current one.

        This is where Page's cumulative sum about a level in between is highest, over the kept values. None
        when all of them come after the change.

        Args:
            before: The earlier level; the metric's start when None.
            part: Position of the level in between, from 0 (earlier) to 1 (current). Smaller values find the
                beginning of a gradual change.
        """
        old, new = self.start if before is None else before, self.level(AFTER)
        between, total, highest, found = old + part * (new - old), 0.0, 0.0, None
        for end, value in zip(self._ends, self._last, strict=True):
            total += (value - between) if old > new else (between - value)
            if total > highest:
                highest, found = total, end + 1
        return found

    def window(self, values: float) -> int | None:
        """Return the first step of that many of the newest values, or None when no older ones are kept."""
        place = len(self._ends) - int(values)
        return self._ends[place - 1] + 1 if place > 0 else None

    def above(self, limit: float, values: float) -> int | None:
        """Return the step of the first of that many newest values above a limit; None without one."""
        first = max(0, len(self._last) - int(values))
        return next((self._ends[n] for n in range(first, len(self._last)) if self._last[n] > limit), None)

    def missing(self, values: float) -> int:
        """Return how many of that many newest steps logged NaN or an infinity."""
        return sum(islice(self._missing, max(0, len(self._missing) - int(values)), None))
