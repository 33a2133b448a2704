"""Which GPUs a run is put on: names a person wrote, matched with what the machine has.

Knows NVML's answer, not how a run is started. A process of another user is a warning, never a refusal.
"""

from __future__ import annotations

from collections.abc import Sequence

from grpo_tui.store.live import Gpu, GpuProcess
from grpo_tui.supervisor.gpus import GpuProbe, NoGpus
from grpo_tui.supervisor.run_processes import RunProcesses

HELD_BYTES = 500_000_000
"""A process that holds less than this is a display or a monitor, not somebody's work."""


class NoSuchGpu(ValueError):
    """A GPU that was asked for is not there; the message names those that are."""


def gpus_now(probe: GpuProbe | None = None) -> tuple[Gpu, ...]:
    """Every GPU of this machine now.

    Raises:
        NoGpus: There is no driver, or no GPU.
    """
    probe = probe or GpuProbe()
    try:
        return probe.sample(RunProcesses().describe)
    finally:
        probe.close()


def chosen_gpus(names: Sequence[str], gpus: Sequence[Gpu]) -> tuple[Gpu, ...]:
    """The GPUs of some names, in their order.

    Args:
        names: Numbers as nvidia-smi counts them, or UUIDs.
        gpus: Those of the machine.

    Raises:
        NoSuchGpu: One is not there, or is named twice.
    """
    found: list[Gpu] = []
    for name in names:
        if name.startswith("MIG-"):  # a slice of a card: NVML lists the cards, CUDA takes the name
            found.append(Gpu(-1, uuid=name, name="a slice of a GPU"))
            continue
        match = [gpu for gpu in gpus if name == str(gpu.index) or (gpu.uuid and name == gpu.uuid)]
        if not match:
            known = ", ".join(str(gpu.index) for gpu in gpus) or "none"
            raise NoSuchGpu(f"there is no GPU {name}; this machine has {known}")
        if match[0] in found:
            raise NoSuchGpu(f"GPU {match[0].index} is named twice")
        found.append(match[0])
    return tuple(found)


def visible_names(gpus: Sequence[Gpu]) -> tuple[str, ...]:
    """What `CUDA_VISIBLE_DEVICES` takes: numbers in bus order, which is NVML's; a slice by its name.

    UUIDs would do for CUDA, but vLLM before 0.24 takes each entry for a number.
    """
    return tuple(gpu.uuid if gpu.index < 0 else str(gpu.index) for gpu in gpus)


def held_by_others(gpu: Gpu) -> str:
    """Who works on a GPU already, in words; empty when nobody does."""
    busy = [p for p in gpu.processes or () if not p.ours and (p.memory_bytes or 0) >= HELD_BYTES]
    if busy:
        who = ", ".join(_holder(process) for process in busy[:3])
        return who + (f" and {len(busy) - 3} more" if len(busy) > 3 else "")
    used = gpu.memory_used_bytes or 0
    if not gpu.processes and used >= 2 * HELD_BYTES:
        return f"somebody who cannot be seen from here ({used / 1e9:.1f} GB)"
    return ""


def _holder(process: GpuProcess) -> str:
    whose = " of ".join(filter(None, (process.name, process.user)))
    return (
        f"process {process.pid} ({f'{whose}, ' if whose else ''}{(process.memory_bytes or 0) / 1e9:.1f} GB)"
    )


__all__ = ["NoGpus", "NoSuchGpu", "chosen_gpus", "gpus_now", "held_by_others", "visible_names"]
