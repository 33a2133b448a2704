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
AFTER = 3
"""Values that stand for where a metric is now, when the step is looked for at which it changed."""
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
        """The step of each of `_last`."""
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
        self._ends.append(step)
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

    def turned(self, before: float | None = None, part: float = 0.5) -> int | None:
        """Return the step from which on the values left a level for where the newest ones are.

        It is where Page's cumulative sum about a level between both is highest, over the values that are
        kept. None when all of them lie beyond the change.

        Args:
            before: The level they left; their start when not given.
            part: How far between both levels; less finds the beginning of a gradual change.
        """
        old, new = self.start if before is None else before, self.level(AFTER)
        between, total, highest, found = old + part * (new - old), 0.0, 0.0, None
        for end, value in zip(self._ends, self._last, strict=True):
            total += (value - between) if old > new else (between - value)
            if total > highest:
                highest, found = total, end + 1
        return found

    def window(self, values: float) -> int | None:
        """Return the first step of so many of the newest values, None when these are all that are kept."""
        place = len(self._ends) - int(values)
        return self._ends[place - 1] + 1 if place > 0 else None

    def above(self, limit: float, values: float) -> int | None:
        """Return the step of the first of so many of the newest values that is above a limit."""
        first = max(0, len(self._last) - int(values))
        return next((self._ends[n] for n in range(first, len(self._last)) if self._last[n] > limit), None)

    def missing(self, values: float) -> int:
        """How many of the newest steps logged NaN or an infinity."""
        return sum(islice(self._missing, max(0, len(self._missing) - int(values)), None))
