"""Follow a run as it was: a poller whose run moves from step to step at a chosen speed."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from textual.message import Message

from grpo_tui.present.train_view import ReplayView, TrainView
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.live import RankState
from grpo_tui.store.replay import Replay, end
from grpo_tui.store.status import Status
from grpo_tui.ui.poller import Poller

SPEEDS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0)
LEAST_WAIT_S = 0.001
FAR = 64
"""Steps forward from which on the run is read again instead of followed."""


class ReplayPoller(Poller):
    """Shows a run as of one of its steps, and moves on while it plays.

    Args:
        opened: Number of an opening, as in `RunFolder`.
    """

    def __init__(self, root: Path, post: Callable[[Message], object], replay: Replay, opened: int) -> None:
        self._replay = replay
        super().__init__(root, post, clock=self._then)
        self.folder = RunFolder(root, opened)
        self._moves: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._moved_at = time.monotonic()

    @property
    def steps(self) -> Sequence[int]:
        """All steps that can be shown."""
        return self._replay.steps or (0,)

    def end(self) -> None:
        """Show the run as it is now."""
        self.stop()
        end(self.folder.database)

    # -- asked by the user, from any thread ------------------------------------------------------

    def turn(self) -> None:
        """Pause or continue. At the end, begin again."""
        replay = self._replay
        replay.playing = not replay.playing
        again = replay.playing and replay.place == len(self.steps) - 1
        self._ask(lambda: replay.go(0) if again else None)

    def move(self, by: int) -> None:
        """Pause, and go this many steps on."""
        self._replay.playing = False
        self._ask(lambda: self._replay.go(self._replay.place + by))

    def go(self, step: int) -> None:
        """Go to the newest recorded step up to this one."""
        self._ask(lambda: self._replay.go(self._replay.place_of(step)))

    def change_speed(self, up: bool) -> None:
        """Use the next higher or lower speed."""
        now = self._replay.speed
        others = [one for one in SPEEDS if (one > now if up else one < now)] or [now]
        self._replay.speed = others[0] if up else others[-1]
        self._ask(lambda: None)

    def _ask(self, move: Callable[[], None]) -> None:
        self._moves.put(move)
        self._wake.set()

    # -- in the poller's thread ------------------------------------------------------------------

    @property
    def _alone(self) -> bool:
        return False

    def _then(self) -> float:
        """Return the time at the moment that is shown."""
        moment = self._replay.moment
        return time.time() if moment is None else moment.now

    def _read_rank(self) -> RankState | None:
        return None

    def _look(self, urgent: bool) -> None:
        before, asked = self._replay.place, False
        while not self._moves.empty():
            self._moves.get_nowait()()
            asked, self._moved_at = True, time.monotonic()
        if not asked:
            self._play()
        if not before <= self._replay.place <= before + FAR:
            self._close()
            self._begin()
            self.folder = RunFolder(self.folder.root, self.folder.opened + 1)
        super()._look(urgent or asked)

    def _play(self) -> None:
        replay, moment, now = self._replay, self._replay.moment, time.monotonic()
        if not replay.playing or moment is None:
            self._moved_at = now
            return
        wait_s = max(LEAST_WAIT_S, moment.wait_s / replay.speed)
        steps = int((now - self._moved_at) / wait_s)
        if steps:
            self._moved_at += steps * wait_s
            replay.go(replay.place + steps)
            replay.playing = replay.place < len(self.steps) - 1

    def _view(self, status: Status) -> TrainView:
        shown = ReplayView(self.steps[-1], self._replay.speed, self._replay.playing)
        return replace(super()._view(status), replay=shown)
