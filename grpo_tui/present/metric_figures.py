"""What a metric came to over a stretch of a run, in a few figures and a small curve.

Knows the reader's windows; knows nothing of tables or terminals.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from grpo_tui.core.metrics import COMPUTED
from grpo_tui.store.reader import RunReader, SeriesBucket

STRETCHES = 40
"""Into so many stretches the steps are divided; a tenth of them is four."""
NEAR = 64


@dataclass(frozen=True, slots=True)
class MetricFigures:
    """One metric of one run between two steps."""

    key: str
    first: int
    last: int
    newest: float | None
    """The value at the last step, None when that one is no number."""
    change: float | None
    """Mean over the last tenth of the steps less that over the first; None with too few values."""
    low: float | None
    high: float | None
    count: int
    missing: int
    """Rows that hold None, NaN, an infinity or a text."""
    curve: tuple[float | None, ...]


def keys_of(reader: RunReader, *, computed: bool) -> list[str]:
    """The metrics of a run: those logged, in the order of first sight, then those computed here."""
    return reader.metric_keys() + (list(COMPUTED) if computed else [])


def matching(keys: Iterable[str], patterns: Sequence[str]) -> list[str]:
    """The keys that a pattern names: shell globs whose `*` also stands for `/`; no pattern means all."""
    if not patterns:
        return list(keys)
    return [key for key in keys if any(fnmatch.fnmatchcase(key, pattern) for pattern in patterns)]


def figures(
    reader: RunReader, key: str, first_step: int | None = None, last_step: int | None = None
) -> MetricFigures | None:
    """The figures of one metric, None when it has no row between the steps."""
    window = reader.series_window(key, first_step, last_step, STRETCHES)
    if not window:
        return None
    end = window[-1].last
    newest = reader.series_window(key, max(0, end - NEAR), end, 2 * NEAR)
    return MetricFigures(
        key=key,
        first=window[0].first,
        last=end,
        newest=newest[-1].mean if newest else None,
        change=_change(window),
        low=min((b.low for b in window if b.low is not None), default=None),
        high=max((b.high for b in window if b.high is not None), default=None),
        count=sum(b.count for b in window),
        missing=sum(b.missing for b in window),
        curve=tuple(b.mean for b in window),
    )


def _change(window: Sequence[SeriesBucket]) -> float | None:
    tenth = len(window) // 10
    if not tenth:
        return None
    before, after = _mean(window[:tenth]), _mean(window[-tenth:])
    return None if before is None or after is None else after - before


def _mean(stretches: Sequence[SeriesBucket]) -> float | None:
    known = sum(b.known for b in stretches)
    return sum(b.mean * b.known for b in stretches if b.mean is not None) / known if known else None
