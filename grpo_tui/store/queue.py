"""The bounded queue between the training thread and the recorder.

`put` never blocks and never raises: a full queue first loses the text of completions, then whole
batches and log lines, metrics last, and everything lost is counted. Knows nothing of SQL.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from grpo_tui.core import records as r

TEXT_PLACEHOLDER = "\u2026 text not kept: the recorder could not keep up \u2026"


class RecordQueue:
    """A queue of records with a byte budget.

    Args:
        budget_bytes: Above it completion text is dropped; above twice of it whole generation batches,
            phases and log lines; above four times also metrics.
    """

    def __init__(self, budget_bytes: int = 256 * 1024 * 1024) -> None:
        self._budget = budget_bytes
        self._records: deque[tuple[r.Record, int]] = deque()
        self._bytes = 0
        # Re-entrant: a signal handler may put a last record while its own thread is inside `put`.
        self._lock = threading.RLock()
        self._arrived = threading.Event()
        self.dropped: Counter[str] = Counter()
        """What was lost, by kind: `completion text`, `batches`, `log lines`, `records`."""

    def put(self, record: r.Record) -> None:
        """Add a record, or as much of it as fits."""
        size = _size(record)
        with self._lock:
            if self._bytes + size > self._budget:
                kept = self._squeeze(record)
                if kept is None:
                    return
                record, size = kept, _size(kept)
            self._records.append((record, size))
            self._bytes += size
        self._arrived.set()

    def take(self, limit: int, timeout_s: float) -> list[r.Record]:
        """Up to `limit` records in order, waiting at most `timeout_s` for the first."""
        if not self._records:
            self._arrived.wait(timeout_s)
        with self._lock:
            taken = [self._records.popleft() for _ in range(min(limit, len(self._records)))]
            self._bytes -= sum(size for _, size in taken)
            if not self._records:
                self._arrived.clear()
        return [record for record, _ in taken]

    def give_back(self, records: list[r.Record]) -> None:
        """Put records that could not be written back to the front."""
        with self._lock:
            for record in reversed(records):
                size = _size(record)
                self._records.appendleft((record, size))
                self._bytes += size
        # Not marked as arrived: the recorder waits a moment before it tries the same ones again.

    def wake(self) -> None:
        """End a waiting `take` at once."""
        self._arrived.set()

    @contextmanager
    def frozen(self) -> Iterator[list[r.Record]]:
        """All that waits; nothing is added meanwhile, for the process is about to end."""
        with self._lock:
            yield self.take(len(self._records), 0.0)

    def __len__(self) -> int:
        return len(self._records)

    def _squeeze(self, record: r.Record) -> r.Record | None:
        """What of a record is kept when the budget is spent; called with the lock held."""
        if isinstance(record, r.GenerationBatch):
            if self._bytes < 2 * self._budget:
                self.dropped["completion text"] += sum(len(g.completions) for g in record.groups)
                return _without_text(record)
            self.dropped["batches"] += 1
            return None
        if isinstance(record, r.LogLine | r.PhaseSpan | r.RewardCall):
            if self._bytes < 2 * self._budget:
                return record
            self.dropped["log lines" if isinstance(record, r.LogLine) else "timings"] += 1
            return None
        if isinstance(record, r.MetricRow) and self._bytes >= 4 * self._budget:
            self.dropped["metric rows"] += 1
            return None
        return record


def _without_text(batch: r.GenerationBatch) -> r.GenerationBatch:
    groups = tuple(
        replace(
            group,
            completions=tuple(
                replace(c, text=TEXT_PLACEHOLDER, messages=None, extra={}) for c in group.completions
            ),
        )
        for group in batch.groups
    )
    return replace(batch, groups=groups)


def _size(record: r.Record) -> int:
    """A cheap estimate of the memory a record holds, in bytes."""
    if isinstance(record, r.GenerationBatch):
        return sum(
            600 + len(str(g.prompt)) + sum(400 + 2 * len(c.text) for c in g.completions)
            for g in record.groups
        )
    if isinstance(record, r.LogLine):
        return 200 + 2 * len(record.text)
    if isinstance(record, r.MetricRow):
        return 200 + 100 * len(record.values)
    return 400
