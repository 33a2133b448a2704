"""Rules of transformers' TrainingArguments and Trainer (5.24) that are known before anything is loaded.

What they raise, what they warn of, and what they take without a word and never read. It knows nothing of
GRPO's own keys; mappings inside the config are `rules_nested`'s.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from grpo_tui.config.rules import REMOVE, Settings, yaml_said
from grpo_tui.core.findings import Finding
from grpo_tui.core.statistics import is_number

_STRATEGY_OF = {
    "logging_steps": "logging_strategy",
    "save_steps": "save_strategy",
    "eval_steps": "eval_strategy",
}

_NEVER_READ = {
    "do_train": "training always runs",
    "do_predict": "there is no prediction here",
    "label_smoothing_factor": "GRPO's loss has no labels",
    "label_names": "GRPO's loss has no labels",
    "include_for_metrics": "no compute_metrics is given",
    "batch_eval_metrics": "no compute_metrics is given",
    "train_sampling_strategy": "GRPO orders the prompts itself, so that each group stays together",
    "length_column_name": "GRPO orders the prompts itself, so that each group stays together",
}
"""Keys that TRL's GRPO takes and never reads, and why."""

_TARGETED = ("galore", "apollo")
_LAYERWISE = "layerwise"
_DEBUG = ("underflow_overflow", "tpu_metrics_debug")


def training_findings(settings: Settings) -> list[Finding]:
    """Return what transformers would refuse, late or at once, and what it would ignore."""
    found = list(_best_model(settings))
    found += _whole_steps(settings)
    found += _precision(settings)
    found += _schedule(settings)
    found += _evaluation(settings)
    found += _optimizer(settings)
    found += _loading(settings)
    found += _checkpointing(settings)
    found += _trackers(settings)
    found += _debug(settings)
    found += _ignored(settings)
    return found


def _best_model(s: Settings) -> Iterator[Finding]:
    save, evaluate = s.strategy("save_strategy"), s.strategy("eval_strategy")
    if save == "best" and not s.get("load_best_model_at_end") and s.get("metric_for_best_model") is None:
        yield s.finding(
            "training.best-metric",
            "error",
            "save_strategy",
            "save_strategy is best, and metric_for_best_model does not say best in what",
            ("metric_for_best_model", "eval_reward"),
        )
    if save == "best" and evaluate == "no":
        yield s.finding(
            "training.best-without-eval",
            "error",
            "save_strategy",
            "save_strategy is best and eval_strategy is no: without an evaluation nothing is ever saved",
            ("save_strategy", "steps"),
        )
    if not s.get("load_best_model_at_end") or save == "best":
        return
    if evaluate != save:
        fix = ("load_best_model_at_end", False) if evaluate == "no" else ("save_strategy", evaluate)
        yield s.finding(
            "training.best-model",
            "error",
            "load_best_model_at_end",
            f"load_best_model_at_end needs a save at each evaluation, and save_strategy is {save} while "
            f"eval_strategy is {evaluate}",
            fix,
        )
    elif evaluate == "steps":
        yield from _best_steps(s)


def _best_steps(s: Settings) -> Iterator[Finding]:
    saving, evaluating = s.get("save_steps"), s.get("eval_steps") or s.get("logging_steps")
    if not (is_number(saving) and is_number(evaluating)) or saving <= 0 or evaluating <= 0:
        return
    if (saving < 1) != (evaluating < 1):
        why = "one is a share of the run and the other a number of steps"
    elif round(saving * 1_000_000) % max(1, round(evaluating * 1_000_000)):
        why = f"{saving:g} is no multiple of {evaluating:g}"
    else:
        return
    nearest = (
        evaluating * max(1, round(saving / evaluating)) if saving >= 1 and evaluating >= 1 else evaluating
    )
    yield s.finding(
        "training.best-model",
        "error",
        "save_steps",
        f"load_best_model_at_end needs save_steps to be a multiple of eval_steps; {why}",
        ("save_steps", int(nearest) if float(nearest).is_integer() else nearest),
    )


def _whole_steps(s: Settings) -> Iterator[Finding]:
    for name, strategy in _STRATEGY_OF.items():
        value = s.get(name)
        if s.strategy(strategy) != "steps" or not is_number(value):
            continue
        if value > 1 and value != int(value):
            yield s.finding(
                "training.whole-steps",
                "error",
                name,
                f"{name} is {value:g}; above 1 it counts steps and must be whole, below 1 it is a share "
                "of the run",
                (name, round(value)),
            )


