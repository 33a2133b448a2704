"""The learning-rate schedule: its shape, its length and the step from which it counts."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from grpo_tui.train import compat

Shape = Callable[[int], float]
"""The rate's factor as a function of the steps done."""
STAGE_START = "_grpo_tui_stage_start"
"""Attribute of the trainer: the step after which its stage began."""
_START = "_grpo_tui_schedule_start"


def schedule_from(trainer: Any, first: int) -> None:
    """Make the schedule begin after a step, as if `train()` had no steps before. Call before `train()`.

    A schedule that follows a metric has no length, and continues.
    """
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


def counted_from(first: int, shapes: Sequence[Shape]) -> list[Shape]:
    """Return rate factors as functions of the run's step, from those of the stage's step."""
    return [functools.partial(later, first, shape) for shape in shapes] if first else list(shapes)


def later(first: int, shape: Shape, step: int) -> float:
    """Return a rate factor of a stage that began after step `first`."""
    return shape(max(0, step - first))


def restarted(first: int, before: Shape, after: Shape, step: int) -> float:
    """Return a rate factor of a schedule that restarts after step `first`."""
    return before(step) if step < first else after(step - first)


def began(trainer: Any) -> int:
    """Return the step after which the schedule begins: 0, where the stage began, or what was set."""
    own = vars(trainer)
    return int(own.get(_START, own.get(STAGE_START, 0)))


def note_start(trainer: Any, first: int) -> None:
    """Note the step after which the schedule restarts, before there is a scheduler."""
    vars(trainer)[_START] = first


def restart_as_noted(trainer: Any, steps: int) -> None:
    """Make a new scheduler restart at the step that was noted, if one was."""
    if _START in vars(trainer):
        try:
            compat.scheduler(trainer).lr_lambdas = shapes_of(trainer, kind_of(trainer), steps)
        except LookupError:  # another schedule was configured, which is not a function of the step
            del vars(trainer)[_START]


def kind_of(trainer: Any) -> str:
    """Return the name of the learning-rate schedule."""
    kind = trainer.args.lr_scheduler_type
    return str(getattr(kind, "value", kind))


def shapes_of(trainer: Any, kind: str, steps: int, first: int | None = None) -> list[Shape]:
    """Return each parameter group's rate factor as a function of the step, for this schedule and length.

    A schedule of a stage counts from the start of the stage.

    Args:
        steps: The last step.
        first: The step after which the schedule restarts, without warm-up; the current one by default.

    Raises:
        LookupError: The current or the new schedule is not a function of the step, or the script made the
            current one itself.
        ValueError: The schedule needs arguments that this run does not have.
    """
    stage, first = vars(trainer).get(STAGE_START, 0), began(trainer) if first is None else first
    made = _made(trainer, kind, steps - stage, trainer.args.get_warmup_steps(steps - stage))
    for schedule, name in ((compat.scheduler(trainer), kind_of(trainer)), (made, kind)):
        if not hasattr(schedule, "lr_lambdas"):
            raise LookupError(f"the schedule {name} is not a function of the step")
    if any(_made_elsewhere(shape) for shape in compat.scheduler(trainer).lr_lambdas):
        raise LookupError("the learning rate follows a schedule of the script's own")
    shapes = counted_from(stage, made.lr_lambdas)
    if first == stage:
        return shapes
    again = _made(trainer, kind, steps - first, 0).lr_lambdas
    return [functools.partial(restarted, first, *pair) for pair in zip(shapes, again, strict=True)]


def _made(trainer: Any, kind: str, steps: int, warmup: int) -> Any:
    """Return a scheduler of transformers with the parameter groups and arguments of this run."""
    import torch
    from transformers import get_scheduler

    groups = [{"params": [torch.nn.Parameter(torch.zeros(1))]} for _ in trainer.optimizer.param_groups]
    # DeepSpeed's optimizers have no `defaults`.
    rate = getattr(trainer.optimizer, "defaults", {}).get("lr", trainer.args.learning_rate)
    return get_scheduler(
        kind,
        optimizer=torch.optim.SGD(groups, lr=rate),
        num_warmup_steps=warmup,
        num_training_steps=steps,
        scheduler_specific_kwargs=trainer.args.lr_scheduler_kwargs,
    )


def _made_elsewhere(shape: Any) -> bool:
    """Return whether a schedule's function is not one of transformers, so its length is not known."""
    while getattr(shape, "func", None) in (later, restarted):
        shape = shape.args[-1]
    return getattr(getattr(shape, "func", shape), "__module__", "") != "transformers.optimization"


def follow(trainer: Any, kind: str, steps: int, first: int | None = None) -> None:
    """Switch to another schedule from the next step on. Arguments are those of `shapes_of`.

    Does nothing if either follows a metric, or if the script made the current one itself.
    """
    from transformers import SchedulerType

    try:
        shapes = shapes_of(trainer, kind, steps, first)
    except LookupError:
        return
    trainer.args.lr_scheduler_type = SchedulerType(kind)
    if first is not None:
        note_start(trainer, first)
    compat.scheduler(trainer).lr_lambdas = shapes
    compat.follow_schedule(trainer)
