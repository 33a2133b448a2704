"""Every metric of a run as rows to choose from: title, newest value, a small curve; found by words.

Knows charts and values; all texts are safe to show.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from grpo_tui.core.metrics import GROUPS, describe
from grpo_tui.core.text import one_line
from grpo_tui.present.formatting import compact
from grpo_tui.present.train_view import ChartView


@dataclass(frozen=True, slots=True)
class MetricRow:
    """One metric."""

    key: str
    shown_key: str
    title: str
    meaning: str
    group: str
    value: str = ""
    trend: tuple[float | None, ...] = ()

    def rank(self, words: str) -> int | None:
        """How well it fits what was typed: 0 best, None when a word is nowhere in it."""
        wanted = words.lower().split()
        names = f"{self.title} {self.shown_key} {self.key}".lower()
        if all(word in names for word in wanted):
            return 0 if not wanted or names.startswith(wanted[0]) else 1
        whole = f"{names} {self.group} {self.meaning}".lower()
        return 2 if all(word in whole for word in wanted) else None


def metric_row(key: str, value: float | None = None, trend: Sequence[float | None] = ()) -> MetricRow:
    """A row for a key as logged."""
    metric = describe(key)
    return MetricRow(
        key,
        one_line(key, 60),
        one_line(metric.title, 60),
        one_line(metric.meaning, 400),
        metric.group or "other",
        "" if value is None and not trend else compact(value),
        tuple(trend),
    )


def rows_of_charts(charts: Iterable[ChartView]) -> dict[str, MetricRow]:
    """The metrics that Train has charts of, by key."""
    found = {}
    for chart in charts:
        row = metric_row(chart.key, None, tuple(b.mean for b in chart.buckets))
        found[chart.key] = MetricRow(
            row.key, row.shown_key, row.title, row.meaning, row.group, chart.value, row.trend
        )
    return found


def matching(rows: Iterable[MetricRow], words: str) -> list[MetricRow]:
    """The rows that hold every word, best first, then by group and as they were first logged."""
    found = [(rank, row) for row in rows if (rank := row.rank(words)) is not None]
    return [row for _, row in sorted(found, key=lambda f: (f[0], _place(f[1].group)))]


def in_groups(keys: Iterable[str]) -> list[str]:
    """The keys by group, the reward first; within a group in their order."""
    return sorted(keys, key=lambda key: _place(describe(key).group))


def _place(group: str) -> int:
    return GROUPS.index(group) if group in GROUPS else len(GROUPS)
