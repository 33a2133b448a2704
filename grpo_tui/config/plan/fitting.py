"""The memory plan of a config on a device, and the largest group and length that fit there.

Tries sizes by bisection, since every part grows with both. Knows no formula itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import gcd

from grpo_tui.config.plan.arithmetic import Batches
from grpo_tui.config.plan.load import Load
from grpo_tui.config.plan.memory import parts_of
from grpo_tui.config.plan.memory_plan import Device, MemoryPlan
from grpo_tui.config.plan.model_shape import ModelShape
from grpo_tui.config.plan.settings import PlanSettings
from grpo_tui.config.plan.sharding import Sharding
from grpo_tui.config.plan.trained import what_is_trained

ASSUMED_PROMPT = 256
"""Tokens of a prompt when nobody has measured one, but no more than a quarter of what the model takes."""
MOST_GENERATIONS = 4096
MOST_LENGTH = 1_048_576
MOST_PER_DEVICE = 4096
"""Micro-batches above this are tried no longer: none of them fits a card."""


def plan_memory(
    settings: PlanSettings,
    batches: Batches,
    shape: ModelShape,
    sharding: Sharding,
    *,
    prompt_tokens: int | None,
    device: Device | None,
    correction: float = 1.0,
) -> MemoryPlan:
    """Plan the memory of one device.

    Args:
        settings: the config.
        batches: its batch sizes.
        shape: sizes of the model.
        sharding: how the model is spread.
        prompt_tokens: tokens of the longest prompt, None when nobody looked.
        device: the device, None to leave open whether it fits.
        correction: measured ÷ planned of a trial.
    """
    prompt = prompt_tokens if prompt_tokens is not None else _assumed_prompt(shape)
    load = Load(
        settings,
        shape,
        what_is_trained(settings, shape, sharding),
        batches,
        sharding,
        prompt,
        settings.whole("max_completion_length"),
        device,
    )
    notes = []
    if prompt_tokens is None:
        notes.append(f"prompts of {prompt} tokens are assumed")
    if settings("reward_model_name_or_path"):
        notes.append("the reward model is not counted")
    if not shape.exact:
        notes.append("the parameters are computed from the model's sizes, not counted")
    made = MemoryPlan(parts_of(load), device, shape.exact, correction, tuple(notes))
    if device is None:
        return made
    return replace(
        made,
        most_generations=_most_generations(load, device, correction),
        most_length=_most_length(load, device, correction),
        most_per_device=_most_per_device(load, device, correction),
    )


def _assumed_prompt(shape: ModelShape) -> int:
    return ASSUMED_PROMPT if shape.context is None else max(1, min(ASSUMED_PROMPT, shape.context // 4))


def _most_generations(load: Load, device: Device, correction: float) -> int | None:
    """The largest group when the batch on each device grows with it, prompts a step staying as they are."""
    batches = load.batches
    unit = batches.group // gcd(batches.group, batches.per_device)

    def fits(times: int) -> bool:
        group = unit * times
        grown = batches.per_device * group // batches.group
        at_once = batches.generation_batch_size * group // batches.group
        changed = replace(batches, per_device=grown, group=group, generation_batch_size=at_once)
        return _fits(replace(load, batches=changed), device, correction)

    times = _largest(fits, 1, max(1, MOST_GENERATIONS // unit))
    return None if times is None or unit * times < 2 else unit * times


def _most_length(load: Load, device: Device, correction: float) -> int | None:
    context = load.shape.context
    most = max(1, context - load.prompt) if context is not None else MOST_LENGTH
    return _largest(lambda length: _fits(replace(load, completion=length), device, correction), 1, most)


def _most_per_device(load: Load, device: Device, correction: float) -> int | None:
    """The largest micro-batch that fits, of those with which TRL starts (see `config.batch`)."""
    batches = load.batches
    explicit = load.settings.optional("generation_batch_size")
    for size in range(min(batches.per_device, MOST_PER_DEVICE), 0, -1):
        micro = size * batches.world_size
        at_once = explicit or micro * batches.steps_per_generation
        changed = replace(batches, per_device=size, generation_batch_size=at_once)
        if changed.whole and _fits(replace(load, batches=changed), device, correction):
            return size
    return None


def _fits(load: Load, device: Device, correction: float) -> bool:
    return MemoryPlan(parts_of(load), device, correction=correction).fits is True


def _largest(fits: Callable[[int], bool], low: int, high: int) -> int | None:
    """The largest number that fits, by bisection; None when the lowest does not."""
    if not fits(low):
        return None
    while low < high:
        middle = (low + high + 1) // 2
        if fits(middle):
            low = middle
        else:
            high = middle - 1
    return low
