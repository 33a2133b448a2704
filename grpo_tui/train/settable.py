"""How each setting of a trainer is read, written and refused between two steps.

`config/live_settings.py` says what the settings do and which values they take.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from grpo_tui.core.stages import START
from grpo_tui.train import compat, rate_schedule

CLIPPED = ("grpo", "bnpo", "dr_grpo", "dapo", "luspo")
"""Losses that clip the probability ratio between 1 - epsilon and 1 + epsilon_high."""
MOST_COMPARED = 1000
"""Steps at which two schedules are compared."""
_PROBES = "_grpo_tui_probes"


def _nothing(trainer: Any, value: Any) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class Settable:
    """One setting of a trainer.

    Attributes:
        read: Returns the current value.
        write: Sets a value.
        refused: Returns why this trainer cannot take a value; empty when it can.
        idle: Returns why a value would have no effect in this run; empty when it has one.
        waits: Whether this value must wait for a generation boundary although the setting itself need not.
        at_start: It exists only once training has begun, so a resume sets it in the trainer's arguments.
        restarts: Whether a restart can take a value that is refused here.
    """

    read: Callable[[Any], Any]
    write: Callable[[Any, Any], None]
    refused: Callable[[Any, Any], str] = _nothing
    idle: Callable[[Any, Any], str] = _nothing
    waits: Callable[[Any, Any], bool] = lambda trainer, value: False
    at_start: bool = False
    restarts: bool = True


# -- where values are kept -------------------------------------------------------------------------


def _attribute(name: str, **more: Any) -> Settable:
    return Settable(lambda t: getattr(t, name), lambda t, value: setattr(t, name, value), **more)


def _argument(name: str, **more: Any) -> Settable:
    return Settable(lambda t: getattr(t.args, name), lambda t, value: setattr(t.args, name, value), **more)


def _interval(kind: str) -> Settable:
    name = f"{kind}_steps"

    def refused(trainer: Any, value: Any) -> str:
        strategy = getattr(getattr(trainer.args, f"{kind}_strategy"), "value", "")
        if strategy != "steps":
            return f"{kind}_strategy is {strategy}, so {name} is not read"
        if kind == "eval" and trainer.eval_dataset is None:
            return "the run has no evaluation dataset"
        if kind != "logging" and trainer.args.load_best_model_at_end:
            return "load_best_model_at_end needs save_steps to be a multiple of eval_steps"
        return ""

    return Settable(
        lambda t: getattr(t.state, name),
        lambda t, value: setattr(t.state, name, value),
        refused,
        at_start=True,
        restarts=False,
    )


def _sampling(name: str, more: Callable[[Any, Any], str] = _nothing) -> Settable:
    def refused(trainer: Any, value: Any) -> str:
        return compat.sampling_refused(trainer, name) or more(trainer, value)

    return Settable(
        lambda t: getattr(t, name), lambda t, value: compat.set_sampling(t, name, value), refused=refused
    )


# -- why a value is refused or has no effect --------------------------------------------------------


def _no_reference(trainer: Any, value: Any) -> str:
    if trainer.beta or not value:
        return ""
    name, model = compat.reference(trainer)
    if model is not None:
        return ""
    if not name:
        return "the run began with beta 0, so no reference model is in memory"
    adapters = trainer.accelerator.unwrap_model(trainer.model).peft_config
    if "ref" in adapters or compat.adapter_was_new(trainer):
        return ""
    return "the adapter was trained before this run, and no copy of it was kept as the reference"


def _once(trainer: Any) -> str:
    """Return why the probability ratio is always 1; empty when batches are trained on more than once."""
    if int(trainer.args.gradient_accumulation_steps) % compat.generate_every(trainer):
        return ""
    return "each batch is trained on in one update, so the probability ratio is 1"


def _not_clipped(trainer: Any) -> str:
    loss = trainer.loss_type
    return "" if loss in CLIPPED else f"loss_type {loss} does not read it"


def _epsilon_idle(trainer: Any, value: Any) -> str:
    if trainer.loss_type == "cispo" and trainer.args.epsilon_high is None:
        return _epsilon_high_idle(trainer, value)
    return _not_clipped(trainer) or _once(trainer)


def _epsilon_high_idle(trainer: Any, value: Any) -> str:
    if trainer.loss_type == "cispo":  # the bound itself
        return _once(trainer) if min(value, trainer.epsilon_high) >= 1 else ""
    return _not_clipped(trainer) or _once(trainer)


def _delta_refused(trainer: Any, value: Any) -> str:
    if value is None or value > 1:
        return ""
    return "a delta of 1 or less also caps unchanged tokens, which then have no gradient"


def _longer(trainer: Any, value: Any) -> str:
    if value is None:
        return "without a limit a completion could fill the memory"
    most = trainer.args.max_completion_length  # None: without a limit
    if most is not None and value > most:
        if getattr(trainer, "use_vllm", False):
            return f"vLLM was started for completions of up to {most} tokens"
        if trainer.accelerator.device.type == "cuda":
            return f"memory was planned for {most} tokens"
    places = getattr(trainer.model.config, "max_position_embeddings", None)
    if places is not None and value >= places:
        return f"the model has {places} positions for prompt and completion"
    return ""


def _by_deepspeed(trainer: Any, value: Any) -> str:
    return "DeepSpeed clips by its own configuration" if compat.updates_in_backward(trainer) else ""


def _adaptive(trainer: Any, value: Any) -> str:
    return "use_adaptive_entropy sets it after each step" if trainer.use_adaptive_entropy else ""


def _each_normalized(trainer: Any, value: Any) -> str:
    kind = trainer.multi_objective_aggregation
    return f"multi_objective_aggregation {kind} does not read it" if kind == "normalize_then_sum" else ""


def _temperature_refused(trainer: Any, value: Any) -> str:
    try:
        compat.temperature_cells(trainer)
    except LookupError as error:
        return str(error)
    return ""


def _rate_refused(trainer: Any, value: Any) -> str:
    if compat.learning_rate(trainer) == 0:
        return "the schedule is currently at 0 (warm-up, or its end), so there is nothing to scale"
    schedule = compat.scheduler(trainer)
    if not hasattr(schedule, "base_lrs"):
        return f"the scheduler {type(schedule).__name__} keeps no base rates to scale"
    return ""


def _end_refused(trainer: Any, value: Any) -> str:
    done = int(trainer.state.global_step)
    if value <= done:
        return f"{done} steps are already done. To end the run, use `stop`"
    return ""


def _schedule_refused(trainer: Any, value: Any) -> str:
    return _shapes_refused(trainer, value, rate_schedule.began(trainer))


def _start_refused(trainer: Any, value: Any) -> str:
    stage = vars(trainer).get(rate_schedule.STAGE_START, 0)
    if value < stage:
        return f"the stage and its schedule began after step {stage}"
    return _shapes_refused(trainer, rate_schedule.kind_of(trainer), value)


def _shapes_refused(trainer: Any, kind: str, first: int) -> str:
    try:
        rate_schedule.shapes_of(trainer, kind, int(trainer.state.max_steps), first)
    except (LookupError, ValueError, TypeError) as error:
        return str(error)
    return ""


def _schedule_idle(trainer: Any, value: Any) -> str:
    """Cosine with restarts, for example, has none unless `lr_scheduler_kwargs` says how many."""
    if value == rate_schedule.kind_of(trainer):
        return ""
    return _same_rates(trainer, value, rate_schedule.began(trainer))


def _start_idle(trainer: Any, value: Any) -> str:
    return _same_rates(trainer, rate_schedule.kind_of(trainer), value)


def _same_rates(trainer: Any, kind: str, first: int) -> str:
    done, last = int(trainer.state.global_step), int(trainer.state.max_steps)
    shapes = rate_schedule.shapes_of(trainer, kind, last, first)
    pairs = list(zip(compat.scheduler(trainer).lr_lambdas, shapes, strict=True))
    steps = range(done, last, max(1, (last - done) // MOST_COMPARED))
    if not steps or any(now(at) != new(at) for now, new in pairs for at in steps):
        return ""
    return "the learning rate of the remaining steps would be the same"


# -- settings that need more than an assignment -----------------------------------------------------


def _set_epsilon(trainer: Any, value: float) -> None:
    trainer.epsilon_low = value
    if trainer.args.epsilon_high is None:  # TRL takes epsilon for both then
        trainer.epsilon_high = value


def _set_epsilon_high(trainer: Any, value: float | None) -> None:
    trainer.args.epsilon_high = value
    trainer.epsilon_high = trainer.epsilon_low if value is None else value


def _set_end(trainer: Any, value: int) -> None:
    if trainer.state.global_step >= trainer.state.max_steps:
        trainer.control.should_training_stop = False  # set after what was the last step
    trainer.state.max_steps = value
    rate_schedule.follow(trainer, rate_schedule.kind_of(trainer), value)


def _weights(trainer: Any) -> list[float]:
    return [round(float(weight), 7) for weight in trainer.reward_weights.tolist()]


def _set_weights(trainer: Any, value: list[float]) -> None:
    import torch

    weights = trainer.reward_weights
    trainer.reward_weights = torch.tensor(value, dtype=weights.dtype, device=weights.device)


def asked_probes(trainer: Any) -> Any:
    """Return the sampler of the run's probe prompts, None if it asks none."""
    return vars(trainer).get(_PROBES)


