"""Every private name of TRL and transformers that the program uses, in one place.

Tested with TRL 1.16.0 on transformers 5.17 and 5.24. `missing` checks the names at start. A missing name
disables the features that need it, with a message, and never stops a run.
"""

from __future__ import annotations

import atexit
import copy
import math
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from grpo_tui.core.records import Mode

NEEDED = {
    "_calculate_rewards": "recording of rewards",
    "_generate_and_score_completions": "recording of generations",
    "_generate_single_turn": "the time that each rank generates",
    "_tool_call_loop": "time and failures of tools",
    "_generate": "telling what a model wrote from what its tools returned",
    "_maybe_log_save_evaluate": "pause, checkpoint, stop, sample, tokens and set",
    "_save_checkpoint": "checkpoint on demand and exact resume",
    "_evaluate": "the phase shown during evaluation",
    "_step": "exact resume in the middle of a generation cycle",
    "_buffered_inputs": "exact resume in the middle of a generation cycle",
    "_metrics": "exact resume between two logged steps",
    "_get_train_sampler": "exact resume after the first epoch",
    "_get_grad_norm": "skipping a step whose gradient is NaN or infinite",
    "_finalize_training": "train_loss of a whole resumed run",
    "_load_rng_state": "another seed at a resume",
    "_tokenize_prompts": "tokens of the current policy",
    "_pending_extra_logs": "columns from log_extra",
    "_tokenizer": "truncated flags and sampling",
    "_entropy_bonus_enabled": "entropy_coef that changes in mid-run",
    "_dist": "sampling from a model that is sharded over GPUs",
    "reward_func_names": "names of reward functions",
    "reward_weights": "weighted totals",
}
"""GRPOTrainer attribute to the feature that needs it."""
_WRAPPED = "_grpo_tui_wrapped"
_FIRST_STEP = "_grpo_tui_first_step"
"""Attribute of a resumed trainer: the step from which its losses are summed."""
_NEW_ADAPTER = "_grpo_tui_new_adapter"
"""Attribute of a trainer: whether its adapter was untrained when the trainer was built."""


def missing(trainer: Any) -> dict[str, str]:
    """Return the private names this trainer lacks, each with the feature that will not work."""
    return {name: purpose for name, purpose in NEEDED.items() if not hasattr(trainer, name)}


def hide_deprecations() -> None:
    """Hide what transformers says to TRL about names that TRL uses, also at each checkpoint."""
    said = r"`\w*gradient_checkpointing\w*` is deprecated and will be removed"
    warnings.filterwarnings("ignore", said, FutureWarning)


def wrap(trainer: Any, name: str, make: Callable[[Callable[..., Any]], Callable[..., Any]]) -> bool:
    """Replace a method on the instance by `make(original)`. Return False when there is no such method."""
    original = getattr(trainer, name, None)
    if original is None:
        return False
    own = name in vars(trainer)
    replaced = make(original)
    setattr(trainer, name, replaced)
    vars(trainer).setdefault(_WRAPPED, []).append((name, replaced, original if own else None))
    return True


def wrap_tools(trainer: Any, make: Callable[[str, Callable[..., Any]], Callable[..., Any]]) -> None:
    """Replace every tool by `make(name, tool)` in each training batch.

    TRL builds its tools again for each batch, so this is done for each.
    """

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def tool_call_loop(*args: Any, **kwargs: Any) -> Any:
            for kind in ("_sync_tool_dicts", "_async_tool_dicts") if mode(trainer) == "train" else ():
                tools = getattr(trainer, kind, [])
                replaced = [{name: make(name, tool) for name, tool in one.items()} for one in tools]
                setattr(trainer, kind, replaced)
            return original(*args, **kwargs)

        return tool_call_loop

    wrap(trainer, "_tool_call_loop", around)


