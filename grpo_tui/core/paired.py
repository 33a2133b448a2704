"""Compare two policies that answered the same prompts.

Each prompt counts once: its completions become one mean, the policies are paired by prompt, and the interval
is Student's t over the prompts. In simulations with 100 prompts of very unequal difficulty it covers the true
value in 95 % of cases, as the percentile bootstrap does. It needs no random numbers, so the result never
varies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import comb, cos, gamma, pi, sqrt, tan
from typing import Literal

from grpo_tui.core.statistics import FEWEST_PROMPTS

Word = Literal["better", "not shown", "worse"]
TIE = 1e-9
"""Means of a prompt that differ by at most this count as equal."""


@dataclass(frozen=True, slots=True)
class Difference:
    """How far a policy's mean is above the other's, with its 95 % interval if there are two prompts."""

    mean: float
    low: float | None
    high: float | None
    prompts: int

    @property
    def word(self) -> Word:
        """What the interval shows. Without a width it shows nothing, because all prompts gave one value."""
        if self.prompts < FEWEST_PROMPTS or self.low is None or self.high is None:
            return "not shown"
        if self.high - self.low <= TIE:
            return "not shown"
        return "better" if self.low > 0 else "worse" if self.high < 0 else "not shown"


@dataclass(frozen=True, slots=True)
class Wins:
    """Number of prompts on which a policy did better than the other, the same, and worse."""

    win: int
    tie: int
    loss: int


def difference(base: Sequence[float | None], policy: Sequence[float | None]) -> Difference | None:
    """Compare two policies by their means for the same prompts. A prompt without both is left out.

    Returns:
        How far `policy` is above `base`; None when no prompt has both.
    """
    gains = _gains(base, policy)
    count = len(gains)
    if count == 0:
        return None
    middle = sum(gains) / count
    if count == 1:
        return Difference(middle, None, None, 1)
    error = sqrt(sum((gain - middle) ** 2 for gain in gains) / (count - 1) / count)
    reach = t_quantile(count - 1) * error
    return Difference(middle, middle - reach, middle + reach, count)


def wins(base: Sequence[float | None], policy: Sequence[float | None]) -> Wins:
    """Count the prompts on which the policy won, tied and lost."""
    gains = _gains(base, policy)
    win, loss = sum(gain > TIE for gain in gains), sum(gain < -TIE for gain in gains)
    return Wins(win, len(gains) - win - loss, loss)


def _gains(base: Sequence[float | None], policy: Sequence[float | None]) -> list[float]:
    pairs = zip(base, policy, strict=True)
    return [theirs - ours for ours, theirs in pairs if ours is not None and theirs is not None]


def t_quantile(freedom: float) -> float:
    """Return the 97.5 % quantile of Student's t, for a `freedom` of at least 1, not necessarily whole.

    From five degrees of freedom on, uses the Cornish-Fisher expansion (Abramowitz and Stegun 1964, 26.7.5),
    accurate to three digits. Below five the distribution itself is inverted.
    """
    if freedom < _SERIES_FROM:
        return _inverted(freedom)
    z, nu = 1.959963984540054, float(freedom)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + sum(term / nu**power for power, term in enumerate(terms, 1))


_SERIES_FROM = 5
_SLICES, _HALVINGS = 60, 40


@lru_cache(256)
def _inverted(freedom: float) -> float:
    """Find t with `P(T <= t) = 0.975` by halving an interval.

    With t = sqrt(nu) tan(a), the density is a power of cos(a).
    """
    scale = gamma((freedom + 1) / 2) / (sqrt(pi) * gamma(freedom / 2))
    low, high = 0.0, pi / 2
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        step = middle / _SLICES
        weights = (1 if at in (0, _SLICES) else 4 if at % 2 else 2 for at in range(_SLICES + 1))
        area = sum(w * cos(at * step) ** (freedom - 1) for at, w in enumerate(weights)) * step / 3  # Simpson
        low, high = (middle, high) if scale * area < 0.475 else (low, middle)
    return sqrt(freedom) * tan(low)


def pass_at(k: int, right: int, of: int) -> float:
    """Return an unbiased estimate of the probability that at least one of `k` completions is right.

    1 - C(n-c,k)/C(n,k) for c of n right, k at most n (Chen et al. 2021, https://arxiv.org/abs/2107.03374).
    """
    return 1 - comb(of - right, k) / comb(of, k)


def sizes_of(samples: int) -> tuple[int, ...]:
    """Return the values of k to report for pass@k: 1, 2, 4, 8, … and the number of samples itself."""
    powers = {1 << power for power in range(samples.bit_length())}
    return tuple(sorted(powers | {samples}))
