"""Estimate how pass rates are distributed over prompts, and how many groups of another size would be mixed.

The rate of one prompt, k right of n, is a poor base for this. A prompt that is right one time in ten often
shows no right answer among 8 completions, and larger groups then seem useless. So the distribution over all
prompts is estimated from all visits at once, which shrinks each prompt toward what the others show.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping

PLACES = 51
"""Pass rates that are told apart, from 0 to 1 in steps of 0.02."""
ROUNDS = 200
MOST_KINDS = 400
"""Different (right, all) pairs that are used, evenly picked when there are more."""


def pass_rates(prompts: Iterable[tuple[int, int]]) -> dict[float, float]:
    """Return the share of prompts by pass rate: the mixing distribution of binomials, by EM.

    Nonparametric maximum likelihood (Kiefer and Wolfowitz 1956, Laird 1978) on a fixed grid, which includes
    prompts that are never and always right.

    Args:
        prompts: right completions and all completions of each prompt, pooled over its visits.
    """
    counted = Counter(pair for pair in prompts if pair[1])
    kinds = sorted(counted)
    kinds = (
        [kinds[n * len(kinds) // MOST_KINDS] for n in range(MOST_KINDS)] if len(kinds) > MOST_KINDS else kinds
    )
    rates = [place / (PLACES - 1) for place in range(PLACES)]
    likely = [(counted[kind], _likelihoods(*kind, rates)) for kind in kinds]
    total = sum(count for count, _ in likely)
    shares = [1 / PLACES] * PLACES
    for _ in range(ROUNDS if total else 0):
        expected = [0.0] * PLACES
        for count, one in likely:
            joint = [share * value for share, value in zip(shares, one, strict=True)]
            scale = count / (total * sum(joint))
            expected = [before + scale * value for before, value in zip(expected, joint, strict=True)]
        shares = expected
    return dict(zip(rates, shares, strict=True))


def _likelihoods(right: int, of: int, rates: list[float]) -> list[float]:
    """Return the likelihood of each rate, relative to the likeliest."""
    logs = [_log(right, rate) + _log(of - right, 1 - rate) for rate in rates]
    best = max(logs)
    return [math.exp(one - best) for one in logs]


def _log(times: int, rate: float) -> float:
    return times * math.log(rate) if rate > 0 else -math.inf if times else 0.0


def mixed_share(rates: Mapping[float, float], size: int) -> float:
    """Return the expected share of groups of `size` with both right and wrong completions."""
    return sum(share * (1 - rate**size - (1 - rate) ** size) for rate, share in rates.items())
