"""The machine of a run as text and rows: figures, GPUs and their users, ranks, warnings.

Memory is in units of 2^30 bytes, as GPUs are named: an "80 GB" card has 79.6 of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from grpo_tui.core.text import one_line
from grpo_tui.present.formatting import MISSING, duration, fixed, percent
from grpo_tui.store.live import Gpu, GpuProcess, Hardware
from grpo_tui.store.status import RankNow, Status

BEHIND_S = 1.0
"""How long ranks may be in different phases before the slowest is marked."""


@dataclass(frozen=True, slots=True)
class RankRow:
    """One rank of the run."""

    rank: int
    pid: int
    phase: str
    phase_since: float | None
    step: int
    gpu: int | None = None
    reward_function: str | None = None
    behind: bool = False


def rank_rows(status: Status, now: float) -> tuple[RankRow, ...]:
    """Return the ranks on this machine, with the slowest marked; `now` is in seconds since the epoch."""
    gpus = status.hardware.gpus if status.hardware is not None else ()
    behind = _behind(status.ranks, now)
    return tuple(
        RankRow(
            rank.rank,
            rank.pid,
            rank.phase,
            rank.phase_since or None,
            rank.step,
            next((gpu.index for gpu in gpus if sits_on(gpu, rank)), None),
            one_line(rank.reward_func, 40) if rank.reward_func else None,
            rank.rank in behind,
        )
        for rank in status.ranks
    )


def sits_on(gpu: Gpu, rank: RankNow) -> bool:
    """Return whether this GPU belongs to the rank."""
    return rank.gpu is not None and rank.gpu.upper() in (gpu.pci_bus_id.upper(), gpu.uuid.upper())


def _behind(ranks: Sequence[RankNow], now: float) -> frozenset[int]:
    """Return the ranks still in the phase entered first, once others have left it for a while."""
    known = [rank for rank in ranks if rank.phase_since]
    phases = {rank.phase for rank in known}
    if phases == {"reward"}:
        return _still_scoring(known, now)
    if len(phases) < 2:
        return frozenset()
    oldest = min(known, key=lambda rank: rank.phase_since)
    left_at = min(rank.phase_since for rank in known if rank.phase != oldest.phase)
    if now - left_at < BEHIND_S:
        return frozenset()
    return frozenset(rank.rank for rank in known if rank.phase == oldest.phase)


def _still_scoring(ranks: Sequence[RankNow], now: float) -> frozenset[int]:
    """Return the ranks still running a reward function while others have finished theirs and wait."""
    busy = frozenset(rank.rank for rank in ranks if rank.reward_func)
    done = [
        rank.reward_since for rank in ranks if not rank.reward_func and rank.reward_since >= rank.phase_since
    ]
    return busy if done and now - min(done) >= BEHIND_S else frozenset()


FULL = 0.95
"""Fraction of a GPU's memory above which the next larger batch may fail."""
FOREIGN_BYTES = 1 << 30
"""Memory from which another user's process on our GPU is reported."""
IDLE_S = 30.0
"""How long a GPU may be idle while others work. Waiting for the slowest rank takes only seconds."""
AT_WORK_S = 5.0
HARMLESS = frozenset({"power limit"})
"""Reasons for lower clocks that are normal under full load."""
GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class ProcessRow:
    """A process on a GPU; all texts are safe to show."""

    pid: int
    name: str
    """Its name, or that it is not visible from here."""
    memory: str
    user: str
    ours: bool
    attention: bool = False


@dataclass(frozen=True, slots=True)
class GpuRow:
    """A GPU; fractions are 0 to 1, None when not available."""

    index: int
    name: str
    use: float | None = None
    memory: float | None = None
    memory_used: str = MISSING
    memory_total: str = MISSING
    temperature_c: float | None = None
    power: str = MISSING
    idle_s: float | None = None
    ours: bool = False
    ranks: tuple[int, ...] = ()
    throttle: str = ""
    attention: frozenset[str] = frozenset()
    """Which of `use`, `memory`, `throttle` and `processes` need attention."""
    processes: tuple[ProcessRow, ...] = ()
    hidden: bool = False
    """Whether memory is in use but no process is visible."""

    @property
    def temperature(self) -> str:
        """In degrees Celsius, with the unit."""
        return MISSING if self.temperature_c is None else f"{self.temperature_c:.0f} °C"

    @property
    def memory_words(self) -> str:
        """`41 of 80 GB`."""
        return MISSING if self.memory is None else f"{self.memory_used} of {self.memory_total} GB"


def gib(count: float | None) -> str:
    """Format bytes in units of 2^30: `0.4`, `1.1`, `41`; one decimal below ten."""
    if count is None:
        return MISSING
    value = count / GIB
    return f"{value:.1f}" if value < 9.95 else f"{value:,.0f}"


