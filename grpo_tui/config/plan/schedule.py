"""The learning rate over the steps, for the schedules of transformers that need no measured value.

The formulas are those of `transformers/optimization.py` (5.24) and of `get_warmup_steps` in
`training_args.py`. The two that follow a metric (`reduce_lr_on_plateau`, `greedy`) have no curve in advance.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from grpo_tui.config.plan.settings import PlanSettings

MOST_POINTS = 200
FOLLOWS_A_METRIC = ("reduce_lr_on_plateau", "greedy")

Factor = Callable[[int], float]
Point = tuple[int, float]


def warmup_steps(settings: PlanSettings, total: int) -> int:
    """Steps of warm-up: a number below 1 is a share of all steps."""
    asked = settings.number("warmup_steps")
    return int(asked) if asked >= 1 else math.ceil(total * max(0.0, asked))


def learning_rates(settings: PlanSettings, total: int | None) -> tuple[Point, ...]:
    """Points (step, learning rate) of the whole run, in order; empty when the curve is not known in advance.

    Args:
        settings: the config.
        total: optimizer steps of the run.
    """
    name = str(settings("lr_scheduler_type") or "linear")
    if not total or name in FOLLOWS_A_METRIC:
        return ()
    base = settings.number("learning_rate")
    inner = settings("lr_scheduler_kwargs")
    try:
        options = dict(inner) if isinstance(inner, Mapping) else {}
        factor = _factor(name, warmup_steps(settings, total), total, base, options)
        if factor is None:
            return ()
        every = max(1, total // (MOST_POINTS - 1))
        steps = sorted({*range(0, total, every), total - 1, min(warmup_steps(settings, total), total - 1)})
        return tuple((step + 1, base * factor(step)) for step in steps)
    except (KeyError, TypeError, ValueError, ArithmeticError):
        return ()  # options that the schedule does not take; the checks tell them


def _factor(name: str, warmup: int, total: int, base: float, options: dict[str, Any]) -> Factor | None:
    """The share of the base rate after so many steps."""
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
