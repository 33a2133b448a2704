"""A job queue for one thread that keeps only the newest job of each kind."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Concatenate, Generic, ParamSpec, Protocol, TypeVar

Job = TypeVar("Job")
P = ParamSpec("P")


class Jobs(Generic[Job]):
    """Jobs for one worker thread. Any thread may add to it. `stopped` is set once no more will be run."""

    def __init__(self) -> None:
        self._waiting: dict[str, Job] = {}
        self._changed = threading.Condition()
        self.stopped = threading.Event()

    def ask(self, kind: str, job: Job, *, alone: bool = False) -> bool:
        """Add a job. It replaces a waiting one of the same kind, or with `alone` every waiting job.

        Return False when the queue is stopped.
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
        """Wait for the next job. Return None once the queue is stopped."""
        with self._changed:
            while not self._waiting and not self.stopped.is_set():
                self._changed.wait()
            return None if self.stopped.is_set() else self._waiting.pop(next(iter(self._waiting)))

    def stop(self) -> None:
        """End the thread after its current job. Waiting jobs are dropped."""
        with self._changed:
            self.stopped.set()
            self._changed.notify()


class Worker(Protocol):
    """Whose thread runs `jobs`."""

    jobs: Jobs[Callable[[], None]]


W = TypeVar("W", bound=Worker)


def job(
    kind: str,
) -> Callable[[Callable[Concatenate[W, P], None]], Callable[Concatenate[W, P], None]]:
    """Make a method a job of its worker's thread. A call returns at once, and the newest of a kind counts."""

    def as_job(method: Callable[Concatenate[W, P], None]) -> Callable[Concatenate[W, P], None]:
        @functools.wraps(method)
        def ask(self: W, *args: P.args, **kwargs: P.kwargs) -> None:
            self.jobs.ask(kind, functools.partial(method, self, *args, **kwargs))

        return ask

    return as_job
