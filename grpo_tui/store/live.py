"""Small files with the current state of a run: heartbeat, ranks and their errors, the machine.

They are rewritten in place many times a second and must be readable while the interpreter that writes them
is stuck, so they are not in `run.db`. A rank other than the first writes its error to a file, because its
collectives no longer work. `hardware.json` is replaced every two seconds while a run is watched. A value that
could not be measured (on a slice of a GPU, in a container that hides processes) is None, never a guess.
"""

from __future__ import annotations

import contextlib
import math
import os
import socket
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from json import dumps, loads
from pathlib import Path
from typing import Any, TypeVar

import psutil

from grpo_tui.core.exchange import rebuilt
from grpo_tui.core.statistics import is_number
from grpo_tui.store.json_file import read_object, read_regular, unfinished, write_json
from grpo_tui.store.layout import RunFolder

RANK_FILE_BYTES = 4096
"""Fixed size of a rank file, so that one `pwrite` replaces all of it."""
LARGEST_BYTES = 1 << 16
START_TOLERANCE_S = 1.5
"""Tolerance for start times. They count from the boot time, which is in whole seconds and may shift by one
when the clock is set.
"""
TEXT_LIMIT = 200
"""Characters kept of a text in a rank file; fewer when all texts together do not fit."""


class RankFile:
    """State file that one rank writes: its phase, step and current reward call."""

    def __init__(self, path: Path, pid: int) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o644)
        self._state: dict[str, Any] = {
            "pid": pid, "started": process_started(pid), "host": socket.gethostname()
        }  # fmt: skip
        # Re-entrant: the training thread, the recorder and a signal handler all write here.
        self._lock = threading.RLock()

    def update(self, **changes: Any) -> None:
        """Change some values. Costs one system call, about 10 microseconds."""
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
        """Close the file. Its last content stays, and later updates do nothing."""
        with self._lock:
            if self._fd >= 0:
                os.close(self._fd)
            self._fd = -1


def _cut(values: Mapping[str, Any], limit: int) -> dict[str, Any]:
    return {key: value[:limit] if isinstance(value, str) else value for key, value in values.items()}


@dataclass(frozen=True, slots=True)
class RankState:
    """Last reported state of a rank."""

    rank: int
    pid: int
    started: float | None
    host: str = ""
    phase: str = "load"
    phase_since: float = 0.0
    loads: str = ""
    step: int = 0
    progress_at: float = 0.0
    reward_function: str | None = None
    reward_call: int | None = None
    reward_since: float = 0.0
    """When the current reward call began, or the last one ended."""
    aborted_call: int | None = None
    batch: int | None = None
    stopping: bool = False
    note: str = ""
    """Why the run paused itself; empty when it did not."""
    trouble: str = ""
    """Why nothing can be recorded; empty when all is well."""
    differs: str = ""
    """Where a resumed run differs from its config; empty when it does not."""
    attempt: int = 0
    usual_s: float | None = None
    """Usual duration of this phase; None while unknown."""
    step_time_s: float | None = None
    ended: str = ""
    """State in which the attempt ended, in case the recorder cannot write it."""
    ended_cause: str = ""
    closed: bool = False
    """True once everything of the attempt was written, as far as possible."""
    lost: Mapping[str, int] = field(default_factory=dict)
    """Number of records by kind that the recorder could not write before it ended."""
    cache_releases: int = 0
    """How often torch released its cached GPU memory because an allocation had failed."""
    gpu: str | None = None
    """PCI bus id of its GPU as NVML spells it, or its UUID; None on the CPU."""

    @property
    def alive(self) -> bool:
        """Whether this very process still runs on this host."""
        return process_alive(self.pid, self.started)

    @property
    def stopped(self) -> bool:
        """Whether a signal such as SIGSTOP has suspended the process."""
        return process_stopped(self.pid, self.started)


def read_rank(path: Path) -> RankState | None:
    """Return the state in a rank file; None when there is none or it is being written."""
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


def read_ranks(folder: RunFolder) -> list[RankState]:
    """Return the readable states of all ranks, by rank."""
    states = (read_rank(folder.rank(number)) for number in folder.ranks())
    return [state for state in states if state is not None]


def _finite(number: str) -> float:
    if not math.isfinite(value := float(number)):
        raise ValueError(f"{number} is not a time")
    return value


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The supervisor of a run, and the age of its last heartbeat."""

    supervisor: int
    supervisor_started: float | None
    host: str
    trainer: int | None = None
    trainer_started: float | None = None
    age_s: float = 0.0

    @property
    def same_host(self) -> bool:
        """Whether the supervisor runs on this machine."""
        return self.host == socket.gethostname()

    @property
    def supervisor_alive(self) -> bool:
        """Whether the supervisor runs: by pid and start time on this host, by the file's age elsewhere."""
        if self.same_host:
            return process_alive(self.supervisor, self.supervisor_started)
        return self.age_s < 30.0


