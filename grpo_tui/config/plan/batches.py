"""Count completions, prompts and steps of a config, and write out the calculations.

The rules are those of `GRPOConfig.__post_init__`, `RepeatSampler` and `Trainer.set_initial_training_values`
in TRL 1.16 and transformers 5.24. A config being edited may contain anything, so an invalid value counts as
the default. The checks report it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from grpo_tui.config.batch import generation_batch_size
from grpo_tui.config.settings import Settings
from grpo_tui.core.statistics import is_number


@dataclass(frozen=True, slots=True)
class Batches:
    """The batch sizes of a config.

    Attributes:
        per_device: Completions per forward pass of a process.
        accumulation: Micro-batches per optimizer step.
        steps_per_generation: Micro-batches per generation.
        iterations: Number of times that a generation is used.
        group: Completions per prompt.
        generation_batch_size: Completions per generation, over all processes.
    """

    per_device: int
    world_size: int
    accumulation: int
    steps_per_generation: int
    iterations: int
    group: int
    generation_batch_size: int

    @property
    def micro_batch(self) -> int:
        """Completions per micro-batch, over all processes."""
        return self.per_device * self.world_size

    @property
    def whole(self) -> bool:
        """Whether a generation has whole groups and whole micro-batches. Otherwise TRL refuses to start."""
        size = self.generation_batch_size
        return size > 0 and size % self.group == 0 and size % self.micro_batch == 0

    @property
    def completions_per_step(self) -> int:
        """Completions per optimizer step."""
        return self.micro_batch * self.accumulation

    @property
    def prompts_per_generation(self) -> int:
        """Prompts per generation."""
        return self.generation_batch_size // self.group

    @property
    def prompts_per_step(self) -> Fraction:
        """Prompts per optimizer step, a fraction when a step has parts of groups."""
        return Fraction(self.completions_per_step, self.group)

    @property
    def steps_per_reuse(self) -> Fraction:
        """Optimizer steps per generation. Above 1, the later steps are off-policy."""
        return Fraction(self.steps_per_generation * self.iterations, self.accumulation)

    @property
    def generated_at_once(self) -> int:
        """Completions that one process generates at once (`_prepare_inputs` of TRL's trainer)."""
        return -(-self.generation_batch_size // self.world_size)


def read_batches(settings: Settings, world_size: int) -> Batches:
    """Return the batch sizes of a config."""
    per_device = settings.whole("per_device_train_batch_size")
    accumulation = settings.whole("gradient_accumulation_steps")
    explicit = settings.optional("generation_batch_size")
    if explicit is not None:
        size, steps = explicit, max(1, explicit // (per_device * world_size))
    else:
        steps = settings.optional("steps_per_generation") or accumulation
        known = {"per_device_train_batch_size": per_device, "steps_per_generation": steps}
        size = generation_batch_size(known.get, world_size)
    return Batches(
        per_device,
        world_size,
        accumulation,
        steps,
        settings.whole("num_iterations"),
        settings.whole("num_generations"),
        size,
    )


@dataclass(frozen=True, slots=True)
class Steps:
    """The length of a training. None means unknown.

    Attributes:
        rows: Number of training rows, None if not counted or streamed.
        per_epoch: Optimizer steps per epoch.
        total: Optimizer steps in total.
        dropped_rows: Rows at the end of an epoch that do not fill a generation.
        reason: Why `total` is unknown or 0, else empty.
    """

    rows: int | None
    per_epoch: int | None
    total: int | None
    epochs: float | None
    dropped_rows: int
    reason: str = ""


def count_steps(settings: Settings, batches: Batches, rows: int | None) -> Steps:
    """Count the optimizer steps.

    An epoch has `rows // prompts per generation` generations. Each is used for `steps_per_generation ×
    num_iterations` micro-batches, and a step accumulates several of these. Remaining rows are dropped
    (`RepeatSampler.__iter__`). With fewer rows than one generation needs, there is no step.
    """
    asked = settings.get("max_steps")
    limit = int(asked) if is_number(asked) else -1
    # The trainer checks the limit after each step, so 0 trains one step.
    limit = 1 if limit == 0 else limit
    if settings.streaming or rows is None:
        if limit > 0:
            return Steps(None, None, limit, None, 0)
        reason = "a stream has no length; set max_steps" if settings.streaming else "rows not counted"
        return Steps(None, None, None, None, 0, reason)
    prompts = max(1, batches.prompts_per_generation)
    generations, dropped = divmod(rows, prompts)
    if not generations:
        reason = f"one generation takes {prompts:,} prompts, and there are {rows:,} rows"
        return Steps(rows, 0, 0, 0.0, rows, reason)
    micro = generations * batches.steps_per_generation * batches.iterations
    per_epoch = max(1, -(-micro // batches.accumulation))
    total = limit if limit > 0 else math.ceil(settings.number("num_train_epochs") * per_epoch)
    return Steps(rows, per_epoch, total, total / per_epoch, dropped)


def batch_sum(batches: Batches) -> str:
    """Return the calculation of completions per step: `8 × 2 × 4 = 64 completions a step`."""
    factors = [f"{batches.per_device:,} a device"]
    if batches.world_size > 1:
        factors.append(f"{batches.world_size:,} processes")
    if batches.accumulation > 1:
        factors.append(f"{batches.accumulation:,} accumulated")
    product = f"{batches.completions_per_step:,} completions a step"
    return f"{' × '.join(factors)} = {product}" if len(factors) > 1 else product


def prompt_sum(batches: Batches) -> str:
    """Return the calculation of prompts per generation, and how often a generation is used."""
    whole, group, size = batches.prompts_per_generation, batches.group, batches.generation_batch_size
    if not batches.whole:
        return f"{size:,} completions a generation are not whole groups of {group:,}"
    noun = "prompt" if whole == 1 else "prompts"
    text = f"{size:,} completions a generation = {whole:,} {noun} × {group:,}"
    times = batches.steps_per_reuse
    if times == 1:
        return text
    return (
        f"{text}, used for {float(times):g} steps"
        if times > 1
        else f"{text}, {float(1 / times):g} generations a step"
    )


def step_sum(steps: Steps, batches: Batches) -> str:
    """Return the calculation of steps per epoch, or why it is unknown."""
    if not steps.per_epoch:
        if steps.total:
            return f"{steps.total:,} steps; {steps.reason or 'an epoch has no known length'}"
        return steps.reason
    prompts = f"{batches.prompts_per_generation:,} prompt{'' if batches.prompts_per_generation == 1 else 's'}"
    rows = f"{steps.dropped_rows:,} row{'' if steps.dropped_rows == 1 else 's'}"
    rest = f", {rows} left over" if steps.dropped_rows else ""
    return f"{steps.rows:,} rows ÷ {prompts} a generation: {steps.per_epoch:,} steps an epoch{rest}"
