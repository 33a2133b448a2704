"""Rules of transformers' TrainingArguments and Trainer (5.24) that are known before anything is loaded.

What they raise, what they warn of, and what they take without a word and never read. The metric that picks
the best checkpoint must be one that an evaluation of this run logs: transformers looks for its name only
after the first one, where an unknown name ends the run. Mappings inside the config are `rules_nested`'s.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from grpo_tui.config.meant import nearest
from grpo_tui.config.paths import split_file_source
from grpo_tui.config.rules import NAMES, REMOVE, Settings, yaml_said
from grpo_tui.config.trl_fields import NAMES_OF_FACTORIES, TRL_NAMES
from grpo_tui.core.findings import Finding
from grpo_tui.core.metrics import EVAL, METRICS, describe
from grpo_tui.core.statistics import is_number

KEY = "metric_for_best_model"
_FOLLOWING = ("reduce_lr_on_plateau", "greedy")
_CLIPPED = ("grpo", "bnpo", "dr_grpo", "dapo", "luspo")
_TRAIN_ONLY = ("grad_norm", "learning_rate", "epoch", "entropy_coef", "total_flos", "step_time")
_TIMES = ("runtime", "samples_per_second", "steps_per_second")


def metric_findings(settings: Settings) -> list[Finding]:
    """Return what is wrong with the metric that picks the best checkpoint."""
    written, evaluates = settings.get(KEY), settings.strategy("eval_strategy") != "no"
    follows = str(settings.get("lr_scheduler_type")) in _FOLLOWING
    picks = settings.get("load_best_model_at_end") or settings.strategy("save_strategy") == "best"
    if not evaluates:
        if written is not None and not picks and not follows:
            return [settings.unused(KEY, "eval_strategy is no")]
        return []
    if written is None:
        if settings.get("load_best_model_at_end") or follows:
            return list(_by_loss(settings))
        return []
    bare = str(written).removeprefix(EVAL)
    if bare not in evaluated(settings) and not _logged_by_a_reward(settings, bare):
        return list(_unknown(settings, str(written), bare))
    if bare == "loss":
        return list(_by_loss(settings))
    return list(_direction(settings, bare))


def evaluated(s: Settings) -> tuple[str, ...]:
    """Return the metrics that TRL logs in an evaluation of this config, without `eval_`."""
    loss = s.get("loss_type")
    absent = {
        "kl": not s.get("beta"),
        "cispo_clip_ratio": loss != "cispo",
        "vespo/phi_seq_mean": loss != "vespo",
        "policy_loss": not (s.get("entropy_coef") or s.get("use_adaptive_entropy")),
        "aux_loss": s.get("router_aux_loss_coef") in (None, 0),
        "num_input_tokens_seen": True,
    }
    samples = s.get("use_vllm") and s.get("vllm_importance_sampling_correction")
    keys = []
    for metric in METRICS:
        key = metric.key
        if metric.computed or metric.group == "time" or key in _TRAIN_ONLY or key.startswith("train_"):
            continue
        prefix = key.partition("/")[0]
        if absent.get(key) or (prefix == "clip_ratio" and loss not in _CLIPPED):
            continue
        if (prefix == "sampling" and not samples) or prefix == "tools":
            continue
        keys.append(key)
    keys += [f"rewards/{name}/{what}" for name in reward_names(s) for what in ("mean", "std")]
    return (*keys, *_TIMES)


def reward_names(s: Settings) -> tuple[str, ...]:
    """Return the names under which TRL logs the rewards, as far as the config says."""
    model = s.get("reward_model_name_or_path")
    named = [str(model).rstrip("/").rpartition("/")[2]] if model else []
    named += [str(source).rpartition(".")[2] for source in s.get("reward_funcs") or ()]
    named += [entry.name for entry in s.section.rewards]
    return tuple(NAMES_OF_FACTORIES.get(name, name) for name in named)


def _logged_by_a_reward(s: Settings, bare: str) -> bool:
    """Whether a reward's file calls `log_metric` and has the metric's name in it."""
    return any("log_metric" in text and bare in text for text in _reward_texts(s))


def _reward_texts(s: Settings) -> Iterator[str]:
    for entry in s.section.rewards:
        parts = split_file_source(entry.source)
        if parts is not None:
            try:
                yield Path(parts[0]).read_text(encoding="utf-8", errors="replace")
            except OSError:
                continue


def _unseen(s: Settings) -> bool:
    """Whether a reward may log a metric whose name is not to be seen here: in a module, or put together."""
    sources = [*(s.get("reward_funcs") or ()), *(entry.source for entry in s.section.rewards)]
    modules = [
        str(name) for name in sources if name not in TRL_NAMES and split_file_source(str(name)) is None
    ]
    return bool(modules) or any("log_metric" in text for text in _reward_texts(s))


def _unknown(s: Settings, written: str, bare: str) -> Iterator[Finding]:
    known = evaluated(s)
    near = _meant(s, bare, known)
    sure = nearest(bare, known, cutoff=0.85) is not None or not _unseen(s)
    log = f"no evaluation of this run logs {EVAL}{bare}, so it ends with a KeyError after the first one"
    if not sure:
        log = f"TRL logs no {EVAL}{bare}; unless a reward logs it, the run ends after its first evaluation"
    hint = f". Did you mean {EVAL}{near}?" if near else f". Reward is {EVAL}reward"
    message = f"{KEY} is {written}: {log}{hint}"
    fix = (KEY, f"{EVAL}{near or 'reward'}")
    yield s.finding("training.best-metric", "error" if sure else "warning", KEY, message, fix)


def _meant(s: Settings, bare: str, known: tuple[str, ...]) -> str | None:
    """Return the metric that a wrong name is most like; a reward's name alone means its mean."""
    word = re.sub(r"^(train|mean|avg)[_/]|^rewards?/|[_/](mean|avg)$", "", bare)
    by_name = {name.lower(): f"rewards/{name}/mean" for name in reward_names(s)}
    for each in (word, bare):
        if each.lower() in by_name:
            return by_name[each.lower()]
        if each in known:
            return each
    short = {key.rpartition("/")[2]: key for key in known}
    near = nearest(word, by_name, cutoff=0.75) or nearest(bare, known) or nearest(word, short)
    return by_name.get(near or "", short.get(near or "", near))


