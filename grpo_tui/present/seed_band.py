"""Merge the lines of a set of runs into one: the median over the runs, in a band from lowest to highest.

Every run is smoothed first, as it is alone. Where only some runs have a value, these count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from statistics import median
from typing import TypeVar

from grpo_tui.present.big_chart import ChartBucket, ChartLine, reaching
from grpo_tui.store.read_series import SeriesBucket

Bucket = TypeVar("Bucket", ChartBucket, SeriesBucket)
BAND = "band: lowest to highest seed"


def median_line(lines: Sequence[ChartLine], name: str) -> ChartLine:
    """Return the runs of a set as one line of a full-screen chart."""
    longest = max(lines, key=lambda line: len(line.buckets))
    newest = [line.newest for line in lines if line.newest is not None]
    return replace(
        longest,
        name=name,
        runs=len(lines),
        buckets=tuple(
            replace(_merged(at, found), spread=None)
            for at, found in _together([line.buckets for line in lines], lambda bucket: bucket.x)
        ),
        newest=median(newest) if newest else None,
        newest_step=max((line.newest_step for line in lines if line.newest_step is not None), default=None),
        started_at=0.0,
        trouble=next((line.trouble for line in lines if line.trouble), ""),
    )


def median_buckets(runs: Sequence[tuple[SeriesBucket, ...]]) -> tuple[SeriesBucket, ...]:
    """Return the runs of a set as one line of a report."""
    return tuple(_merged(at, found) for at, found in _together(runs, lambda bucket: bucket.middle))


def _together(
    tracks: Sequence[Sequence[Bucket]], place: Callable[[Bucket], float]
) -> Iterator[tuple[Bucket, list[Bucket]]]:
    """Yield each bucket of the longest track with the nearest bucket of every track that reaches there."""
    places = [[place(bucket) for bucket in track] for track in tracks]
    for at in max(tracks, key=len):
        indexes = [reaching(xs, place(at)) for xs in places]
        yield at, [track[i] for track, i in zip(tracks, indexes, strict=True) if i is not None]


def _merged(at: Bucket, found: Sequence[Bucket]) -> Bucket:
    smooth = [one.smooth for one in found if one.smooth is not None]
    low, high = (min(smooth), max(smooth)) if smooth else (None, None)
    return replace(at, low=low, high=high, mean=_median(one.mean for one in found), smooth=_median(smooth))


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None
