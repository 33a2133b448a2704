"""What a thread shall do: jobs that are done in turn, and of one kind only the newest."""

from __future__ import annotations

import threading
from typing import Generic, TypeVar

Job = TypeVar("Job")


class Jobs(Generic[Job]):
    """Jobs for one thread, asked from any.

    Attributes:
        stopped: set when no more is to be done.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, Job] = {}
        self._changed = threading.Condition()
        self.stopped = threading.Event()

    def ask(self, kind: str, job: Job, *, alone: bool = False) -> bool:
        """Have a job done; an older one of its kind is given up, with `alone` every other one.

        Returns:
            False when no more is done.
        """
        with self._changed:
            if self.stopped.is_set():
                return False
            if alone:
                self._waiting.clear()
            self._waiting.pop(kind, None)
            self._waiting[kind] = job
            self._changed.notify()
            return True

    def next(self) -> Job | None:
        """Wait for the next job; None when no more is to be done."""
        with self._changed:
            while not self._waiting and not self.stopped.is_set():
                self._changed.wait()
            return None if self.stopped.is_set() else self._waiting.pop(next(iter(self._waiting)))

    def stop(self) -> None:
        """End the thread soon; what still waits is not done."""
        with self._changed:
            self.stopped.set()
            self._changed.notify()
