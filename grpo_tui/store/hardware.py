"""The file that says how the machine is: `hardware.json`, replaced every two seconds while a run is watched.

A figure that nobody could get is None (a slice of a GPU, a container that hides processes), never a guess.
Knows the file and its shape; samples nothing.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

from grpo_tui.core.statistics import is_number
from grpo_tui.store.json_file import read_object, unfinished, write_json

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
                raise ValueError(f"{known.name} is no number")
            value = None
        elif kind.startswith("str") and value is not None:
            value = str(value)
        found[known.name] = value
    return shape(**found, **made)
