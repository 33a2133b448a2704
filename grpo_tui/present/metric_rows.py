"""The metrics of a run as rows to choose from, with figures over a stretch of the run."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from grpo_tui.core.metrics import COMPUTED, GROUPS, describe
from grpo_tui.core.text import one_line
from grpo_tui.present.formatting import compact
from grpo_tui.present.train_view import ChartView
from grpo_tui.store.read_series import SeriesBucket, joined, metric_keys, series_window
from grpo_tui.store.reader import RunReader


@dataclass(frozen=True, slots=True)
class MetricListRow:
    """One metric."""

    key: str
    shown_key: str
    title: str
    meaning: str
    group: str
    value: str = ""
    trend: tuple[float | None, ...] = ()

    def rank(self, words: str) -> int | None:
        """Return how well it matches the typed words: 0 is best, None when a word is missing."""
        wanted = words.lower().split()
        names = f"{self.title} {self.shown_key} {self.key}".lower()
        if all(word in names for word in wanted):
            return 0 if not wanted or names.startswith(wanted[0]) else 1
        whole = f"{names} {self.group} {self.meaning}".lower()
        return 2 if all(word in whole for word in wanted) else None


def metric_row(key: str, value: float | None = None, trend: Sequence[float | None] = ()) -> MetricListRow:
    """Return the row of a logged key."""
    metric = describe(key)
    return MetricListRow(
        key,
        one_line(key, 60),
        one_line(metric.title, 60),
        one_line(metric.meaning, 400),
        metric.group or "other",
        "" if value is None and not trend else compact(value),
        tuple(trend),
    )


def rows_of_charts(charts: Iterable[ChartView]) -> dict[str, MetricListRow]:
    """Return the metrics with a chart in Train, by key."""
    found = {}
    for chart in charts:
        row = metric_row(chart.key, None, tuple(b.mean for b in chart.buckets))
        found[chart.key] = replace(row, value=chart.value)
    return found


def matching(rows: Iterable[MetricListRow], words: str) -> list[MetricListRow]:
    """Return the rows that contain every word, best match first, then by group in logged order."""
    found = [(rank, row) for row in rows if (rank := row.rank(words)) is not None]
    return [row for _, row in sorted(found, key=lambda f: (f[0], _place(f[1].group)))]


def in_groups(keys: Iterable[str]) -> list[str]:
    """Sort keys by group, the reward first. The sort is stable."""
    return sorted(keys, key=lambda key: _place(describe(key).group))


def _place(group: str) -> int:
    return GROUPS.index(group) if group in GROUPS else len(GROUPS)


STRETCHES = 40
NEAR = 64


@dataclass(frozen=True, slots=True)
class MetricFigures:
    """Figures of one metric of a run between two steps."""

    key: str
    first: int
    last: int
    newest: float | None
    """Value at the last step; None unless it is finite."""
    change: float | None
    """Mean over the last tenth of the steps minus that over the first; None with too few values."""
    low: float | None
    high: float | None
    count: int
    missing: int
    """Rows with None, NaN, an infinity or a text."""
    curve: tuple[float | None, ...]


def keys_of(reader: RunReader, *, computed: bool) -> list[str]:
    """Return the metrics of a run: logged ones in order of first appearance, then computed ones."""
    return list(dict.fromkeys([*metric_keys(reader), *(COMPUTED if computed else ())]))


def keys_matching(keys: Iterable[str], patterns: Sequence[str]) -> list[str]:
    """Return the keys that match a shell glob, in which `*` also matches `/`; all without a pattern."""
    if not patterns:
        return list(keys)
    return [key for key in keys if any(fnmatch.fnmatchcase(key, pattern) for pattern in patterns)]


def figures(
    reader: RunReader, key: str, first_step: int | None = None, last_step: int | None = None
) -> MetricFigures | None:
    """Return the figures of one metric; None when it has no row between the steps."""
    window = series_window(reader, key, first_step, last_step, STRETCHES)
    if not window:
        return None
    end = window[-1].last
    newest = series_window(reader, key, max(0, end - NEAR), end, 2 * NEAR)
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
    before, after = joined(window[:tenth]).mean, joined(window[-tenth:]).mean
    return None if before is None or after is None else after - before
