"""A thread that drains the record queue until it is closed; a subclass says what becomes of records.

Knows threads and the queue only.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable

from grpo_tui.core.records import Record
from grpo_tui.store.queue import RecordQueue

DRAIN_S = 0.2
"""How often a drain looks; also the longest a record waits in the queue."""


class Drain(ABC):
    """The queue, and the thread that empties it."""

    def __init__(self) -> None:
        self.queue = RecordQueue()
        self.on_trouble: Callable[[str], None] = lambda reason: None
        """Told when nothing can be written any more, and with an empty text when it can again."""
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)

    def put(self, record: Record) -> None:
        """Queue a record; never blocks."""
        self.queue.put(record)

    def start(self) -> None:
        """Start draining."""
        self._thread.start()

    def close(self, timeout_s: float = 30.0) -> None:
        """Write what is left and end the thread."""
        self._closing.set()
        self.queue.wake()
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    @abstractmethod
    def _run(self) -> None:
        """Drain until `_closing` is set and the queue is empty."""
