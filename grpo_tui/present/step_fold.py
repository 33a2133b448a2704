"""Fold the figures of groups, step by step, into the series that are computed here: spread and flat shares.

The newest steps may still get groups of ranks that are late, so they are asked for again at every look and
kept apart from those that are settled. Knows figures of steps, not completions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from grpo_tui.present.series import Bucket, Series
from grpo_tui.store.reader import SeriesBucket, StepStat

SPREAD = "grpo_tui/spread"
FLAT = "grpo_tui/flat_share"
FLAT_TOP = "grpo_tui/flat_top"
FLAT_BOTTOM = "grpo_tui/flat_bottom"
MASKED = "grpo_tui/masked_share"
_FIELDS = {SPREAD: "spread", FLAT: "flat", MASKED: "masked", FLAT_TOP: "top", FLAT_BOTTOM: "bottom"}


class StepFold:
    """The computed series of a run's training groups."""

    def __init__(self) -> None:
        self._settled = {key: Series() for key in _FIELDS}
        self._whole = {key: Series() for key in _FIELDS}
        self._newest: tuple[StepStat, ...] = ()

    def begin(self, past: Mapping[str, Sequence[SeriesBucket]]) -> None:
        """Start over with the settled part of the run in stretches."""
        self._settled = {key: Series() for key in _FIELDS}
        self._whole = {key: Series() for key in _FIELDS}
        self._newest = ()
        for key, stretches in past.items():
            self._settled[key].begin((), stretches)
            self._whole[key].begin((), stretches)

    def take(self, stats: Sequence[StepStat], settled: int) -> None:
        """Take the steps after those settled before; those up to `settled` will not be given again."""
        known = len(self._newest)
        if tuple(stats[:known]) == self._newest:
            _append(self._whole, stats[known:])
        else:
            self._whole = {key: series.copy() for key, series in self._settled.items()}
            _append(self._whole, stats)
        _append(self._settled, [stat for stat in stats if stat.step <= settled])
        self._newest = tuple(stat for stat in stats if stat.step > settled)

    def series(self) -> dict[str, Series]:
        """The series up to now, by key; one that never had a number is left out."""
        return {key: series for key, series in self._whole.items() if series.count}


def _append(series: Mapping[str, Series], stats: Iterable[StepStat]) -> None:
    for stat in stats:
        for key, name in _FIELDS.items():
            series[key].append(stat.step, getattr(stat, name), stat.at)


def band_around(
    buckets: Sequence[Bucket], spread: Sequence[Bucket]
) -> tuple[tuple[float, float] | None, ...]:
    """Mean ± the mean spread inside a group, per bucket; None where no group is known.

    A batch that is used for several steps has its groups at the first of them; they stand for the others too.
    """
    if not spread:
        return ()
    apart = sorted(b.first - a.last for a, b in pairwise(spread))
    usual = apart[len(apart) // 2] if apart else 1
    held, until = 0.0, -1
    band: list[tuple[float, float] | None] = []
    start = 0
    for bucket in buckets:
        while start < len(spread) and spread[start].last < bucket.first:
            start += 1
        total, count, at = 0.0, 0, start
        while at < len(spread) and spread[at].first <= bucket.last:
            width = spread[at].mean
            if width is not None:
                total += width * spread[at].count
                count += spread[at].count
            at += 1
        if count:
            held, until = total / count, spread[at - 1].last + usual - 1
        known = bucket.mean is not None and (count > 0 or bucket.first <= until)
        band.append((bucket.mean - held, bucket.mean + held) if known and bucket.mean is not None else None)
    return tuple(band)
