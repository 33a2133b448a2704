"""Choose the one GPU a run without a launcher trains on, before anything touches CUDA, and name a rank's GPU.

TRL refuses several visible GPUs in one process, and only after the model is loaded. Knows NVML and
torch's devices; knows nothing of trainers.
"""

from __future__ import annotations

import contextlib
from collections.abc import MutableMapping
from typing import Any


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
    """Make the GPU with the most free memory the only visible one, when several are and nobody chose.

    Args:
        environment: The process's environment, changed in place.
        free: Free bytes per GPU.

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

    An index would not do: `CUDA_VISIBLE_DEVICES` counts anew.
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