def gpu_row(gpu: Gpu, gpus: Sequence[Gpu], status: Status) -> GpuRow:
    """Return one of `gpus` as a row, marking what needs attention."""
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
    # If no process is ours although a rank uses this GPU, process ids are of another namespace.
    foreign = [
        p for p in listed if own_seen and not p.ours and p.name and (p.memory_bytes or 0) > FOREIGN_BYTES
    ]
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


def _power(gpu: Gpu) -> str:
    if gpu.power_w is None:
        return MISSING
    limit = "" if gpu.power_limit_w is None else f" of {gpu.power_limit_w:.0f}"
    return f"{gpu.power_w:.0f}{limit} W"


def _idles(gpu: Gpu, gpus: Sequence[Gpu], status: Status) -> bool:
    if gpu.idle_s is None or gpu.idle_s < IDLE_S or not _has_work(gpu, status):
        return False
    return any(
        other.idle_s is not None and other.idle_s < AT_WORK_S and _has_work(other, status)
        for other in gpus
        if other.index != gpu.index
    )


def _has_work(gpu: Gpu, status: Status) -> bool:
    return any(p.ours for p in gpu.processes or ()) or any(sits_on(gpu, rank) for rank in status.ranks)


NAME_W = 28
FREE_W = 16


def gpu_lines(gpus: Sequence[Gpu]) -> list[str]:
    """Return one line per GPU and one per process on it."""
    lines = []
    for gpu in gpus:
        use = "" if gpu.use_percent is None else f"{percent(gpu.use_percent / 100)} at work"
        free = f"{gib(free_bytes(gpu))} of {gib(gpu.memory_total_bytes)} GB free"
        holders = gpu.processes
        who = ""
        if holders is not None and not holders and (gpu.memory_used_bytes or 0) < 1 << 30:
            who = "nobody"
        name = one_line(gpu.name, NAME_W) or MISSING
        lines.append(f"{gpu.index:>2}  {name:{NAME_W}}  {free:{FREE_W + 8}}  {use:14}  {who}".rstrip())
        lines += [f"    {_holder(process)}" for process in holders or ()]
        if holders is None or (not holders and not who):
            lines.append("    in use by a process not visible from here")
    return lines


def gpu_json(gpus: Sequence[Gpu], trouble: str = "") -> dict[str, Any]:
    """Return the documented JSON shape: every GPU with free memory and processes, or why there is none."""
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
    """Return the free memory; None when the driver does not report it."""
    if gpu.memory_total_bytes is None or gpu.memory_used_bytes is None:
        return None
    return max(0, gpu.memory_total_bytes - gpu.memory_used_bytes)


def _holder(process: GpuProcess) -> str:
    memory = MISSING if process.memory_bytes is None else f"{gib(process.memory_bytes)} GB"
    name = one_line(process.name, 40) or "a process not visible from here"
    user = f" of {one_line(process.user, 16)}" if process.user else ""
    return f"{name}{user}, {memory}, process {process.pid}"


OLD_S = 15.0
"""An older sample is outdated: a new one is due every two seconds."""


@dataclass(frozen=True, slots=True)
class Notice:
    """Something about the machine that needs attention."""

    text: str
    short: str


@dataclass(frozen=True, slots=True)
class HardwareView:
    """The machine at one moment."""

    host: str
    age_s: float
    gpus: tuple[GpuRow, ...] = ()
    figures: tuple[str, ...] = ()
    """One-line summaries, longest first. The first that fits is shown."""
    warnings: tuple[Notice, ...] = ()
    no_gpu: str = ""
    gpu_age_s: float = 0.0
    cpu: float | None = None
    cores: tuple[float, ...] = ()
    load: str = ""
    ram: float | None = None
    ram_text: str = MISSING
    run_cpu: str = MISSING
    run_ram: str = MISSING
    disk_free_bytes: int | None = None

    @property
    def old(self) -> bool:
        """Whether sampling has stopped: a driver hangs, or the supervisor is gone."""
        return self.age_s > OLD_S


def hardware_view(status: Status) -> HardwareView | None:
    """Return the machine of a live run; None when it is not sampled."""
    sample = status.hardware
    if sample is None or not status.live:
        return None
    gpus = tuple(gpu_row(gpu, sample.gpus, status) for gpu in sample.gpus)
    mine = tuple(gpu for gpu in gpus if gpu.ours) or gpus  # all if the run's own are unknown
    warnings = tuple(warning for gpu in mine for warning in _warnings(gpu, len(sample.gpus)))
    total, used = sample.ram_total_bytes, sample.ram_used_bytes
    return HardwareView(
        host=one_line(sample.host, 40),
        age_s=sample.age_s,
        gpus=gpus,
        figures=_figures(sample, mine),
        warnings=_attention(sample, warnings, supervised=status.supervised),
        no_gpu="" if sample.gpus else one_line(sample.gpu_trouble, 120),
        gpu_age_s=max(0.0, sample.at - sample.gpus_at) if sample.gpus_at else 0.0,
        cpu=None if sample.cpu_percent is None else sample.cpu_percent / 100,
        cores=tuple(percent / 100 for percent in sample.cores_percent),
        load="  ".join(fixed(value, 1) for value in sample.load),
        ram=used / total if used is not None and total else None,
        ram_text=f"{gib(used)} of {gib(total)} GB" if used is not None and total else MISSING,
        run_cpu=MISSING if sample.run_cpu_percent is None else f"{sample.run_cpu_percent / 100:.1f} cores",
        run_ram=MISSING if sample.run_rss_bytes is None else f"{gib(sample.run_rss_bytes)} GB",
        disk_free_bytes=sample.disk_free_bytes,
    )


