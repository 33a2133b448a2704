"""The GPUs of a machine as lines: free memory, use, and who holds it.

Knows the sample, not how it is taken; every name is made safe.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from grpo_tui.core.text import one_line
from grpo_tui.present.formatting import MISSING, percent
from grpo_tui.present.gpu_rows import gib
from grpo_tui.store.hardware import Gpu, GpuProcess

NAME_W = 28
FREE_W = 16


def gpu_lines(gpus: Sequence[Gpu]) -> list[str]:
    """One line for a GPU and one for each process on it."""
    lines = []
    for gpu in gpus:
        use = "" if gpu.use_percent is None else f"{percent(gpu.use_percent / 100)} at work"
        free = f"{_free(gpu)} of {gib(gpu.memory_total_bytes)} GB free"
        holders = gpu.processes
        who = ""
        if holders is not None and not holders and (gpu.memory_used_bytes or 0) < 1 << 30:
            who = "nobody"
        name = one_line(gpu.name, NAME_W) or MISSING
        lines.append(f"{gpu.index:>2}  {name:{NAME_W}}  {free:{FREE_W + 8}}  {use:14}  {who}".rstrip())
        lines += [f"    {_holder(process)}" for process in holders or ()]
        if holders is None or (not holders and not who):
            lines.append("    held by somebody who cannot be seen from here")
    return lines


def gpu_json(gpus: Sequence[Gpu], trouble: str = "") -> dict[str, Any]:
    """The documented shape: every GPU with its free memory and processes, or why there is none."""
    return {
        "gpus": [
            {
                "index": gpu.index,
                "uuid": gpu.uuid,
                "name": gpu.name,
                "memory_total_bytes": gpu.memory_total_bytes,
                "memory_free_bytes": free_bytes(gpu),
                "use_percent": gpu.use_percent,
                "processes": None
                if gpu.processes is None
                else [
                    {"pid": p.pid, "name": p.name, "user": p.user, "memory_bytes": p.memory_bytes}
                    for p in gpu.processes
                ],
            }
            for gpu in gpus
        ],
        "trouble": trouble,
    }


def free_bytes(gpu: Gpu) -> int | None:
    """Memory that nobody holds, None when the driver does not say."""
    if gpu.memory_total_bytes is None or gpu.memory_used_bytes is None:
        return None
    return max(0, gpu.memory_total_bytes - gpu.memory_used_bytes)


def _free(gpu: Gpu) -> str:
    return gib(free_bytes(gpu))


def _holder(process: GpuProcess) -> str:
    memory = MISSING if process.memory_bytes is None else f"{gib(process.memory_bytes)} GB"
    name = one_line(process.name, 40) or "a process that cannot be seen from here"
    user = f" of {one_line(process.user, 16)}" if process.user else ""
    return f"{name}{user}, {memory}, process {process.pid}"