def write_heartbeat(path: Path, supervisor: int, trainer: int | None) -> None:
    """Write a heartbeat with the supervisor and the training process it watches."""
    body = {
        "supervisor": supervisor,
        "supervisor_started": process_started(supervisor),
        "host": socket.gethostname(),
        "trainer": trainer,
        "trainer_started": None if trainer is None else process_started(trainer),
    }
    write_json(path, body)


def read_heartbeat(path: Path) -> Heartbeat | None:
    """Return the last heartbeat; None without one."""
    body = read_object(path, largest=LARGEST_BYTES)
    if body is None:
        return None
    try:
        # A clock that was set back must not make the age negative.
        age_s = max(0.0, time.time() - path.stat().st_mtime)
        return rebuilt(Heartbeat, {"supervisor_started": None, "host": "", **body, "age_s": age_s})
    except (OSError, ValueError):
        return None


_NO_PROCESS = (psutil.Error, ValueError, OverflowError)
"""psutil's errors for a process that is gone, or a number that no process can have."""


def process_started(pid: int) -> float | None:
    """Return the start time of a process; None when it is gone."""
    try:
        return psutil.Process(pid).create_time()
    except _NO_PROCESS:
        return None


def process_stopped(pid: int, started: float | None) -> bool:
    """Return whether a signal such as SIGSTOP has suspended this process."""
    try:
        return process_alive(pid, started) and psutil.Process(pid).status() == psutil.STATUS_STOPPED
    except _NO_PROCESS:
        return False


def process_alive(pid: int | None, started: float | None) -> bool:
    """Return whether the process with this pid and start time runs. A reused pid does not count.

    Without a start time a reused pid cannot be detected, so the result is False.
    """
    if pid is None or started is None:
        return False
    try:
        process = psutil.Process(pid)
        same = abs(process.create_time() - started) < START_TOLERANCE_S
        return same and process.status() != psutil.STATUS_ZOMBIE
    except _NO_PROCESS:
        return False


PATIENCE_S = 3.0


def write_error(folder: RunFolder, rank: int, error: Mapping[str, Any], *, follows: bool = False) -> None:
    """Write why this rank failed. `follows` means that it only lost contact with another."""
    body = {**error, "cause": f"rank {rank}: {error['cause']}", "at": time.time(), "follows": follows}
    write_json(folder.error(rank), body)


def read_errors(folder: RunFolder, *, causes: bool = False) -> dict[str, Any] | None:
    """Return the earliest error that another rank reported; None without one.

    Those that follow from the end of another rank come last; with `causes` they are left out.
    """
    found = [read_object(path) for path in folder.root.glob("rank-*.error")]
    told = [error for error in found if error is not None and is_number(error.get("at"))]
    told = [error for error in told if not (causes and error.get("follows"))]
    if not told:
        return None
    first = min(told, key=lambda error: (bool(error.get("follows")), float(error["at"])))
    return {key: str(first.get(key, "")) for key in ("type", "message", "cause")}


def await_error(folder: RunFolder) -> dict[str, Any] | None:
    """Wait up to `PATIENCE_S` for other ranks to report that they failed first."""
    deadline = time.monotonic() + PATIENCE_S
    while (error := read_errors(folder)) is None and time.monotonic() < deadline:
        time.sleep(0.1)
    return error


def forget_errors(folder: RunFolder) -> None:
    """Remove the errors of an earlier attempt."""
    for path in folder.root.glob("rank-*.error"):
        path.unlink(missing_ok=True)


_CONTACT = ("ConnectionError", "ConnectionResetError", "ConnectionAbortedError", "BrokenPipeError")
_CONTACT_WORDS = ("gloo", "nccl", "connection closed by peer", "connection reset by peer", "broken pipe")


def lost_contact(error: Mapping[str, Any]) -> bool:
    """Return whether a rank's error says that it no longer reaches another: it is not the first to fail."""
    kind, said = str(error["type"]), str(error["message"]).lower()
    return kind in _CONTACT or kind.startswith("Dist") or any(word in said for word in _CONTACT_WORDS)


def lost_ranks(folder: RunFolder, own: int) -> list[int]:
    """Return other ranks of this host whose process is gone and recorded no end."""
    here = socket.gethostname()
    others = [state for state in read_ranks(folder) if state.rank != own and state.host == here]
    return [state.rank for state in others if not state.ended and not state.alive]


