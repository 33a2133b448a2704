"""Machines for tests and pictures, written as the supervisor writes them: eight GPUs, one, none."""

from __future__ import annotations

import os
import time
from dataclasses import replace

from grpo_tui.present.hardware_view import GIB
from grpo_tui.store.live import Gpu, GpuProcess, Hardware, RankFile, write_hardware
from tests.ui.recorded_run import NOW, STEP_S, RecordedRun

USES = (97.0, 99.0, 91.0, 0.0, 88.0, 93.0, 71.0, 95.0)
HOSTILE_NAME = "[@click=app.quit]x\x1b]52;c;x\x07"


def bus(index: int) -> str:
    """The PCI bus id of a GPU."""
    return f"00000000:{16 * index + 15:02X}:00.0"


def gpu(index: int, use: float, *, ours: bool = True) -> Gpu:
    """A card at work for this process, or for somebody else."""
    process = GpuProcess(4_100 + index, "python train.py", 60 * GIB, ours, "me")
    return Gpu(
        index,
        uuid=f"GPU-{index}",
        pci_bus_id=bus(index),
        name="NVIDIA H100 80GB HBM3",
        use_percent=use,
        memory_used_bytes=62 * GIB,
        memory_total_bytes=80 * GIB,
        temperature_c=58.0 + index if use else 41.0,
        power_w=600.0 + index if use else 118.0,
        power_limit_w=700.0,
        throttle=("power limit",) if index == 5 else (),
        idle_s=0.0 if use else 64.0,
        processes=(process,),
    )


def machine(*gpus: Gpu, trouble: str = "") -> Hardware:
    """A machine with these GPUs."""
    return Hardware(
        at=NOW,
        host="node-7",
        cpu_percent=38.0,
        cpu_count=32,
        cores_percent=tuple(float((i * 37) % 100) for i in range(32)),
        load=(12.1, 11.0, 9.8),
        ram_used_bytes=61 * GIB,
        ram_total_bytes=512 * GIB,
        run_cpu_percent=912.0,
        run_rss_bytes=12 * GIB,
        disk_free_bytes=410_000_000_000,
        gpus=gpus,
        gpus_at=NOW if gpus else None,
        gpu_trouble=trouble,
    )


def eight() -> Hardware:
    """Eight GPUs, of which one idles and one is shared with somebody else."""
    cards = [gpu(index, use) for index, use in enumerate(USES)]
    other = GpuProcess(81_234, HOSTILE_NAME, 14 * GIB, False, "ada")
    cards[6] = replace(cards[6], processes=(*(cards[6].processes or ()), other))
    return machine(*cards)


def none() -> Hardware:
    """A machine without a GPU."""
    return machine(trouble="NVML Shared Library Not Found")


def put(run: RecordedRun, hardware: Hardware) -> None:
    """Sample it, as far as a reader can tell; dated ahead, for it to be new however slow the test is."""
    write_hardware(run.folder.hardware, hardware)
    ahead = time.time() + 3600
    os.utime(run.folder.hardware, (ahead, ahead))


def ranks(run: RecordedRun, count: int, *, behind: int | None = None) -> None:
    """Ranks on a GPU each; one of them still generates while the others update."""
    for number in range(count):
        rank = RankFile(run.folder.rank(number), 1)  # a process that lives on every machine
        late = number == behind
        rank.update(
            phase="generate" if late else "update", phase_since=NOW - (12.0 if late else 4.0), step=run.step,
            progress_at=time.time(), attempt=1, step_time_s=STEP_S, gpu=bus(number),
        )  # fmt: skip
        rank.close()
