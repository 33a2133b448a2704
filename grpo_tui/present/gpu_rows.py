"""A GPU of the machine as a row: its figures, who sits on it, and which of them deserve a look.

Memory is told in units of 2^30 bytes, as cards are named and sold: an "80 GB" card has 79.6 of them.
Knows the store's sample and the ranks; no widget.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from grpo_tui.core.text import one_line
from grpo_tui.present.formatting import MISSING
from grpo_tui.present.rank_rows import sits_on
from grpo_tui.store.hardware import Gpu, GpuProcess
from grpo_tui.store.status import Status

FULL = 0.95
"""Share of a GPU's memory from which the next larger batch may fail."""
FOREIGN_BYTES = 1 << 30
"""Memory from which another's process on a GPU of ours is worth a word."""
IDLE_S = 30.0
"""How long a GPU may do nothing while others work: a rank that waits for the slowest is idle for seconds."""
AT_WORK_S = 5.0
HARMLESS = frozenset({"power limit"})
"""Reasons for lower clocks that are the rule under full load."""
GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class ProcessRow:
    """A process on a GPU; all texts are safe to show."""

    pid: int
    name: str
    """What it is, or that it cannot be seen from here."""
    memory: str
    user: str
    ours: bool
    attention: bool = False


@dataclass(frozen=True, slots=True)
class GpuRow:
    """A GPU; shares are 0 to 1, None when the figure cannot be had."""

    index: int
    name: str
    use: float | None = None
    memory: float | None = None
    memory_used: str = MISSING
    memory_total: str = MISSING
    temperature_c: float | None = None
    power: str = MISSING
    idle_s: float | None = None
    """Seconds since it was last seen at work."""
    ours: bool = False
    ranks: tuple[int, ...] = ()
    throttle: str = ""
    attention: frozenset[str] = frozenset()
    """Which of `use`, `memory`, `throttle` and `processes` deserve a look."""
    processes: tuple[ProcessRow, ...] = ()
    hidden: bool = False
    """True when memory is taken but no process can be seen."""

    @property
    def temperature(self) -> str:
        """In degrees Celsius, with the unit."""
        return MISSING if self.temperature_c is None else f"{self.temperature_c:.0f} °C"

    @property
    def memory_words(self) -> str:
        """`41 of 80 GB`."""
        return MISSING if self.memory is None else f"{self.memory_used} of {self.memory_total} GB"


def gib(count: float | None) -> str:
    """Bytes in units of 2^30: `0.4`, `1.1`, `41`; one decimal below ten."""
    if count is None:
        return MISSING
    value = count / GIB
    return f"{value:.1f}" if value < 9.95 else f"{value:,.0f}"


def gpu_row(gpu: Gpu, gpus: Sequence[Gpu], status: Status) -> GpuRow:
    """One of `gpus` as a row, with what about it deserves a look."""
    ranks = tuple(rank.rank for rank in status.ranks if sits_on(gpu, rank))
    listed = gpu.processes or ()
    own_seen = any(process.ours for process in listed)
    share = None
    if gpu.memory_used_bytes is not None and gpu.memory_total_bytes:
        share = gpu.memory_used_bytes / gpu.memory_total_bytes
    attention = set()
    if share is not None and share > FULL:
        attention.add("memory")
    if set(gpu.throttle or ()) - HARMLESS:
        attention.add("throttle")
    if status.phase != "load" and _idles(gpu, gpus, status):
        attention.add("use")
    # Where none of the processes is ours although a rank sits here, process ids are of another namespace.
    foreign = [p for p in listed if own_seen and _is_foreign(p)]
    if foreign:
        attention.add("processes")
    return GpuRow(
        gpu.index,
        one_line(gpu.name, 40),
        use=None if gpu.use_percent is None else gpu.use_percent / 100,
        memory=share,
        memory_used=gib(gpu.memory_used_bytes),
        memory_total=gib(gpu.memory_total_bytes),
        temperature_c=gpu.temperature_c,
        power=_power(gpu),
        idle_s=gpu.idle_s,
        ours=own_seen or bool(ranks),
        ranks=ranks,
        throttle=", ".join(one_line(word, 24) for word in gpu.throttle or ()),
        attention=frozenset(attention),
        processes=tuple(_process_row(p, attention=p in foreign) for p in listed),
        hidden=not listed and (gpu.memory_used_bytes or 0) > FOREIGN_BYTES,
    )


def _process_row(process: GpuProcess, *, attention: bool) -> ProcessRow:
    return ProcessRow(
        process.pid,
        one_line(process.name, 60) or "cannot be seen from here",
        MISSING if process.memory_bytes is None else f"{gib(process.memory_bytes)} GB",
        one_line(process.user or MISSING, 16),
        process.ours,
        attention,
    )


def _is_foreign(process: GpuProcess) -> bool:
    return not process.ours and bool(process.name) and (process.memory_bytes or 0) > FOREIGN_BYTES


def _power(gpu: Gpu) -> str:
    if gpu.power_w is None:
        return MISSING
    limit = "" if gpu.power_limit_w is None else f" of {gpu.power_limit_w:.0f}"
    return f"{gpu.power_w:.0f}{limit} W"


def _idles(gpu: Gpu, gpus: Sequence[Gpu], status: Status) -> bool:
    """True when a GPU of the run has done nothing for a while and another of the run works."""
    if gpu.idle_s is None or gpu.idle_s < IDLE_S or not _has_work(gpu, status):
        return False
    return any(
        other.idle_s is not None and other.idle_s < AT_WORK_S and _has_work(other, status)
        for other in gpus
        if other.index != gpu.index
    )


def _has_work(gpu: Gpu, status: Status) -> bool:
    return any(p.ours for p in gpu.processes or ()) or any(sits_on(gpu, rank) for rank in status.ranks)


def of_the_run(gpus: tuple[GpuRow, ...]) -> tuple[GpuRow, ...]:
    """The GPUs of the run; all, when nobody can say which they are."""
    return tuple(gpu for gpu in gpus if gpu.ours) or gpus
