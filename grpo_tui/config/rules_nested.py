"""Rules about mappings inside a config: renamed, unknown and conflicting keys, and values of the wrong type.

They cover `model_init_kwargs`, `generation_kwargs`, `chat_template_kwargs`, `lr_scheduler_kwargs`,
checkpointing, accelerator and continuous batching. FSDP and DeepSpeed are in `rules_sharded`. Strings are
checked because a quoted "false" is truthy and a quoted "0.1" cannot be multiplied. Valid names are read from
the source of the installed transformers. If its layout is unexpected, there are no names and keys are not
checked.
"""

from __future__ import annotations

import ast
import json
import os
import re
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from typing import Any

from grpo_tui.config.coerce import numbers_in_text
from grpo_tui.config.meant import meant_word, nearest
from grpo_tui.config.plan.model import model_folder
from grpo_tui.config.rules import NAMES, row_findings, yaml_said
from grpo_tui.config.settings import REMOVE, Settings
from grpo_tui.config.trl_fields import FieldsUnavailableError, annotated_in, class_in, parse_source
from grpo_tui.core.findings import Finding
from grpo_tui.core.statistics import is_number


@lru_cache(maxsize=1)
def generation_names() -> frozenset[str]:
    """Return the settings of transformers' GenerationConfig."""
    return frozenset(_popped("generation/configuration_utils.py", "GenerationConfig", "__init__"))


@lru_cache(maxsize=1)
def sampling_names() -> frozenset[str]:
    """Return the settings of vLLM's SamplingParams. Without vLLM, those of the releases that TRL supports."""
    try:
        names = annotated_in(class_in(parse_source("vllm", "sampling_params.py"), "SamplingParams"))
    except FieldsUnavailableError:
        return _SAMPLING
    return frozenset(name for name in names if not name.startswith("_")) or _SAMPLING


_SAMPLING = frozenset(NAMES["sampling"])


@lru_cache(maxsize=1)
def loading_names() -> frozenset[str]:
    """Return the arguments of `from_pretrained` that are not settings of the model's config."""
    found = set(_popped("modeling_utils.py", "PreTrainedModel", "from_pretrained"))
    for node in _methods("modeling_utils.py", "PreTrainedModel", "from_pretrained"):
        found |= {argument.arg for argument in (*node.args.args, *node.args.kwonlyargs)}
    return frozenset(found - {"cls"}) | _LOADING if found else frozenset()


_LOADING = frozenset(NAMES["loading"])
"""Arguments that are not read in the body of `from_pretrained`."""


@lru_cache(maxsize=1)
def accelerator_names() -> frozenset[str]:
    """Return the fields of transformers' AcceleratorConfig."""
    return frozenset(annotated_in(_class("trainer_pt_utils.py", "AcceleratorConfig")))


@lru_cache(maxsize=1)
def continuous_batching_names() -> frozenset[str]:
    """Return the fields of transformers' ContinuousBatchingConfig."""
    return frozenset(annotated_in(_class("generation/configuration_utils.py", "ContinuousBatchingConfig")))


@lru_cache(maxsize=1)
def schedules() -> dict[str, tuple[frozenset[str], frozenset[str]]]:
    """Return all and the required arguments of each learning rate schedule, by its name in a config.

    Arguments that the trainer passes are left out.
    """
    tree = _tree("optimization.py")
    if tree is None:
        return {}
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    found = {}
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Assign) and _named(node.targets[0]) == "TYPE_TO_SCHEDULER_FUNCTION"):
            continue
        assert isinstance(node.value, ast.Dict)
        for key, value in zip(node.value.keys, node.value.values, strict=True):
            function = functions.get(_named(value))
            if isinstance(key, ast.Attribute) and function is not None and function.args.kwarg is None:
                found[key.attr.lower()] = _arguments(function)
    return found


_GIVEN = {"optimizer", "num_warmup_steps", "num_training_steps", "last_epoch"}


def _arguments(function: ast.FunctionDef) -> tuple[frozenset[str], frozenset[str]]:
    names = [argument.arg for argument in function.args.args]
    required = names[: len(names) - len(function.args.defaults)]
    return frozenset(set(names) - _GIVEN), frozenset(set(required) - _GIVEN)


def _tree(relative: str) -> ast.Module | None:
    try:
        return parse_source("transformers", relative)
    except FieldsUnavailableError:
        return None


def _class(relative: str, name: str) -> ast.ClassDef | None:
    tree = _tree(relative)
    return class_in(tree, name) if tree is not None else None