def _precision(s: Settings) -> Iterator[Finding]:
    for first, second in (("fp16", "bf16"), ("fp16_full_eval", "bf16_full_eval")):
        if s.get(first) is True and s.get(second) is True:
            yield s.finding(
                "training.precision",
                "error",
                first,
                f"{first} and {second} are both true; training runs in one of them, and bf16 does not "
                "overflow",
                (first, False),
            )
    stored = s.get("dtype")
    # A LoRA adapter is kept in float32 whatever the model is in, so its gradients can be scaled.
    if s.get("fp16") is True and stored in ("float16", "bfloat16") and not s.get("use_peft"):
        why = (
            "gradients in float16 cannot be unscaled"
            if stored == "float16"
            else "its gradient scaler cannot take bfloat16 gradients"
        )
        yield s.finding(
            "training.precision",
            "error",
            "dtype",
            f"fp16 trains weights that are kept in float32, and dtype is {stored}: {why}, so the first step "
            "fails",
            ("dtype", "float32"),
        )


def _schedule(s: Settings) -> Iterator[Finding]:
    kind = str(s.get("lr_scheduler_type"))
    if kind in ("reduce_lr_on_plateau", "greedy") and s.strategy("eval_strategy") == "no":
        yield s.finding(
            "training.schedule-needs-eval",
            "error",
            "lr_scheduler_type",
            f"lr_scheduler_type {kind} follows the evaluations, and eval_strategy is no",
            ("lr_scheduler_type", "cosine"),
        )
    warmup, steps = s.get("warmup_steps"), s.get("max_steps")
    if not is_number(warmup) or warmup <= 0:
        return
    if kind == "constant":
        yield s.finding(
            "training.no-warmup",
            "warning",
            "warmup_steps",
            f"warmup_steps is {warmup:g}, and lr_scheduler_type constant has no warm-up; it starts at "
            "the full rate",
            ("lr_scheduler_type", "constant_with_warmup"),
        )
    elif is_number(steps) and 0 < steps <= warmup:
        yield s.finding(
            "training.warmup-too-long",
            "warning",
            "warmup_steps",
            f"warmup_steps is {warmup:g} and the run has {steps} steps, so the learning rate never reaches "
            f"{s.get('learning_rate'):g}",
            ("warmup_steps", max(1, steps // 10)),
        )


def _evaluation(s: Settings) -> Iterator[Finding]:
    evaluate = s.strategy("eval_strategy")
    if evaluate == "no":
        for name in (
            "eval_steps",
            "num_generations_eval",
            "per_device_eval_batch_size",
            "do_eval",
        ):
            if s.written(name):
                rows = s.section.eval_dataset is not None or s.section.holdout
                meant = ("eval_strategy", "steps") if name == "eval_steps" and rows else (name, REMOVE)
                message = f"{name} is not used: eval_strategy is no"
                yield s.finding("config.unused", "warning", name, message, meant)
        if s.get("eval_on_start"):
            message = "eval_on_start evaluates before the first step, and eval_strategy no has no rows for it"
            fix = ("eval_on_start", False)
            yield s.finding("training.eval-on-start", "error", "eval_on_start", message, fix)
        return
    steps, every = s.get("max_steps"), s.get("eval_steps") or s.get("logging_steps")
    if evaluate == "steps" and is_number(steps) and is_number(every) and 0 < steps < every:
        yield s.finding(
            "training.never-evaluates",
            "warning",
            "eval_steps",
            f"eval_steps is {every:g} and the run has {steps} steps, so it is never evaluated",
            ("eval_steps", max(1, steps // 4)),
        )


def _optimizer(s: Settings) -> Iterator[Finding]:
    optim = str(s.get("optim") or "")
    if optim.startswith(_TARGETED) and not s.get("optim_target_modules"):
        yield s.finding(
            "training.optimizer-targets",
            "error",
            "optim",
            f"optim {optim} needs optim_target_modules, the modules it works on",
            ("optim_target_modules", ["attn", "mlp"]),
        )
    given = str(s.get("optim_args") or "")
    wrong = next((part for part in given.split(",") if given and "=" not in part), None)
    if wrong is not None:
        message = f"optim_args takes name=value pairs with commas between; '{wrong.strip()}' has no ="
        yield s.finding("training.optim-args", "error", "optim_args", message, ("optim_args", REMOVE))
    if optim.endswith(_LAYERWISE):
        accumulation, ranks = s.get("gradient_accumulation_steps"), s.world_size or 1
        if accumulation and accumulation > 1:
            yield s.finding(
                "training.layerwise",
                "error",
                "optim",
                f"optim {optim} updates a layer as soon as its gradient is there, so it cannot gather "
                f"{accumulation} batches",
                ("gradient_accumulation_steps", 1),
            )
        if ranks > 1:
            message = f"optim {optim} cannot be used with {ranks} processes"
            fix = ("optim", optim.removesuffix("_layerwise"))
            yield s.finding("training.layerwise", "error", "optim", message, fix)


def _loading(s: Settings) -> Iterator[Finding]:
    if s.get("dataloader_prefetch_factor") is not None and not s.get("dataloader_num_workers"):
        yield s.finding(
            "training.prefetch",
            "error",
            "dataloader_prefetch_factor",
            "dataloader_prefetch_factor needs workers, and dataloader_num_workers is 0",
            ("dataloader_prefetch_factor", REMOVE),
        )
    if s.get("remove_unused_columns") is True:
        yield s.finding(
            "training.columns-removed",
            "error",
            "remove_unused_columns",
            "remove_unused_columns: true drops every column but prompt and images, so no reward gets its "
            "answers",
            ("remove_unused_columns", False),
        )
    streams = s.get("dataset_streaming") or s.get("streaming")
    if streams and s.get("dataloader_num_workers"):
        yield s.finding(
            "training.stream-workers",
            "warning",
            "dataloader_num_workers",
            "a stream is read by one worker, so dataloader_num_workers "
            f"{s.get('dataloader_num_workers')} is set to 0",
            ("dataloader_num_workers", 0),
        )
    if streams and s.get("max_steps") == -1:
        yield s.finding(
            "training.stream-without-end",
            "error",
            "max_steps",
            "the dataset is a stream of unknown length, so max_steps must say how long to train",
            ("max_steps", 500),
        )


def _debug(s: Settings) -> Iterator[Finding]:
    named = s.get("debug") or []
    wrong = [name for name in ([named] if isinstance(named, str) else named) if name not in _DEBUG]
    if wrong:
        message = f"debug names {', '.join(wrong)}; it knows {' and '.join(_DEBUG)}"
        yield s.finding("training.debug", "error", "debug", message, ("debug", REMOVE))


def _trackers(s: Settings) -> Iterator[Finding]:
    named = s.get("report_to")
    if not isinstance(named, list) or len(named) < 2:
        return
    for word in ("none", "all"):
        if word in named:
            message = f"report_to names {word} among others; it is understood alone, and refused in a list"
            rest = [name for name in named if name not in ("none", "all")]
            yield s.finding("training.trackers", "error", "report_to", message, ("report_to", rest or word))


def _checkpointing(s: Settings) -> Iterator[Finding]:
    """`gradient_checkpointing` is the older name, used only where the newer one is not set."""
    for old, new in (
        ("gradient_checkpointing", "activation_checkpointing"),
        ("gradient_checkpointing_kwargs", "activation_checkpointing_kwargs"),
    ):
        if s.get(new) is not None and s.written(old) and s.get(old) != s.get(new):
            yield s.finding(
                "config.unused",
                "warning",
                old,
                f"{old} is {yaml_said(s.get(old))} and {new}, its newer name, is "
                f"{yaml_said(s.get(new))}; the newer "
                "one counts",
                (old, REMOVE),
            )
    for name in ("gradient_checkpointing_kwargs", "activation_checkpointing_kwargs"):
        if not s.checkpointing and s.mapping(name):
            yield s.finding(
                "config.unused",
                "warning",
                name,
                f"{name} is not used: gradient checkpointing is off",
                (name, REMOVE),
            )


def _ignored(s: Settings) -> Iterator[Finding]:
    for name, why in _NEVER_READ.items():
        if s.written(name):
            yield s.finding("config.unused", "warning", name, f"{name} is never read: {why}", (name, REMOVE))
    epochs, steps = s.get("num_train_epochs"), s.get("max_steps")
    if s.written("num_train_epochs") and is_number(steps) and steps > 0:
        yield s.finding(
            "config.unused",
            "info",
            "num_train_epochs",
            f"num_train_epochs {yaml_said(epochs)} is not used: max_steps {steps} says how long to train",
            ("num_train_epochs", REMOVE),
        )


def save_interval(settings: Settings) -> Any:
    """Steps between two checkpoints, None when none is saved by steps."""
    every = settings.get("save_steps")
    return every if settings.strategy("save_strategy") == "steps" and is_number(every) else None