def _by_loss(s: Settings) -> Iterator[Finding]:
    schedule = str(s.get("lr_scheduler_type"))
    if s.get("load_best_model_at_end"):
        field, what = "load_best_model_at_end", "load_best_model_at_end takes the checkpoint"
    elif schedule in _FOLLOWING:
        field, what = "lr_scheduler_type", f"lr_scheduler_type {schedule} follows the evaluation"
    else:
        field, what = KEY, "the best checkpoint is the one"
    yield s.warning(
        "training.best-by-loss",
        KEY if s.written(KEY) else field,
        f"{what} with the lowest eval_loss, but GRPO's loss does not measure progress. "
        f"Set {KEY}: {EVAL}reward",
        (KEY, f"{EVAL}reward"),
    )


def _direction(s: Settings, bare: str) -> Iterator[Finding]:
    """Warn when the wrong end of a metric counts as best; by default the highest does."""
    better, asked = describe(bare).better, s.get("greater_is_better")
    greater = not bare.endswith("loss") if asked is None else bool(asked)
    if better and greater != (better == "up"):
        end, right = ("highest", "lower") if greater else ("lowest", "higher")
        default = "" if asked is not None else " by default"
        yield s.warning(
            "training.best-direction",
            "greater_is_better" if asked is not None else KEY,
            f"the checkpoint with the {end} {EVAL}{bare} counts as best{default}, but {right} is better",
            ("greater_is_better", not greater),
        )


_STRATEGY_OF = {
    "logging_steps": "logging_strategy",
    "save_steps": "save_strategy",
    "eval_steps": "eval_strategy",
}

