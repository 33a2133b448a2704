"""How far a run has come: its first and newest logged row, its newest values, at a cost that does not grow.

Knows rows, steps and clocks, not what they hold.
"""

from __future__ import annotations

from dataclasses import dataclass

from grpo_tui.core.metrics import is_computed
from grpo_tui.core.statistics import is_number
from grpo_tui.store.reader import RunReader
from grpo_tui.store.values import from_column

RECENT = 63
"""Steps that are looked back for the newest value of what is computed from the groups."""
_END = "SELECT step, at FROM metric_row WHERE superseded = 0 ORDER BY id {} LIMIT 1"


@dataclass(frozen=True, slots=True)
class RunExtent:
    """The ends of what was logged."""

    started_at: float
    """When the first attempt began."""
    first_step: int
    newest_step: int
    newest_at: float


def run_extent(reader: RunReader) -> RunExtent | None:
    """The ends of a run, superseded rows left out; None before its first row."""
    first, last = reader._all(_END.format("ASC")), reader._all(_END.format("DESC"))
    if not first or not last:
        return None
    began = reader._all("SELECT min(started_at) FROM attempt")[0][0]
    return RunExtent(
        started_at=first[0]["at"] if began is None else began,
        first_step=first[0]["step"],
        newest_step=max(last[0]["step"], first[0]["step"]),
        newest_at=last[0]["at"],
    )


def newest_value(reader: RunReader, key: str) -> tuple[float | None, int | None]:
    """The newest value of a metric and its step; None for one that is no number, (None, None) without any."""
    if is_computed(key):
        newest = run_extent(reader)
        if newest is None:
            return None, None
        found = reader.series_window(key, first_step=max(0, newest.newest_step - RECENT), buckets=RECENT + 1)
        return (found[-1].mean, found[-1].last) if found else (None, None)
    rows = reader._all(
        "SELECT r.step, m.value FROM metric m CROSS JOIN metric_row r ON r.id = m.row"
        " WHERE m.key = (SELECT id FROM metric_key WHERE key = ?) AND r.superseded = 0"
        " ORDER BY m.row DESC LIMIT 1",
        key,
    )
    if not rows:
        return None, None
    value = from_column(rows[0]["value"])
    return (float(value) if is_number(value) else None), rows[0]["step"]
