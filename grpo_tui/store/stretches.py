"""Stretches of a series: what they are, and how many are gathered into few.

Pure arithmetic over what was read; asks no file.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

from grpo_tui.core.statistics import is_number


@dataclass(frozen=True, slots=True)
class SeriesBucket:
    """The values of one metric over one stretch of steps."""

    first: int
    last: int
    first_at: float
    """When the first row of the stretch was logged, seconds since the epoch."""
    last_at: float
    low: float | None
    """Lowest value; None when the stretch holds no number."""
    high: float | None
    mean: float | None
    count: int
    """Rows that logged the metric, whatever they held."""
    known: int
    """Rows whose value is a finite number."""

    @property
    def missing(self) -> int:
        """Rows that logged None, NaN, an infinity or a text."""
        return self.count - self.known


class Logged(Protocol):
    """A value with where and when it was logged."""

    @property
    def step(self) -> int:
        """Step it was logged at."""

    @property
    def at(self) -> float:
        """Seconds since the epoch."""

    @property
    def value(self) -> Any:
        """The value as logged."""


def of_points(points: Iterable[Logged]) -> list[SeriesBucket]:
    """Each value as a stretch of its own."""
    found = []
    for p in points:
        n = float(p.value) if is_number(p.value) else None
        found.append(SeriesBucket(p.step, p.step, p.at, p.at, n, n, n, 1, 0 if n is None else 1))
    return found


def gathered(
    pieces: Sequence[SeriesBucket], first_step: int | None, last_step: int | None, buckets: int
) -> list[SeriesBucket]:
    """The same values in about so many stretches of equal length; values of one step always stay together."""
    if not pieces:
        return []
    first = pieces[0].first if first_step is None else first_step
    last = pieces[-1].last if last_step is None else last_step
    width = max(1, -(-(last - first + 1) // max(1, buckets)))
    found: list[list[SeriesBucket]] = []
    place = None
    for piece in pieces:
        here = ((piece.first + piece.last) // 2 - first) // width
        if here != place:
            found.append([])
            place = here
        found[-1].append(piece)
    return [joined(group) for group in found]


def joined(pieces: Sequence[SeriesBucket]) -> SeriesBucket:
    """Neighbouring stretches as one."""
    if len(pieces) == 1:
        return pieces[0]
    known = sum(p.known for p in pieces)
    return SeriesBucket(
        first=min(p.first for p in pieces),
        last=max(p.last for p in pieces),
        first_at=min(p.first_at for p in pieces),
        last_at=max(p.last_at for p in pieces),
        low=min((p.low for p in pieces if p.low is not None), default=None),
        high=max((p.high for p in pieces if p.high is not None), default=None),
        mean=sum(p.mean * p.known for p in pieces if p.mean is not None) / known if known else None,
        count=sum(p.count for p in pieces),
        known=known,
    )


def rates(counts: Sequence[SeriesBucket], times: Sequence[SeriesBucket]) -> list[SeriesBucket]:
    """Growth of a running count per second of step time, one value for each stretch.

    Args:
        counts: Stretches of the count, which never falls: the highest value is the last one.
        times: Stretches of the seconds per step, of the same blocks.
    """
    found, place = [], 0
    for before, now in pairwise(counts):
        while place < len(times) and times[place].last < now.first:
            place += 1
        time = times[place] if place < len(times) and times[place].first <= now.last else None
        value = None
        if time is not None and time.mean and now.high is not None and before.high is not None:
            grown = now.high - before.high
            value = grown / (time.mean * max(1, now.last - before.last)) if grown >= 0 else None
        found.append(
            SeriesBucket(now.first, now.last, now.first_at, now.last_at, value, value, value, now.count,
                         0 if value is None else now.known)
        )  # fmt: skip
    return found
