"""`plan`: everything that can be said about a run before it starts.

Pure functions. The caller passes what is outside the config (rows, model sizes, device, free disk, earlier
runs), any of which may be missing. The largest group and length that fit are found by bisection, because
every part of the memory grows with both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from math import gcd
from typing import Any

from grpo_tui.config.plan.batches import Batches, Steps, count_steps, read_batches
from grpo_tui.config.plan.memory import Device, Load, MemoryPlan, parts_of
from grpo_tui.config.plan.model import ModelShape, read_sharding, what_is_trained
from grpo_tui.config.plan.time import (
    Duration,
    PlannedCheckpoints,
    Point,
    Rate,
    estimate,
    learning_rates,
    plan_checkpoints,
)
from grpo_tui.config.settings import Settings


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a plan needs besides the config. None means unknown.

    Attributes:
        rows: Training rows, after filters and holdout.
        prompt_tokens: Length of the longest prompt in tokens.
        correction: Measured ÷ planned memory of a trial on this machine.
        free_bytes: Free space on the disk of the run folder.
        run: Name of the run whose speed counts before that of others.
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
    run: str = ""


@dataclass(frozen=True, slots=True)
class PlannedEvaluations:
    """What `grpo_tui.evaluate` asks the policy in a run.

    Attributes:
        count: Number of evaluations: before training, at the interval, and at the end.
        samples: Completions per row.
        share: Fraction of all completions that the run generates.
    """

    count: int
    rows: int
    samples: int
    share: float

    @property
    def completions(self) -> int:
        """Completions of all evaluations."""
        return self.count * self.rows * self.samples


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of a run. None means unknown.

    Attributes:
        dtype: Dtype of the weights, `auto` when only the model knows it.
        autocast: Dtype of matrix products, None when it is that of the weights.
        prompt_tokens: Length of the longest prompt in tokens.
        learning_rate: The rate over the steps, empty when not known in advance.
        memory: Memory by part, None without the model's sizes.
        evaluations: None without `grpo_tui.evaluate`, too.
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
    evaluations: PlannedEvaluations | None = None

    @property
    def tokens_per_step(self) -> int:
        """Maximum number of tokens per step. Without a known prompt length, completions only."""
        length = self.max_completion_length + (self.prompt_tokens or 0)
        return self.batches.completions_per_step * length

    def to_json(self) -> dict[str, Any]:
        """Return the documented object of `check --json`, with additional keys."""
        batches, steps, kept, asked = self.batches, self.steps, self.checkpoints, self.evaluations
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
                name: getattr(kept, name)
                for name in ("written", "kept", "bytes_each", "total_bytes", "free_bytes", "fits")
            },
            "duration": None if self.duration is None else asdict(self.duration),
            "learning_rate": [list(point) for point in self.learning_rate],
            "evaluations": asked and {**asdict(asked), "completions": asked.completions},
        }


def plan(settings: Settings, around: Surroundings | None = None) -> Plan:
    """Plan a run."""
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
            settings, steps, saved_bytes=saved, state_bytes=states, free_bytes=around.free_bytes
        ),
        learning_rate=learning_rates(settings, steps.total),
        duration=_duration(settings, batches, steps, around),
        memory=memory,
        model=around.model,
        model_name=settings.model,
        evaluations=_evaluations(settings, batches, steps.total),
    )


def _evaluations(settings: Settings, batches: Batches, total: int | None) -> PlannedEvaluations | None:
    wanted, held = settings.section.evaluate, settings.section.holdout
    if wanted is None or not total:
        return None
    rows = min(wanted.rows, held) if isinstance(held, int) and held > 0 else wanted.rows
    count = 1 + -(-total // wanted.every)
    asked, trained = count * rows * wanted.samples, total * batches.completions_per_step / batches.iterations
    return PlannedEvaluations(count, rows, wanted.samples, asked / (asked + trained))


def _memory(
    settings: Settings, batches: Batches, around: Surroundings
) -> tuple[MemoryPlan | None, int | None, int | None]:
    """Return the memory, and the bytes of weights and of optimizer states in a checkpoint."""
    if around.model is None:
        return None, None, None
    shape, device, prompt = around.model, around.device, around.prompt_tokens
    notes = []
    if prompt is None:
        prompt = min(ASSUMED_PROMPT, max(1, (shape.context or MOST_LENGTH) // 4))
        notes.append(f"prompts of {prompt} tokens are assumed")
    if settings.get("reward_model_name_or_path"):
        notes.append("the reward model is not counted")
    if not shape.exact:
        notes.append("the parameters are computed from the model's sizes, not counted")
    sharding = read_sharding(settings, around.world_size, around.accelerate)
    trained, completion = what_is_trained(settings, shape, sharding), settings.whole("max_completion_length")
    load = Load(settings, shape, trained, batches, sharding, prompt, completion, device, around.correction)
    memory = MemoryPlan(parts_of(load), device, shape.exact, around.correction, tuple(notes))
    if device is not None:
        memory = replace(
            memory,
            most_generations=_most_generations(load),
            most_length=_most_length(load),
            most_per_device=_most_per_device(load),
        )
    states = sum(part.bytes for part in memory.parts if part.name == "optimizer")
    return memory, trained.parameters * trained.width, round(states / sharding.states)


def _duration(settings: Settings, batches: Batches, steps: Steps, around: Surroundings) -> Duration | None:
    device = around.device
    on_cpu = settings.flag("use_cpu") or (device is not None and device.kind == "cpu")
    wanted = Rate(
        run=around.run,
        model=settings.model,
        step_s=0.0,
        completions=batches.completions_per_step,
        max_completion_length=settings.whole("max_completion_length"),
        world_size=batches.world_size,
        device="cpu" if on_cpu else "cuda",
        use_vllm=settings.flag("use_vllm"),
        use_peft=settings.flag("use_peft"),
    )
    return estimate(wanted, around.rates, steps.total)


ASSUMED_PROMPT = 256
"""Prompt length in tokens when none was measured. A quarter of the model's context if that is less."""
MOST_GENERATIONS = 4096
MOST_LENGTH = 1_048_576
MOST_PER_DEVICE = 4096
"""Larger micro-batches are not tried, because none fits on a GPU."""


