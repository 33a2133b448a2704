"""Read the GPUs' state through NVML, and choose those for a run.

Each figure is read separately, so one that is not available does not affect the others. A callback tells
which processes belong to the run.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from grpo_tui.store.live import Gpu, GpuProcess
from grpo_tui.supervisor.run_processes import RunProcesses

AT_WORK_PERCENT = 5.0
"""From this use on a GPU counts as working."""
REASONS = (
    (0x20, "heat"),
    (0x40, "heat"),
    (0x80, "power brake"),
    (0x08, "hardware slowdown"),
    (0x04, "power limit"),
)
"""Bits of `nvmlDeviceGetCurrentClocksEventReasons` that lower the clocks. 0x08 is also set together with 0x40
and 0x80 (nvml.h), so it is reported only without them.
"""

Describe = Callable[[int], tuple[str, str | None, bool]]
"""Returns a process's name, its user, and whether it belongs to the run, given its pid."""


class NoGpus(Exception):
    """There is no GPU. The message says why."""


class GpuProbe:
    """Reads the GPUs visible to this process. By default it imports `pynvml` at the first sample."""

    def __init__(self, nvml: Any = None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._nvml, self._clock = nvml, clock
        self._devices: list[tuple[Any, Gpu]] | None = None
        self._worked: dict[int, float] = {}

    def open(self) -> None:
        """Initialize NVML and list the GPUs. May take seconds when the driver is not loaded.

        Raises:
            NoGpus: There is no driver, or no GPU.
        """
        if self._devices is not None:
            return
        if self._nvml is None:
            import pynvml

            self._nvml = pynvml
        try:
            self._nvml.nvmlInit()
            count = int(self._nvml.nvmlDeviceGetCount())
        except self._nvml.NVMLError as error:
            raise NoGpus(_words(error)) from error
        if not count:
            self.close()
            raise NoGpus("the driver sees no GPU")
        self._devices = []
        for index in range(count):
            handle = self._ask("nvmlDeviceGetHandleByIndex", index)
            self._devices.append((handle, self._named(index, handle)))

    def close(self) -> None:
        """Shut NVML down. The next `open` lists the GPUs again."""
        self._devices = None
        if self._nvml is not None:
            with contextlib.suppress(Exception):
                self._nvml.nvmlShutdown()

    def sample(self, describe: Describe) -> tuple[Gpu, ...]:
        """Return the current state of each GPU. Raises NoGpus when the driver no longer responds."""
        self.open()
        found = tuple(self._now(handle, named, describe) for handle, named in self._devices or ())
        if all(gpu.memory_used_bytes is None and gpu.use_percent is None for gpu in found):
            answers = [handle for handle, _ in self._devices or () if self._ask("nvmlDeviceGetName", handle)]
            if not answers:
                self.close()
                raise NoGpus("the driver has stopped answering")
        return found

    def _named(self, index: int, handle: Any) -> Gpu:
        pci = self._ask("nvmlDeviceGetPciInfo", handle)
        return Gpu(
            index,
            uuid=_text(self._ask("nvmlDeviceGetUUID", handle)),
            pci_bus_id=_text(getattr(pci, "busId", "")).upper(),
            name=_text(self._ask("nvmlDeviceGetName", handle)),
        )

    def _now(self, handle: Any, named: Gpu, describe: Describe) -> Gpu:
        rates = self._ask("nvmlDeviceGetUtilizationRates", handle)
        memory = self._ask("nvmlDeviceGetMemoryInfo", handle)
        use = None if rates is None else float(rates.gpu)
        sensor = getattr(self._nvml, "NVML_TEMPERATURE_GPU", 0)
        return replace(
            named,
            use_percent=use,
            memory_used_bytes=None if memory is None else int(memory.used),
            memory_total_bytes=None if memory is None else int(memory.total),
            temperature_c=_number(self._ask("nvmlDeviceGetTemperature", handle, sensor)),
            power_w=_watts(self._ask("nvmlDeviceGetPowerUsage", handle)),
            power_limit_w=_watts(self._ask("nvmlDeviceGetEnforcedPowerLimit", handle)),
            throttle=self._throttle(handle),
            idle_s=self._idle(named.index, use),
            processes=self._processes(handle, describe),
        )

    def _idle(self, index: int, use: float | None) -> float | None:
        if use is None:
            return None
        now = self._clock()
        if use >= AT_WORK_PERCENT:
            self._worked[index] = now
        return round(now - self._worked.setdefault(index, now), 1)

    def _throttle(self, handle: Any) -> tuple[str, ...] | None:
        bits = self._ask("nvmlDeviceGetCurrentClocksEventReasons", handle)
        if bits is None:  # its name in older drivers
            bits = self._ask("nvmlDeviceGetCurrentClocksThrottleReasons", handle)
        return None if bits is None else throttle_words(int(bits))

    def _processes(self, handle: Any, describe: Describe) -> tuple[GpuProcess, ...] | None:
        compute = self._ask("nvmlDeviceGetComputeRunningProcesses", handle)
        graphics = self._ask("nvmlDeviceGetGraphicsRunningProcesses", handle)
        if compute is None and graphics is None:
            return None
        memory: dict[int, int | None] = {}
        for process in [*(graphics or ()), *(compute or ())]:
            used = getattr(process, "usedGpuMemory", None)
            before = memory.get(process.pid)
            memory[process.pid] = before if used is None else max(int(used), before or 0)
        found = [
            GpuProcess(pid, name, used, ours, user)
            for pid, used in memory.items()
            for name, user, ours in [describe(pid)]
        ]
        return tuple(sorted(found, key=lambda p: (-(p.memory_bytes or 0), p.pid)))

    def _ask(self, call: str, *arguments: Any) -> Any:
        """Call NVML. Return None if the figure or the function is not available here."""
        function = getattr(self._nvml, call, None)
        if arguments[0] is None or function is None:
            return None
        try:
            return function(*arguments)
        except self._nvml.NVMLError:
            return None


def throttle_words(bits: int) -> tuple[str, ...]:
    """Return what lowers the clocks, each reason once."""
    words = dict.fromkeys(word for bit, word in REASONS if bits & bit)
    if "hardware slowdown" in words and ({"heat", "power brake"} & words.keys()):
        del words["hardware slowdown"]
    return tuple(words)


def _words(error: Exception) -> str:
    return str(error) or type(error).__name__


def _text(value: Any) -> str:
    """Decode a string, which older bindings return as bytes."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return str(value or "")


def _number(value: Any) -> float | None:
    return None if value is None else float(value)


def _watts(milliwatts: Any) -> float | None:
    return None if milliwatts is None else round(float(milliwatts) / 1000, 1)


# -- choosing ---------------------------------------------------------------------------------------

HELD_BYTES = 500_000_000
"""A process that holds less memory than this is a display or a monitor rather than work."""


class NoSuchGpu(ValueError):
    """A requested GPU does not exist. The message lists those that do."""


def gpus_now(probe: GpuProbe | None = None) -> tuple[Gpu, ...]:
    """Return the current state of every GPU. Raises NoGpus when there is no driver or no GPU."""
    probe = probe or GpuProbe()
    try:
        return probe.sample(RunProcesses().describe)
    finally:
        probe.close()


def chosen_gpus(names: Sequence[str], gpus: Sequence[Gpu]) -> tuple[Gpu, ...]:
    """Return the GPUs with these names (indexes as in nvidia-smi, or UUIDs), in the order of the names.

    Raises:
        NoSuchGpu: One does not exist, or is named twice.
    """
    found: list[Gpu] = []
    for name in names:
        if name.startswith("MIG-"):  # a MIG slice: NVML lists whole GPUs, CUDA accepts the slice's name
            found.append(Gpu(-1, uuid=name, name="a slice of a GPU"))
            continue
        match = [gpu for gpu in gpus if name == str(gpu.index) or (gpu.uuid and name == gpu.uuid)]
        if not match:
            known = ", ".join(str(gpu.index) for gpu in gpus) or "none"
            raise NoSuchGpu(f"there is no GPU {name}. This machine has {known}")
        if match[0] in found:
            raise NoSuchGpu(f"GPU {match[0].index} is named twice")
        found.append(match[0])
    return tuple(found)


def visible_names(gpus: Sequence[Gpu]) -> tuple[str, ...]:
    """Return entries for `CUDA_VISIBLE_DEVICES`: indexes in PCI bus order, as in NVML; a MIG slice's name.

    CUDA would accept UUIDs, but vLLM before 0.24 parses each entry as a number.
    """
    return tuple(gpu.uuid if gpu.index < 0 else str(gpu.index) for gpu in gpus)


def held_by_others(gpu: Gpu) -> str:
    """Describe who else uses a GPU; empty when nobody does."""
    busy = [p for p in gpu.processes or () if not p.ours and (p.memory_bytes or 0) >= HELD_BYTES]
    if busy:
        who = ", ".join(_holder(process) for process in busy[:3])
        return who + (f" and {len(busy) - 3} more" if len(busy) > 3 else "")
    used = gpu.memory_used_bytes or 0
    if not gpu.processes and used >= 2 * HELD_BYTES:
        return f"a process not visible from here ({used / 1e9:.1f} GB)"
    return ""


def _holder(process: GpuProcess) -> str:
    whose = " of ".join(filter(None, (process.name, process.user)))
    return (
        f"process {process.pid} ({f'{whose}, ' if whose else ''}{(process.memory_bytes or 0) / 1e9:.1f} GB)"
    )


__all__ = ["NoGpus", "NoSuchGpu", "chosen_gpus", "gpus_now", "held_by_others", "visible_names"]
