"""The GPU and the memory of the training process.

Choose the one GPU that a run without a launcher trains on, before anything touches CUDA: TRL refuses several
visible GPUs in one process, and only after the model is loaded. Name a rank's GPU. Measure the most memory
that training takes: torch counts what it holds on a GPU, the kernel the resident memory of a process.
"""

from __future__ import annotations

import contextlib
import resource
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

from grpo_tui.train.ranks import world_size


def free_memory_by_gpu() -> list[int]:
    """Free bytes of every GPU in PCI bus order, empty without NVML or GPUs."""
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return []
    try:
        handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
        return [int(pynvml.nvmlDeviceGetMemoryInfo(handle).free) for handle in handles]
    except pynvml.NVMLError:
        return []
    finally:
        with contextlib.suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()


def choose_gpu(environment: MutableMapping[str, str], free: list[int]) -> str:
    """Make the GPU with the most free memory the only visible one, when several are and no one chose.

    Args:
        environment: The process's environment, changed in place.

    Returns:
        What was chosen, for the log; empty when nothing was.
    """
    if len(free) < 2 or "CUDA_VISIBLE_DEVICES" in environment:
        return ""
    best = max(range(len(free)), key=lambda index: free[index])
    environment["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
    environment["CUDA_VISIBLE_DEVICES"] = str(best)
    return (
        f"training on GPU {best} of {len(free)}, the one with the most free memory; choose another with "
        "CUDA_VISIBLE_DEVICES, or several with --launcher"
    )


def gpu_of(device: Any) -> str | None:
    """The GPU behind a torch device: its PCI bus id as NVML spells it, else its uuid; None when it is no GPU.

    An index would not do: `CUDA_VISIBLE_DEVICES` renumbers the GPUs.
    """
    if getattr(device, "type", "") != "cuda":
        return None
    import torch

    try:
        properties: Any = torch.cuda.get_device_properties(device)
        if hasattr(properties, "pci_bus_id"):
            domain = getattr(properties, "pci_domain_id", 0)
            return f"{domain:08X}:{properties.pci_bus_id:02X}:{properties.pci_device_id:02X}.0"
        return f"GPU-{properties.uuid}"
    except Exception:  # a name for the screen is no reason to end a run
        return None


FACT = "peak_memory"
"""The fact a run's figures are recorded as."""
_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
_RESET_PEAK = "5"
"""What resets the peak of resident memory: proc(5), `/proc/pid/clear_refs`."""


class PeakMemory:
    """The peak from `begin` on; made before the model is loaded, so that what the libraries take is known."""

    def __init__(self) -> None:
        from trl import GRPOTrainer

        del GRPOTrainer  # it is imported only when it is asked for; the libraries' share counts it
        self._libraries = resident_bytes("VmRSS")
        self._device: Any = None

    def begin(self, device: Any) -> None:
        """Forget the peak of loading the model."""
        self._device = device
        with contextlib.suppress(OSError):
            _CLEAR.write_text(_RESET_PEAK, encoding="ascii")
        if getattr(device, "type", "") == "cuda":
            import torch

            torch.cuda.reset_peak_memory_stats(device)

    def figures(self) -> dict[str, Any]:
        """What was measured.

        Returns:
            `device` (`cpu` or `cuda`), `name` of the GPU, `peak_bytes` of tensors on it, `reserved_bytes` by
            torch's allocator, `total_bytes` of it; `resident_bytes` of the process at its peak and
            `libraries_bytes` before the model; `world_size`.
        """
        found: dict[str, Any] = {
            "device": "cpu",
            "world_size": world_size(),
            "resident_bytes": resident_bytes("VmHWM") or _resident_by_resource(),
            "libraries_bytes": self._libraries,
        }
        if getattr(self._device, "type", "") == "cuda":
            import torch

            properties = torch.cuda.get_device_properties(self._device)
            found |= {
                "device": "cuda",
                "name": properties.name,
                "peak_bytes": torch.cuda.max_memory_allocated(self._device),
                "reserved_bytes": torch.cuda.max_memory_reserved(self._device),
                "total_bytes": properties.total_memory,
            }
        return found


def resident_bytes(name: str) -> int | None:
    """Resident memory of this process, None where the system does not say.

    Args:
        name: `VmRSS` for now, `VmHWM` for the most there was.
    """
    with contextlib.suppress(OSError, ValueError):
        for line in _STATUS.read_text(encoding="ascii").splitlines():
            key, _, value = line.partition(":")
            if key == name:
                return int(value.split()[0]) * 1024
    return None


def _resident_by_resource() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
