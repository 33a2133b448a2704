"""Pearson correlation of two rows of numbers, over all or within groups. Knows nothing of rewards."""

from __future__ import annotations

import math
from collections.abc import Sequence


def correlation(a: Sequence[float], b: Sequence[float]) -> float:
    """Return Pearson's coefficient, 0 when one of the rows has no spread."""
    return within_groups([a], [b])


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
