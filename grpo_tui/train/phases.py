"""Track the phase of this rank, for its rank file and for the record."""

from __future__ import annotations

import contextlib
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from grpo_tui.core.records import PhaseSpan, Record
from grpo_tui.store.live import RankFile

REMEMBERED = 50
KNOWN_FROM = 3
BROKE_IN = "_grpo_tui_phase"
"""Attribute of an exception: the innermost phase it was raised in. The clock has left it by then."""


class PhaseClock:
    """The phases of one rank over time."""

    def __init__(
        self, rank_file: RankFile, put: Callable[[Record], None], attempt: int, rank: int = 0
    ) -> None:
        self._file, self._put, self._attempt, self._rank = rank_file, put, attempt, rank
        self.phase = "load"
        self.step = 0
        self._since = time.time()
        self._step_ended = 0.0
        self._step_time_s: float | None = None
        self._waited_s = 0.0
        self._stretches: dict[str, deque[float]] = defaultdict(lambda: deque(maxlen=REMEMBERED))
        self.tell(attempt=attempt, phase=self.phase, phase_since=self._since)

    def tell(self, **changes: Any) -> None:
        """Write other values of this rank to its file."""
        self._file.update(**changes)

    def enter(self, phase: str) -> None:
        """Start a phase and record the previous one with its duration."""
        now = time.time()
        duration_s = max(0.0, now - self._since)
        if self.phase == "wait":
            self._waited_s += duration_s
        self._put(PhaseSpan(self._attempt, self._rank, self.phase, self.step, self._since, duration_s))
        self._stretches[self.phase].append(duration_s)
        self.phase, self._since = phase, now
        self.tell(phase=phase, phase_since=now, usual_s=self.usual_s(phase))

    def usual_s(self, phase: str) -> float | None:
        """Return how long a phase usually lasts, in seconds; None when too few were seen.

        This is the upper quartile of recent durations. A phase continues briefly after one nested in it, and
        neither such a remainder nor a call that hung should count as usual.
        """
        known = sorted(self._stretches[phase])
        return known[3 * len(known) // 4] if len(known) >= KNOWN_FROM else None

    @contextmanager
    def during(self, phase: str) -> Iterator[None]:
        """Enter a nested phase and return to the outer one afterwards."""
        before = self.phase
        if before == phase:
            yield
            return
        self.enter(phase)
        try:
            yield
        except BaseException as error:
            if not hasattr(error, BROKE_IN):
                with contextlib.suppress(AttributeError, TypeError):  # some classes take no attributes
                    setattr(error, BROKE_IN, phase)
            raise
        finally:
            self.enter(before)

    def step_ended(self, step: int) -> None:
        """Count an optimizer step and update the running mean of its duration, without pauses."""
        if self.phase == "load":
            self.enter("update")  # a resume within a generation cycle updates before it generates
        now = time.time()
        if self._step_ended:
            took_s = max(0.0, now - self._step_ended - self._waited_s)
            self._step_time_s = (
                took_s if self._step_time_s is None else 0.8 * self._step_time_s + 0.2 * took_s
            )
        self._step_ended, self._waited_s, self.step = now, 0.0, step
        self.tell(step=step, progress_at=now, step_time_s=self._step_time_s)
