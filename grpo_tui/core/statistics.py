"""Group statistics as GRPO sees them. Pure arithmetic; knows nothing of TRL's tensors."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence


def scored(values: Iterable[float | None]) -> list[float]:
    """The finite values, with abstentions (None), NaN and infinities left out."""
    return [v for v in values if v is not None and math.isfinite(v)]


def mean(values: Iterable[float | None]) -> float | None:
    """Mean over the scored values, None when there is none."""
    kept = scored(values)
    return sum(kept) / len(kept) if kept else None


def std(values: Iterable[float | None]) -> float | None:
    """Sample standard deviation (divisor n - 1, as `torch.std`), 0.0 for one value, None for none."""
    kept = scored(values)
    if not kept:
        return None
    if len(kept) == 1:
        return 0.0
    centre = sum(kept) / len(kept)
    return math.sqrt(sum((v - centre) ** 2 for v in kept) / (len(kept) - 1))


def is_flat(values: Sequence[float | None]) -> bool:
    """True when a group teaches nothing: no spread between its scored completions, or none scored."""
    kept = scored(values)
    return not kept or max(kept) - min(kept) < 1e-8


def variance_shares(
    groups: Sequence[Sequence[Sequence[float | None]]], weights: Sequence[float]
) -> list[float | None]:
    """Share of the within-group variance of the weighted total that each function carries.

    The share of function k is cov(w_k r_k, total) / var(total), summed over the groups, each centred
    on its own mean, so the shares sum to 1 (the covariance decomposition of a sum's variance).

    Args:
        groups: per group, per completion, the rewards in function order; a missing one counts as 0.
        weights: one weight per function.

    Returns:
        One share per function; None for all when no group has any spread.
    """
    covariance = [0.0] * len(weights)
    variance = 0.0
    for group in groups:
        rows = [[w * _given(c, k) for k, w in enumerate(weights)] for c in group]
        if len(rows) < 2:
            continue
        totals = [sum(row) for row in rows]
        centre = sum(totals) / len(totals)
        variance += sum((t - centre) ** 2 for t in totals)
        for k in range(len(weights)):
            part = [row[k] for row in rows]
            middle = sum(part) / len(part)
            covariance[k] += sum((p - middle) * (t - centre) for p, t in zip(part, totals, strict=True))
    if variance <= 1e-12:
        return [None] * len(weights)
    return [c / variance for c in covariance]


def _given(rewards: Sequence[float | None], function: int) -> float:
    """What a function gave, 0 when it abstained, gave no finite number, or nothing was kept of it."""
    value = rewards[function] if function < len(rewards) else None
    return value if value is not None and math.isfinite(value) else 0.0
