"""What a plan says on the few lines at the bottom of Config: completions, steps, time, disk, memory.

Each line is parts by rank: where not all fit, the highest number goes first. Knows the plan; makes none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from grpo_tui.config.plan.batch import batch_sum, prompt_sum, step_sum
from grpo_tui.config.plan.memory import CARDS, WORDS, Device, card
from grpo_tui.core.text import one_line
from grpo_tui.present.formatting import duration, setting, size
from grpo_tui.present.glyphs import spark
from grpo_tui.present.plan_text import FREE, checkpoint_words, memory_bar, memory_missing

if TYPE_CHECKING:
    from grpo_tui.config.plan import MemoryPlan, Plan

Text = tuple[str, str]
"""A piece and the role of its colour."""
PlanLine = Sequence[tuple[int, Sequence[Text]]]
CURVE_W = 12
BAR_W = 20
UNCOUNTED = "the rows are not counted"
LEAST_PART = 0.02
"""A part of the memory below this share of the peak is not named."""


def plan_lines(plan: Plan | None) -> list[PlanLine]:
    """The lines of a plan; none when there is nothing to plan from."""
    if plan is None:
        return []
    return [_batch(plan), _steps(plan), _memory(plan)]


def _batch(plan: Plan) -> PlanLine:
    batches = plan.batches
    role = "text" if batches.whole else "bad"
    line: list[tuple[int, Sequence[Text]]] = [
        (0 if batches.whole else 1, [(batch_sum(batches), "strong")]),
        (1 if batches.whole else 0, [(prompt_sum(batches), role)]),
    ]
    line.append((2, [(f"at most {plan.tokens_per_step:,} tokens a step", "dim")]))
    return line


def _steps(plan: Plan) -> PlanLine:
    steps = plan.steps
    total = f"{steps.total:,} steps" if steps.total is not None else "steps unknown"
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
        whole = f"about {duration(took.total_s)}" if took.total_s is not None else duration(took.step_s)
        scaled = ", scaled" if took.scaled else ""
        line.append((1, [(whole, "text"), (f" as {took.run}{scaled}", "dim")]))
    line.append((2, _checkpoints(plan)))
    if plan.learning_rate:
        rates = [rate for _, rate in plan.learning_rate]
        top = max(rates)
        curve = spark(rates, CURVE_W, low=0.0, high=top or None)
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
        line.append(
            (
                0,
                [
                    ("memory ", "dim"),
                    *_bar(memory),
                    (f" {word}{_gb(peak)} of {_gb(device.room_bytes)}{' free' * bool(device.held_by)}", role),
                ],
            )
        )
        line.append((1, [(device.name, "dim")]))
        if device.held_by:
            line.append((1, [(f"held by {one_line(device.held_by, 80)}", "attention")]))
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
    """The parts in shades, the largest first; what is free is a line."""
    device = memory.device
    assert device is not None
    bar = memory_bar(memory, BAR_W)
    share = memory.peak_bytes / max(1, device.room_bytes)
    role = "bad" if memory.fits is False else "attention" if share > 0.9 else "accent"
    taken = bar.rstrip(FREE)
    return [(taken, role), (bar[len(taken) :], "rule")]


def devices(gpus: Sequence[tuple[int, str, int | None, int | None]]) -> list[tuple[str, str, Device]]:
    """What a run can be planned for: the GPUs of this machine, then the cards that are known.

    Args:
        gpus: index, name, bytes of memory and bytes free of each GPU here.

    Returns:
        Name, what is said of it, and the device.
    """
    listed = [
        (
            f"GPU {index} here",
            f"{one_line(name, 30)}, {_gb(free or 0)} of {_gb(total)} free",
            Device(name, total),
        )
        for index, name, total, free in gpus
        if total
    ]
    known = sorted(CARDS, key=lambda name: (-CARDS[name], name))
    found = [(name, f"{CARDS[name]} GB", card(name)) for name in known]
    return listed + [(name, what, device) for name, what, device in found if device is not None]


def _gb(count: int) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e8 else size(count)
