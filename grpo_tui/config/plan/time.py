"""Estimates over the steps of a run: learning rate, checkpoints, duration.

Schedules follow `transformers/optimization.py` (5.24) and `get_warmup_steps` in `training_args.py`. The two
that depend on a metric (`reduce_lr_on_plateau`, `greedy`) have no curve in advance. Checkpoints follow
`DefaultFlowCallback` and `TrainerState.compute_steps`: one every `save_steps`, and one at the last step. The
duration comes from an earlier run on this machine with the same model. Its time per step is scaled by tokens
if the sizes differ.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from grpo_tui.config.plan.batches import Steps
from grpo_tui.config.settings import Settings

MOST_POINTS = 200
FOLLOWS_A_METRIC = ("reduce_lr_on_plateau", "greedy")

Factor = Callable[[int], float]
Point = tuple[int, float]


def warmup_steps(settings: Settings, total: int) -> int:
    """Return the number of warm-up steps. A value below 1 is a fraction of all steps."""
    asked = settings.number("warmup_steps")
    return int(asked) if asked >= 1 else math.ceil(total * max(0.0, asked))


def learning_rates(settings: Settings, total: int | None) -> tuple[Point, ...]:
    """Return points (step, learning rate) of the whole run, empty when the curve is not known in advance."""
    name = str(settings.get("lr_scheduler_type") or "linear")
    if not total or name in FOLLOWS_A_METRIC:
        return ()
    base = settings.number("learning_rate")
    inner = settings.get("lr_scheduler_kwargs")
    try:
        options = dict(inner) if isinstance(inner, Mapping) else {}
        factor = _factor(name, warmup_steps(settings, total), total, base, options)
        if factor is None:
            return ()
        every = max(1, total // (MOST_POINTS - 1))
        steps = sorted({*range(0, total, every), total - 1, min(warmup_steps(settings, total), total - 1)})
        return tuple((step + 1, base * factor(step)) for step in steps)
    except (KeyError, TypeError, ValueError, ArithmeticError):
        return ()  # invalid options, which the checks report


def _factor(name: str, warmup: int, total: int, base: float, options: dict[str, Any]) -> Factor | None:
    """Return a function from step to the factor on the base learning rate."""
    left = max(1, total - warmup)

    def after(step: int) -> float:
        return (step - warmup) / left

    shapes: dict[str, Factor] = {
        "constant": lambda step: 1.0,
        "constant_with_warmup": lambda step: 1.0,
        "linear": lambda step: max(0.0, (total - step) / left),
        "cosine": lambda step: _cosine(after(step), options.get("num_cycles", 0.5)),
        "cosine_with_restarts": lambda step: _restarts(after(step), options.get("num_cycles", 1)),
        "inverse_sqrt": lambda step: _inverse_root(step, warmup, options.get("timescale")),
    }
    if name == "constant":
        return shapes[name]
    if name == "polynomial":
        end, power = float(options.get("lr_end", 1e-7)), float(options.get("power", 1.0))
        shapes[name] = lambda step: ((base - end) * (1 - after(step)) ** power + end) / base
    elif name == "cosine_with_min_lr":
        low = _lowest(options, base)
        shapes[name] = lambda step: low + (1 - low) * _cosine(after(step), options.get("num_cycles", 0.5))
    elif name == "cosine_warmup_with_min_lr":
        return _warm_cosine(warmup, left, _lowest(options, base), options)
    elif name == "warmup_stable_decay":
        return _stable_decay(warmup, total, options)
    shape = shapes.get(name)
    return None if shape is None else lambda step: step / max(1, warmup) if step < warmup else shape(step)


def _lowest(options: Mapping[str, Any], base: float) -> float:
    if options.get("min_lr") is not None:
        return float(options["min_lr"]) / base
    return float(options["min_lr_rate"]) if options.get("min_lr_rate") is not None else 0.0


def _cosine(progress: float, cycles: float) -> float:
    return max(0.0, 0.5 * (1.0 + math.cos(math.pi * float(cycles) * 2.0 * progress)))


def _restarts(progress: float, cycles: float) -> float:
    if progress >= 1.0:
        return 0.0
    return max(0.0, 0.5 * (1.0 + math.cos(math.pi * ((float(cycles) * progress) % 1.0))))


def _inverse_root(step: int, warmup: int, timescale: int | None) -> float:
    scale = timescale if timescale is not None else warmup or 10_000
    return 1.0 / math.sqrt((step + scale - warmup) / scale)


def _warm_cosine(warmup: int, left: int, low: float, options: Mapping[str, Any]) -> Factor:
    start = options.get("warmup_lr_rate")

    def factor(step: int) -> float:
        if step < warmup:
            if start is None:
                return (step + 1) / max(1, warmup)
            return float(start) + (1 - float(start)) * step / max(1, warmup - 1)
        cycles = options.get("num_cycles", 0.5)
        return low + (1 - low) * 0.5 * (1 + math.cos(math.pi * cycles * 2.0 * (step - warmup + 1) / left))

    return factor


def _stable_decay(warmup: int, total: int, options: Mapping[str, Any]) -> Factor:
    decay = int(options["num_decay_steps"])
    low = float(options.get("min_lr_ratio", 0.0))
    stable = int(options.get("num_stable_steps") or max(0, total - warmup - decay))
    shapes: dict[str, Callable[[float], float]] = {
        "linear": lambda p: 1.0 - p,
        "cosine": lambda p: 0.5 * (1.0 + math.cos(math.pi * options.get("num_cycles", 0.5) * 2.0 * p)),
        "1-sqrt": lambda p: 1.0 - math.sqrt(p),
    }
    rises: dict[str, Callable[[float], float]] = {
        "linear": lambda p: p,
        "cosine": lambda p: 0.5 * (1.0 - math.cos(math.pi * p)),
        "1-sqrt": lambda p: 1.0 - math.sqrt(1.0 - p),
    }
    rise = rises[options.get("warmup_type", "linear")]
    fall = shapes[options.get("decay_type", "cosine")]

    def factor(step: int) -> float:
        if step < warmup:
            return low + (1 - low) * rise(step / max(1, warmup))
        if step < warmup + stable:
            return 1.0
        if step < warmup + stable + decay:
            return max(0.0, low + (1 - low) * fall((step - warmup - stable) / max(1, decay)))
        return low

    return factor


@dataclass(frozen=True, slots=True)
class PlannedCheckpoints:
    """Checkpoints of a run and their size on disk. None means unknown.

    Attributes:
        kept: Number on disk at once, as limited by `save_total_limit`.
        bytes_each: Size of one checkpoint.
        final_bytes: Size of the model saved at the end.
    """

    written: int | None
    kept: int | None
    bytes_each: int | None
    final_bytes: int | None
    free_bytes: int | None = None

    @property
    def total_bytes(self) -> int | None:
        """Peak size on disk. While a new checkpoint is written, the one it replaces still exists."""
        if self.kept is None or self.bytes_each is None:
            return None
        rotating = 1 if self.written is not None and self.written > self.kept else 0
        return (self.kept + rotating) * self.bytes_each + (self.final_bytes or 0)

    @property
    def fits(self) -> bool | None:
        """Whether they fit on the disk, None when unknown."""
        total = self.total_bytes
        return None if total is None or self.free_bytes is None else total <= self.free_bytes


def checkpoints_written(settings: Settings, total: int | None, per_epoch: int | None) -> int | None:
    """Return how many checkpoints a run writes, None when its length is unknown."""
    strategy = settings.strategy("save_strategy")
    if strategy == "no":
        return 0
    if total is None:
        return None
    if strategy == "epoch":
        return None if not per_epoch else math.ceil(total / per_epoch)
    if strategy != "steps":
        return None  # `best` writes when a metric improves
    every = settings.number("save_steps")
    steps = math.ceil(total * every) if 0 < every < 1 else int(every)
    if steps < 1:
        return 0
    return total // steps + (1 if total % steps else 0)


def plan_checkpoints(
    settings: Settings,
    steps: Steps,
    *,
    saved_bytes: int | None,
    state_bytes: int | None,
    free_bytes: int | None,
) -> PlannedCheckpoints:
    """Compute the number and size of the checkpoints. None means unknown.

    Args:
        saved_bytes: Size of the saved weights, of the model or its adapter.
    """
    written = checkpoints_written(settings, steps.total, steps.per_epoch)
    limit = settings.optional("save_total_limit")
    kept = written if written is None or limit is None else min(written, limit)
    each = saved_bytes
    if saved_bytes is not None and not settings.flag("save_only_model"):
        each = saved_bytes + (state_bytes or 0)
    return PlannedCheckpoints(written, kept, each, saved_bytes, free_bytes)


MOST_SCALED = 8.0
"""Runs whose sizes differ by a larger factor are not compared."""


@dataclass(frozen=True, slots=True)
class Rate:
    """The speed of a run on this machine.

    Attributes:
        model: The model's name or folder.
        step_s: Median seconds per optimizer step, over its newest steps.
        completions: Completions per step.
        max_completion_length: Maximum completion length in tokens.
        device: `cuda`, `cpu`, or a GPU's name; empty when unknown.
        at: Time of the run, in seconds since the epoch.
    """

    run: str
    model: str
    step_s: float
    completions: int
    max_completion_length: int
    world_size: int = 1
    device: str = ""
    use_vllm: bool = False
    use_peft: bool = False
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class Duration:
    """Estimated duration of a run.

    Attributes:
        total_s: Seconds in total, None when the number of steps is unknown.
        run: The run that it is based on.
        scaled: Whether that run had other sizes.
    """

    step_s: float
    total_s: float | None
    run: str
    scaled: bool


def estimate(wanted: Rate, known: Iterable[Rate], total_steps: int | None) -> Duration | None:
    """Estimate the duration from the most similar run, None without one.

    Of equally similar runs, the one with the name of the planned run counts, or else the newest.

    Args:
        wanted: The planned run. Its `step_s` is ignored.
    """
    like = [rate for rate in known if _comparable(wanted, rate)]
    if not like:
        return None
    best = min(like, key=lambda rate: (abs(math.log(_scale(wanted, rate))), rate.run != wanted.run, -rate.at))
    scale = _scale(wanted, best)
    if not 1 / MOST_SCALED <= scale <= MOST_SCALED:
        return None
    step_s = best.step_s * scale
    total_s = None if total_steps is None else step_s * total_steps
    return Duration(step_s, total_s, best.run, scale != 1.0)


def _comparable(wanted: Rate, rate: Rate) -> bool:
    return (
        rate.model == wanted.model
        and rate.device == wanted.device
        and rate.use_vllm == wanted.use_vllm
        and rate.use_peft == wanted.use_peft
        and rate.step_s > 0
        and rate.completions > 0
        and rate.max_completion_length > 0
    )


def _scale(wanted: Rate, rate: Rate) -> float:
    """Return the ratio of tokens per step and process, planned to known."""
    ours = wanted.completions / wanted.world_size * wanted.max_completion_length
    return ours / (rate.completions / rate.world_size * rate.max_completion_length)
