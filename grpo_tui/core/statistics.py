"""Group statistics as GRPO sees them, and how much texts repeat themselves."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from operator import mul
from typing import Literal, TypeGuard


def repeated_share(text: str, ngram: int = 4) -> float:
    """Share of the runs of `ngram` words that come again, `1 - distinct / all`, between 0 and 1.

    As in the repetition penalty of Yeo et al. 2025 (arXiv:2502.03373). A text without spaces is looked at
    letter by letter; one of fewer than two runs repeats nothing.
    """
    words: Sequence[str] = text.lower().split()
    if len(words) <= ngram < len(text):
        words = text  # "!!!!!!!!" is one word, and all repetition
    runs = len(words) - ngram + 1
    distinct = set(zip(*(words[start:] for start in range(ngram)), strict=False))
    return 1 - len(distinct) / runs if runs >= 2 else 0.0


def distinct_share(texts: Sequence[str]) -> float:
    """Share of different texts, 1 when no two are the same or there is none."""
    return len(set(texts)) / len(texts) if texts else 1.0


FEWEST_PROMPTS = 30
"""A comparison on fewer prompts shows nothing, whatever its interval."""
SAME = 1e-8
"""Values that differ by less are one."""
EPSILON = 1e-4
"""What TRL adds to a standard deviation before it divides by it."""
ADVANTAGE_NOISE = SAME / EPSILON
"""What float32 leaves of an advantage where TRL takes the totals for equal."""


def is_number(value: object) -> bool:
    """True for a finite number; None, NaN, infinities, texts and booleans are none."""
    try:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:  # a whole number that no float holds
        return False


def scored(values: Iterable[float | None]) -> list[float]:
    """The finite values, with abstentions (None), NaN and infinities left out."""
    return [v for v in values if v is not None and math.isfinite(v)]


def all_finite(values: Sequence[float | None]) -> TypeGuard[Sequence[float]]:
    """True when `scored` would leave nothing out; a quick answer, for sums that overflow it is False."""
    return None not in values and math.isfinite(sum(values))  # type: ignore[arg-type]


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


def standardized(values: Sequence[float]) -> list[float]:
    """Return each value less the mean, over the deviation, as `normalize_then_sum` has it; NaN stays."""
    centre, spread = mean(values) or 0.0, std(values) or 0.0
    return [(value - centre) / (spread + EPSILON) for value in values]


def is_flat(values: Sequence[float | None]) -> bool:
    """True when the scored values do not differ, or none is scored."""
    kept = scored(values)
    return not kept or max(kept) - min(kept) < SAME


Signal = Literal["some", "none", "masked"]


def signal_of(
    values: Sequence[float | None], advantages: Sequence[float] | None, masked: Sequence[bool] = ()
) -> Signal:
    """Return what the loss gets from a group. Everything that says whether a group teaches asks here.

    Totals alone do not tell: with `normalize_then_sum` equal totals can have advantages, and others cancel.

    Args:
        values: the totals of the group.
        advantages: as TRL computed them; None where there are none (probe prompts), then the totals decide.
        masked: whether the loss leaves the completion out; empty for none.

    Returns:
        `masked` when the loss leaves every completion out, `none` when all advantages that count are 0.
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
    """Tell a group that teaches (mixed) from those that do not, and these by why.

    Args:
        values: the totals of the group.
        totals: the lowest and the highest total of the run; None while they are not known to differ.
        signal: what the loss gets from it.

    Returns:
        `all right` when every total is the highest of the run, `all wrong` when it is the lowest, `flat` for
        any other group without advantages, `unscored` when no completion has a finite total.
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
    """Share of the within-group variance of the weighted total that each function carries.

    The share of function k is cov(w_k r_k, total) / var(total), summed over the groups, each centred
    on its own mean, so the shares sum to 1 (the covariance decomposition of a sum's variance).

    Args:
        groups: per group, per completion, the rewards in function order; a missing one counts as 0.
        weights: one weight per function.
        normalized: as `group_covariances` has it.

    Returns:
        One share per function; None for all when no group has any spread.
    """
    sums = [group_covariances(group, weights, normalized=normalized) for group in groups]
    return shares_of(sums, len(weights))


def group_covariances(
    group: Sequence[Sequence[float | None]], weights: Sequence[float], *, normalized: bool = False
) -> list[float]:
    """The sums of one group that `shares_of` adds up: of each function with the total, then of the total.

    Args:
        group: per completion, the rewards in function order; a missing one counts as 0.
        weights: one weight per function.
        normalized: whether TRL divides each function by its own deviation first (`normalize_then_sum`).
    """
    columns = [[c[k] if k < len(c) else None for c in group] for k in range(len(weights))]
    return column_covariances(columns, weights, normalized=normalized)


def column_covariances(
    columns: Sequence[Sequence[float | None]], weights: Sequence[float], *, normalized: bool = False
) -> list[float]:
    """The same as `group_covariances`, from what each function gave to the completions."""
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
    """Shares of the variance from the sums of groups; None for all when no group has any spread."""
    sums = [sum(group[k] for group in groups) for k in range(functions + 1)]
    if sums[-1] <= 1e-12:
        return [None] * functions
    return [part / sums[-1] for part in sums[:-1]]


def correlation(a: Sequence[float], b: Sequence[float]) -> float:
    """Return Pearson's coefficient, 0 when one of the rows has no spread."""
    return within_groups([a], [b])


def both_finite(
    a: Sequence[float | None], b: Sequence[float | None], places: Iterable[int]
) -> tuple[list[float], list[float]]:
    """Return the values of two rows at those of some places where both are finite numbers."""
    both = [
        (x, y)
        for i in places
        if (x := a[i]) is not None and (y := b[i]) is not None and math.isfinite(x) and math.isfinite(y)
    ]
    return [x for x, _ in both], [y for _, y in both]


def within_groups(a: Sequence[Sequence[float]], b: Sequence[Sequence[float]]) -> float:
    """Return the coefficient of values that are each centred on the mean of their group.

    Args:
        a: per group, the values of the first row.
        b: per group, the values of the second, in the same order.
    """
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