def note_probes(trainer: Any, probes: Any) -> None:
    """Note the sampler of the run's probe prompts, to which they can be added."""
    vars(trainer)[_PROBES] = probes


def _probe_prompts(trainer: Any) -> list[str]:
    probes = asked_probes(trainer)
    return [] if probes is None else list(probes.changes)


def _set_probe_prompts(trainer: Any, value: list[str]) -> None:
    if (probes := asked_probes(trainer)) is not None:
        probes.change(value)


SETTABLE: Mapping[str, Settable] = {
    "learning_rate": Settable(
        compat.learning_rate,
        lambda t, value: compat.scale_learning_rate(t, value / compat.learning_rate(t)),
        _rate_refused,
    ),
    "lr_scheduler_type": Settable(
        rate_schedule.kind_of,
        lambda t, value: rate_schedule.follow(t, value, int(t.state.max_steps)),
        _schedule_refused,
        _schedule_idle,
        at_start=True,
    ),
    START: Settable(
        rate_schedule.began,
        lambda t, value: rate_schedule.follow(t, rate_schedule.kind_of(t), int(t.state.max_steps), value),
        _start_refused,
        _start_idle,
        at_start=True,
        restarts=False,
    ),
    "max_steps": Settable(
        lambda t: int(t.state.max_steps), _set_end, _end_refused, at_start=True, restarts=False
    ),
    "max_grad_norm": _argument("max_grad_norm", refused=_by_deepspeed),
    "beta": _attribute(
        "beta", refused=_no_reference, waits=lambda t, value: value > 0 and not compat.batch_has_reference(t)
    ),
    "epsilon": Settable(lambda t: t.epsilon_low, _set_epsilon, idle=_epsilon_idle),
    "epsilon_high": Settable(lambda t: t.args.epsilon_high, _set_epsilon_high, idle=_epsilon_high_idle),
    "delta": _argument(
        "delta", refused=_delta_refused, idle=lambda t, value: _not_clipped(t) or _once(t), restarts=False
    ),
    "entropy_coef": Settable(lambda t: t.entropy_coef, compat.set_entropy_coef, _adaptive),
    "reward_weights": Settable(_weights, _set_weights),
    "scale_rewards": _attribute("scale_rewards", idle=_each_normalized),
    "mask_truncated_completions": _attribute("mask_truncated_completions"),
    "temperature": Settable(
        lambda t: float(t.temperature), compat.set_temperature, refused=_temperature_refused
    ),
    "top_p": _sampling("top_p"),
    "top_k": _sampling("top_k"),
    "min_p": _sampling("min_p"),
    "repetition_penalty": _sampling("repetition_penalty"),
    "max_completion_length": _sampling("max_completion_length", _longer),
    "logging_steps": _interval("logging"),
    "save_steps": _interval("save"),
    "eval_steps": _interval("eval"),
    "probe_prompts": Settable(_probe_prompts, _set_probe_prompts),
}
"""By name, in the order of `config.live_settings.LIVE`."""
