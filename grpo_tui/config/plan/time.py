"""How long a run takes, from the rate of an earlier one on this machine.

The same model with the same sizes gives its time per step as it is; other sizes are scaled by tokens, and
said to be. Knows rates that it is given; where runs lie and how they are read is not its business.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

MOST_SCALED = 8.0
"""Sizes that differ by more say nothing about each other."""


@dataclass(frozen=True, slots=True)
class Rate:
    """What a run on this machine did.

    Attributes:
        run: its name, for the person.
        model: the model's name or folder.
        step_s: seconds per optimizer step, the median of its newest steps.
        completions: completions of a step.
        max_completion_length: the longest a completion could be, in tokens.
        world_size: its processes.
        device: `cuda`, `cpu`, or a GPU's name; empty when unknown.
        use_vllm: whether vLLM generated.
        use_peft: whether it trained an adapter.
        at: when it ran, seconds since the epoch.
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
    """An estimate.

    Attributes:
        step_s: seconds per step.
        total_s: seconds of all steps, None when their number is unknown.
        run: the run it is taken from.
        scaled: whether that run had other sizes.
    """

    step_s: float
    total_s: float | None
    run: str
    scaled: bool


def estimate(wanted: Rate, known: Iterable[Rate], total_steps: int | None) -> Duration | None:
    """Estimate the duration from the run most like this one; None when there is none.

    Args:
        wanted: this config in the same words; its `step_s` is not read.
        known: rates of earlier runs.
        total_steps: optimizer steps, None when unknown.
    """
    like = [rate for rate in known if _comparable(wanted, rate)]
    if not like:
        return None
    best = min(like, key=lambda rate: (abs(math.log(_scale(wanted, rate))), -rate.at))
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
    """Tokens per step and process, against those of the run."""
    ours = wanted.completions / wanted.world_size * wanted.max_completion_length
    return ours / (rate.completions / rate.world_size * rate.max_completion_length)
