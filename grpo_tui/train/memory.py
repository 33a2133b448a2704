"""Measure the most memory that training takes in this process, on its GPU or in the host's memory.

Torch counts what it holds on a GPU; the kernel counts the resident memory of a process. Knows nothing of what
it was planned to be.
"""

from __future__ import annotations

import contextlib
import resource
from pathlib import Path
from typing import Any

from grpo_tui.train.ranks import world_size

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
        """Forget the peak of loading the model.

        Args:
            device: The torch device that is trained on.
        """
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
