"""Choose, name and measure the device of the training process.

A run without a launcher trains on one GPU, chosen before anything touches CUDA: TRL refuses several visible
GPUs in one process, and only after the model is loaded. Peak memory is torch's count on a GPU and the
kernel's resident memory of the process.
"""

from __future__ import annotations

import contextlib
import resource
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

from grpo_tui.train.ranks import world_size


def free_memory_by_gpu() -> list[int]:
    """Return the free bytes of every GPU in PCI bus order; empty without NVML or GPUs."""
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
    """Make only the GPU with the most free memory visible, unless `CUDA_VISIBLE_DEVICES` is set.

    Args:
        environment: The process's environment, changed in place.

    Returns:
        A line for the log; empty when nothing was chosen.
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
    """Return the PCI bus id of a torch device as NVML spells it, or its UUID; None without a GPU.

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
    except Exception:  # a name for the screen must not end a run
        return None


def cache_releases(device: Any) -> int:
    """Return how often torch has released its cached GPU memory because an allocation had failed."""
    if getattr(device, "type", "") != "cuda":
        return 0
    import torch

    return int(torch.cuda.memory_stats(device).get("num_alloc_retries", 0))


FACT = "peak_memory"
_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
_RESET_PEAK = "5"
"""Resets the peak of resident memory: proc(5), `/proc/pid/clear_refs`."""


class PeakMemory:
    """Peak memory since `begin`. Create it before the model is loaded, to measure the libraries alone."""

    def __init__(self) -> None:
        from trl import GRPOTrainer

        del GRPOTrainer  # TRL imports it lazily; count it among the libraries
        self._libraries = resident_bytes("VmRSS")
        self._device: Any = None

    def begin(self, device: Any) -> None:
        """Reset the peaks, so that loading the model does not count."""
        self._device = device
        with contextlib.suppress(OSError):
            _CLEAR.write_text(_RESET_PEAK, encoding="ascii")
        if getattr(device, "type", "") == "cuda":
            import torch

            torch.cuda.reset_peak_memory_stats(device)

    def figures(self) -> dict[str, Any]:
        """Return the measurements.

        Returns:
            `device` (`cpu` or `cuda`) and `world_size`; `resident_bytes`, the process's peak, and
            `libraries_bytes` before the model was loaded. On a GPU also its `name` and `total_bytes`,
            `peak_bytes` of tensors and `reserved_bytes` of torch's allocator.
        """
        found: dict[str, Any] = {
            "device": "cpu",
            "world_size": world_size(),
            "resident_bytes": resident_bytes("VmHWM")
            or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
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
    """Return the resident memory of this process, or None when the system does not report it.

    Args:
        name: `VmRSS` for now, `VmHWM` for the peak.
    """
    with contextlib.suppress(OSError, ValueError):
        for line in _STATUS.read_text(encoding="ascii").splitlines():
            key, _, value = line.partition(":")
            if key == name:
                return int(value.split()[0]) * 1024
    return None