def unwrap(trainer: Any) -> None:
    """Restore the methods that `wrap` replaced, except those that other code has replaced since."""
    vars(trainer).pop(_FIRST_STEP, None)
    vars(trainer).pop(_NEW_ADAPTER, None)
    for name, replaced, earlier in reversed(vars(trainer).pop(_WRAPPED, [])):
        if vars(trainer).get(name) is not replaced:
            continue
        if earlier is None:
            delattr(trainer, name)
        else:
            setattr(trainer, name, earlier)


def trains_now(trainer: Any) -> bool:
    """Return whether `train()` of this trainer runs in any thread.

    `is_in_train` is no help: it stays True after a failure.
    """
    for frame in sys._current_frames().values():
        caller: FrameType | None = frame
        while caller is not None:
            if caller.f_code.co_name in ("train", "_inner_training_loop") and (
                caller.f_locals.get("self") is trainer
            ):
                return True
            caller = caller.f_back
    return False


def mode(trainer: Any) -> Mode:
    """Return `train` or `eval`, decided as TRL does."""
    return "train" if trainer.model.training else "eval"


def group_size(trainer: Any) -> int:
    """Return the completions per prompt in the current mode."""
    return int(trainer.num_generations if mode(trainer) == "train" else trainer.num_generations_eval)


def generate_every(trainer: Any) -> int:
    """Return how many micro-steps (forward and backward passes) one generation batch serves."""
    return int(trainer.args.steps_per_generation) * int(trainer.num_iterations)


def at_generation_boundary(trainer: Any) -> bool:
    """Return whether the next micro-step generates again."""
    return trainer._step % generate_every(trainer) == 0 or trainer._buffered_inputs is None


def last_step_of_batch(trainer: Any) -> int:
    """Return the last optimizer step planned to use the batch generated now."""
    accumulation = max(1, int(trainer.args.gradient_accumulation_steps))
    every = generate_every(trainer)
    left = trainer._step % accumulation + every - trainer._step % every
    last = int(trainer.state.global_step) + math.ceil(left / accumulation)
    return min(last, int(trainer.state.max_steps)) if trainer.state.max_steps > 0 else last


def end_tokens(trainer: Any) -> set[int]:
    """Return the token ids after which a completion does not count as truncated."""
    ids = getattr(trainer, "eos_token_ids", None) or [trainer._tokenizer.eos_token_id]
    return {*ids, trainer._tokenizer.pad_token_id}


def rendered_prompt(trainer: Any, prompt: Any) -> list[int] | None:
    """Return a prompt's token ids as TRL renders it for this run, or None when TRL's method is missing."""
    if not hasattr(trainer, "_tokenize_prompts"):
        return None
    batch = getattr(trainer, "_batch_environments", None)
    if batch:
        trainer._batch_environments = batch[:1]  # one per prompt
    try:
        ids, _, _ = trainer._tokenize_prompts([prompt])
    finally:
        if batch:
            trainer._batch_environments = batch
    return list(ids[0])


def reference(trainer: Any) -> tuple[str, Any]:
    """Return the name and the model that KL is measured against.

    The name is empty when there is none in memory. For an adapter the model is None: see `without_adapter`.
    """
    if getattr(trainer, "ref_model", None) is not None:
        return "the reference model", trainer.ref_model
    inner = trainer.accelerator.unwrap_model(trainer.model)
    return ("the base model", None) if hasattr(inner, "peft_config") else ("", None)


def without_adapter(model: Any) -> AbstractContextManager[Any]:
    """Switch to an adapter's reference as TRL does: the base model, or a copy of the initial adapter."""
    from trl.trainer.utils import use_adapter

    return use_adapter(model, adapter_name="ref" if "ref" in model.peft_config else None)


def updates_in_backward(trainer: Any) -> bool:
    """Return True with DeepSpeed, whose engine updates the weights within `accelerator.backward`."""
    return bool(trainer.is_deepspeed_enabled)


