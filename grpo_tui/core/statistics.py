"""Group statistics as GRPO computes them, and measures of repetition in text."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from operator import mul
from typing import Literal, TypeGuard


def repeated_share(text: str, ngram: int = 4) -> float:
    """Return the share of repeated n-grams of words, `1 - distinct / all`, from 0 to 1.

    As in the repetition penalty of Yeo et al. 2025 (arXiv:2502.03373). Text without spaces is measured by
    character. With fewer than two n-grams the share is 0.
    """
    words: Sequence[str] = text.lower().split()
    if len(words) <= ngram < len(text):
        words = text  # "!!!!!!!!" is one word, and all repetition
    runs = len(words) - ngram + 1
    distinct = set(zip(*(words[start:] for start in range(ngram)), strict=False))
    return 1 - len(distinct) / runs if runs >= 2 else 0.0


def distinct_share(texts: Sequence[str]) -> float:
    """Return the share of distinct texts, 1 when all differ or there are none."""
    return len(set(texts)) / len(texts) if texts else 1.0


FEWEST_PROMPTS = 30
"""Minimum prompts for a comparison. With fewer, even a clear interval shows nothing."""
SAME = 1e-8
"""Values that differ by less count as equal."""
EPSILON = 1e-4
"""TRL adds this to a standard deviation before it divides by it."""
ADVANTAGE_NOISE = SAME / EPSILON
"""Largest advantage that float32 noise can cause between totals that TRL treats as equal."""


def is_number(value: object) -> bool:
    """Return whether the value is a finite number. Booleans are not numbers."""
    try:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:  # an int too large for a float
        return False


def finite(value: object) -> float | None:
    """Return a finite number as a float, None for anything else."""
    return float(value) if is_number(value) else None  # type: ignore[arg-type]


def scored(values: Iterable[float | None]) -> list[float]:
    """Return the finite values, without abstentions (None), NaN and infinities."""
    return [v for v in values if v is not None and math.isfinite(v)]


def all_finite(values: Sequence[float | None]) -> TypeGuard[Sequence[float]]:
    """Return whether every value is finite. Fast, but False for values whose sum overflows."""
    return None not in values and math.isfinite(sum(values))  # type: ignore[arg-type]


def mean(values: Iterable[float | None]) -> float | None:
    """Return the mean of the finite values, None if there are none."""
    kept = scored(values)
    return sum(kept) / len(kept) if kept else None


def std(values: Iterable[float | None]) -> float | None:
    """Return the sample std (divisor n - 1, as `torch.std`), 0 for one value, None for none."""
    kept = scored(values)
    if not kept:
        return None
    if len(kept) == 1:
        return 0.0
    centre = sum(kept) / len(kept)
    return math.sqrt(sum((v - centre) ** 2 for v in kept) / (len(kept) - 1))


def standardized(values: Sequence[float]) -> list[float]:
    """Return `(value - mean) / (std + EPSILON)` for each value, as in `normalize_then_sum`. NaN stays NaN."""
    centre, spread = mean(values) or 0.0, std(values) or 0.0
    return [(value - centre) / (spread + EPSILON) for value in values]


def is_flat(values: Sequence[float | None]) -> bool:
    """Return whether all finite values are equal, or there are none."""
    kept = scored(values)
    return not kept or max(kept) - min(kept) < SAME


Signal = Literal["some", "none", "masked"]


def signal_of(
    values: Sequence[float | None], advantages: Sequence[float] | None, masked: Sequence[bool] = ()
) -> Signal:
    """Return what a group contributes to the loss. The only place that decides whether a group teaches.

    Totals alone do not decide it: with `normalize_then_sum`, equal totals can have advantages and different
    totals can cancel.

    Args:
        advantages: As TRL computed them. None for probe prompts, where the totals decide.
        masked: Which completions the loss ignores. Empty for none.

    Returns:
        `masked` when the loss ignores every completion, `none` when all other advantages are 0.
    """
    if masked and all(masked):
        return "masked"
    if advantages is None:
        return "none" if is_flat(values) else "some"
    counts = [abs(a) for n, a in enumerate(advantages) if a and not (n < len(masked) and masked[n])]
    largest = max(scored(counts), default=0.0)
    return "some" if largest >= ADVANTAGE_NOISE or (largest > 0 and not is_flat(values)) else "none"


GroupKind = Literal["mixed", "all right", "all wrong", "flat", "unscored", "masked"]


def kind_of_group(
    values: Sequence[float | None], totals: tuple[float, float] | None, signal: Signal
) -> GroupKind:
    """Classify a group: `mixed` if it teaches, otherwise why it does not.

    Args:
        totals: Lowest and highest total of the run. None until they are known to differ.

    Returns:
        `all right` when every total is the highest of the run, `all wrong` when it is the lowest, `flat` for
        other groups without advantages, `unscored` when no completion has a finite total.
    """
    kept = scored(values)
    if signal == "masked":
        return "masked"
    if signal == "some":
        return "mixed"
    if not kept:
        return "unscored"
    if totals is not None and min(kept) > totals[1] - SAME:
        return "all right"
    if totals is not None and max(kept) < totals[0] + SAME:
        return "all wrong"
    return "flat"


def variance_shares(
    groups: Sequence[Sequence[Sequence[float | None]]], weights: Sequence[float], *, normalized: bool = False
) -> list[float | None]:
    """Return the share of the within-group variance of the weighted total that each function contributes.

    Function k has cov(w_k r_k, total) / var(total), summed over the groups, each centred on its own mean.
    The shares sum to 1 (covariance decomposition of the variance of a sum), or all are None without any
    variance. For `groups` and `normalized` see `group_covariances`.
    """
    sums = [group_covariances(group, weights, normalized=normalized) for group in groups]
    return shares_of(sums, len(weights))


def group_covariances(
    group: Sequence[Sequence[float | None]], weights: Sequence[float], *, normalized: bool = False
) -> list[float]:
    """Return the centred sums of one group for `shares_of`: each function with the total, then the total.

    Args:
        group: Rewards per completion and function. A missing one counts as 0.
        normalized: Whether TRL divides each function by its own std first (`normalize_then_sum`).
    """
    columns = [[c[k] if k < len(c) else None for c in group] for k in range(len(weights))]
    return column_covariances(columns, weights, normalized=normalized)


def column_covariances(
    columns: Sequence[Sequence[float | None]], weights: Sequence[float], *, normalized: bool = False
) -> list[float]:
    """Return `group_covariances` of rewards given per function instead of per completion."""
    if not columns or len(columns[0]) < 2:
        return [0.0] * (len(weights) + 1)
    finite = math.isfinite
    if normalized:
        columns = [
            standardized([math.nan if v is None or not finite(v) else v for v in column])
            for column in columns
        ]
    parts = [
        [w * v for v in column]
        if all_finite(column)
        else [w * v if v is not None and finite(v) else 0.0 for v in column]
        for w, column in zip(weights, columns, strict=True)
    ]
    off = _centred([sum(row) for row in zip(*parts, strict=True)])
    return [*(sum(map(mul, _centred(part), off)) for part in parts), sum(map(mul, off, off))]


def _centred(values: Sequence[float]) -> list[float]:
    middle = sum(values) / len(values)
    return [value - middle for value in values]


def shares_of(groups: Sequence[Sequence[float]], functions: int) -> list[float | None]:
    """Return the variance shares from the sums of groups. All are None when no group has any variance."""
    sums = [sum(group[k] for group in groups) for k in range(functions + 1)]
    if sums[-1] <= 1e-12:
        return [None] * functions
    return [part / sums[-1] for part in sums[:-1]]


def correlation(a: Sequence[float], b: Sequence[float]) -> float:
    """Return Pearson's coefficient, 0 when one of the series is constant."""
    return within_groups([a], [b])


def both_finite(
    a: Sequence[float | None], b: Sequence[float | None], places: Iterable[int]
) -> tuple[list[float], list[float]]:
    """Return the values at `places` where both series are finite."""
    both = [
        (x, y)
        for i in places
        if (x := a[i]) is not None and (y := b[i]) is not None and math.isfinite(x) and math.isfinite(y)
    ]
    return [x for x, _ in both], [y for _, y in both]


def within_groups(a: Sequence[Sequence[float]], b: Sequence[Sequence[float]]) -> float:
    """Return the correlation of two series after centring each on its group means, 0 when one is constant."""
    ab = aa = bb = 0.0
    for left, right in zip(a, b, strict=True):
        if not left:
            continue
        middle_a, middle_b = sum(left) / len(left), sum(right) / len(right)
        for x, y in zip(left, right, strict=True):
            ab += (x - middle_a) * (y - middle_b)
            aa += (x - middle_a) ** 2
            bb += (y - middle_b) ** 2
    return ab / math.sqrt(aa * bb) if aa > 1e-12 and bb > 1e-12 else 0.0