NEWEST_BYTES = 4_000_000


@dataclass(frozen=True, slots=True)
class GpuProcess:
    """A process that uses memory of a GPU."""

    pid: int
    name: str = ""
    """Empty when the process is not visible from here."""
    memory_bytes: int | None = None
    ours: bool = False
    """True for the training processes and their children."""
    user: str | None = None


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU at one moment."""

    index: int
    uuid: str = ""
    pci_bus_id: str = ""
    """As NVML spells it, in capitals: `00000000:4F:00.0`."""
    name: str = ""
    use_percent: float | None = None
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None
    temperature_c: float | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    throttle: tuple[str, ...] | None = None
    """Why the clocks are reduced; empty when they are not."""
    idle_s: float | None = None
    processes: tuple[GpuProcess, ...] | None = None


@dataclass(frozen=True, slots=True)
class Hardware:
    """The machine of a run at one moment."""

    at: float
    host: str = ""
    cpu_percent: float | None = None
    """Of all cores together."""
    cpu_count: int | None = None
    cores_percent: tuple[float, ...] = ()
    load: tuple[float, ...] = ()
    """Runnable processes, averaged over 1, 5 and 15 minutes."""
    ram_used_bytes: int | None = None
    ram_total_bytes: int | None = None
    """Memory of the machine, or the limit of its container when that is lower."""
    run_cpu_percent: float | None = None
    """In percent of one core, summed over the training processes: 200 is two cores."""
    run_rss_bytes: int | None = None
    """Resident memory summed over the training processes. Shared memory counts for each of them."""
    disk_free_bytes: int | None = None
    """On the file system of the run folder, for this user."""
    gpus: tuple[Gpu, ...] = ()
    gpus_at: float | None = None
    """When the GPUs were sampled. Earlier than `at` while a slow driver is queried less often."""
    gpu_trouble: str = ""
    """Why no GPU is known; empty when all is well."""
    sample_ms: float | None = None
    age_s: float = field(default=0.0, compare=False)


def write_hardware(path: Path, hardware: Hardware) -> None:
    """Replace the file whole.

    Raises:
        OSError: The folder is missing, full, or not writable.
    """
    body = asdict(hardware)
    del body["age_s"]
    write_json(path, body)


def remove_hardware(path: Path) -> None:
    """Remove the file and what interrupted writes left beside it, if present."""
    with contextlib.suppress(OSError):
        for name in (path, *unfinished(path)):
            name.unlink(missing_ok=True)


def read_hardware(path: Path) -> Hardware | None:
    """Return the last sample with its age; None when there is none or the file is not valid."""
    try:
        stat = path.stat()
        body = read_object(path, largest=NEWEST_BYTES)
        if body is None:
            return None
        gpus = tuple(_gpu(gpu) for gpu in body.get("gpus") or ())
        # Use the file's own time, as for the heartbeat: another host's clock may be off.
        age_s = max(0.0, time.time() - stat.st_mtime)
        plain = {key: value for key, value in body.items() if key not in ("gpus", "age_s")}
        for key in ("cores_percent", "load"):
            plain[key] = tuple(float(value) for value in plain.get(key) or () if is_number(value))
        return _known(Hardware, plain, gpus=gpus, age_s=round(age_s, 3))
    except (OSError, ValueError, TypeError, AttributeError, OverflowError):
        return None


def _gpu(body: Mapping[str, Any]) -> Gpu:
    processes = body.get("processes")
    throttle = body.get("throttle")
    return _known(
        Gpu,
        {key: value for key, value in body.items() if key not in ("processes", "throttle")},
        processes=None if processes is None else tuple(_known(GpuProcess, p) for p in processes),
        throttle=None if throttle is None else tuple(str(word) for word in throttle),
    )


_Shape = TypeVar("_Shape", Hardware, Gpu, GpuProcess)


def _known(shape: type[_Shape], body: Mapping[str, Any], **made: Any) -> _Shape:
    """Build a record of this shape. Unknown keys are skipped and invalid optional values become None.

    Raises:
        ValueError: A required number is missing or invalid.
    """
    found: dict[str, Any] = {}
    for known in fields(shape):
        if known.name in made or known.name not in body:
            continue
        value, kind = body[known.name], str(known.type)
        if kind.startswith(("float", "int")) and not is_number(value):
            if "None" not in kind:
                raise ValueError(f"{known.name} is not a number")
            value = None
        elif kind.startswith("str") and value is not None:
            value = str(value)
        found[known.name] = value
    return shape(**found, **made)
