"""Choose the one GPU a run without a launcher trains on, before anything touches CUDA.

TRL refuses several visible GPUs in one process, and only after the model is loaded. Knows NVML;
knows nothing of trainers.
"""

from __future__ import annotations

import contextlib
from collections.abc import MutableMapping


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
