"""`plan`: from the settings of a config to everything that can be said before it runs.

Pure: what lies outside a config (rows, the model's sizes, the device, free disk, rates of earlier runs) is
given by the caller, and each of it may be missing. The largest group and length that fit are found by
bisection, since every part of the memory grows with both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import gcd
from typing import Any

from grpo_tui.config.plan.memory import Device, Load, MemoryPlan, parts_of
from grpo_tui.config.plan.model import ModelShape, Sharding, read_sharding, what_is_trained
from grpo_tui.config.plan.settings import Batches, PlanSettings, Steps, count_steps, read_batches
from grpo_tui.config.plan.time import (
    Duration,
    PlannedCheckpoints,
    Point,
    Rate,
    estimate,
    learning_rates,
    plan_checkpoints,
)
from grpo_tui.config.run_config import RunConfig


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a plan needs beyond the config; whatever is unknown stays None.

    Attributes:
        world_size: training processes.
        rows: training rows, after filters and hold-out.
        prompt_tokens: tokens of the longest prompt.
        model: sizes of the model.
        device: the device to fit on.
        accelerate: the body of the launcher's accelerate config, None without one.
        correction: measured ÷ planned memory of a trial on this machine.
        free_bytes: free on the disk of the run folder.
        rates: what earlier runs on this machine did.
    """

    world_size: int = 1
    rows: int | None = None
    prompt_tokens: int | None = None
    model: ModelShape | None = None
    device: Device | None = None
    accelerate: Mapping[str, Any] | None = None
    correction: float = 1.0
    free_bytes: int | None = None
    rates: tuple[Rate, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that can be said of a run before it starts.

    Attributes:
        batches: completions and prompts.
        steps: steps and epochs.
        dtype: of the weights, `auto` when only the model knows.
        autocast: dtype of matrix products when it is another, None otherwise.
        max_completion_length: tokens of a completion at most.
        prompt_tokens: tokens of the longest prompt, None when nobody looked.
        checkpoints: what stays on disk.
        learning_rate: the rate over the steps, empty when it is not known in advance.
        duration: how long it takes, None without a run to tell.
        memory: memory by part, None when the model's sizes are not known here.
        model: the model's sizes, None when they are not known.
        model_name: what the config calls the model.
    """

    batches: Batches
    steps: Steps
    dtype: str
    autocast: str | None
    max_completion_length: int
    prompt_tokens: int | None
    checkpoints: PlannedCheckpoints
    learning_rate: tuple[Point, ...] = ()
    duration: Duration | None = None
    memory: MemoryPlan | None = None
    model: ModelShape | None = field(default=None, repr=False)
    model_name: str = ""

    @property
    def tokens_per_step(self) -> int:
        """Tokens of a step at most: completions as long as allowed, with the longest prompt where known."""
        length = self.max_completion_length + (self.prompt_tokens or 0)
        return self.batches.completions_per_step * length

    def to_json(self) -> dict[str, Any]:
        """The documented shape of `check --json`, with more."""
        batches, steps, kept = self.batches, self.steps, self.checkpoints
        prompts = batches.prompts_per_step
        return {
            "world_size": batches.world_size,
            "generation_batch_size": batches.generation_batch_size,
            "prompts_per_step": int(prompts) if prompts.denominator == 1 else float(prompts),
            "total_steps": steps.total,
            "dtype": self.dtype,
            "memory": None if self.memory is None else self.memory.to_json(),
            "completions_per_step": batches.completions_per_step,
            "prompts_per_generation": batches.prompts_per_generation,
            "whole_groups": batches.whole,
            "rows": steps.rows,
            "steps_per_epoch": steps.per_epoch,
            "epochs": None if steps.epochs is None else round(steps.epochs, 4),
            "dropped_rows": steps.dropped_rows,
            "tokens_per_step_at_most": self.tokens_per_step,
            "autocast": self.autocast,
            "checkpoints": {
                "written": kept.written,
                "kept": kept.kept,
                "bytes_each": kept.bytes_each,
                "total_bytes": kept.total_bytes,
                "free_bytes": kept.free_bytes,
                "fits": kept.fits,
            },
            "duration": None
            if self.duration is None
            else {
                "step_s": self.duration.step_s,
                "total_s": self.duration.total_s,
                "run": self.duration.run,
                "scaled": self.duration.scaled,
            },
            "learning_rate": [list(point) for point in self.learning_rate],
        }


def plan(config: RunConfig | PlanSettings, around: Surroundings | None = None) -> Plan:
    """Plan a run.

    Args:
        config: the config, or the settings of one that is being written.
        around: what is known beyond it.
    """
    settings = PlanSettings.of(config) if isinstance(config, RunConfig) else config
    around = around or Surroundings()
    batches = read_batches(settings, around.world_size)
    steps = count_steps(settings, batches, around.rows)
    dtype = settings.dtype
    if dtype == "auto" and around.model is not None and around.model.dtype:
        dtype = around.model.dtype
    memory, saved, states = _memory(settings, batches, around)
    return Plan(
        batches=batches,
        steps=steps,
        dtype=dtype,
        autocast=settings.autocast if settings.autocast != dtype else None,
        max_completion_length=settings.whole("max_completion_length"),
        prompt_tokens=around.prompt_tokens,
        checkpoints=plan_checkpoints(
            settings,
            steps.total,
            steps.per_epoch,
            saved_bytes=saved,
            state_bytes=states,
            free_bytes=around.free_bytes,
        ),
        learning_rate=learning_rates(settings, steps.total),
        duration=_duration(settings, batches, steps, around.rates, around.device),
        memory=memory,
        model=around.model,
        model_name=settings.model,
    )


def _memory(
    settings: PlanSettings, batches: Batches, around: Surroundings
) -> tuple[MemoryPlan | None, int | None, int | None]:
    """The memory, and the bytes of weights and of optimizer states that a checkpoint holds."""
    if around.model is None:
        return None, None, None
    sharding = read_sharding(settings, around.world_size, around.accelerate)
    memory = plan_memory(
        settings,
        batches,
        around.model,
        sharding,
        prompt_tokens=around.prompt_tokens,
        device=around.device,
        correction=around.correction,
    )
    trained = what_is_trained(settings, around.model, sharding)
    saved = trained.parameters * trained.width
    states = sum(part.bytes for part in memory.parts if part.name == "optimizer")
    return memory, saved, round(states / sharding.states)


def _duration(
    settings: PlanSettings, batches: Batches, steps: Steps, rates: Iterable[Rate], device: Device | None
) -> Duration | None:
    on_cpu = settings.flag("use_cpu") or (device is not None and device.kind == "cpu")
    wanted = Rate(
        run="",
        model=settings.model,
        step_s=0.0,
        completions=batches.completions_per_step,
        max_completion_length=settings.whole("max_completion_length"),
        world_size=batches.world_size,
        device="cpu" if on_cpu else "cuda",
        use_vllm=settings.flag("use_vllm"),
        use_peft=settings.flag("use_peft"),
    )
    return estimate(wanted, rates, steps.total)


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
