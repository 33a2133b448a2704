"""Follow one run in a thread: post a frozen view of what is new, send commands, report outcomes."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from textual.message import Message

from grpo_tui.core.commands import Command, Outcome
from grpo_tui.core.text import one_line
from grpo_tui.present.run_state import DeltaReader, RunState
from grpo_tui.present.train_view import TrainView
from grpo_tui.store.connection import RunDatabaseError
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.live import RankState, read_rank
from grpo_tui.store.mailbox import Mailbox
from grpo_tui.store.reader import RunReader
from grpo_tui.store.status import Status, read_status
from grpo_tui.ui.messages import CommandEnded, CommandLost, RunAdvanced

POLL_S = 0.25
STATUS_EVERY_S = 1.0
POST_APART_S = 0.45
"""Minimum time between two views. Nobody reads more than two a second."""
STUMBLE_APART_S = 30.0
"""A second error within this time is treated as a fault and ends the thread."""
ALONE_AFTER_S = 20.0
"""After this long without a key press, views come less often to leave more CPU to training."""
ALONE_APART_S = 2.0
"""Minimum time between two views in that state. A run that pauses, fails or ends is shown at once."""
ALONE_POLL_S = 1.0
QUIET_POST_S = 20.0
"""How often a run without news is posted again, to update its ages and durations."""


class Poller:
    """Follows the run in `root`. Call `run` in a thread, which calls `post` with its messages.

    `untouched_s` returns the seconds since the last key press.
    """

    def __init__(
        self,
        root: Path,
        post: Callable[[Message], object],
        *,
        clock: Callable[[], float] = time.time,
        untouched_s: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self.folder = RunFolder(root)
        self._post, self._clock, self._untouched_s = post, clock, untouched_s
        self._mailbox = Mailbox(self.folder.commands)
        self._requests: queue.SimpleQueue[tuple[str, Mapping[str, Any]]] = queue.SimpleQueue()
        self._sent: dict[str, tuple[Command, Outcome | None]] = {}
        self._wake, self._stopped = threading.Event(), threading.Event()
        self._began_at, self._stumbled_at = time.monotonic(), float("-inf")
        self._begin()

    def send(self, kind: str, args: Mapping[str, Any] | None = None) -> None:
        """Queue a command for the mailbox and return at once. Safe from any thread."""
        self._requests.put((kind, dict(args or {})))
        self._wake.set()

    def stop(self) -> None:
        self._stopped.set()
        self._wake.set()

    def looks_live(self) -> bool:
        """Read the status once, for a user who leaves before the first view. Takes a few milliseconds."""
        try:
            return read_status(self.folder.root).live
        except Exception:  # do not claim that an unreadable run continues
            return False

    def run(self) -> None:
        try:
            while not self._stopped.is_set():
                urgent = self._write_requests() | self._take_outcomes()
                try:
                    self._look(urgent)
                except Exception:
                    self._start_over()
                if not self._more:  # remaining pages are read without a pause
                    self._wake.wait(ALONE_POLL_S if self._alone else POLL_S)
                    self._wake.clear()
            self._write_requests()  # a key pressed just before leaving still counts
        finally:
            self._close()

    # -- the run ---------------------------------------------------------------------------------

    def _start_over(self) -> None:
        """Read the run from the start after an error; re-raise the second one within `STUMBLE_APART_S`."""
        now = time.monotonic()
        if now - self._stumbled_at < STUMBLE_APART_S:
            raise
        self._stumbled_at = now
        self._close()
        self._begin()

    def _begin(self) -> None:
        self._reader: RunReader | None = None
        self._deltas: DeltaReader | None = None
        self._file: tuple[int, int] | None = None
        self._state = RunState(self.folder.root.name, str(self.folder.root))
        self._status: Status | None = None
        self._status_at = self._posted_at = float("-inf")
        self._rank: RankState | None = None
        self._more = self._unposted = self._turned = False
        self._trouble = ""

    def _close(self) -> None:
        if self._reader is not None:
            with contextlib.suppress(Exception):
                self._reader.close()
        self._reader = None

    def _look(self, urgent: bool) -> None:
        trouble = self._trouble
        try:
            moved = self._read()
            self._trouble = ""
        except RunDatabaseError as error:
            moved, self._more, self._trouble = False, False, one_line(str(error), 300)
        except Exception as error:  # a missing or locked file is a temporary problem
            moved, self._more, self._trouble = False, False, one_line(f"run.db cannot be read: {error}", 300)
            self._close()
            self._deltas = None
        self._unposted |= moved or urgent or trouble != self._trouble
        now = time.monotonic()
        live = self._status is not None and self._status.live
        since, apart = now - self._posted_at, ALONE_APART_S if self._alone else POST_APART_S
        due = urgent or self._turned or since > apart
        if since > (max(1.0, apart) if live else QUIET_POST_S) or (self._unposted and due):
            self._show(now)

    @property
    def _alone(self) -> bool:
        return min(self._untouched_s(), time.monotonic() - self._began_at) > ALONE_AFTER_S

    def _read(self) -> bool:
        """Fold what is new. Return True if anything changed."""
        self._open()
        moved = False
        if self._reader is not None and self._deltas is not None and (self._reader.changed() or self._more):
            delta = self._deltas.read()
            self._state.fold(delta)
            # The last page of a run the user has just opened is shown at once.
            self._turned |= self._more and not delta.more and not self._alone
            self._more = delta.more
            moved = True
        rank = self._read_rank()
        shifted = _doing(rank) != _doing(self._rank)
        self._rank = rank
        now = time.monotonic()
        if moved or shifted or now - self._status_at > STATUS_EVERY_S:
            before = self._status
            self._status = read_status(self.folder.root, self._reader)
            self._status_at = now
            if before is None or before.state != self._status.state:
                moved = self._turned = True
        return moved or shifted

    def _read_rank(self) -> RankState | None:
        return read_rank(self.folder.rank(0))

    def _open(self) -> None:
        """Open `run.db` once it exists. Start over when another file has replaced it."""
        try:
            stat = self.folder.database.stat()
        except OSError:
            if self._reader is not None:
                self._close()
                self._begin()
            return
        file = (stat.st_dev, stat.st_ino)
        if self._reader is not None and file != self._file:
            self._close()
            self._begin()
        if self._reader is None:
            try:
                self._reader = RunReader(self.folder.database)
            except RunDatabaseError:
                if self._status is None or not self._status.live:
                    raise
                return  # a live run will create the tables soon
            self._deltas, self._file = DeltaReader(self._reader), file

    def _show(self, now: float) -> None:
        status = self._status or Status(state="broken" if self._trouble else "starting", phase="load")
        self._posted_at, self._unposted, self._turned = now, False, False
        self._post(RunAdvanced(self._view(status), self))

    def _view(self, status: Status) -> TrainView:
        return self._state.view(status, self._clock(), self._rank, self._sent.values(), trouble=self._trouble)

    # -- commands --------------------------------------------------------------------------------

    def _write_requests(self) -> bool:
        wrote = False
        while True:
            try:
                kind, args = self._requests.get_nowait()
            except queue.Empty:
                return wrote
            wrote = True
            try:
                command = self._mailbox.submit(kind, args)
            except OSError as error:
                self._post(
                    CommandLost(kind, one_line(f"{self.folder.commands} cannot be written: {error}", 300))
                )
                continue
            self._sent[command.id] = (command, None)

    def _take_outcomes(self) -> bool:
        came = False
        for command, known in list(self._sent.values()):
            if known is None and (outcome := self._mailbox.outcome(command.id)) is not None:
                self._sent[command.id] = (command, outcome)
                self._post(CommandEnded(command, outcome))
                came = True
        return came


def _doing(rank: RankState | None) -> tuple[Any, ...]:
    return () if rank is None else (rank.pid, rank.phase, rank.step, rank.reward_function, rank.stopping)
