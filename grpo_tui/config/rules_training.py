"""Rules about GRPO in TRL 1.16 and transformers' TrainingArguments (5.24) that need nothing loaded.

They cover what both raise late, only warn about, change silently, or accept and never read. The metric that
picks the best checkpoint must be logged by an evaluation of this run: transformers looks it up only after the
first evaluation, and an unknown name ends the run. Mappings inside the config are in `rules_nested`,
vLLM's keys in `rules_vllm`. Whether LoRA's targets exist in the model is checked elsewhere.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from grpo_tui.config.meant import nearest
from grpo_tui.config.paths import split_file_source
from grpo_tui.config.rules import NAMES, row_findings
from grpo_tui.config.settings import REMOVE, Settings
from grpo_tui.config.trl_fields import NAMES_OF_FACTORIES, TRL_NAMES
from grpo_tui.core.findings import Finding
from grpo_tui.core.metrics import EVAL, METRICS, describe
from grpo_tui.core.statistics import is_number


def lora_findings(settings: Settings) -> list[Finding]:
    """Return findings about adapters and quantization."""
    found = list(row_findings(settings, "lora"))
    found += _on_the_head(settings) if settings.get("use_peft") else _unused(settings)
    return found


def _unused(s: Settings) -> Iterator[Finding]:
    ours = ("lora_", "use_rslora", "use_dora")
    written = [name for name in s.fields if name.startswith(ours) and s.written(name)]
    if written:
        why = "use_peft is false, so the whole model is trained"
        yield s.unused_together(written, why, ("use_peft", True))


def _on_the_head(s: Settings) -> Iterator[Finding]:
    targets = s.get("lora_target_modules")
    named = targets if isinstance(targets, list) else [targets] if targets else []
    for part in named:
        if str(part).rpartition(".")[2] == "lm_head":
            fix = ("lora_target_modules", [name for name in named if name != part] or REMOVE)
            message = "an adapter on lm_head would never be trained: TRL computes the probabilities from its "
            message += "weight directly"
            yield s.error("lora.head", "lora_target_modules", message, fix)


_WEIGHTS = ("*.safetensors", "pytorch_model*.bin")


def folder_bytes(model: str) -> int | None:
    """Return the size in bytes of a local model's weights, None for a Hub name or a folder without any."""
    folder = Path(model).expanduser()
    if not model or not os.path.isdir(folder):
        return None
    files = [file for pattern in _WEIGHTS for file in folder.glob(pattern)]
    return sum(file.stat().st_size for file in files) or None


def grpo_findings(settings: Settings) -> list[Finding]:
    """Return findings about GRPO's own settings."""
    size = folder_bytes(str(settings.get("model_name_or_path") or ""))
    small = size is not None and size < 50_000_000
    return list(row_findings(settings, "grpo", small_model=small))


KEY = "metric_for_best_model"
_FOLLOWING = ("reduce_lr_on_plateau", "greedy")
_CLIPPED = ("grpo", "bnpo", "dr_grpo", "dapo", "luspo")
_TRAIN_ONLY = ("grad_norm", "learning_rate", "epoch", "entropy_coef", "total_flos", "step_time")
_TIMES = ("runtime", "samples_per_second", "steps_per_second")


def metric_findings(settings: Settings) -> list[Finding]:
    """Return findings about the metric that picks the best checkpoint."""
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
    return list(_by_loss(settings) if bare == "loss" else _direction(settings, bare))


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
    """Return the names under which TRL logs the rewards, as far as the config determines them."""
    model = s.get("reward_model_name_or_path")
    named = [str(model).rstrip("/").rpartition("/")[2]] if model else []
    named += [str(source).rpartition(".")[2] for source in s.get("reward_funcs") or ()]
    named += [entry.name for entry in s.section.rewards]
    return tuple(NAMES_OF_FACTORIES.get(name, name) for name in named)


def _logged_by_a_reward(s: Settings, bare: str) -> bool:
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
    """Return whether a reward may log a metric whose name is not visible here.

    That is the case for rewards in modules and for names put together at run time.
    """
    sources = [*(s.get("reward_funcs") or ()), *(entry.source for entry in s.section.rewards)]
    in_module = any(name not in TRL_NAMES and split_file_source(str(name)) is None for name in sources)
    return in_module or any("log_metric" in text for text in _reward_texts(s))


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
    """Return the metric most similar to a wrong name. A reward's bare name means its mean."""
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
    """Warn if the worse end of a metric counts as best. By default the highest value does."""
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


_NEVER_READ: Mapping[str, str] = NAMES["never_read"]
"""Keys that TRL's GRPO accepts but never reads, and why."""

_SAVE_AND_EVAL = ("save_strategy", "eval_strategy")


def training_findings(settings: Settings) -> list[Finding]:
    """Return findings about what transformers would reject or ignore."""
    found = [*row_findings(settings, "best-model"), *_best_steps(settings)]
    found += row_findings(settings, "training")
    found += _trackers(settings)
    found += _never_read(settings)
    return found


def _best_steps(s: Settings) -> Iterator[Finding]:
    saving, evaluating = s.get("save_steps"), s.get("eval_steps") or s.get("logging_steps")
    if not s.get("load_best_model_at_end") or {s.strategy(each) for each in _SAVE_AND_EVAL} != {"steps"}:
        return
    if not (is_number(saving) and is_number(evaluating)) or saving <= 0 or evaluating <= 0:
        return
    if (saving < 1) != (evaluating < 1):
        why = "one is a fraction of the run and the other a number of steps"
    elif round(saving * 1_000_000) % max(1, round(evaluating * 1_000_000)):
        why = f"{saving:g} is not a multiple of {evaluating:g}"
    else:
        return
    whole = saving >= 1 and evaluating >= 1
    fit = evaluating * max(1, round(saving / evaluating)) if whole else evaluating
    message = f"load_best_model_at_end needs save_steps to be a multiple of eval_steps; {why}"
    fix = ("save_steps", int(fit) if float(fit).is_integer() else fit)
    yield s.error("training.best-model", "save_steps", message, fix)


def _trackers(s: Settings) -> Iterator[Finding]:
    named = s.get("report_to")
    if not isinstance(named, list) or len(named) < 2:
        return
    for word in ("none", "all"):
        if word in named:
            message = f"report_to: {word} cannot be combined with others in a list"
            rest = [name for name in named if name not in ("none", "all")]
            yield s.error("training.trackers", "report_to", message, ("report_to", rest or word))


def _never_read(s: Settings) -> Iterator[Finding]:
    for name, why in _NEVER_READ.items():
        if s.written(name):
            yield s.warning("config.unused", name, f"{name} is never read: {why}", (name, REMOVE))
