"""A plan as a list of lines for `plan`, `check` and whoever prints one, and its memory as a bar of parts.

Knows the plan; makes none. The few lines of the pane are in `config_plan`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from grpo_tui.config.plan.batch import batch_sum, prompt_sum, step_sum
from grpo_tui.config.plan.memory import WORDS
from grpo_tui.core.text import one_line
from grpo_tui.present.formatting import duration, plural, setting, size, step_time
from grpo_tui.present.glyphs import spark

if TYPE_CHECKING:
    from grpo_tui.config.plan import MemoryPart, MemoryPlan, Plan

TITLE_W = 9
CURVE_W = 24
PART_W = 20
SIZE_W = 9
BAR_W = 40
SHADES = "█▓▒░"
"""Shades of neighbouring parts in the bar."""
FREE = "─"


def plan_list(plan: Plan) -> list[str]:
    """Everything a plan says, a line for each thing and one for each part of the memory."""
    lines = [
        _line("batch", batch_sum(plan.batches)),
        _line("", prompt_sum(plan.batches)),
        _line("tokens", f"at most {plan.tokens_per_step:,} a step, {_lengths(plan)}"),
        _line("steps", _steps(plan)),
        _line("time", _time(plan)),
        _line("rate", _rate(plan)),
        _line("disk", _disk(plan)),
    ]
    return [*(line for line in lines if line), *memory_list(plan)]


def memory_list(plan: Plan) -> list[str]:
    """The memory: the peak and its bar, then each part with its sum."""
    memory = plan.memory
    if memory is None:
        return [_line("memory", memory_missing(plan))]
    lines = [_line("memory", memory_words(memory))]
    bar = memory_bar(memory, BAR_W)
    if bar:
        lines.append(_line("", bar))
    for part in sorted(memory.parts, key=lambda part: -part.bytes):
        at_peak = memory.peak_moment in part.moments and not part.movable
        mark = " " if at_peak else "-"
        lines.append(_line("", f"{mark} {part.title:{PART_W}} {size(part.bytes):>{SIZE_W}}  {_sum(part)}"))
    if any(memory.peak_moment not in part.moments for part in memory.parts):
        lines.append(_line("", "(- is not there at that moment, or can move to the host's memory)"))
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
    """The peak, when it comes, and what would fit."""
    peak = f"{size(memory.peak_bytes)} at the peak, {WORDS[memory.peak_moment]}"
    if memory.correction != 1.0:
        peak += f" (× {memory.correction:.2f} by a trial)"
    device = memory.device
    if device is None:
        return f"{peak}; no GPU is known to hold it against"
    words = f"{peak}, of {size(device.memory_bytes)} ({one_line(device.name, 40)})"
    if device.held_by:
        words += f", {size(device.room_bytes)} of it free: held by {one_line(device.held_by, 120)}"
    if memory.fits is False:
        words += ": does not fit"
    most = []
    if memory.most_generations is not None:
        most.append(f"num_generations {memory.most_generations:,}")
    if memory.most_length is not None:
        most.append(f"max_completion_length {memory.most_length:,}")
    return f"{words}; fits up to {' or '.join(most)}" if most else words


def memory_bar(memory: MemoryPlan, width: int) -> str:
    """The parts at the peak side by side, the largest first, then what is free; empty without a device."""
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
    """How many checkpoints of which size, and what is free; the second is empty when nobody looked."""
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


def _disk(plan: Plan) -> str:
    words = "".join(checkpoint_words(plan))
    return f"{words}: too much" if plan.checkpoints.fits is False else words


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
        return "not known before a run of this model here; train --smoke measures it"
    whole = f"about {duration(took.total_s)}, " if took.total_s is not None else ""
    scaled = ", scaled to this size" if took.scaled else ""
    return f"{whole}{step_time(took.step_s)}, as in {one_line(took.run, 40)}{scaled}"


def _rate(plan: Plan) -> str:
    points = plan.learning_rate
    if not points:
        return ""
    rates: Sequence[float] = [rate for _, rate in points]
    curve = spark(rates, CURVE_W, low=0.0, high=max(rates) or None)
    return f"{setting(max(rates))} at most, {setting(rates[-1])} at the end  {curve}"


def _sum(part: MemoryPart) -> str:
    return one_line(part.formula, 200)
