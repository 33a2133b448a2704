"""The small files that say what is going on right now: heartbeat, ranks and why one failed, the machine.

They are rewritten in place many times a second and must be readable when the interpreter that
writes them is stuck, so they are not in `run.db`. A rank other than the first leaves its error in a file,
because its own collectives are broken then. `hardware.json` is replaced every two seconds while a run is
watched; a figure that nobody could get is None (a slice of a GPU, a container that hides processes), never a
guess.
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
"""Fixed size of a rank file: one `pwrite` replaces the whole of it."""
LARGEST_BYTES = 1 << 16
"""A rank file or heartbeat beyond it is none of ours."""
START_TOLERANCE_S = 1.5
"""The system tells its own boot, from which start times are counted, in whole seconds: one more or less once
its clock was set."""
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


PATIENCE_S = 3.0
"""How long the first rank waits for another one to say that it failed first."""


def write_error(folder: RunFolder, rank: int, error: Mapping[str, Any]) -> None:
    """Say why this rank failed."""
    body = {**error, "cause": f"rank {rank}: {error['cause']}", "at": time.time()}
    write_json(folder.error(rank), body)


def read_errors(folder: RunFolder) -> dict[str, Any] | None:
    """The first error another rank told of, None when there is none."""
    found = [read_object(path) for path in folder.root.glob("rank-*.error")]
    told = [error for error in found if error is not None and is_number(error.get("at"))]
    if not told:
        return None
    first = min(told, key=lambda error: float(error["at"]))
    return {key: str(first.get(key, "")) for key in ("type", "message", "cause")}


def await_error(folder: RunFolder) -> dict[str, Any] | None:
    """Give other ranks a moment to say that they failed first."""
    deadline = time.monotonic() + PATIENCE_S
    while (error := read_errors(folder)) is None and time.monotonic() < deadline:
        time.sleep(0.1)
    return error


def forget_errors(folder: RunFolder) -> None:
    """Remove what ranks of an earlier attempt said."""
    for path in folder.root.glob("rank-*.error"):
        path.unlink(missing_ok=True)


def lost_ranks(folder: RunFolder, own: int) -> list[int]:
    """Other ranks of this host whose process is gone."""
    states = [read_rank(folder.rank(rank)) for rank in folder.ranks() if rank != own]
    return [state.rank for state in states if state is not None and not state.alive]


NEWEST_BYTES = 4_000_000
"""A file larger than this is none of ours and is not read."""


@dataclass(frozen=True, slots=True)
class GpuProcess:
    """One process that holds memory of a GPU."""

    pid: int
    name: str = ""
    """Empty when the process cannot be seen from here."""
    memory_bytes: int | None = None
    ours: bool = False
    """True for the training processes and what they started."""
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
    """Why the clocks are held down, in words; empty when they are not."""
    idle_s: float | None = None
    """Seconds since it was last seen at work."""
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
    """What the run may use: the machine's memory, or the limit of its container when that is less."""
    run_cpu_percent: float | None = None
    """Of one core, summed over the training processes: 200 is two cores."""
    run_rss_bytes: int | None = None
    """Resident memory, summed over the training processes; what they share counts for each."""
    disk_free_bytes: int | None = None
    """On the file system of the run folder, for this user."""
    gpus: tuple[Gpu, ...] = ()
    gpus_at: float | None = None
    """When the GPUs were asked; before `at` while a slow driver is asked less often."""
    gpu_trouble: str = ""
    """Why no GPU is known, empty when all is well."""
    sample_ms: float | None = None
    """What taking this sample took."""
    age_s: float = field(default=0.0, compare=False)
    """Seconds since it was written; known only to who read it."""

    def to_json(self) -> dict[str, Any]:
        """The documented JSON shape."""
        return asdict(self)


def write_hardware(path: Path, hardware: Hardware) -> None:
    """Replace the file at once and whole.

    Raises:
        OSError: The folder is gone, full, or not ours to write.
    """
    body = hardware.to_json()
    del body["age_s"]
    write_json(path, body)


def remove_hardware(path: Path) -> None:
    """Take the file away, and what a write that was cut off left beside it; it may be gone already."""
    with contextlib.suppress(OSError):
        for name in (path, *unfinished(path)):
            name.unlink(missing_ok=True)


def read_hardware(path: Path) -> Hardware | None:
    """The last sample with its age, None when there is none or the file is none of ours."""
    try:
        stat = path.stat()
        body = read_object(path, largest=NEWEST_BYTES)
        if body is None:
            return None
        gpus = tuple(_gpu(gpu) for gpu in body.get("gpus") or ())
        # The file's own time, as for the heartbeat: the clock of another host may be off.
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
    """A record of this shape; keys that a newer version wrote are passed over, wrong values are no values.

    Raises:
        ValueError: A number that every record has is missing or none.
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
