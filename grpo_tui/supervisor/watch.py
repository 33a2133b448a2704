"""What a supervisor does: watch one training process, serve what cannot wait, record how it ended.

Knows processes, signals and the run folder; never what the training process computes.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil

from grpo_tui.core.commands import SUPERVISOR_KINDS, Command, Outcome
from grpo_tui.core.records import AttemptEnded, AttemptStarted, Fact
from grpo_tui.store.checkpoints import newest_usable
from grpo_tui.store.connection import open_writer
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.live import process_alive, process_started, read_rank, write_heartbeat
from grpo_tui.store.logtail import LogTail
from grpo_tui.store.mailbox import Mailbox
from grpo_tui.store.writer import LOG_POSITION, Writer
from grpo_tui.supervisor.verdict import verdict

TICK_S = 0.1
HEARTBEAT_S = 1.0
ABORT_LIMIT_S = 5.0
"""How long an aborted reward call may take to give way before it is called uninterruptible."""
STOP_NOW_LIMIT_S = 3.0
"""How long a trainer gets to write its last records before it is killed."""
ABORT_SIGNAL = signal.SIGRTMIN + 3


class Supervisor:
    """Watches one training process until it ends."""

    def __init__(
        self,
        folder: RunFolder,
        *,
        lock: int | None = None,
        trainer: int | None = None,
        started: float | None = None,
    ) -> None:
        self._folder, self._lock = folder, lock
        self._mailbox = Mailbox(folder.commands)
        self._child: subprocess.Popen[bytes] | None = None
        self._trainer = trainer
        self._trainer_started = started or (None if trainer is None else process_started(trainer))
        self._own_session = trainer is not None and _is_worker(trainer)
        self._beat_at = 0.0
        self._started_at = time.time()
        self._abort: tuple[Command, int, float, float] | None = None
        self._stop_now: tuple[Command, float] | None = None

    def run(self) -> int:
        """Start the training process if there is none to watch, and stay until it has ended."""
        if self._trainer is None:
            self._refuse_leftovers("the run had ended before this command was read")
            self._start_trainer()
        self._beat(force=True)
        while self._trainer_lives():
            self._beat()
            self._serve()
            time.sleep(TICK_S)
        self._after_end()
        return 0

    def _start_trainer(self) -> None:
        _adopt_orphans()
        environment = dict(os.environ)
        environment["PYTHONUNBUFFERED"] = "1"
        # torch elastic would otherwise take SIGHUP as a reason to stop its ranks.
        environment.setdefault("TORCHELASTIC_SIGNALS_TO_HANDLE", "SIGTERM,SIGINT,SIGQUIT")
        with self._folder.log.open("ab") as log:
            self._child = subprocess.Popen(
                [sys.executable, "-m", "grpo_tui.train.worker", str(self._folder.root)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
                pass_fds=() if self._lock is None else (self._lock,),
            )
        self._trainer = self._child.pid
        self._trainer_started = process_started(self._child.pid)
        self._own_session = True

    def _trainer_lives(self) -> bool:
        if self._child is not None:
            return self._child.poll() is None
        return process_alive(self._trainer, self._trainer_started)

    def _beat(self, *, force: bool = False) -> None:
        now = time.monotonic()
        if force or now - self._beat_at >= HEARTBEAT_S:
            self._beat_at = now
            try:
                write_heartbeat(self._folder.heartbeat, os.getpid(), self._trainer)
            except OSError:
                return  # a full disk or a deleted folder must not end the watch

    # -- commands --------------------------------------------------------------------------------

    def stop_gently(self, *_: Any) -> None:
        """On SIGTERM: ask the trainer to save and stop, and go on watching it."""
        try:
            self._mailbox.submit("stop", by="SIGTERM")
        except OSError:
            if self._trainer is not None:
                os.kill(self._trainer, signal.SIGTERM)

    def _serve(self) -> None:
        self._follow_abort()
        if self._stop_now is not None:
            command, since = self._stop_now
            if time.monotonic() - since > STOP_NOW_LIMIT_S:
                self._kill_trainer()
            return
        for command in self._mailbox.pending():
            if command.kind not in SUPERVISOR_KINDS:
                continue
            if command.kind == "stop_now":
                # The recorder reads the same command, writes what it has and leaves; see `_kill_trainer`.
                self._stop_now = (command, time.monotonic())
            elif self._abort is None:
                self._begin_abort(command)

    def _begin_abort(self, command: Command) -> None:
        rank = read_rank(self._folder.rank(0))
        if rank is None or rank.reward_call is None or self._trainer is None:
            self._finish(command, False, "no reward function runs just now")
            return
        self._folder.abort.write_text(str(rank.reward_call))
        self._abort = (command, rank.reward_call, time.monotonic(), 0.0)
        self._follow_abort()

    def _follow_abort(self) -> None:
        if self._abort is None or self._trainer is None:
            return
        command, call, since, signalled = self._abort
        rank = read_rank(self._folder.rank(0))
        now = time.monotonic()
        if rank is not None and rank.aborted_call == call:
            self._finish(command, True, "the call gave way; its rewards count as None for this batch")
        elif rank is not None and rank.reward_call != call:
            self._finish(command, True, "the call ended by itself")
        elif now - since > ABORT_LIMIT_S:
            self._finish(command, False, f"cannot be interrupted; stop at once, {self._way_on()}")
        else:
            if now - signalled >= 1.0:
                self._abort = (command, call, since, now)
                os.kill(self._trainer, ABORT_SIGNAL)
            return
        self._abort = None

    def _way_on(self) -> str:
        best, _ = newest_usable(self._folder)
        return (
            "there is no checkpoint to resume from" if best is None else f"resume from checkpoint {best.step}"
        )

    def _finish(self, command: Command, applied: bool, reason: str) -> None:
        rank = read_rank(self._folder.rank(0))
        self._mailbox.finish(command, Outcome(applied, rank.step if rank else 0, reason))

    def _kill_trainer(self) -> None:
        if self._trainer is None:
            return
        if self._own_session:
            _kill_session(self._trainer)
        elif self._trainer_lives():
            os.kill(self._trainer, signal.SIGKILL)

    # -- the end ---------------------------------------------------------------------------------

    def _after_end(self) -> None:
        code = None if self._child is None else self._child.wait()
        if self._own_session and self._trainer is not None:
            _kill_session(self._trainer)  # children of rewards must not outlive the run
        if self._child is not None:
            _kill_descendants()
        # The trainer reads the mailbox too, and may have left before this process saw the command.
        asked = [command for command in self._mailbox.pending() if command.kind == "stop_now"]
        stopped_now = self._stop_now or ((asked[0], 0.0) if asked else None)
        if stopped_now is not None:
            self._finish(stopped_now[0], True, f"ended at once; {self._way_on()}")
        self._refuse_leftovers("the run has ended")
        try:
            self._write_last_word(code, stopped_now is not None)
        except Exception as error:
            print(f"grpo-tui: could not record the end of the run: {error}", flush=True)

    def _refuse_leftovers(self, reason: str) -> None:
        for command in self._mailbox.pending():
            self._finish(command, False, reason)

    def _write_last_word(self, code: int | None, stopped_now: bool) -> None:
        """Become the one writer: the rest of the log, outcomes, and the end if the trainer did not say."""
        writer = Writer(open_writer(self._folder.database))
        try:
            attempt = writer.next_attempt()
            records: list[Any] = []
            if writer.last_pid() == self._trainer:
                attempt -= 1
            else:  # it ended before it could record its own start
                records.append(
                    AttemptStarted(attempt, self._started_at, socket.gethostname(), self._trainer or 0)
                )
            tail = LogTail(self._folder.log, writer.log_position())
            lines = [*tail.read(1 << 24), *tail.flush()]
            rank = read_rank(self._folder.rank(0))
            state, error = verdict(code, stopped_now, self._folder)
            ended = AttemptEnded(attempt, time.time(), state, rank.step if rank else None, code, error)
            records += [*lines, Fact(LOG_POSITION, tail.position), *self._mailbox.history(set()), ended]
            writer.write(records)
        finally:
            writer.close()


def _is_worker(pid: int) -> bool:
    """True for a training process the program started: it leads a session, which is then ours to end."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
        return os.getpgid(pid) == pid and b"grpo_tui.train.worker" in command
    except OSError:
        return False


def _adopt_orphans() -> None:
    """Become the parent of whatever a dead trainer leaves behind, even in sessions of its own.

    `prctl(PR_SET_CHILD_SUBREAPER)`, see prctl(2).
    """
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)


def _kill_descendants() -> None:
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            process.kill()


def _kill_session(leader: int) -> None:
    try:
        os.killpg(leader, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return
