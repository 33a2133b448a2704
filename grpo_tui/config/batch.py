"""The batch arithmetic of GRPO: which batch sizes, group sizes and process counts fit each other.

`per_device_train_batch_size` counts completions. A generation batch has per-device × processes × steps per
generation completions and must contain whole groups of `num_generations`. So must an evaluation batch. The
rules are those of `GRPOConfig.__post_init__` in TRL 1.16.
"""

from __future__ import annotations

from collections.abc import Callable
from math import gcd, lcm
from typing import Any

from grpo_tui.config.settings import REMOVE, Change, Settings
from grpo_tui.core.findings import Finding

Setting = Callable[[str], Any]

MOST_TIMES = 16
"""A group this many times larger than the batch is a typo, so the fix changes the group and not the batch."""

BATCH_KEYS = (
    "per_device_train_batch_size",
    "per_device_eval_batch_size",
    "gradient_accumulation_steps",
    "steps_per_generation",
    "generation_batch_size",
    "num_generations",
    "num_generations_eval",
    "eval_strategy",
)


def generation_batch_size(setting: Setting, world_size: int) -> int:
    """Return the number of completions that one generation makes over all processes.

    Args:
        setting: Returns the value of a GRPOConfig field, or its default.
    """
    explicit = setting("generation_batch_size")
    if explicit is not None:
        return int(explicit)
    steps = setting("steps_per_generation") or setting("gradient_accumulation_steps")
    return int(setting("per_device_train_batch_size")) * world_size * int(steps)


def batch_findings(s: Settings, world_size: int = 1) -> list[Finding]:
    """Return the errors that TRL would raise for the batch sizes, each with the nearest valid settings."""
    group = s.get("num_generations")
    alone = _not_positive(s) or _group_too_small(s, world_size)
    if alone:
        return alone
    if s.get("generation_batch_size") is not None and s.get("steps_per_generation") is not None:
        message = (
            "generation_batch_size and steps_per_generation are both set. Remove one: each determines "
            "the other, and TRL accepts only one"
        )
        key = "generation_batch_size"
        return [s.error("batch.set-twice", key, message, (key, REMOVE))]
    found = _train_findings(s, world_size, group)
    if s.strategy("eval_strategy") != "no":
        found += _eval_findings(s, world_size, s.get("num_generations_eval") or group)
    return found


def _not_positive(s: Settings) -> list[Finding]:
    sizes = [name for name in BATCH_KEYS if name not in ("num_generations", "eval_strategy")]
    given = {name: s.get(name) for name in sizes if s.get(name) is not None}
    said = "{} must be 1 or more; it is {}"
    return [
        s.error("batch.not-positive", name, said.format(name, value), (name, s.fields[name].default))
        for name, value in given.items()
        if value < 1
    ]


def _group_too_small(s: Settings, world_size: int) -> list[Finding]:
    group, key = s.get("num_generations"), "num_generations"
    if group is not None and group >= 2:
        return []
    message = (
        f"num_generations is {'empty' if group is None else group}: GRPO compares the completions of one "
        "prompt with each other, so it needs at least 2"
    )
    fix = (key, _default_group(s, world_size))
    return [s.error("batch.group-too-small", key, message, fix)]


def _train_findings(s: Settings, world_size: int, group: int) -> list[Finding]:
    batch = generation_batch_size(s.get, world_size)
    per_device = s.get("per_device_train_batch_size")
    key = "generation_batch_size"
    if s.get(key) is not None and batch % (per_device * world_size):
        whole = _nearest_multiples(batch, lcm(per_device * world_size, group))
        message = (
            f"generation_batch_size {batch} is not a multiple of the {per_device * world_size} completions "
            f"of a step (per_device_train_batch_size {per_device} × {_processes(world_size)}). "
            f"Nearest: {' or '.join(str(n) for n in whole)}"
        )
        return [s.error("batch.indivisible", key, message, (key, whole[0]))]
    return [_whole_groups(s, world_size, group, batch)] if batch % group else []


