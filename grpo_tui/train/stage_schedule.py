"""The learning-rate schedule of a stage, which counts steps from the start of the stage."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

STAGE_START = "_grpo_tui_stage_start"
"""Attribute of the trainer: the step after which its stage began."""


def schedule_from(trainer: Any, first: int) -> None:
    """Make the schedule begin after a step, as if `train()` had no steps before. Call before `train()`.

    A schedule that follows a metric has no length, and continues.
    """
    from grpo_tui.train import compat

    if not first:
        return
    vars(trainer)[STAGE_START] = first

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def create_scheduler(num_training_steps: int, *args: Any, **kwargs: Any) -> Any:
            made = original(num_training_steps - first, *args, **kwargs)
            if hasattr(made, "lr_lambdas"):
                made.lr_lambdas = counted_from(first, made.lr_lambdas)
            return made

        return create_scheduler

    compat.wrap(trainer, "create_scheduler", around)


def counted_from(first: int, shapes: Sequence[Callable[[int], float]]) -> list[Callable[[int], float]]:
    """Return rate factors as functions of the run's step, from those of the stage's step."""
    return [functools.partial(later, first, shape) for shape in shapes] if first else list(shapes)


def later(first: int, shape: Callable[[int], float], step: int) -> float:
    """Return a rate factor of a stage that began after step `first`."""
    return shape(max(0, step - first))
