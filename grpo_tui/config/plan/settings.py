"""Count completions, prompts and steps of a config, and write out the calculations.

The rules are those of `GRPOConfig.__post_init__`, `RepeatSampler` and `Trainer.set_initial_training_values`
in TRL 1.16 and transformers 5.24. A config being edited may contain anything, so an invalid value counts as
the default. The checks report it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from grpo_tui.config.batch import generation_batch_size
from grpo_tui.config.run_config import RunConfig
from grpo_tui.config.trl_fields import NoDefault, load_fields
from grpo_tui.core.statistics import is_number

OPTIM = "adamw_torch_fused"
"""Default optimizer of transformers 5 with torch 2.8 and later, which its source computes at import time."""


@dataclass(frozen=True, slots=True)
class PlanSettings:
    """The settings of a config that a plan reads.

    Attributes:
        grpo: Explicit GRPOConfig arguments.
        model_args: Explicit ModelConfig arguments.
        model: Hub id or folder of the model, empty when not set yet.
        streaming: Whether the dataset is streamed, so its length is unknown.
    """

    grpo: Mapping[str, Any]
    model_args: Mapping[str, Any]
    model: str = ""
    streaming: bool = False

    @classmethod
    def of(cls, config: RunConfig) -> PlanSettings:
        """Return the settings of a checked config."""
        streaming = bool(config.script.get("dataset_streaming") or config.mixture.get("streaming"))
        return cls(config.grpo, config.model_args, config.model, streaming)

    def __call__(self, name: str) -> Any:
        """Return the value of a field or its default, None when that is computed or unknown."""
        for part in (self.grpo, self.model_args):
            if name in part:
                return part[name]
        return _default(name)

    def whole(self, name: str, least: int = 1) -> int:
        """Return an integer of at least `least`. An invalid value counts as the default."""
        for value in (self(name), _default(name), least):
            if is_number(value) and int(value) >= least:
                return int(value)
        return least

    def optional(self, name: str) -> int | None:
        """Return an integer of at least 1, None when not set."""
        value = self(name)
        return int(value) if is_number(value) and value >= 1 else None

    def number(self, name: str) -> float:
        """Return a finite number. An invalid value counts as the default, else as 0."""
        for value in (self(name), _default(name)):
            if is_number(value):
                return float(value)
        return 0.0

    def flag(self, name: str) -> bool:
        """Return whether a field is true."""
        return self(name) is True

    @property
    def checkpointing(self) -> bool:
        """Whether layers are recomputed in the backward pass.

        `gradient_checkpointing`, the older name, counts if `activation_checkpointing` is not set
        (`TrainingArguments.__post_init__`). FSDP has its own switch.
        """
        newer, fsdp = self("activation_checkpointing"), self("fsdp_config")
        given = fsdp if self("fsdp") and isinstance(fsdp, Mapping) else {}
        own = given.get("activation_checkpointing") or given.get("fsdp_activation_checkpointing")
        return bool(own) or (self("gradient_checkpointing") if newer is None else newer) is True

    @property
    def optim(self) -> str:
        """Name of the optimizer."""
        return str(self("optim") or OPTIM)

    @property
    def dtype(self) -> str:
        """Dtype in which the weights are loaded, `auto` when the model decides.

        `model_init_kwargs` takes precedence over `dtype` (trl/scripts/grpo.py).
        """
        inner = self("model_init_kwargs")
        asked = inner.get("dtype") if isinstance(inner, Mapping) else None
        return str(asked or self("dtype") or "auto").removeprefix("torch.")

    @property
    def autocast(self) -> str | None:
        """Dtype of matrix products under autocast, None without autocast.

        TRL turns `bf16` on unless `fp16` is on (trl/trainer/base_config.py).
        """
        if self.flag("fp16"):
            return "float16"
        return "bfloat16" if self("bf16") in (True, None) else None


def _default(name: str) -> Any:
    """Return TRL's default, None when it is computed or the installed TRL has no such field."""
    field = load_fields().get(name)
    return None if field is None or isinstance(field.default, NoDefault) else field.default


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


def read_batches(settings: PlanSettings, world_size: int) -> Batches:
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


def count_steps(settings: PlanSettings, batches: Batches, rows: int | None) -> Steps:
    """Count the optimizer steps.

    An epoch has `rows // prompts per generation` generations. Each is used for `steps_per_generation ×
    num_iterations` micro-batches, and a step accumulates several of these. Remaining rows are dropped
    (`RepeatSampler.__iter__`). With fewer rows than one generation needs, there is no step.
    """
    asked = settings("max_steps")
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
        return f"{size:,} completions a generation are no whole groups of {group:,}"
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