def is_sharded(trainer: Any) -> bool:
    """Return whether each rank holds only part of the model, so that all must run the same forwards."""
    backend = getattr(trainer, "_dist", None)
    several = int(trainer.accelerator.num_processes) > 1
    return several and backend is not None and (backend.is_fsdp or backend.is_zero3)


def whole_parameters(trainer: Any) -> AbstractContextManager[Any]:
    """Gather the outermost layers under FSDP1, as TRL does to generate. A no-op for unsharded models."""
    if not is_sharded(trainer):
        return nullcontext()
    return trainer._dist.summon_full_params(trainer.model_wrapped, recurse=False)


def generated_at_once(trainer: Any) -> int:
    """Return how many completions this rank generates in one call while training."""
    return max(1, int(trainer.args.generation_batch_size) // int(trainer.accelerator.num_processes))


def generate_with_vllm(trainer: Any, prompts: list[list[int]], count: int) -> list[list[int]]:
    """Generate with the run's vLLM, after syncing the current weights. Every rank must take part.

    Args:
        prompts: Token ids of each prompt; the same number on every rank.
        count: Completions per prompt.

    Returns:
        Token ids of each completion, grouped by prompt.
    """
    step = trainer.state.global_step
    if step != trainer._last_loaded_step:
        trainer.vllm_generation.sync_weights()
        trainer._last_loaded_step = step
    asked = [ids for ids in prompts for _ in range(count)]
    _, found, *_ = trainer.vllm_generation.generate(prompts=asked, images=None, num_generations=count)
    return [list(ids) for ids in found]


def pending_extra(trainer: Any) -> dict[str, list[Any]]:
    """Return the columns that reward functions logged with `log_extra` for the current batch."""
    return {name: list(values) for name, values in getattr(trainer, "_pending_extra_logs", {}).items()}


def totals(trainer: Any, rewards: Any) -> list[float | None]:
    """Return weighted totals summed exactly as TRL does; None for rows that no function scored.

    Args:
        rewards: float32 tensor, shape (completions, functions), NaN where a function abstained.
    """
    weighted = (rewards * trainer.reward_weights.to(rewards.device).unsqueeze(0)).nansum(dim=1)
    unscored = rewards.isnan().all(dim=1).tolist()
    return [None if nothing else total for total, nothing in zip(weighted.tolist(), unscored, strict=True)]


def add_callback_first(trainer: Any, callback: Any) -> None:
    """Add a callback before all others. transformers' PrinterCallback removes values from the logs."""
    trainer.callback_handler.callbacks.insert(0, callback)


def prepare_rewards(trainer: Any, *, has_async: bool) -> None:
    """Prepare TRL for another list of rewards: drop what waits for its table, and start its event loop."""
    for column in trainer._logs.values():  # a removed name would stay in later tables
        column.clear()
    if has_async and not trainer._has_async_funcs:
        from trl.trainer import grpo_trainer as trl

        thread, loop, ready = trl.start_event_loop_in_daemon(name="GRPOTrainer-AsyncLoop")
        ready.wait()
        trainer.async_loop_thread, trainer.async_loop, trainer._has_async_funcs = thread, loop, True
        atexit.register(trl.shutdown_event_loop_in_daemon, thread, loop)


def silence_table() -> None:
    """Keep TRL's table of completions off stdout. Its parquet files are still written.

    Printed raw, completions would put control bytes and hundreds of lines into `train.log`.
    """
    from trl.trainer import grpo_trainer

    if hasattr(grpo_trainer, "print_prompt_completions_sample"):
        grpo_trainer.print_prompt_completions_sample = lambda *_, **__: None


# -- exact resume --------------------------------------------------------------------------------


def resume_state(trainer: Any) -> dict[str, Any]:
    """Return what an exact resume needs beyond TRL's checkpoint: generation buffer and pending logs."""
    loss = getattr(trainer, "_tr_loss", None)
    return {
        "step": trainer._step,
        "buffered_inputs": trainer._buffered_inputs,
        "metrics": {name: dict(values) for name, values in trainer._metrics.items()},
        "step_time_s": getattr(trainer, "_current_train_step_time", 0.0),
        "loss": None if loss is None else loss.detach().clone(),
        "last_logged": getattr(trainer, "_globalstep_last_logged", None),
        "loss_before": getattr(trainer, "_total_loss_scalar", None),
        "first_step": vars(trainer).get(_FIRST_STEP, getattr(trainer, "_initial_global_step", None)),
    }


def restore_generation(trainer: Any, state: dict[str, Any]) -> None:
    """Restore the generation buffer. Call before `train()`."""
    trainer._step = state["step"]
    trainer._buffered_inputs = state["buffered_inputs"]


def generate_with_data(trainer: Any, offset: int = 0) -> None:
    """Generate at the next micro-step, and later whenever the data changes. Call at `on_train_begin`.

    After a resume TRL counts micro-steps from 0, and so would generate out of step with its data.

    Args:
        offset: As for `continue_data_at`.
    """
    loader, args = trainer.callback_handler.train_dataloader, trainer.args
    accumulation = max(1, int(args.gradient_accumulation_steps))
    step = int(trainer.state.global_step) + offset
    if hasattr(loader, "__len__"):
        step %= max(1, math.ceil(len(loader) / accumulation))
    trainer._step = 0 if args.ignore_data_skip else step * accumulation
    trainer._buffered_inputs = None


def continue_data_at(trainer: Any, offset: int) -> None:
    """Continue the data as if so many more steps were made. Call before `train()`.

    Without `max_steps` the run ends with its last epoch, so its number of steps changes by the offset too.
    """

    def around_state(original: Callable[..., Any]) -> Callable[..., Any]:
        def init_training_state(max_steps: int, steps_in_epoch: int, *args: Any, **kwargs: Any) -> Any:
            original(max_steps, steps_in_epoch, *args, **kwargs)
            epochs, steps = divmod(int(trainer.state.global_step) + offset, steps_in_epoch)
            return epochs, steps * int(trainer.args.gradient_accumulation_steps)

        return init_training_state

    def around_values(original: Callable[..., Any]) -> Callable[..., Any]:
        def set_initial_training_values(args: Any, *others: Any, **kwargs: Any) -> Any:
            *values, max_steps = original(args, *others, **kwargs)
            return (*values, max_steps - offset if args.max_steps <= 0 else max_steps)

        return set_initial_training_values

    wrap(trainer, "_init_training_state", around_state)
    wrap(trainer, "set_initial_training_values", around_values)


def can_continue_data(trainer: Any) -> bool:
    """Return whether `continue_data_at` works with this trainer and its dataset."""
    methods = ("_init_training_state", "set_initial_training_values", "_get_train_sampler")
    return (
        all(hasattr(trainer, name) for name in methods)
        and hasattr(trainer.train_dataset, "__len__")
        and not trainer.args.ignore_data_skip
    )


def restore_logging(trainer: Any, state: dict[str, Any]) -> None:
    """Restore values that wait to be logged. Call at `on_train_begin`, after the trainer has reset them."""
    for name, values in state["metrics"].items():
        for key, numbers in values.items():
            trainer._metrics[name][key] = list(numbers)
    trainer._current_train_step_time = state["step_time_s"]
    if state["loss"] is not None and hasattr(trainer, "_tr_loss"):
        trainer._tr_loss += state["loss"].to(trainer._tr_loss.device)
        trainer._globalstep_last_logged = state["last_logged"]
    if state.get("loss_before") is not None and hasattr(trainer, "_total_loss_scalar"):
        trainer._total_loss_scalar = state["loss_before"]


def average_loss_from(trainer: Any, first_step: int) -> None:
    """Average the final `train_loss` over all steps since the run began, whose losses were restored.

    transformers divides by the steps of this `train()` alone. Its steps per second also refer to this
    `train()`, so the start time is moved back in proportion to the earlier steps.
    """

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def finalize(trial: Any, num_train_samples: Any, start_time: float) -> Any:
            done_now = int(trainer.state.global_step) - int(trainer._initial_global_step)
            done = int(trainer.state.global_step) - first_step
            took_s = time.time() - start_time
            trainer._initial_global_step = first_step
            return original(trial, num_train_samples, time.time() - took_s * done / max(1, done_now))

        return finalize

    setattr(trainer, _FIRST_STEP, first_step)
    wrap(trainer, "_finalize_training", around)


# -- what a resume takes from the checkpoint, not from the config -----------------------------------


class Restored(NamedTuple):
    """A setting that transformers reads from a checkpoint, whatever the config says."""

    name: str
    read: Callable[[Any], Any]
    """Return the value in use, or None when the trainer has no such setting."""
    write: Callable[[Any, Any], None]


def _of_state(name: str) -> Restored:
    """One of the intervals in `trainer_state.json`."""
    return Restored(
        name, lambda trainer: getattr(trainer.state, name), lambda t, value: setattr(t.state, name, value)
    )


def _of_optimizer(name: str, key: str) -> Restored:
    """An option of the parameter groups in `optimizer.pt`, as a list with one value per group."""

    def write(trainer: Any, values: list[Any]) -> None:
        for group, value in zip(trainer.optimizer.param_groups, values, strict=True):
            group[key] = value

    def read(trainer: Any) -> Any:
        values = [group.get(key) for group in trainer.optimizer.param_groups]
        return None if values == [None] * len(values) else values

    return Restored(name, read, write)


def _of_schedule(name: str, keys: Sequence[str]) -> Restored:
    """Attributes of the scheduler, whose whole `__dict__` is in `scheduler.pt`."""

    def read(trainer: Any) -> Any:
        inside = vars(scheduler(trainer))
        values = [inside[key] for key in keys if key in inside]
        return copy.deepcopy(values) or None

    def write(trainer: Any, values: list[Any]) -> None:
        inside = vars(scheduler(trainer))
        inside.update(zip([key for key in keys if key in inside], values, strict=True))

    return Restored(name, read, write)


BY_METRIC = ("mode", "factor", "patience", "threshold", "threshold_mode", "cooldown", "eps", "min_lrs",
             "max_lrs", "smooth", "warmup")  # fmt: skip
"""Arguments of the schedulers that follow a metric: reduce_lr_on_plateau and greedy."""
RESTORED = (
    _of_state("logging_steps"),
    _of_state("eval_steps"),
    _of_state("save_steps"),
    _of_optimizer("weight_decay", "weight_decay"),
    _of_optimizer("adam_beta1, adam_beta2", "betas"),
    _of_optimizer("adam_epsilon", "eps"),
    *(_of_optimizer("optim_args", key) for key in ("momentum", "dampening", "nesterov", "alpha", "rho")),
    *(_of_optimizer("optim_args", key) for key in ("clip_threshold", "decay_rate", "relative_step")),
    _of_schedule("learning_rate", ("base_lrs",)),
    _of_schedule("lr_scheduler_kwargs", BY_METRIC),
)
"""Everything transformers takes from a checkpoint at a resume, except what training has learned."""


def scheduler(trainer: Any) -> Any:
    """Return the learning-rate scheduler, without accelerate's wrapper."""
    return getattr(trainer.lr_scheduler, "scheduler", trainer.lr_scheduler)


def configured(trainer: Any) -> list[Any]:
    """Return the configured value of each of `RESTORED`. Call before anything is loaded."""
    from transformers import TrainerState

    planned = TrainerState()
    planned.compute_steps(trainer.args, trainer.state.max_steps)
    steps = {f"{kind}_steps": getattr(planned, f"{kind}_steps") for kind in ("logging", "eval", "save")}
    return [
        steps[row.name]
        if getattr(trainer.args, row.name, None) is not None and row.name in steps
        else row.read(trainer)
        for row in RESTORED
    ]


def mismatches(trainer: Any, wanted: Sequence[Any]) -> list[tuple[Restored, Any, Any]]:
    """Return those of `RESTORED` whose value in use differs: setting, value in use, wanted value."""
    found = []
    for row, value in zip(RESTORED, wanted, strict=True):
        used = row.read(trainer)
        if value is not None and used is not None and not _same(used, value):
            found.append((row, used, value))
    return found


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-12)
    return bool(one == other)