def _whole_groups(s: Settings, world_size: int, group: int, batch: int) -> Finding:
    """Return the error for a generation batch of incomplete groups, with the nearest valid settings."""
    per_device = s.get("per_device_train_batch_size")
    steps_key = "steps_per_generation" if s.get("steps_per_generation") else "gradient_accumulation_steps"
    options: list[Change] = []
    if s.get("generation_batch_size") is not None:
        sizes = _nearest_multiples(batch, lcm(per_device * world_size, group))
        options += [("generation_batch_size", size) for size in sizes]
        sum_text = f"generation_batch_size is {batch}"
    else:
        steps = s.get(steps_key)
        devices = _nearest_multiples(per_device, group // gcd(group, steps * world_size))
        options += [("per_device_train_batch_size", size) for size in devices[:1]]
        accumulated = _nearest_multiples(steps, group // gcd(group, per_device * world_size))
        options += [(steps_key, size) for size in accumulated[:1]]
        sum_text = (
            f"a generation makes {batch} completions (per_device_train_batch_size {per_device} × "
            f"{_processes(world_size)} × {steps_key} {steps})"
        )
    groups = [("num_generations", size) for size in _nearest_divisors(batch, group)]
    mistyped = group > MOST_TIMES * batch  # a batch that much larger is never intended
    options = [*groups, *options] if mistyped else [*options, *groups]
    field = next(
        (name for name in ("num_generations", *(key for key, _ in options)) if s.line(name) is not None),
        "num_generations",
    )
    message = (
        f"{sum_text}, which is not a multiple of num_generations {group}: every prompt needs a complete "
        f"group. Nearest settings: {'; '.join(f'{key}: {value}' for key, value in options[:3])}"
    )
    return s.error("batch.indivisible", field, message, options[0])


def _eval_findings(s: Settings, world_size: int, group: int) -> list[Finding]:
    per_device = s.get("per_device_eval_batch_size")
    batch = per_device * world_size
    if batch % group == 0:
        return []
    sizes = _nearest_multiples(per_device, group // gcd(group, world_size))[:1]
    options = [("per_device_eval_batch_size", size) for size in sizes]
    options += [("num_generations_eval", n) for n in _nearest_divisors(batch, group, smallest=1)[:1]]
    keys = ("per_device_eval_batch_size", "num_generations_eval")
    field = next((name for name in keys if s.line(name)), "eval_strategy")
    message = (
        f"an evaluation batch has {batch} completions (per_device_eval_batch_size {per_device} × "
        f"{_processes(world_size)}), which is not a multiple of its group size {group}. "
        f"Nearest settings: {'; '.join(f'{key}: {value}' for key, value in options)}"
    )
    return [s.error("batch.eval-indivisible", field, message, options[0])]


def _default_group(s: Settings, world_size: int) -> int:
    """Return the divisor of the batch nearest to the default group size, or the default for a batch of 1."""
    default = int(s.fields["num_generations"].default)
    divisors = _nearest_divisors(generation_batch_size(s.get, world_size), default)
    return divisors[0] if divisors else default


def _nearest_multiples(value: int, unit: int) -> list[int]:
    """Return the multiples of `unit` around `value`, nearest first. The larger one wins a tie."""
    below, above = value // unit * unit, -(-value // unit) * unit
    candidates = {n for n in (below, above) if n > 0} or {unit}
    return sorted(candidates, key=lambda n: (abs(n - value), -n))


def _nearest_divisors(value: int, near: int, smallest: int = 2) -> list[int]:
    """Return up to two divisors of `value`, nearest to `near` first. Much larger ones are not searched."""
    divisors = [n for n in range(smallest, min(value, 2 * near + 10_000) + 1) if value % n == 0]
    return sorted(divisors, key=lambda n: (abs(n - near), -n))[:2]


def _processes(world_size: int) -> str:
    return "1 process" if world_size == 1 else f"{world_size} processes"
