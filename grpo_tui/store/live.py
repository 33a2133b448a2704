"""The small files that say what is going on right now: heartbeat and rank files.

They are rewritten in place many times a second and must be readable when the interpreter that
writes them is stuck, so they are not in `run.db`. Knows processes, not training.
"""

from __future__ import annotations

import math
import os
import socket
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from json import dumps, loads
from pathlib import Path
from typing import Any

import psutil

from grpo_tui.core.exchange import rebuilt
from grpo_tui.store.json_file import read_object, read_regular, write_json

RANK_FILE_BYTES = 4096
"""Fixed size of a rank file: one `pwrite` replaces the whole of it."""
LARGEST_BYTES = 1 << 16
"""A rank file or heartbeat beyond it is none of ours."""
START_TOLERANCE_S = 1.0
"""The system tells its own boot, from which start times are counted, in whole seconds."""
TEXT_LIMIT = 200
"""Characters kept of a text in it; fewer when all its texts together would not fit."""


class RankFile:
    """Written by one rank: its phase, the step, and the reward call under way."""

    def __init__(self, path: Path, pid: int) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o644)
        self._state: dict[str, Any] = {"pid": pid, "started": process_started(pid)}
        # Re-entrant: training thread, recorder and a signal handler all write here.
        self._lock = threading.RLock()

    def update(self, **changes: Any) -> None:
        """Change some of the values; costs one system call, some 10 microseconds."""
        with self._lock:
            if self._fd < 0:
                return
            self._state.update(_cut(changes, TEXT_LIMIT))
            data, limit = dumps(self._state).encode(), TEXT_LIMIT
            while len(data) > RANK_FILE_BYTES and limit:  # a character can take twelve bytes
                limit //= 2
                data = dumps(_cut(self._state, limit)).encode()
            os.pwrite(self._fd, data.ljust(RANK_FILE_BYTES), 0)

    def close(self) -> None:
        """Close the file; it stays as the last word of the rank, and later updates change nothing."""
        with self._lock:
            if self._fd >= 0:
                os.close(self._fd)
            self._fd = -1


def _cut(values: Mapping[str, Any], limit: int) -> dict[str, Any]:
    return {key: value[:limit] if isinstance(value, str) else value for key, value in values.items()}


@dataclass(frozen=True, slots=True)
class RankState:
    """What a rank said of itself last."""

    rank: int
    pid: int
    started: float | None
    phase: str = "load"
    phase_since: float = 0.0
    loads: str = ""
    """What is loaded now, while the phase is `load`."""
    step: int = 0
    progress_at: float = 0.0
    """When the last optimizer step ended."""
    reward_function: str | None = None
    reward_call: int | None = None
    reward_since: float = 0.0
    """When the reward call under way began, else when the last one ended."""
    aborted_call: int | None = None
    batch: int | None = None
    stopping: bool = False
    note: str = ""
    """Why the run paused itself, empty when it did not."""
    trouble: str = ""
    """Why nothing can be recorded, empty when all is well."""
    differs: str = ""
    """What a resumed run uses otherwise than its config says, empty when nothing."""
    attempt: int = 0
    usual_s: float | None = None
    """How long a stretch of this phase usually lasts; None while that is not known."""
    step_time_s: float | None = None
    ended: str = ""
    """State in which the attempt ended, for the case that the recorder cannot write it."""
    ended_cause: str = ""
    closed: bool = False
    """True once everything of the attempt was written, as far as it could be."""
    lost: Mapping[str, int] = field(default_factory=dict)
    """What the recorder could not write before it had to leave, counted by kind."""
    gpu: str | None = None
    """PCI bus id of its GPU as NVML spells it, or its uuid; None on the CPU."""

    @property
    def alive(self) -> bool:
        """True when this very process still runs on this host."""
        return process_alive(self.pid, self.started)

    @property
    def stopped(self) -> bool:
        """True while a signal such as SIGSTOP holds the process where it is."""
        return process_stopped(self.pid, self.started)


def read_rank(path: Path) -> RankState | None:
    """The state in a rank file, None when there is none or it is being written."""
    for _ in range(3):
        try:
            body = loads(
                read_regular(path, largest=LARGEST_BYTES).strip() or b"{}",
                parse_constant=_finite,
                parse_float=_finite,
            )
            return rebuilt(RankState, {**body, "rank": int(path.stem.split("-")[1])})
        except OSError:
            return None
        except (ValueError, TypeError, RecursionError):
            continue
    return None


def _finite(number: str) -> float:
    if not math.isfinite(value := float(number)):
        raise ValueError(f"{number} is not a time")
    return value


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """Who watches a run, and when it last said so."""

    supervisor: int
    supervisor_started: float | None
    host: str
    trainer: int | None = None
    trainer_started: float | None = None
    age_s: float = 0.0

    @property
    def same_host(self) -> bool:
        """True when the supervisor runs on this machine."""
        return self.host == socket.gethostname()

    @property
    def supervisor_alive(self) -> bool:
        """By pid and start time on this host, by the file's age elsewhere."""
        if self.same_host:
            return process_alive(self.supervisor, self.supervisor_started)
        return self.age_s < 30.0


def write_heartbeat(path: Path, supervisor: int, trainer: int | None) -> None:
    """Say that the supervisor is alive and whom it watches."""
    body = {
        "supervisor": supervisor,
        "supervisor_started": process_started(supervisor),
        "host": socket.gethostname(),
        "trainer": trainer,
        "trainer_started": None if trainer is None else process_started(trainer),
    }
    write_json(path, body)


def read_heartbeat(path: Path) -> Heartbeat | None:
    """The last heartbeat, None when there never was one."""
    body = read_object(path, largest=LARGEST_BYTES)
    if body is None:
        return None
    try:
        # A clock set back must not make a heartbeat negative.
        age_s = max(0.0, time.time() - path.stat().st_mtime)
        return rebuilt(Heartbeat, {"supervisor_started": None, "host": "", **body, "age_s": age_s})
    except (OSError, ValueError):
        return None


_NO_PROCESS = (psutil.Error, ValueError, OverflowError)
"""What psutil raises for a process that is gone, and for a number that no process can have."""


def process_started(pid: int) -> float | None:
    """Start time of a process, None when it is gone."""
    try:
        return psutil.Process(pid).create_time()
    except _NO_PROCESS:
        return None


def process_stopped(pid: int, started: float | None) -> bool:
    """True when this process stands still since a signal such as SIGSTOP, until SIGCONT."""
    try:
        return process_alive(pid, started) and psutil.Process(pid).status() == psutil.STATUS_STOPPED
    except _NO_PROCESS:
        return False


def process_alive(pid: int | None, started: float | None) -> bool:
    """True when the process with this pid and start time runs; a reused pid does not count.

    Without a start time nobody can tell whether the pid was reused, so it does not count either.
    """
    if pid is None or started is None:
        return False
    try:
        process = psutil.Process(pid)
        same = abs(process.create_time() - started) < START_TOLERANCE_S
        return same and process.status() != psutil.STATUS_ZOMBIE
    except _NO_PROCESS:
        return False
