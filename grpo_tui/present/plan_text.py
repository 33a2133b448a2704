"""Format a plan as lines: in full for commands, in brief for the bottom of the Config pane.

A brief line is made of parts with ranks: where not all fit, the highest rank is dropped first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from grpo_tui.config.plan.batches import batch_sum, prompt_sum, step_sum
from grpo_tui.config.plan.memory import CARDS, WORDS, Device, card
from grpo_tui.core.text import one_line
from grpo_tui.present.formatting import duration, percent, plural, setting, size, step_time
from grpo_tui.present.glyphs import spark

if TYPE_CHECKING:
    from grpo_tui.config.plan.making import Plan
    from grpo_tui.config.plan.memory import MemoryPlan

TITLE_W = 9
CURVE_W = 24
PART_W = 20
SIZE_W = 9
BAR_W = 40
SHADES = "█▓▒░"
FREE = "─"


def plan_list(plan: Plan) -> list[str]:
    """Return the whole plan, one line per item and per part of the memory."""
    lines = [
        _line("batch", batch_sum(plan.batches)),
        _line("", prompt_sum(plan.batches)),
        _line("tokens", f"at most {plan.tokens_per_step:,} a step, {_lengths(plan)}"),
        _line("steps", _steps(plan)),
        _line("evaluate", _evaluations(plan)),
        _line("time", _time(plan)),
        _line("rate", _rate(plan)),
        _line("disk", "".join(checkpoint_words(plan)) + ": too much" * (plan.checkpoints.fits is False)),
    ]
    return [*(line for line in lines if line), *memory_list(plan)]


def memory_list(plan: Plan) -> list[str]:
    """Return the memory plan: the peak and its bar, then each part with its formula."""
    memory = plan.memory
    if memory is None:
        return [_line("memory", memory_missing(plan))]
    lines = [_line("memory", memory_words(memory))]
    bar = memory_bar(memory, BAR_W)
    if bar:
        lines.append(_line("", bar))
    for part in sorted(memory.parts, key=lambda part: -part.bytes):
        at_peak = memory.peak_moment in part.moments and not part.movable
        named = f"{' ' if at_peak else '-'} {part.title:{PART_W}} {size(part.bytes):>{SIZE_W}}"
        lines.append(_line("", f"{named}  {one_line(part.formula, 200)}"))
    if any(memory.peak_moment not in part.moments for part in memory.parts):
        lines.append(_line("", "(- not in GPU memory at that moment, or can move to host memory)"))
    return lines + [_line("", f"note: {note}") for note in memory.notes]


def memory_missing(plan: Plan) -> str:
    """Return why there is no memory plan, and the command that gets what it needs."""
    name = one_line(plan.model_name, 100)
    if not name:
        return "not planned: set model_name_or_path"
    if name.startswith(("/", ".", "~")):
        return f"not planned: {name} has no config.json with the model's sizes"
    return f"not planned: the sizes of {name} are not known here. `hf download {name} config.json` gets them"


def memory_words(memory: MemoryPlan) -> str:
    """Describe the peak, when it occurs, and what would fit."""
    peak = f"{size(memory.peak_bytes)} at the peak, {WORDS[memory.peak_moment]}"
    if memory.correction != 1.0:
        peak += f" (× {memory.correction:.2f} by a trial)"
    device = memory.device
    if device is None:
        return f"{peak}; no GPU to compare it with"
    words = f"{peak}, of {size(device.memory_bytes)} ({one_line(device.name, 40)})"
    if device.held_by:
        words += f", {size(device.room_bytes)} of it free: in use by {one_line(device.held_by, 120)}"
    if memory.fits is False:
        words += ": does not fit"
    most = []
    if memory.most_generations is not None:
        most.append(f"num_generations {memory.most_generations:,}")
    if memory.most_length is not None:
        most.append(f"max_completion_length {memory.most_length:,}")
    return f"{words}; fits up to {' or '.join(most)}" if most else words


def memory_bar(memory: MemoryPlan, width: int) -> str:
    """Draw the parts at the peak, largest first, then free memory; empty without a device."""
    device = memory.device
    if device is None or device.memory_bytes <= 0 or width <= 0:
        return ""
    there = [p for p in memory.parts if memory.peak_moment in p.moments and not p.movable]
    parts = sorted((p.bytes * memory.correction for p in there), reverse=True)
    whole = max(float(device.room_bytes), float(memory.peak_bytes))
    bar, done = "", 0.0
    for number, part in enumerate(parts):
        done += part
        bar += SHADES[number % len(SHADES)] * (round(done / whole * width) - len(bar))
    return bar + FREE * (width - len(bar))


def checkpoint_words(plan: Plan) -> tuple[str, str]:
    """Return number and size of checkpoints, and the free space; the second is empty when unknown."""
    kept = plan.checkpoints
    if kept.written == 0:
        return "no checkpoint", ""
    if kept.written is None:
        return "checkpoints unknown", ""
    words = plural(kept.written, "checkpoint")
    if kept.kept is not None and kept.kept < kept.written:
        words += f", {kept.kept} kept"
    if kept.bytes_each is not None:
        words += f" × {size(kept.bytes_each)}"
    return words, "" if kept.free_bytes is None else f" of {size(kept.free_bytes)} free"


def _line(title: str, words: str) -> str:
    return f"{title:{TITLE_W}}{words}" if words else ""


def _lengths(plan: Plan) -> str:
    if plan.prompt_tokens is None:
        return f"completions of {plan.max_completion_length:,} and their prompts"
    return f"prompts of {plan.prompt_tokens:,} and completions of {plan.max_completion_length:,}"


def _steps(plan: Plan) -> str:
    steps = plan.steps
    total = f"{steps.total:,}" if steps.total is not None else "not known"
    if steps.epochs is not None and steps.total:
        total += f" = {steps.epochs:.3g} epochs"
    about = step_sum(steps, plan.batches) if steps.per_epoch else steps.reason
    return f"{total}; {about}" if about else total


def _time(plan: Plan) -> str:
    took = plan.duration
    if took is None:
        return "unknown until this model has run here; train --smoke measures it"
    whole = f"about {duration(took.total_s)}, " if took.total_s is not None else ""
    scaled = ", scaled to this size" if took.scaled else ""
    return f"{whole}{step_time(took.step_s)}, as in {one_line(took.run, 40)}{scaled}"


def _evaluations(plan: Plan) -> str:
    asked = plan.evaluations
    if asked is None:
        return ""
    each = f"{plural(asked.rows, 'row')} × {plural(asked.samples, 'completion')}"
    words = (
        f"{plural(asked.count, 'evaluation')} × {each} = {asked.completions:,}, {percent(asked.share)} of all"
    )
    return f"{words}, not counted in the time" if plan.duration is not None else words


def _rate(plan: Plan) -> str:
    points = plan.learning_rate
    if not points:
        return ""
    rates: Sequence[float] = [rate for _, rate in points]
    curve = spark(rates, CURVE_W, low=0.0, high=max(rates) or None)
    return f"{setting(max(rates))} at most, {setting(rates[-1])} at the end  {curve}"


Text = tuple[str, str]
PlanLine = Sequence[tuple[int, Sequence[Text]]]
NARROW_CURVE_W = 12
NARROW_BAR_W = 20
READING = "reading the model's sizes …"
UNCOUNTED = "rows not counted"
LEAST_PART = 0.02
"""Parts of the memory below this fraction of the peak are not named."""


def plan_lines(plan: Plan | None, *, looking: bool = False) -> list[PlanLine]:
    """Return the brief lines of a plan; none when there is nothing to plan from."""
    if plan is None:
        return []
    memory: PlanLine = [(0, [("memory ", "dim"), (READING, "dim")])] if looking else _memory(plan)
    return [_batch(plan), _steps_line(plan), memory]


def _batch(plan: Plan) -> PlanLine:
    batches = plan.batches
    role = "text" if batches.whole else "bad"
    return [
        (0 if batches.whole else 1, [(batch_sum(batches), "strong")]),
        (1 if batches.whole else 0, [(prompt_sum(batches), role)]),
        (2, [(f"at most {plan.tokens_per_step:,} tokens a step", "dim")]),
    ]


def _steps_line(plan: Plan) -> PlanLine:
    steps = plan.steps
    total = plural(steps.total, "step") if steps.total is not None else "steps unknown"
    if steps.epochs is not None and steps.total:
        total += f" = {steps.epochs:.2g} epochs"
    line: list[tuple[int, Sequence[Text]]] = [(0, [(total, "strong")])]
    if steps.per_epoch:
        line.append((5, [(step_sum(steps, plan.batches), "dim")]))
    elif steps.reason:
        hint = f"{steps.reason}; c counts them" if steps.reason == UNCOUNTED else steps.reason
        line.append((5, [(hint, "dim" if steps.total is not None else "attention")]))
    took = plan.duration
    if took is not None:
        whole = f"about {duration(took.total_s)}" if took.total_s is not None else step_time(took.step_s)
        scaled = ", scaled" if took.scaled else ""
        line.append((1, [(whole, "text"), (f", as in {took.run}{scaled}", "dim")]))
    line.append((2, _checkpoints(plan)))
    if plan.learning_rate:
        rates = [rate for _, rate in plan.learning_rate]
        top = max(rates)
        curve = spark(rates, NARROW_CURVE_W, low=0.0, high=top or None)
        line.append((3, [("lr ", "dim"), (setting(top), "text"), (f" {curve}", "accent")]))
    return line


def _checkpoints(plan: Plan) -> Sequence[Text]:
    words, free = checkpoint_words(plan)
    written = plan.checkpoints.written
    texts: list[Text] = [(words, "attention" if written == 0 else "dim" if written is None else "text")]
    if free:
        texts.append((free, "bad" if plan.checkpoints.fits is False else "dim"))
    return texts


def _memory(plan: Plan) -> PlanLine:
    memory = plan.memory
    if memory is None:
        return [(0, [("memory ", "dim"), (memory_missing(plan), "dim")])]
    peak = memory.peak_bytes
    device = memory.device
    line: list[tuple[int, Sequence[Text]]] = []
    if device is not None:
        role = "bad" if memory.fits is False else "text"
        word = "✗ does not fit " if memory.fits is False else ""
        free = f" {word}{_gb(peak)} of {_gb(device.room_bytes)}{' free' * bool(device.held_by)}"
        line.append((0, [("memory ", "dim"), *_bar(memory), (free, role)]))
        line.append((1, [(device.name, "dim")]))
        if device.held_by:
            line.append((1, [(f"in use by {one_line(device.held_by, 80)}", "attention")]))
    else:
        line.append((0, [("memory ", "dim"), (_gb(peak), "text")]))
    parts = sorted((p for p in memory.parts if memory.peak_moment in p.moments), key=lambda p: -p.bytes)
    named = [f"{p.title} {_gb(p.bytes)}" for p in parts if not p.movable and p.bytes >= LEAST_PART * peak]
    line.append((2, [("  ".join(named[:3]), "dim")]))
    line.append((5, [(WORDS[memory.peak_moment], "dim")]))
    if memory.most_generations is not None and memory.most_length is not None:
        most = f"fits up to {memory.most_generations:,} generations or {memory.most_length:,} tokens"
        line.append((3, [(most, "dim")]))
    return line


def _bar(memory: MemoryPlan) -> list[Text]:
    device = memory.device
    assert device is not None
    bar = memory_bar(memory, NARROW_BAR_W)
    share = memory.peak_bytes / max(1, device.room_bytes)
    role = "bad" if memory.fits is False else "attention" if share > 0.9 else "accent"
    taken = bar.rstrip(FREE)
    return [(taken, role), (bar[len(taken) :], "rule")]


def devices(gpus: Sequence[tuple[int, str, int | None, int | None]]) -> list[tuple[str, str, Device]]:
    """Return the devices to plan for: the GPUs of this machine, then known GPU models.

    Args:
        gpus: Index, name, total and free bytes of each GPU here.

    Returns:
        Name, description and device.
    """
    listed = []
    for index, name, total, free in gpus:
        if total:
            room = f"{one_line(name, 30)}, {_gb(free or 0)} of {_gb(total)} free"
            listed.append((f"GPU {index} here", room, Device(name, total)))
    known = sorted(CARDS, key=lambda name: (-CARDS[name], name))
    found = [(name, f"{CARDS[name]} GB", card(name)) for name in known]
    return listed + [(name, what, device) for name, what, device in found if device is not None]


def _gb(count: int) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e8 else size(count)