def rates_by_schedule(trainer: Any) -> list[float] | None:
    """Return the scheduled rate of each parameter group for the next step.

    None for a schedule that follows a metric.
    """
    schedule = scheduler(trainer)
    if not hasattr(schedule, "lr_lambdas"):
        return None
    at = zip(schedule.base_lrs, schedule.lr_lambdas, strict=True)
    return [float(rate * shape(schedule.last_epoch)) for rate, shape in at]


def follow_schedule(trainer: Any) -> bool:
    """Set the next step's rate to that of the configured schedule. Return True when that changed it.

    A checkpoint restores the rate of its own schedule: for a finished run that is 0. A checkpoint without an
    optimizer restores no schedule, which would then start over.
    """
    schedule = scheduler(trainer)
    if hasattr(schedule, "lr_lambdas") and not schedule.last_epoch:
        schedule.last_epoch = int(trainer.state.global_step)
    rates = rates_by_schedule(trainer)
    if rates is None or _same([float(group["lr"]) for group in trainer.optimizer.param_groups], rates):
        return False
    _set_rates(trainer, rates)
    return True


def scale_rates(trainer: Any, factor: float) -> None:
    """Multiply the rate of each parameter group."""
    _set_rates(trainer, [group["lr"] * factor for group in trainer.optimizer.param_groups])