def _methods(relative: str, owner: str, name: str) -> Iterator[ast.FunctionDef]:
    found = _class(relative, owner)
    for node in found.body if found is not None else ():
        if isinstance(node, ast.FunctionDef) and node.name == name:
            yield node


def _popped(relative: str, owner: str, method: str) -> Iterator[str]:
    """Yield the names in `kwargs.pop("name", …)` and `kwargs.get("name", …)`."""
    for function in _methods(relative, owner, method):
        for node in ast.walk(function):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr in ("pop", "get")
                and _named(node.func.value) == "kwargs"
                and node.args
                and isinstance(node.args[0], ast.Constant)
            ):
                yield str(node.args[0].value)


def _named(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else ""


_MAPPINGS = tuple(NAMES["mappings"])
_TEXTS = frozenset(NAMES["texts"])
"""Keys whose values are always strings."""
_TRUTH = {"true": True, "false": False}
_DTYPES = ("auto", "bfloat16", "float16", "float32")


def value_findings(settings: Settings) -> list[Finding]:
    """Return findings about values inside mappings."""
    found: list[Finding] = []
    for name in _MAPPINGS:
        found += _texts(settings, name, settings.mapping(name))
    found += _template_texts(settings)
    found += row_findings(settings, "model-values")
    found += _model(settings)
    return found


def _texts(s: Settings, where: str, given: Any) -> Iterator[Finding]:
    for key, value in given.items():
        field = f"{where}.{key}"
        if isinstance(value, dict):
            yield from _texts(s, field, value)
        elif isinstance(value, str) and key not in _TEXTS:
            word = value.strip().lower()
            meant = _TRUTH.get(word, numbers_in_text(word))
            if meant is None:
                continue
            if isinstance(meant, float) and meant.is_integer() and word.lstrip("+-").isdigit():
                meant = int(meant)
            kind = "a truth value" if isinstance(meant, bool) else "a number"
            message = f"{field} must be {kind}; it is the text '{value}', which is not converted later"
            yield s.error("nested.text", field, message, (field, meant))


def _template_texts(s: Settings) -> Iterator[Finding]:
    for key, value in s.mapping("chat_template_kwargs").items():
        if isinstance(value, str) and value.strip().lower() in _TRUTH:
            field = f"chat_template_kwargs.{key}"
            message = f"{field} is the text '{value}'. A chat template treats any text as true"
            yield s.warning("nested.text", field, message, (field, _TRUTH[value.strip().lower()]))


def _model(s: Settings) -> Iterator[Finding]:
    given = s.mapping("model_init_kwargs")
    dtype = given.get("dtype")
    if dtype is not None and dtype not in _DTYPES:
        field = "model_init_kwargs.dtype"
        word = str(dtype).lower().removeprefix("torch.")
        meant = word if word in _DTYPES else meant_word("dtype", word, _DTYPES)
        message = f"{field} must be one of {', '.join(_DTYPES)}; it is {dtype}"
        yield s.error("nested.dtype", field, message, (field, meant or REMOVE))


ATTENTION = ("eager", "sdpa", "flash_attention_2", "flash_attention_3", "flash_attention_4", "flex_attention")

_MODEL_RENAMED: dict[str, tuple[str, Any, str]] = {
    "use_flash_attention_2": ("attn_implementation", "flash_attention_2", "use attn_implementation"),
    "use_auth_token": ("model_init_kwargs.token", REMOVE, "run `hf auth login` instead"),
    "load_in_4bit": ("load_in_4bit", True, "set it at the top level"),
    "load_in_8bit": ("load_in_8bit", True, "set it at the top level"),
    "use_cache": ("model_init_kwargs.use_cache", REMOVE, "TRL sets it"),
}
"""Removed keys of `model_init_kwargs`: the key to set instead, its value, and the advice."""
_MODEL_IGNORED = tuple(NAMES["model_ignored"])

_SET_BY_TRL: Mapping[str, str] = NAMES["set_by_trl"]
"""Generation settings for which TRL has its own key, which the rest of the trainer reads."""
_FLOATS = frozenset({"temperature", "repetition_penalty", "encoder_repetition_penalty"})
"""Generation settings that transformers rejects as an int, unless it is 1, which turns them off."""
_TEMPLATE_TAKEN = tuple(NAMES["template_taken"])
_CHECKPOINT_NAMES = frozenset(NAMES["checkpointing"])


def nested_findings(settings: Settings) -> list[Finding]:
    """Return findings about keys inside mappings."""
    found = list(_model_init(settings))
    found += row_findings(settings, "model-init")
    found += _attention(settings)
    found += _generation(settings)
    found += _template(settings)
    found += _scheduler(settings)
    for name in ("gradient_checkpointing_kwargs", "activation_checkpointing_kwargs"):
        found += _unknown(settings, name, _CHECKPOINT_NAMES | {"every_n_layers"})
    found += _unknown(settings, "accelerator_config", accelerator_names())
    found += _unknown(settings, "transformers_continuous_batching_config", continuous_batching_names())
    found += _accelerator(settings)
    return found


def _unknown(s: Settings, name: str, known: Collection[str]) -> Iterator[Finding]:
    if not known:
        return
    for key, value in s.mapping(name).items():
        if key not in known:
            yield misnamed(
                s, name, key, value, known, f"unknown key {key} in {name}", f". Known keys: {_some(known)}"
            )


def misnamed(
    s: Settings,
    where: str,
    key: str,
    value: Any,
    known: Collection[str],
    message: str,
    otherwise: str = "",
    *,
    cutoff: float = 0.6,
) -> Finding:
    """Return the error for an unknown key of a mapping.

    Args:
        message: What is wrong, without what may be meant.
        otherwise: End of the message when no known key is similar. The fix then removes the key.
    """
    near = nearest(str(key).removeprefix("fsdp_"), known, cutoff)
    hint = f". Did you mean {near}?" if near else otherwise
    fix = (f"{where}.{near}", value) if near else (f"{where}.{key}", REMOVE)
    return s.error("nested.unknown-key", f"{where}.{key}", message + hint, fix)


def _some(known: Collection[str]) -> str:
    names = sorted(known)
    return ", ".join(names) if len(names) <= 8 else f"{', '.join(names[:8])} and {len(names) - 8} more"


def _model_init(s: Settings) -> Iterator[Finding]:
    given = s.mapping("model_init_kwargs")
    for key, value in given.items():
        field = f"model_init_kwargs.{key}"
        if key in _MODEL_RENAMED:
            target, put, now = _MODEL_RENAMED[key]
            message = f"{field} no longer exists and makes loading the model fail: {now}"
            yield s.error("config.removed-key", field, message, (target, put))
        elif key in _MODEL_IGNORED:
            message = f"Remove {field}: transformers 5 silently ignores it"
            yield s.warning("config.removed-key", field, message, (field, REMOVE))
        elif key in ("attn_implementation", "dtype", "revision") and s.written(_own_name(key)):
            own = _own_name(key)
            if value != s.get(own):
                message = f"{field} {yaml_said(value)} overrides {own} {yaml_said(s.get(own))}. Keep one"
                yield s.warning("config.conflict", field, message, (field, REMOVE))
        elif key in ("pretrained_model_name_or_path", "architecture"):
            message = f"Remove {field}: TRL sets it from model_name_or_path"
            yield s.error("config.conflict", field, message, (field, REMOVE))
        elif known := loading_names():
            near = nearest(str(key), known, cutoff=0.8) if key not in known else None
            if near:
                message = f"{field} is not an argument of from_pretrained. Did you mean {near}?"
                yield s.error("nested.unknown-key", field, message, (f"model_init_kwargs.{near}", value))


def _own_name(key: str) -> str:
    return "model_revision" if key == "revision" else key


def _attention(s: Settings) -> Iterator[Finding]:
    for field, value in (
        ("attn_implementation", s.get("attn_implementation")),
        ("model_init_kwargs.attn_implementation", s.mapping("model_init_kwargs").get("attn_implementation")),
    ):
        if not isinstance(value, str) or value in ATTENTION or "/" in value or value.startswith("paged|"):
            continue
        plain = value.lower().replace("-", "_")
        flash = ("flash_attention", "fa2", "flash_attn", "flash_attn_2", "flash")
        near = "flash_attention_2" if plain in flash else nearest(plain, ATTENTION)
        hint = f". Did you mean {near}?" if near else f". Choices: {', '.join(ATTENTION)}, or a Hub kernel"
        yield s.error("nested.attention", field, f"{field}: unknown value {value}{hint}", (field, near))


def _generation(s: Settings) -> Iterator[Finding]:
    given, vllm = s.mapping("generation_kwargs"), bool(s.get("use_vllm"))
    for key, value in given.items():
        field = f"generation_kwargs.{key}"
        own = _SET_BY_TRL.get(key)
        if key in _FLOATS and isinstance(value, int) and is_number(value) and value > 1 and not vllm:
            written = float(value)
            message = f"Write {field} as {written}: transformers rejects the whole number {value} in step 1"
            yield s.error("nested.whole-number", field, message, (field, written))
        elif own is not None and not (key == "max_tokens" and not vllm):
            behind = ". The loss would then use a different temperature" if key == "temperature" else ""
            message = f"Set {own} instead: {field} silently overrides {own} {yaml_said(s.get(own))}{behind}"
            yield s.warning("nested.elsewhere", field, message, (own, value))
        elif key == "do_sample" and not value:
            message = f"{field} false makes all completions of a prompt identical, so no group teaches "
            message += "anything"
            yield s.error("nested.greedy", field, message, (field, REMOVE))
        elif key in ("num_return_sequences", "n") and is_number(value) and value > 1:
            message = (
                f"Set num_generations instead: {field} {value} returns more completions than TRL expects"
            )
            yield s.error("nested.more-completions", field, message, (field, REMOVE))
        elif key in ("num_beams", "beam_width") and is_number(value) and value > 1:
            message = (
                f"{field} {value} searches for the most likely text, but GRPO needs samples from the policy"
            )
            yield s.warning("nested.beams", field, message, (field, REMOVE))
        else:
            yield from _unknown_generation(s, str(key), value, vllm)


def _unknown_generation(s: Settings, key: str, value: Any, vllm: bool) -> Iterator[Finding]:
    """Yield an error for an unknown generation setting. vLLM raises one too; transformers ignores the key."""
    known = sampling_names() if vllm else generation_names()
    if not known or key in known:
        return
    owner = "vLLM's SamplingParams" if vllm else "transformers' GenerationConfig, so nothing reads it"
    if vllm and key in generation_names():
        owner = "vLLM's SamplingParams (it is a transformers setting)"
    message = f"generation_kwargs.{key} is not a setting of {owner}"
    yield misnamed(s, "generation_kwargs", key, value, known, message, cutoff=0.7)


def _template(s: Settings) -> Iterator[Finding]:
    given = s.mapping("chat_template_kwargs")
    text = chat_template(str(s.get("model_name_or_path") or "")) if given else None
    for key in given:
        field = f"chat_template_kwargs.{key}"
        if key in _TEMPLATE_TAKEN:
            message = f"Remove {field}: TRL sets {key} itself, so the first step would fail"
            yield s.error("nested.taken", field, message, (field, REMOVE))
        elif text is not None and not re.search(rf"\b{re.escape(str(key))}\b", text):
            yield s.unused(field, f"the chat template of this model does not use {key}")


def chat_template(model: str) -> str | None:
    """Return the chat template of a local model, as JSON if it has several. None for other models."""
    folder = model_folder(model)
    if folder is None:
        return None
    try:
        return (folder / "chat_template.jinja").read_text(encoding="utf-8", errors="replace")
    except OSError:
        pass
    try:
        saved = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    found = saved.get("chat_template") if isinstance(saved, dict) else None
    return json.dumps(found) if found else None


def _scheduler(s: Settings) -> Iterator[Finding]:
    kind, given = str(s.get("lr_scheduler_type")), s.mapping("lr_scheduler_kwargs")
    known = schedules().get(kind)
    if known is None:
        return
    takes, required = known
    if kind in ("constant", "constant_with_warmup") and given:
        yield s.unused("lr_scheduler_kwargs", f"lr_scheduler_type {kind} has no options")
        return
    for key, value in given.items():
        if key not in takes:
            message = f"lr_scheduler_type {kind} has no option {key}"
            otherwise = f"; it takes {_some(takes) or 'none'}"
            yield misnamed(s, "lr_scheduler_kwargs", key, value, takes, message, otherwise)
    for key in sorted(required - set(given)):
        message = f"lr_scheduler_type {kind} needs lr_scheduler_kwargs.{key}"
        steps = s.get("max_steps")
        value = max(1, steps // 10) if is_number(steps) and steps > 0 else 100
        yield s.error("nested.schedule", "lr_scheduler_type", message, (f"lr_scheduler_kwargs.{key}", value))
    yield from row_findings(s, "schedule")


def _accelerator(s: Settings) -> Iterator[Finding]:
    path = s.get("accelerator_config")
    if isinstance(path, str) and not os.path.isfile(path):
        message = f"accelerator_config: there is no file {path}. Write a mapping in the config instead"
        yield s.error("nested.file", "accelerator_config", message, ("accelerator_config", REMOVE))
    yield from row_findings(s, "accelerator")
