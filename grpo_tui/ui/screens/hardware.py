"""The machine: GPUs and their processes, CPU, memory, ranks."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from grpo_tui.present.formatting import MISSING, duration, percent, plural, size, step_time
from grpo_tui.present.glyphs import spark
from grpo_tui.present.train_view import TrainView
from grpo_tui.ui.actions import bindings
from grpo_tui.ui.kit.reading import FullReadingScreen
from grpo_tui.ui.paint import Line, Span, pad, ruled, width_of
from grpo_tui.ui.widgets.bars import Footer, Header
from grpo_tui.ui.widgets.summary import doing

if TYPE_CHECKING:
    from grpo_tui.present.hardware_view import GpuRow, HardwareView, ProcessRow, RankRow

FIGURES = 58
"""Cells of a GPU's line without its two bars."""
CLOCKS = 16
"""More cells for the throttle reason, if `ROOMY`."""
ROOMY = 100
BARS = (4, 30)
LABEL = 6
LATE_S = 5.0
"""A sample older than this shows its age."""


def _nobody_samples(view: TrainView) -> list[Line]:
    if view.ended or view.replay is not None:
        return _recorded(view)
    if view.live:
        return [_empty("No figures yet. The supervisor takes the first ones half a second after it starts.")]
    return [_empty("Nothing runs here.")]


def _recorded(view: TrainView) -> list[Line]:
    lines: list[Line] = [_empty("GPU and CPU use are shown while the run trains. Recorded of this run:"), ()]
    shares = [f"{name} {percent(share)}" for name, share in view.phase_shares if share >= 0.005]
    told = (
        (
            "step",
            "" if view.step_time_s is None else f"{step_time(view.step_time_s)}, over the last 20 steps",
        ),
        ("rate", "" if view.tokens_per_s is None else f"{view.tokens_per_s:,.0f} tokens/s"),
        ("time", "  ".join(shares)),
    )
    return lines + [[Span(f"  {name}  ", "dim"), Span(words)] for name, words in told if words]


def _empty(text: str) -> Line:
    return [Span(f"  {text}", "dim")]


# -- GPUs ----------------------------------------------------------------------------------------


def _gpus(hardware: HardwareView, width: int) -> list[Line]:
    title: list[Line] = [[Span("GPUs", "title")]]
    if not hardware.gpus:
        return [ruled(title, width), _empty(f"No GPU here: {hardware.no_gpu or 'NVML names none'}.")]
    names = Counter(gpu.name or "GPU" for gpu in hardware.gpus)
    cards = ", ".join(f"{count} × {name}" if count > 1 else name for name, count in names.items())
    title.append([Span(cards)])
    late = max(hardware.gpu_age_s, hardware.age_s)
    right = [Span(f"as of {duration(late)} ago", "attention")] if late > LATE_S else []
    bar, roomy = _bar_cells(width), width >= ROOMY
    heading = (
        Span("     " + pad("use", bar + 8), "dim"),
        Span(pad("memory", bar + 15), "dim"),
        Span(pad("temp", 7, right=True), "dim"),
        Span(pad("power", 15, right=True), "dim"),
        Span("  ranks", "dim"),
    )
    return [ruled(title, width, right), heading, *(_gpu(gpu, bar, roomy=roomy) for gpu in hardware.gpus)]


def _gpu(gpu: GpuRow, bar: int, *, roomy: bool) -> Line:
    plain = "text" if gpu.ours else "dim"

    def role(figure: str) -> str:
        return "attention" if figure in gpu.attention else plain

    sign = Span("⚠", "attention") if gpu.attention else Span(" ")
    clocks = f"  {gpu.throttle}" if gpu.throttle and roomy else ""
    return [
        Span(" "),
        sign,
        Span(pad(str(gpu.index), 2, right=True), "strong" if gpu.ours else "dim"),
        Span(" "),
        *_bar(gpu.use, bar, role("use")),
        Span(pad(percent(gpu.use), 6, right=True) + "  ", role("use")),
        *_bar(gpu.memory, bar, role("memory")),
        Span(pad(gpu.memory_words, 15, right=True), role("memory")),
        Span(pad(gpu.temperature, 7, right=True), role("throttle")),
        Span(pad(gpu.power, 15, right=True), plain),
        Span("  " + (", ".join(map(str, gpu.ranks)) or ("" if gpu.ours else MISSING)), plain),
        Span(clocks, "attention" if "throttle" in gpu.attention else "dim"),
    ]


