"""The course of one metric over a run, kept in bounded memory: its start, its recent values, its best."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from itertools import islice
from statistics import median

EARLY = 5
"""Values that stand for the start."""
RECENT = 50
"""Values that are kept one by one."""
LEVEL = 10
"""Values of the mean whose best is remembered."""
_NORMAL = 0.954
"""Median of the absolute difference of two normal values, in standard deviations."""


class Course:
    """What is known of one metric. Values that are no numbers are counted apart.

    Attributes:
        count: values that are finite.
        low, high: of single values.
        best: highest mean of `LEVEL` neighbouring values, and `best_step` where it ended.
    """

    __slots__ = (
        "_differences", "_early", "_last", "_missing", "_noise", "best", "best_step", "count", "high", "low",
    )  # fmt: skip

    def __init__(self) -> None:
        self.count = 0
        self.low, self.high = math.inf, -math.inf
        self.best, self.best_step = -math.inf, 0
        self._early: list[float] = []
        self._last: deque[float] = deque(maxlen=RECENT)
        self._differences: deque[float] = deque(maxlen=RECENT)
        self._missing: deque[bool] = deque(maxlen=RECENT)
        self._noise: float | None = None

    def add(self, step: int, value: float, *, missing: bool = False) -> None:
        """Take the value of a step; `missing` says that some value of the step is NaN or infinite."""
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
        self.low, self.high = min(self.low, value), max(self.high, value)
        if self.count >= LEVEL and (level := self.level(LEVEL)) > self.best:
            self.best, self.best_step = level, step

    @property
    def start(self) -> float:
        """Median of the first values; NaN without any."""
        return median(self._early) if self._early else math.nan

    @property
    def opening(self) -> float:
        """The first value; NaN without any."""
        return self._early[0] if self._early else math.nan

    @property
    def first(self) -> float:
        """Highest of the first two values, for what breaks within a few steps; NaN without them."""
        return max(self._early[:2]) if self.count >= 2 else math.nan

    @property
    def span(self) -> float:
        """Highest less lowest value; 0 without any."""
        return self.high - self.low if self.count else 0.0

    @property
    def noise(self) -> float:
        """Standard deviation of a value about its course, from neighbouring values; a trend hardly counts."""
        if self._noise is None:
            self._noise = median(self._differences) / _NORMAL if self._differences else 0.0
        return self._noise

    def error(self, values: float) -> float:
        """Standard error of a mean of so many values."""
        return self.noise / math.sqrt(values)

    def newest(self, values: float) -> Sequence[float]:
        """The newest values, at most so many and at most `RECENT`."""
        return list(self._last)[max(0, len(self._last) - int(values)) :]

    def level(self, values: float) -> float:
        """Mean of the newest values; NaN without any."""
        kept = self.newest(values)
        return sum(kept) / len(kept) if kept else math.nan

    def middle(self, values: float) -> float:
        """Median of the newest values; NaN without any."""
        kept = self.newest(values)
        return median(kept) if kept else math.nan

    def missing(self, values: float) -> int:
        """How many of the newest steps logged NaN or an infinity."""
        return sum(islice(self._missing, max(0, len(self._missing) - int(values)), None))