def _set_rates(trainer: Any, rates: Sequence[float]) -> None:
    for group, rate in zip(trainer.optimizer.param_groups, rates, strict=True):
        group["lr"] = rate
    if hasattr(scheduler(trainer), "_last_lr"):
        scheduler(trainer)._last_lr = list(rates)


def future_rates(trainer: Any) -> list[tuple[int, float]]:
    """Return (step, rate) where the rest of the schedule starts, turns and ends.

    Empty for a schedule that follows a metric.
    """
    schedule, done = scheduler(trainer), int(trainer.state.global_step)
    left = int(trainer.state.max_steps) - done
    if not hasattr(schedule, "lr_lambdas") or left <= 0:
        return []
    every = max(1, left // 2000)
    ahead = sorted({*range(0, left, every), left - 1})
    rate, shape, at = schedule.base_lrs[0], schedule.lr_lambdas[0], schedule.last_epoch
    rates = [(done + 1 + step, float(rate * shape(at + step))) for step in ahead]
    turns = [
        now
        for before, now, after in zip(rates, rates[1:], rates[2:], strict=False)
        if _direction(before, now) != _direction(now, after)
    ]
    return [rates[0], *turns, *rates[1:][-1:]]


def _direction(before: tuple[int, float], after: tuple[int, float]) -> int:
    return (after[1] > before[1]) - (after[1] < before[1])


def forget_best(trainer: Any) -> None:
    """Forget the best metric so far, because another metric now decides."""
    state = trainer.state
    state.best_metric = state.best_global_step = state.best_model_checkpoint = None


def seed_again(trainer: Any) -> None:
    """Start this `train()` from its own seed instead of the checkpoint's random state."""

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def load_rng_state(checkpoint: Any) -> None:
            from transformers import set_seed

            set_seed(trainer.args.seed)

        return load_rng_state

    wrap(trainer, "_load_rng_state", around)


_ROTATION: dict[str, tuple[Callable[[Path], bool], Callable[[Path], bool]]] = {}
"""By output folder: which checkpoints rotation must keep, and which one it must treat as the newest."""


def keep_from_rotation(
    output_dir: str, is_kept: Callable[[Path], bool], is_newest: Callable[[Path], bool]
) -> bool:
    """Hide some checkpoints from `save_total_limit`. Return False when transformers lacks the function.

    Args:
        output_dir: Folder of the checkpoints. A later trainer of this process that saves there replaces
            this entry.
        is_kept: True for a checkpoint that must not be deleted.
        is_newest: True for the newest checkpoint, whatever its modification time.
    """
    from transformers import trainer, trainer_utils

    original = getattr(trainer_utils, "sort_checkpoints", None)
    if original is None:
        return False
    _ROTATION[output_dir] = is_kept, is_newest
    if getattr(original, "hides_kept", False):
        return True

    def visible(*args: Any, **kwargs: Any) -> list[str]:
        found = original(*args, **kwargs)
        for is_kept, is_newest in _ROTATION.values():
            found = [path for path in found if not is_kept(Path(path))]
            found.sort(key=lambda path: is_newest(Path(path)))
        return found

    visible.hides_kept = True  # type: ignore[attr-defined]
    trainer_utils.sort_checkpoints = visible
    trainer.sort_checkpoints = visible
    return True


def save_now(trainer: Any) -> None:
    """Save the trainer's own checkpoint and call the callbacks that follow one."""
    trainer._save_checkpoint(trainer.model_wrapped, None)
    trainer.control = trainer.callback_handler.on_save(trainer.args, trainer.state, trainer.control)


# -- settings ------------------------------------------------------------------------------------


def learning_rate(trainer: Any) -> float:
    """Return the learning rate of the next optimizer step."""
    return float(trainer._get_learning_rate())


def scale_learning_rate(trainer: Any, factor: float) -> None:
    """Multiply the learning rate from now on, keeping the shape of the schedule.

    Raises:
        LookupError: The scheduler keeps no base rates to scale.
    """
    schedule = scheduler(trainer)
    if not hasattr(schedule, "base_lrs"):
        raise LookupError(f"the scheduler {type(schedule).__name__} keeps no base rates to scale")
    schedule.base_lrs = [rate * factor for rate in schedule.base_lrs]
    scale_rates(trainer, factor)


def temperature_cells(trainer: Any) -> list[Any]:
    """Return the closure cells in which TRL's fused log-prob heads captured the temperature.

    Raises:
        LookupError: Changing it would not reach generation and gradient alike; the message says why.
    """
    if "temperature" in (getattr(trainer.args, "generation_kwargs", None) or {}):
        raise LookupError("generation_kwargs sets temperature too, and that value is used for generation")
    models = {"model": trainer.model, "reference model": getattr(trainer, "ref_model", None)}
    return [_temperature_cell(trainer, name, model) for name, model in models.items() if model is not None]


def _temperature_cell(trainer: Any, name: str, model: Any) -> Any:
    # Unwrap DDP, FSDP1, DeepSpeed and torch.compile. FSDP2 and gradient checkpointing keep the model itself.
    model = trainer.accelerator.unwrap_model(model, keep_torch_compile=False)
    base = model.get_base_model() if hasattr(model, "peft_config") else model
    layer, layers = base.forward, list[str]()
    # Mixed precision and accelerate's hooks wrap `forward` and point to it, as functools.wraps does.
    while layer is not None:
        function = getattr(layer, "__func__", layer)
        code = getattr(function, "__code__", None)
        if code is not None and {"temperature", "original_forward"} <= set(code.co_freevars):
            return function.__closure__[code.co_freevars.index("temperature")]
        layers.append(getattr(function, "__qualname__", type(function).__name__))
        layer = getattr(function, "__wrapped__", None) or getattr(function, "func", None)
    raise LookupError(
        f"TRL's log-prob head is not where this version of TRL puts it: forward of the {name} "
        f"({type(base).__name__}) is {' around '.join(layers)}"
    )


def set_temperature(trainer: Any, value: float) -> None:
    """Change the temperature of sampling and of log-probabilities together.

    Raises:
        LookupError: One of the two cannot be reached. Nothing was changed.
    """
    cells = temperature_cells(trainer)
    sampling: list[Callable[[], None]] = []
    if getattr(trainer, "use_vllm", False):
        if not hasattr(trainer.vllm_generation, "temperature"):
            raise LookupError("this vLLM backend keeps its temperature where it cannot be reached")
        sampling.append(lambda: setattr(trainer.vllm_generation, "temperature", value))
    else:
        sampling.append(lambda: setattr(trainer.generation_config, "temperature", value))
        sampling.append(lambda: trainer.generation_kwargs.__setitem__("temperature", value))
    for cell in cells:
        cell.cell_contents = value
    for change in sampling:
        change()
    trainer.temperature = value


def sampling_refused(trainer: Any, name: str) -> str:
    """Return why a sampling setting cannot change; empty when it can."""
    key = _GENERATION_NAMES.get(name, name)
    given = getattr(trainer.args, "generation_kwargs", None) or {}
    for taken in (key, "max_tokens", "max_length") if name in _GENERATION_NAMES else (key,):
        if taken in given:
            return f"generation_kwargs sets {taken}, and that value is used for generation"
    if getattr(trainer, "use_vllm", False) and not hasattr(trainer.vllm_generation, name):
        return f"this vLLM backend keeps its {name} where it cannot be reached"
    return ""


_GENERATION_NAMES = {"max_completion_length": "max_new_tokens"}
"""Sampling settings that have another name in transformers."""


def set_sampling(trainer: Any, name: str, value: Any) -> None:
    """Change a sampling setting wherever TRL or vLLM reads it."""
    if getattr(trainer, "use_vllm", False):
        setattr(trainer.vllm_generation, name, value)
    else:
        key = _GENERATION_NAMES.get(name, name)
        setattr(trainer.generation_config, key, value)
        trainer.generation_kwargs[key] = value
    setattr(trainer, name, value)


def set_entropy_coef(trainer: Any, value: float) -> None:
    """Change the weight of the entropy bonus. TRL computes no bonus unless it is enabled."""
    trainer.entropy_coef = value
    trainer._entropy_bonus_enabled = value != 0


def note_adapter(trainer: Any) -> None:
    """Note whether the adapter is untrained. Call after building the trainer, before loading anything."""
    added = [p for name, p in trainer.model.named_parameters() if ".lora_B." in name]
    vars(trainer)[_NEW_ADAPTER] = bool(added) and all(p.numel() and not p.any() for p in added)


def leave_out_optimizer(trainer: Any) -> None:
    """Resume without the state of the optimizer and its schedule."""
    wrap(trainer, "_load_optimizer_and_scheduler", lambda original: lambda checkpoint: None)


def adapter_was_new(trainer: Any) -> bool:
    """Return whether training began with the base model, as found by `note_adapter`."""
    return bool(vars(trainer).get(_NEW_ADAPTER))


def batch_has_reference(trainer: Any) -> bool:
    """Return whether the next step has the reference model's log-probabilities, for KL."""
    if at_generation_boundary(trainer):
        return True
    return all("ref_per_token_logps" in part for part in trainer._buffered_inputs)


def train_past_the_epochs(trainer: Any) -> None:
    """Make training end only at its last step, so that steps can be added while it runs.

    transformers computes the number of epochs from `max_steps` once, and stops after them in any case.
    """

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def set_initial_training_values(*args: Any, **kwargs: Any) -> Any:
            _, *others = original(*args, **kwargs)
            return (sys.maxsize, *others)

        return set_initial_training_values

    wrap(trainer, "set_initial_training_values", around)
