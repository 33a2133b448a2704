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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from grpo_tui.core.commands import SUPERVISOR_KINDS, Command, Outcome
from grpo_tui.core.records import AttemptEnded, AttemptStarted, Fact
from grpo_tui.store.checkpoints import newest_usable
from grpo_tui.store.connection import RunDatabaseError, open_writer
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.live import (
    RankState,
    process_alive,
    process_started,
    read_rank,
    write_heartbeat,
)
from grpo_tui.store.logtail import LogTail
from grpo_tui.store.mailbox import Mailbox
from grpo_tui.store.rank_errors import read_errors
from grpo_tui.store.reader import RunReader
from grpo_tui.store.spec import RESTORED, read_spec, settle_earlier
from grpo_tui.store.spool import remove, take_spooled
from grpo_tui.store.writer import LOG_POSITION, Writer
from grpo_tui.supervisor.hardware import HardwareWatch
from grpo_tui.supervisor.verdict import verdict

TICK_S = 0.1
HEARTBEAT_S = 1.0
ABORT_LIMIT_S = 5.0
"""How long an aborted reward call may take to give way before it is called uninterruptible."""
STOP_NOW_LIMIT_S = 3.0
"""How long a trainer gets to write its last records before it is killed."""
ABORT_SIGNAL = signal.SIGRTMIN + 3


@dataclass(slots=True)
class _Abort:
    """An abort under way: the reward call wanted per rank, since when, and when a signal last went out."""

    command: Command
    calls: dict[int, int]
    since: float
    signalled: float = 0.0


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
        self._hardware = HardwareWatch(folder)
        self._child: subprocess.Popen[bytes] | None = None
        self._trainer = trainer
        self._trainer_started = started or (None if trainer is None else process_started(trainer))
        self._own_session = trainer is not None and _is_worker(trainer)
        self._beat_at = 0.0
        self._started_at = time.time()
        self._abort: _Abort | None = None
        self._stop_now: tuple[Command, float] | None = None

    def run(self) -> int:
        """Start the training process if there is none to watch, and stay until it has ended."""
        if self._trainer is None:
            self._refuse_leftovers("the run had ended before this command was read")
            self._start_trainer()
        self._beat(force=True)
        self._hardware.start(self._trainer)
        while self._trainer_lives():
            self._beat()
            self._serve()
            time.sleep(TICK_S)
        self._hardware.stop()
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
                [*_launcher(self._folder), "-m", "grpo_tui.train.worker", str(self._folder.root)],
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
        calls = {rank.rank: rank.reward_call for rank in self._ranks() if rank.reward_call is not None}
        if not calls:
            self._finish(command, False, "no reward function runs just now")
            return
        for number, call in calls.items():
            self._folder.abort(number).write_text(str(call))
        self._abort = _Abort(command, calls, time.monotonic())
        self._follow_abort()

    def _ranks(self) -> list[RankState]:
        states = [read_rank(self._folder.rank(number)) for number in self._folder.ranks()]
        return [state for state in states if state is not None and state.alive]

    def _follow_abort(self) -> None:
        abort = self._abort
        if abort is None:
            return
        ranks = [rank for rank in self._ranks() if rank.rank in abort.calls]
        gave_way = [rank for rank in ranks if rank.aborted_call == abort.calls[rank.rank]]
        still = [rank for rank in ranks if rank.reward_call == abort.calls[rank.rank]]
        now = time.monotonic()
        if not still:
            reason = (
                "the call gave way; its rewards count as None for this batch"
                if gave_way
                else "the call ended by itself"
            )
            self._finish(abort.command, True, reason)
            self._abort = None
        elif now - abort.since > ABORT_LIMIT_S:
            self._finish(abort.command, False, f"cannot be interrupted; stop at once, {self._way_on()}")
            self._abort = None
        elif now - abort.signalled >= 1.0:
            abort.signalled = now
            for rank in still:
                os.kill(rank.pid, ABORT_SIGNAL)

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
        self._settle_spec(stopped_now is not None)
        try:
            self._write_last_word(code, stopped_now is not None)
        except Exception as error:
            print(f"grpo-tui: could not record the end of the run: {error}", flush=True)

    def _settle_spec(self, stopped_now: bool) -> None:
        """Put the earlier `run.json` back when a resume died before its first step."""
        try:
            died = not stopped_now and not self._made_a_step()
            if settle_earlier(self._folder, restore=died):
                print(f"grpo-tui: {RESTORED}", flush=True)
        except (OSError, RunDatabaseError) as error:
            print(f"grpo-tui: run.json keeps what this attempt changed: {error}", flush=True)

    def _made_a_step(self) -> bool:
        """True when the attempt that has ended did a step of its own, or ended as it should."""
        reader = RunReader(self._folder.database)
        try:
            last = reader.attempts()[-1:]
        finally:
            reader.close()
        if not last or (self._child is not None and last[0].started_at < self._started_at):
            return False  # it ended before it could record its own start
        if last[0].state not in (None, "failed", "crashed"):
            return True
        rank = self._first_rank(last[0].attempt)
        step = max(last[0].step or 0, rank.step if rank is not None else 0)
        return step > (last[0].resumed_from or 0)

    def _first_rank(self, attempt: int) -> RankState | None:
        """What the first rank said last, when it said it in this attempt."""
        rank = read_rank(self._folder.rank(0))
        return rank if rank is not None and rank.attempt == attempt else None

    def _refuse_leftovers(self, reason: str) -> None:
        for command in self._mailbox.pending():
            self._finish(command, False, reason)

    def _write_last_word(self, code: int | None, stopped_now: bool) -> None:
        """Become the one writer: the rest of the log, outcomes, and the end if the trainer did not say."""
        writer = Writer(open_writer(self._folder.database))
        try:
            attempt = writer.next_attempt()
            records: list[Any] = []
            if self._child is None or writer.last_start_at() >= self._started_at:
                attempt -= 1
            else:  # it ended before it could record its own start
                records.append(
                    AttemptStarted(attempt, self._started_at, socket.gethostname(), self._trainer or 0)
                )
            spooled, files = take_spooled(self._folder, attempt)
            tail = LogTail(self._folder.log, writer.log_position())
            lines = [*tail.read(1 << 24), *tail.flush()]
            rank = self._first_rank(attempt)
            state, error = verdict(code, stopped_now, self._folder)
            if not stopped_now and (told := read_errors(self._folder)) is not None:
                state, error = "failed", told
            ended = AttemptEnded(attempt, time.time(), state, rank.step if rank else None, code, error)
            records += [
                *lines,
                *spooled,
                Fact(LOG_POSITION, tail.position),
                *self._mailbox.history(set()),
                ended,
            ]
            writer.write(records)
            remove(files)
        finally:
            writer.close()


def _is_worker(pid: int) -> bool:
    """True for a training process the program started: it leads a session, which is then ours to end."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
        return os.getpgid(pid) == pid and b"grpo_tui.train.worker" in command
    except OSError:
        return False


def _launcher(folder: RunFolder) -> list[str]:
    """The words that start the training process; a launcher is run by this interpreter's own modules."""
    words = list(read_spec(folder.spec).launcher)
    if words[:2] == ["accelerate", "launch"]:
        return [sys.executable, "-m", "accelerate.commands.launch", *words[2:]]
    if words[:1] == ["torchrun"]:
        return [sys.executable, "-m", "torch.distributed.run", *words[1:]]
    return words or [sys.executable]


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