_NEVER_READ: Mapping[str, str] = NAMES["never_read"]
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
        yield s.error(
            "training.best-metric",
            "save_strategy",
            "save_strategy is best, but metric_for_best_model is not set",
            ("metric_for_best_model", "eval_reward"),
        )
    if save == "best" and evaluate == "no":
        yield s.error(
            "training.best-without-eval",
            "save_strategy",
            "save_strategy is best but eval_strategy is no: without evaluation nothing is ever saved",
            ("save_strategy", "steps"),
        )
    if not s.get("load_best_model_at_end") or save == "best":
        return
    if evaluate != save:
        fix = ("load_best_model_at_end", False) if evaluate == "no" else ("save_strategy", evaluate)
        yield s.error(
            "training.best-model",
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
        why = "one is a fraction of the run and the other a number of steps"
    elif round(saving * 1_000_000) % max(1, round(evaluating * 1_000_000)):
        why = f"{saving:g} is not a multiple of {evaluating:g}"
    else:
        return
    nearest = (
        evaluating * max(1, round(saving / evaluating)) if saving >= 1 and evaluating >= 1 else evaluating
    )
    yield s.error(
        "training.best-model",
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
            yield s.error(
                "training.whole-steps",
                name,
                f"{name} is {value:g}. Above 1 it is a whole number of steps, below 1 a fraction of the run",
                (name, round(value)),
            )


def _precision(s: Settings) -> Iterator[Finding]:
    for first, second in (("fp16", "bf16"), ("fp16_full_eval", "bf16_full_eval")):
        if s.get(first) is True and s.get(second) is True:
            yield s.error(
                "training.precision",
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
        yield s.error(
            "training.precision",
            "dtype",
            f"fp16 trains weights that are kept in float32, and dtype is {stored}: {why}, so the first step "
            "fails",
            ("dtype", "float32"),
        )


def _schedule(s: Settings) -> Iterator[Finding]:
    kind = str(s.get("lr_scheduler_type"))
    if kind in ("reduce_lr_on_plateau", "greedy") and s.strategy("eval_strategy") == "no":
        yield s.error(
            "training.schedule-needs-eval",
            "lr_scheduler_type",
            f"lr_scheduler_type {kind} needs evaluations, but eval_strategy is no",
            ("lr_scheduler_type", "cosine"),
        )
    warmup, steps = s.get("warmup_steps"), s.get("max_steps")
    if not is_number(warmup) or warmup <= 0:
        return
    if kind == "constant":
        yield s.warning(
            "training.no-warmup",
            "warmup_steps",
            f"warmup_steps is {warmup:g}, but lr_scheduler_type constant has no warmup; it starts at "
            "the full rate",
            ("lr_scheduler_type", "constant_with_warmup"),
        )
    elif is_number(steps) and 0 < steps <= warmup:
        yield s.warning(
            "training.warmup-too-long",
            "warmup_steps",
            f"warmup_steps is {warmup:g} but the run has {steps} steps, so the learning rate never reaches "
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
                yield s.unused(name, "eval_strategy is no", meant)
        if s.get("eval_on_start"):
            message = "eval_on_start needs evaluation rows, but eval_strategy is no"
            fix = ("eval_on_start", False)
            yield s.error("training.eval-on-start", "eval_on_start", message, fix)
        return
    steps, every = s.get("max_steps"), s.get("eval_steps") or s.get("logging_steps")
    if evaluate == "steps" and is_number(steps) and is_number(every) and 0 < steps < every:
        yield s.warning(
            "training.never-evaluates",
            "eval_steps",
            f"eval_steps is {every:g} but the run has only {steps} steps, so it is never evaluated",
            ("eval_steps", max(1, steps // 4)),
        )


def _optimizer(s: Settings) -> Iterator[Finding]:
    optim = str(s.get("optim") or "")
    if optim.startswith(_TARGETED) and not s.get("optim_target_modules"):
        yield s.error(
            "training.optimizer-targets",
            "optim",
            f"optim {optim} needs optim_target_modules",
            ("optim_target_modules", ["attn", "mlp"]),
        )
    given = str(s.get("optim_args") or "")
    wrong = next((part for part in given.split(",") if given and "=" not in part), None)
    if wrong is not None:
        message = f"optim_args must be comma-separated name=value pairs; '{wrong.strip()}' has no ="
        yield s.error("training.optim-args", "optim_args", message, ("optim_args", REMOVE))
    if optim.endswith(_LAYERWISE):
        accumulation, ranks = s.get("gradient_accumulation_steps"), s.world_size or 1
        if accumulation and accumulation > 1:
            yield s.error(
                "training.layerwise",
                "optim",
                f"optim {optim} updates each layer as soon as its gradient is ready, so it cannot gather "
                f"{accumulation} batches",
                ("gradient_accumulation_steps", 1),
            )
        if ranks > 1:
            message = f"optim {optim} cannot be used with {ranks} processes"
            fix = ("optim", optim.removesuffix("_layerwise"))
            yield s.error("training.layerwise", "optim", message, fix)


def _loading(s: Settings) -> Iterator[Finding]:
    if s.get("dataloader_prefetch_factor") is not None and not s.get("dataloader_num_workers"):
        yield s.error(
            "training.prefetch",
            "dataloader_prefetch_factor",
            "dataloader_prefetch_factor needs workers, but dataloader_num_workers is 0",
            ("dataloader_prefetch_factor", REMOVE),
        )
    if s.get("remove_unused_columns") is True:
        yield s.error(
            "training.columns-removed",
            "remove_unused_columns",
            "remove_unused_columns: true drops every column but prompt and images, so no reward gets its "
            "answers",
            ("remove_unused_columns", False),
        )
    streams = s.get("dataset_streaming") or s.get("streaming")
    if streams and s.get("dataloader_num_workers"):
        yield s.warning(
            "training.stream-workers",
            "dataloader_num_workers",
            "a stream is read by one worker, so dataloader_num_workers "
            f"{s.get('dataloader_num_workers')} is set to 0",
            ("dataloader_num_workers", 0),
        )
    if streams and s.get("max_steps") == -1:
        yield s.error(
            "training.stream-without-end",
            "max_steps",
            "set max_steps: the dataset is a stream of unknown length",
            ("max_steps", 500),
        )


def _debug(s: Settings) -> Iterator[Finding]:
    named = s.get("debug") or []
    wrong = [name for name in ([named] if isinstance(named, str) else named) if name not in _DEBUG]
    if wrong:
        message = f"debug: unknown value {', '.join(wrong)}. Choices: {' and '.join(_DEBUG)}"
        yield s.error("training.debug", "debug", message, ("debug", REMOVE))


def _trackers(s: Settings) -> Iterator[Finding]:
    named = s.get("report_to")
    if not isinstance(named, list) or len(named) < 2:
        return
    for word in ("none", "all"):
        if word in named:
            message = f"report_to: {word} cannot be combined with others in a list"
            rest = [name for name in named if name not in ("none", "all")]
            yield s.error("training.trackers", "report_to", message, ("report_to", rest or word))


def _checkpointing(s: Settings) -> Iterator[Finding]:
    """`gradient_checkpointing` is the older name, used only where the newer one is not set."""
    for old, new in (
        ("gradient_checkpointing", "activation_checkpointing"),
        ("gradient_checkpointing_kwargs", "activation_checkpointing_kwargs"),
    ):
        if s.get(new) is not None and s.written(old) and s.get(old) != s.get(new):
            yield s.warning(
                "config.unused",
                old,
                f"{old} is {yaml_said(s.get(old))} and {new}, its newer name, is {yaml_said(s.get(new))}; "
                "the newer one counts",
                (old, REMOVE),
            )
    for name in ("gradient_checkpointing_kwargs", "activation_checkpointing_kwargs"):
        if not s.checkpointing and s.mapping(name):
            yield s.unused(name, "gradient checkpointing is off")


def _ignored(s: Settings) -> Iterator[Finding]:
    for name, why in _NEVER_READ.items():
        if s.written(name):
            yield s.warning("config.unused", name, f"{name} is never read: {why}", (name, REMOVE))
    epochs, steps = s.get("num_train_epochs"), s.get("max_steps")
    if s.written("num_train_epochs") and is_number(steps) and steps > 0:
        yield s.info(
            "config.unused",
            "num_train_epochs",
            f"num_train_epochs {yaml_said(epochs)} is not used: max_steps {steps} sets the length",
            ("num_train_epochs", REMOVE),
        )


def save_interval(settings: Settings) -> Any:
    """Steps between two checkpoints, None when none is saved by steps."""
    every = settings.get("save_steps")
    return every if settings.strategy("save_strategy") == "steps" and is_number(every) else None
