"""The machine of a run in words: its figures in one line, and what deserves attention.

Knows the store's sample and the rows made of it; no widget, and no file.
"""

from __future__ import annotations

from dataclasses import dataclass

from grpo_tui.core.text import one_line
from grpo_tui.present.formatting import MISSING, duration, fixed
from grpo_tui.present.gpu_rows import GpuRow, gib, gpu_row, of_the_run
from grpo_tui.store.hardware import Hardware
from grpo_tui.store.status import Status

OLD_S = 15.0
"""A sample older than this is no longer the machine of now: one is due every two seconds."""


@dataclass(frozen=True, slots=True)
class Notice:
    """Something about the machine that deserves a look."""

    text: str
    short: str


@dataclass(frozen=True, slots=True)
class HardwareView:
    """The machine at one moment."""

    host: str
    age_s: float
    gpus: tuple[GpuRow, ...] = ()
    figures: tuple[str, ...] = ()
    """The machine in one line, longest first; the first that fits is shown."""
    warnings: tuple[Notice, ...] = ()
    no_gpu: str = ""
    """Why there is no GPU to show."""
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
        """True when nobody has sampled for a while: a driver hangs, or the supervisor is gone."""
        return self.age_s > OLD_S


def hardware_view(status: Status) -> HardwareView | None:
    """The machine of a live run, None when nobody samples it."""
    sample = status.hardware
    if sample is None or not status.live:
        return None
    gpus = tuple(gpu_row(gpu, sample.gpus, status) for gpu in sample.gpus)
    mine = of_the_run(gpus)
    warnings = tuple(warning for gpu in mine for warning in _warnings(gpu, len(sample.gpus)))
    total = sample.ram_total_bytes
    used = sample.ram_used_bytes
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
    """A GPU in one line of plain words."""
    use = MISSING if gpu.use is None else f"{100 * gpu.use:.0f} %"
    ranks = f"  rank {', '.join(map(str, gpu.ranks))}" if gpu.ranks else ""
    slowed = f"  clocks held down: {gpu.throttle}" if gpu.throttle else ""
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
    """The machine in one line, longest first."""
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
