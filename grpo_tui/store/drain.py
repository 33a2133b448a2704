"""A thread that drains the record queue until it is closed; a subclass says what becomes of records.

Knows threads and the queue only.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping

from grpo_tui.core import records as r
from grpo_tui.core.records import Record
from grpo_tui.store.queue import RecordQueue

DRAIN_S = 0.2
"""How often a drain looks; also the longest a record waits in the queue."""
CLOSING_S = 20.0
"""How long the last records are tried to be written at the end of a run."""
RETRY_S = 0.5
LEAVING_S = 10.0
"""What one last attempt to write may take."""
END = "end"
_KINDS: dict[type, str] = {
    r.GenerationBatch: "batches",
    r.MetricRow: "metric rows",
    r.LogLine: "log lines",
    r.RewardCall: "timings",
    r.PhaseSpan: "timings",
    r.AttemptEnded: END,
}


def kind_of(record: object) -> str:
    """What a lost record is called where losses are counted."""
    return _KINDS.get(type(record), "records")


class Drain(ABC):
    """The queue, and the thread that empties it."""

    def __init__(self) -> None:
        self.queue = RecordQueue()
        self.on_trouble: Callable[[str], None] = lambda reason: None
        """Told when nothing can be written any more, and with an empty text when it can again."""
        self.on_lost: Callable[[Mapping[str, int]], None] = lambda counts: None
        """Told what could not be written before the thread had to leave, counted by kind."""
        self.say: Callable[[str], None] = lambda text: None
        """Told the same in words, for the log."""
        self.patience_s = CLOSING_S
        self._closing = threading.Event()
        self._give_up_at = 0.0
        self._warned = False
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)

    def put(self, record: Record) -> None:
        """Queue a record; never blocks. After the end nothing is taken any more."""
        if not self._closing.is_set():
            self.queue.put(record)

    def start(self) -> None:
        """Start draining."""
        self._thread.start()

    def close(self) -> None:
        """Write what is left and end the thread; what cannot be written is tried for `patience_s`."""
        self._give_up_at = time.monotonic() + self.patience_s
        self._closing.set()
        self.queue.wake()
        if self._thread.is_alive():
            self._thread.join(self.patience_s + LEAVING_S)

    def _try_again(self, reason: str) -> bool:
        """Wait a moment when records are left at the end; False when it is time to give up."""
        if time.monotonic() >= self._give_up_at:
            return False
        if not self._warned:
            self._warned = True
            self.say(f"the last records cannot be written yet, trying for {self.patience_s:g} s: {reason}")
        time.sleep(RETRY_S)
        return True

    def _lose(self, reason: str, more: Mapping[str, int]) -> None:
        """Count what is left in the queue and cannot be written any more, and say so."""
        counts = Counter(self.queue.dropped) + Counter(more)
        while taken := self.queue.take(limit=512, timeout_s=0.0):
            counts.update(kind_of(record) for record in taken)
        counts.pop(END, None)  # the rank file tells of it
        if counts:
            what = ", ".join(f"{kind} ({count})" for kind, count in sorted(counts.items()))
            self.say(f"could not be recorded: {what}; {reason}")
            self.on_lost(dict(counts))

    @abstractmethod
    def _run(self) -> None:
        """Drain until `_closing` is set and the queue is empty."""