def gpu_line(gpu: GpuRow) -> str:
    """Return a GPU as one line of text."""
    use = MISSING if gpu.use is None else f"{100 * gpu.use:.0f} %"
    ranks = f"  rank {', '.join(map(str, gpu.ranks))}" if gpu.ranks else ""
    slowed = f"  clocks lowered: {gpu.throttle}" if gpu.throttle else ""
    figures = "  ".join((use, gpu.memory_words, gpu.temperature, gpu.power))
    return f"GPU {gpu.index}  {gpu.name}  {figures}{ranks}{slowed}"


def _warnings(gpu: GpuRow, of: int) -> list[Notice]:
    name = f"GPU {gpu.index}" if of > 1 else "GPU"
    found = []
    if "use" in gpu.attention:
        found.append(
            Notice(f"{name} has been idle for {duration(gpu.idle_s)} while others work", f"{name} idle")
        )
    if "throttle" in gpu.attention:
        found.append(Notice(f"{name} is slowed down: {gpu.throttle}", f"{name} slowed: {gpu.throttle}"))
    if "memory" in gpu.attention:
        share = f"{100 * (gpu.memory or 0):.0f} %"
        words = f"{name} memory is {share} full, {gpu.memory_words}"
        found.append(Notice(words, f"{name} memory {share}"))
    if "processes" in gpu.attention:
        other = next(p for p in gpu.processes if p.attention)
        words = f"{other.user}'s {other.name} (pid {other.pid}) holds {other.memory} on {name}"
        found.append(Notice(words, f"{other.user} holds {other.memory} on {name}"))
    return found


def _attention(sample: Hardware, warnings: tuple[Notice, ...], *, supervised: bool) -> tuple[Notice, ...]:
    if sample.age_s > OLD_S:
        short = f"no figures for {duration(sample.age_s)}"
        why = (
            "the GPU driver does not answer, or hardware.json cannot be written"
            if supervised
            else "the supervisor is gone"
        )
        return (Notice(f"{short}: {why}", short),)
    return warnings


def _figures(sample: Hardware, mine: tuple[GpuRow, ...]) -> tuple[str, ...]:
    if sample.age_s > OLD_S:
        return ()
    if not mine:
        cpu = MISSING if sample.cpu_percent is None else f"{sample.cpu_percent:.0f} %"
        ram = sample.ram_used_bytes if sample.run_rss_bytes is None else sample.run_rss_bytes
        short = f"CPU {cpu}   RAM {gib(ram)} GB"
        return (f"{short}   GPU none", short, f"CPU {cpu}")
    if len(mine) == 1:
        return _one_gpu(mine[0], alone=len(sample.gpus) == 1)
    uses = [gpu.use for gpu in mine if gpu.use is not None]
    low, high = (100 * min(uses), 100 * max(uses)) if uses else (0.0, 0.0)
    span = MISSING if not uses else f"{low:.0f} %" if round(low) == round(high) else f"{low:.0f}–{high:.0f} %"
    fullest = max(mine, key=lambda gpu: gpu.memory or 0.0)
    parts = [f"{len(mine)} GPUs {span}"]
    if fullest.memory is not None:
        parts.append(fullest.memory_words)
    degrees = [gpu.temperature_c for gpu in mine if gpu.temperature_c is not None]
    if degrees:
        parts.append(f"max {max(degrees):.0f} °C")
    return _shorter(parts)


def _one_gpu(gpu: GpuRow, *, alone: bool) -> tuple[str, ...]:
    use = MISSING if gpu.use is None else f"{100 * gpu.use:.0f} %"
    parts = [f"GPU {use}" if alone else f"GPU {gpu.index}: {use}"]
    if gpu.memory is not None:
        parts.append(gpu.memory_words)
    if gpu.temperature_c is not None:
        parts.append(gpu.temperature)
    return _shorter(parts)


def _shorter(parts: list[str]) -> tuple[str, ...]:
    return tuple("  ".join(parts[:count]) for count in range(len(parts), 0, -1))
