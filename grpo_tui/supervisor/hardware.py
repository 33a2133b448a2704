"""Sample the machine of a run every two seconds, in a thread that nothing waits for.

A hanging driver blocks only this thread. `hardware.json` then gets old, and readers notice that.
"""

from __future__ import annotations

import contextlib
import shutil
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from grpo_tui.store.layout import RunFolder
from grpo_tui.store.live import Gpu, Hardware, read_ranks, remove_hardware, write_hardware
from grpo_tui.supervisor.gpus import GpuProbe, NoGpus
from grpo_tui.supervisor.run_processes import RunProcesses

SAMPLE_S = 2.0
FIRST_S = 0.5
"""Time before the first sample, because CPU use is measured over an interval."""
SLOW_S = 0.5
BACK_OFF_S = 60.0
"""Pause before asking a driver again that is missing, slow or failing."""


class HardwareWatch:
    """Samples the machine until stopped. `log` is called once per distinct error."""

    def __init__(
        self,
        folder: RunFolder,
        *,
        probe: GpuProbe | None = None,
        log: Callable[[str], None] | None = None,
    ) -> None:
        self._folder, self._probe = folder, probe or GpuProbe()
        self._log = log or (lambda text: print(f"grpo-tui: {text}", flush=True))
        self._said: set[str] = set()
        self._stopped = threading.Event()
        self._processes = RunProcesses()
        self._trainer: int | None = None
        self._gpus: tuple[Gpu, ...] = ()
        self._gpus_at: float | None = None
        self._gpu_trouble = ""
        self._ask_again_at = 0.0

    def start(self, trainer: int | None) -> None:
        """Start the thread, after removing the file of an earlier run."""
        self._trainer = trainer
        remove_hardware(self._folder.hardware)
        threading.Thread(target=self._run, name="hardware", daemon=True).start()

    def stop(self) -> None:
        """Stop without waiting, and remove the file, because an ended run has no hardware figures."""
        self._stopped.set()
        remove_hardware(self._folder.hardware)

    def sample(self) -> Hardware:
        """Return the current state of the machine. Takes milliseconds, unless the driver is slow."""
        began = time.perf_counter()
        self._processes.follow(self._roots())
        self._ask_gpus()
        cores = tuple(round(percent, 1) for percent in psutil.cpu_percent(None, percpu=True))
        memory = psutil.virtual_memory()
        limit, used_of_limit = memory_limit()
        limited = limit is not None and limit < memory.total
        run_cpu, run_rss = self._processes.figures()
        return Hardware(
            at=time.time(),
            host=socket.gethostname(),
            cpu_percent=round(sum(cores) / len(cores), 1) if cores else None,
            cpu_count=psutil.cpu_count() or None,
            cores_percent=cores,
            load=tuple(round(value, 2) for value in psutil.getloadavg()),
            ram_used_bytes=used_of_limit if limited else memory.total - memory.available,
            ram_total_bytes=limit if limited else memory.total,
            run_cpu_percent=run_cpu,
            run_rss_bytes=run_rss,
            disk_free_bytes=_free(self._folder.root),
            gpus=self._gpus,
            gpus_at=self._gpus_at,
            gpu_trouble=self._gpu_trouble,
            sample_ms=round((time.perf_counter() - began) * 1000, 2),
        )

    def _run(self) -> None:
        with contextlib.suppress(Exception):
            psutil.cpu_percent(None, percpu=True)
            self._processes.follow(self._roots())
        wait_s = FIRST_S
        while not self._stopped.wait(wait_s):
            wait_s = SAMPLE_S
            try:
                hardware = self.sample()
                if not self._stopped.is_set():
                    write_hardware(self._folder.hardware, hardware)
                if self._stopped.is_set():
                    remove_hardware(self._folder.hardware)  # the run ended while it was written
            except OSError:
                continue  # a full disk or a deleted folder is reported elsewhere
            except Exception as error:
                self._say_once(f"the machine cannot be sampled: {type(error).__name__}: {error}")
                wait_s = BACK_OFF_S

    def _ask_gpus(self) -> None:
        now = time.monotonic()
        if now < self._ask_again_at:
            return
        try:
            self._probe.open()
            began = time.monotonic()
            self._gpus = self._probe.sample(self._processes.describe)
            took_s = time.monotonic() - began
        except NoGpus as error:
            self._gpus, self._gpus_at, self._gpu_trouble = (), None, str(error)
            self._ask_again_at = now + BACK_OFF_S
        except Exception as error:
            self._say_once(f"the GPUs cannot be sampled: {type(error).__name__}: {error}")
            self._gpus, self._gpus_at = (), None
            self._gpu_trouble = f"NVML failed: {type(error).__name__}: {error}"
            self._ask_again_at = now + BACK_OFF_S
        else:
            self._gpus_at, self._gpu_trouble = time.time(), ""
            if took_s > SLOW_S:
                self._say_once("the GPU driver responds slowly, so it is read only once a minute")
                self._ask_again_at = now + BACK_OFF_S

    def _roots(self) -> list[int]:
        """Return the roots of the run's process trees: the trainer and every rank on this machine."""
        pids = [rank.pid for rank in read_ranks(self._folder) if rank.alive]
        return pids if self._trainer is None else [self._trainer, *pids]

    def _say_once(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            with contextlib.suppress(Exception):
                self._log(text)


def memory_limit(
    groups: Path = Path("/proc/self/cgroup"), mount: Path = Path("/sys/fs/cgroup")
) -> tuple[int | None, int | None]:
    """Return the tightest memory limit of this process's cgroups and the memory used of it, in bytes.

    Reclaimable page cache does not count as used. (None, None) without a limit. Reads cgroups v2
    (cgroups(7)).
    """
    tightest: tuple[int | None, int | None] = (None, None)
    try:
        lines = groups.read_text().splitlines()
        own = next((line[3:] for line in lines if line.startswith("0::")), "/")
        place = (mount / own.lstrip("/")).resolve()
        while place == mount.resolve() or mount.resolve() in place.parents:
            text = _read(place / "memory.max").strip()
            if text.isdigit() and (tightest[0] is None or int(text) < tightest[0]):
                used = int(_read(place / "memory.current").strip() or 0)
                tightest = (int(text), max(0, used - _reclaimable(_read(place / "memory.stat"))))
            if place == mount.resolve():
                break
            place = place.parent
    except (OSError, ValueError):
        return None, None
    return tightest


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def _reclaimable(stat: str) -> int:
    # Pages of a file that was read again, such as a checkpoint, are active. `MemAvailable` counts both too.
    values = (line.split(" ") for line in stat.splitlines())
    return sum(int(value) for name, value in values if name in ("active_file", "inactive_file"))


def _free(root: Path) -> int | None:
    try:
        return shutil.disk_usage(root).free
    except OSError:
        return None
