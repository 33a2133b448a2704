"""The bounded queue between the training thread and the recorder, and the thread that drains it.

`put` never blocks and never raises. A full queue drops the text of completions first, then whole batches and
log lines, and metrics last. Everything dropped is counted.
"""

from __future__ import annotations

import math
import threading
import time
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from grpo_tui.core import records as r
from grpo_tui.core.records import Record

TEXT_PLACEHOLDER = "\u2026 text not kept: the recorder could not keep up \u2026"


class RecordQueue:
    """A queue of records with a byte budget.

    Args:
        budget_bytes: Above it, completion text is dropped. Above twice of it, whole generation batches,
            phases and log lines; above four times, metrics too.
    """

    def __init__(self, budget_bytes: int = 256 * 1024 * 1024) -> None:
        self._budget = budget_bytes
        self._records: deque[tuple[r.Record, int]] = deque()
        self._bytes = 0
        # Re-entrant: a signal handler may put a last record while its own thread is inside `put`.
        self._lock = threading.RLock()
        self._arrived = threading.Event()
        self.dropped: Counter[str] = Counter()
        """Number of dropped items by kind, such as `completion text`, `batches` or `log lines`."""

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
        """Return up to `limit` records in order, waiting at most `timeout_s` for the first."""
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
        # Not marked as arrived: the recorder should wait a moment before it retries them.

    def wake(self) -> None:
        """End a waiting `take` at once."""
        self._arrived.set()

    @contextmanager
    def frozen(self) -> Iterator[list[r.Record]]:
        """Take everything and block `put` meanwhile, because the process is about to end."""
        with self._lock:
            yield self.take(len(self._records), 0.0)

    def __len__(self) -> int:
        return len(self._records)

    def _squeeze(self, record: r.Record) -> r.Record | None:
        """Return what is kept of a record when the budget is spent. Called with the lock held."""
        if isinstance(record, r.GenerationBatch) and self._bytes < 2 * self._budget:
            self.dropped["completion text"] += sum(len(g.completions) for g in record.groups)
            return _without_text(record)
        kind = kind_of(record)
        if self._bytes < _DROPPED_AT.get(kind, math.inf) * self._budget:
            return record
        self.dropped[kind] += 1
        return None


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


DRAIN_S = 0.2
"""Interval of the drain, and the longest a record waits in the queue."""
CLOSING_S = 20.0
"""How long writing the last records is retried at the end of a run."""
RETRY_S = 0.5
LEAVING_S = 10.0
END = "end"
_KINDS: dict[type, str] = {
    r.GenerationBatch: "batches",
    r.MetricRow: "metric rows",
    r.LogLine: "log lines",
    r.RewardCall: "timings",
    r.PhaseSpan: "timings",
    r.AttemptEnded: END,
}


_DROPPED_AT = {"batches": 2, "log lines": 2, "timings": 2, "metric rows": 4}
"""Kinds that are dropped when the queue is full, and at how many times its budget."""


def kind_of(record: object) -> str:
    """Return the kind under which a lost record is counted."""
    return _KINDS.get(type(record), "records")


class Drain(ABC):
    """The queue, and the thread that empties it."""

    def __init__(self) -> None:
        self.queue = RecordQueue()
        self.on_trouble: Callable[[str], None] = lambda reason: None
        """Called with the reason when nothing can be written, and with an empty text when it can again."""
        self.on_lost: Callable[[Mapping[str, int]], None] = lambda counts: None
        """Called with the number of records by kind that could not be written before the thread ended."""
        self.say: Callable[[str], None] = lambda text: None
        """Called with the same as text, for the log."""
        self.patience_s = CLOSING_S
        self._closing = threading.Event()
        self._give_up_at = 0.0
        self._warned = False
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)

    def put(self, record: Record) -> None:
        """Queue a record without blocking. After `close`, records are ignored."""
        if not self._closing.is_set():
            self.queue.put(record)

    def start(self) -> None:
        """Start draining."""
        self._thread.start()

    def close(self) -> None:
        """Write what is left, retrying for `patience_s`, and end the thread."""
        self._give_up_at = time.monotonic() + self.patience_s
        self._closing.set()
        self.queue.wake()
        if self._thread.is_alive():
            self._thread.join(self.patience_s + LEAVING_S)

    def _try_again(self, reason: str) -> bool:
        """Wait before retrying the last records. Return False when it is time to give up."""
        if time.monotonic() >= self._give_up_at:
            return False
        if not self._warned:
            self._warned = True
            self.say(f"the last records cannot be written yet, retrying for {self.patience_s:g} s: {reason}")
        time.sleep(RETRY_S)
        return True

    def _lose(self, reason: str, more: Mapping[str, int]) -> None:
        counts = Counter(self.queue.dropped) + Counter(more)
        while taken := self.queue.take(limit=512, timeout_s=0.0):
            counts.update(kind_of(record) for record in taken)
        counts.pop(END, None)  # the rank file reports it
        if counts:
            what = ", ".join(f"{kind} ({count})" for kind, count in sorted(counts.items()))
            self.say(f"could not be recorded: {what}; {reason}")
            self.on_lost(dict(counts))

    @abstractmethod
    def _run(self) -> None:
        """Drain until `_closing` is set and the queue is empty."""