def _most_generations(load: Load) -> int | None:
    """Return the largest group that fits if the batch grows with it and the prompts per step stay."""
    batches = load.batches
    unit = batches.group // gcd(batches.group, batches.per_device)

    def fits(times: int) -> bool:
        group = unit * times
        grown = batches.per_device * group // batches.group
        at_once = batches.generation_batch_size * group // batches.group
        changed = replace(batches, per_device=grown, group=group, generation_batch_size=at_once)
        return _fits(replace(load, batches=changed))

    times = _largest(fits, 1, max(1, MOST_GENERATIONS // unit))
    return None if times is None or unit * times < 2 else unit * times


def _most_length(load: Load) -> int | None:
    context = load.shape.context
    most = max(1, context - load.prompt) if context is not None else MOST_LENGTH
    return _largest(lambda length: _fits(replace(load, completion=length)), 1, most)


def _most_per_device(load: Load) -> int | None:
    """Return the largest micro-batch that fits and with which TRL starts (see `config.batch`)."""
    batches = load.batches
    explicit = load.settings.optional("generation_batch_size")
    for size in range(min(batches.per_device, MOST_PER_DEVICE), 0, -1):
        micro = size * batches.world_size
        at_once = explicit or micro * batches.steps_per_generation
        changed = replace(batches, per_device=size, generation_batch_size=at_once)
        if changed.whole and _fits(replace(load, batches=changed)):
            return size
    return None


def _fits(load: Load) -> bool:
    return MemoryPlan(parts_of(load), load.device, correction=load.correction).fits is True


def _largest(fits: Callable[[int], bool], low: int, high: int) -> int | None:
    """Return the largest number that fits, by bisection, None when the lowest does not."""
    if not fits(low):
        return None
    while low < high:
        middle = (low + high + 1) // 2
        if fits(middle):
            low = middle
        else:
            high = middle - 1
    return low