def _bar_cells(width: int) -> int:
    room = width - FIGURES - (CLOCKS if width >= ROOMY else 0)
    return min(BARS[1], max(BARS[0], room // 2))


def _bar(share: float | None, cells: int, role: str) -> list[Span]:
    done = round(min(1.0, max(0.0, share or 0.0)) * cells)
    return [Span("━" * done, "accent" if role == "text" else role), Span("─" * (cells - done), "rule")]


# -- processor, memory, disk ---------------------------------------------------------------------


def _machine(hardware: HardwareView, width: int) -> list[Line]:
    bar = _bar_cells(width)
    cores = plural(len(hardware.cores), "core") if hardware.cores else "the cores"
    lines: list[Line] = [
        ruled([[Span("machine", "title")], [Span(hardware.host or MISSING)]], width),
        _figure("CPU", hardware.cpu, bar, f"of {cores}", f"this run {hardware.run_cpu}"),
    ]
    if len(hardware.cores) > 1:
        room = max(8, width - LABEL - 1)
        lines.append([_label(""), Span(spark(hardware.cores, room, 0.0, 1.0), "line")])
    lines.append(_figure("RAM", hardware.ram, bar, hardware.ram_text, f"this run {hardware.run_ram}"))
    words = [_label("load"), Span(hardware.load or MISSING)]
    if hardware.disk_free_bytes is not None:
        words += [Span("    disk ", "dim"), Span(f"{size(hardware.disk_free_bytes)} free for the run")]
    lines.append(words)
    return lines


def _label(name: str) -> Span:
    return Span(pad(f" {name}", LABEL), "dim")


def _figure(name: str, share: float | None, bar: int, of: str, own: str) -> Line:
    return [
        _label(name),
        *_bar(share, bar, "text"),
        Span(pad(percent(share), 6, right=True) + "  "),
        Span(pad(of, 18)),
        Span(own, "dim"),
    ]


# -- processes and ranks -------------------------------------------------------------------------


def _processes(hardware: HardwareView, width: int) -> list[Line]:
    rows = [(gpu.index, process) for gpu in hardware.gpus for process in gpu.processes]
    unseen = [gpu.index for gpu in hardware.gpus if gpu.hidden]
    if not hardware.gpus:
        return []
    title: list[Line] = [[Span("processes on the GPUs", "title")], [Span("● this run", "dim")]]
    lines: list[Line] = [ruled(title, width)]
    lines += [_process(index, process, width) for index, process in rows]
    if unseen:
        which = ", ".join(map(str, unseen))
        lines.append(_empty(f"GPU {which}: memory is in use by processes not visible from here."))
    if not rows and not unseen:
        lines.append(_empty("None."))
    return lines


def _process(index: int, process: ProcessRow, width: int) -> Line:
    role = "attention" if process.attention else "text" if process.ours else "dim"
    sign = Span("⚠", role) if process.attention else Span("●" if process.ours else " ", "accent")
    head = [
        Span(" "),
        sign,
        Span(pad(f" GPU {index}", 8), role),
        Span(pad(str(process.pid), 9, right=True), role),
        Span("  " + pad(process.user, 12), role),
        Span(pad(process.memory, 9, right=True), role),
    ]
    return [*head, Span("  " + pad(process.name, max(8, width - width_of(head) - 3)).rstrip(), role)]


def _ranks(view: TrainView, width: int) -> list[Line]:
    if not view.ranks:
        return []
    lines: list[Line] = [
        ruled([[Span("ranks", "title")], [Span(f"{len(view.ranks)} on this machine")]], width)
    ]
    return [*lines, *(_rank(rank, view) for rank in view.ranks)]


def _rank(rank: RankRow, view: TrainView) -> Line:
    role = "attention" if rank.behind else "text"
    for_s = "" if rank.phase_since is None else f" for {duration(max(0.0, view.now - rank.phase_since))}"
    return [
        Span(" "),
        Span("⚠" if rank.behind else " ", role),
        Span(pad(f" rank {rank.rank}", 9)),
        Span(pad(f"pid {rank.pid}", 13), "dim"),
        Span(pad(f"step {rank.step:,}", 12)),
        Span(pad("" if rank.gpu is None else f"GPU {rank.gpu}", 8)),
        Span(f"{'still ' if rank.behind else ''}{doing(rank.phase, rank.reward_function)}{for_s}", role),
    ]


class HardwareScreen(FullReadingScreen):
    """The machine of the open run."""

    BINDINGS = bindings("hardware")
    PANE, OVER = "hardware", "train"

    def on_mount(self) -> None:
        self.shell.view_signal.subscribe(self, self._on_view)

    def _on_view(self, view: TrainView | None) -> None:
        self.query_one(Header).show(view)
        self.query_one(Footer).show(view)
        self.body.changed()

    def lines(self, width: int) -> list[Line]:
        view = self.shell.view
        if view is None:
            return [_empty("Opening the run …")]
        hardware = view.hardware
        if hardware is None:
            return [ruled([[Span("machine", "title")]], width), *_nobody_samples(view), *_ranks(view, width)]
        return [
            *_gpus(hardware, width),
            *([Span(f" ⚠ {notice.text}", "attention")] for notice in hardware.warnings),
            *_machine(hardware, width),
            *_processes(hardware, width),
            *_ranks(view, width),
        ]
