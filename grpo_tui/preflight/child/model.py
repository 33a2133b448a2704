"""A model's architecture on the meta device: its sizes, Linear modules, LoRA targets.

It is built from the model's config, with the class that TRL 1.16's `create_model_from_path` uses. No weights
are read.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from grpo_tui.config.plan.model import Linear, ModelShape, shape_of
from grpo_tui.config.run_config import RunConfig
from grpo_tui.data.transformers_import import import_transformers
from grpo_tui.preflight.child.hub import Hub
from grpo_tui.preflight.facts import LinearKind, LoraMatch, ModelFacts, Whereabouts
from grpo_tui.rewards.lab_child.loaded import init_arguments

_APART = re.compile(
    r"(^|\.)(visual|vision\w*|image\w*|multi_modal_projector|mm_projector"
    r"|experts|router|gate|shared_expert_gate)(\.|$)"
)
"""Parts that are not of the attention, whatever their modules are called."""
_EXPERTS = re.compile(r"(^|\.)experts(\.|$)")
_ATTENTION = re.compile(r"attn|attention|mixer|mamba", re.IGNORECASE)
_SIZES = (
    *("hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim"),
    *("intermediate_size", "moe_intermediate_size", "vocab_size", "max_position_embeddings"),
    *("num_local_experts", "num_experts", "n_routed_experts", "num_experts_per_tok"),
)


def model_facts(config: RunConfig, hub: Hub) -> ModelFacts:
    """Collect what is known of a config's model without its weights."""
    name = config.model
    arguments = init_arguments(config)
    where = hub.model(name, str(arguments.get("revision") or "main"))
    adapter = ""
    base = _adapter_base(where)
    if base is not None:
        adapter = name
        where = hub.model(base)
    dtype = arguments.get("dtype")
    facts = ModelFacts(where, adapter, dtype=str(dtype).removeprefix("torch."))
    if not where.here and where.place not in ("hub", "broken"):
        return facts
    try:
        return _described(config, facts, arguments)
    except Exception as error:
        why = " ".join(str(error).split())[:300] or type(error).__name__
        return ModelFacts(where, adapter, dtype=facts.dtype, problem=f"{where.name}: {why}")


def _adapter_base(where: Whereabouts) -> str | None:
    """Return the base model of an adapter's folder, None if it is not an adapter."""
    if where.path is None or (Path(where.path) / "config.json").is_file():
        return None
    try:
        found = json.loads((Path(where.path) / "adapter_config.json").read_text(encoding="utf-8"))
        return str(found["base_model_name_or_path"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _described(config: RunConfig, facts: ModelFacts, arguments: Mapping[str, Any]) -> ModelFacts:
    import_transformers()
    from transformers import AutoConfig

    source = facts.where.path or facts.where.name
    found = AutoConfig.from_pretrained(
        source,
        revision=arguments.get("revision") if not facts.adapter else None,
        trust_remote_code=bool(arguments.get("trust_remote_code")),
    )
    stored = getattr(found, "dtype", None)
    stored_dtype = str(stored).removeprefix("torch.") if stored is not None else ""
    dtype = (stored_dtype or "float32") if facts.dtype in ("auto", "None") else facts.dtype
    model, problem = on_meta(found, bool(arguments.get("trust_remote_code")))
    architecture = type(model).__name__ if model is not None else (found.architectures or [""])[0]
    text = found.get_text_config()
    vocab, context = (getattr(text, name, None) for name in ("vocab_size", "max_position_embeddings"))
    made = replace(
        facts, architecture=architecture, dtype=dtype, vocab=vocab, context=context, problem=problem
    )
    if model is None:
        return replace(made, shape=_sizes(found))
    lora, linears = _lora(config, model), _linears(model)
    shape = _counted(_sizes(found), model, linears, stored_dtype or dtype)
    if shape is not None and lora is not None and not lora.problem:
        shape = replace(shape, adapted=lora.names)
    return replace(made, shape=shape, linears=linears, lora=lora)


def on_meta(found: Any, trusted: bool) -> tuple[Any, str]:
    """Return the model without memory for its weights, or None and the reason."""
    import torch
    import transformers

    own = getattr(transformers, (found.architectures or [""])[0], None)
    problem = ""
    # Some model families have no eager attention.
    for attention in ({"attn_implementation": "eager"}, {}):
        try:
            with torch.device("meta"):
                if own is not None:
                    return own._from_config(found, **attention), ""
                return transformers.AutoModelForCausalLM.from_config(
                    found, trust_remote_code=trusted, **attention
                ), ""
        except Exception as error:
            problem = " ".join(str(error).split())[:300] or type(error).__name__
    return None, f"the architecture {(found.architectures or ['?'])[0]} cannot be built: {problem}"


def _part(path: str, head: str | None) -> str:
    if path == head:
        return "head"
    return "attention" if _ATTENTION.search(path) and not _APART.search(path) else "other"


def _head(model: Any) -> str | None:
    output = model.get_output_embeddings()
    return next((path for path, module in model.named_modules() if module is output), None)


def _sizes(found: Any) -> ModelShape | None:
    """Return the sizes in a config. Its attributes have one name where the keys of a file have several."""
    text = found.get_text_config()
    known = {name: value for name in _SIZES if (value := getattr(text, name, None)) is not None}
    return shape_of({**text.to_dict(), **found.to_dict(), **known})


def _counted(
    shape: ModelShape | None, model: Any, kinds: tuple[LinearKind, ...], dtype: str
) -> ModelShape | None:
    """Replace computed values by those of the model."""
    if shape is None:
        return None
    sizes = {path: each.numel() for path, each in model.named_parameters()}  # yields a shared one once
    routed = sum(size for path, size in sizes.items() if _EXPERTS.search(path))
    linears: dict[str, tuple[Linear, ...]] = {}
    for kind in kinds:
        if kind.name != "lm_head":
            linears[kind.name] = (*linears.get(kind.name, ()), *((kind.inputs, kind.outputs),) * kind.count)
    width = shape.intermediate
    if shape.experts and routed:  # gate, up and down of an expert are hidden × width each
        width = max(1, routed // (shape.layers * shape.experts * 3 * shape.hidden))
    total = sum(sizes.values())
    return replace(shape, parameters=total, intermediate=width, dtype=dtype, linears=linears, exact=True)


def _linear_modules(model: Any) -> Iterable[tuple[str, int, int]]:
    """Yield path, inputs and outputs of each module that LoRA treats as linear."""
    import torch
    from transformers.pytorch_utils import Conv1D

    for path, module in model.named_modules():
        if isinstance(module, torch.nn.Linear):
            yield path, module.in_features, module.out_features
        elif isinstance(module, Conv1D):
            yield path, module.weight.shape[0], module.weight.shape[1]


def _linears(model: Any) -> tuple[LinearKind, ...]:
    head = _head(model)
    counts: Counter[tuple[str, int, int, str]] = Counter()
    for path, inputs, outputs in _linear_modules(model):
        counts[path.rpartition(".")[2], inputs, outputs, _part(path, head)] += 1
    return tuple(
        LinearKind(name, inputs, outputs, count, part)
        for (name, inputs, outputs, part), count in counts.items()
    )


def _lora(config: RunConfig, model: Any) -> LoraMatch | None:
    """Resolve `lora_target_modules` as PEFT does (`check_target_module_exists`)."""
    import torch

    if not config.model_args.get("use_peft"):
        return None
    asked = config.model_args.get("lora_target_modules")
    if isinstance(asked, (list, tuple)) and len(asked) == 1:
        asked = asked[0]  # as TRL's ModelConfig does
    head = _head(model)
    paths = [path for path, _, _ in _linear_modules(model)]
    names = tuple(dict.fromkeys(path.rpartition(".")[2] for path in paths if path != head))
    if asked is None and config.model_args.get("lora_target_parameters"):
        return LoraMatch((), 0, ())  # targets parameters, not modules
    if isinstance(asked, str) and asked.lower() == "all-linear":
        return LoraMatch((asked,), len(paths) - (head in paths), names)
    every = {path: type(module) for path, module in model.named_modules() if path}
    able = {*paths, *(path for path, kind in every.items() if issubclass(kind, torch.nn.Embedding))}
    modules = _Modules(list(every), able, names)
    if asked is None:
        return _by_model_type(model, modules)
    if isinstance(asked, str):
        return _by_pattern(asked, modules)
    return _by_ends(tuple(map(str, asked)), modules)


@dataclass(frozen=True, slots=True)
class _Modules:
    """Module paths of a model.

    Attributes:
        able: those that LoRA supports: Linear modules and embeddings.
        names: last path components of the Linear modules, without the head.
    """

    every: list[str]
    able: set[str]
    names: tuple[str, ...]

    @property
    def told(self) -> str:
        """Names for a message."""
        return ", ".join(self.names)


def _by_pattern(target: str, modules: _Modules) -> LoraMatch:
    """Match a single text, which is a regular expression for the whole path."""
    try:
        hits = [path for path in modules.every if re.fullmatch(target, path)]
    except re.error as error:
        return LoraMatch(
            (target,), 0, (), (target,), f"lora_target_modules {target} is not a valid pattern: {error}"
        )
    if hits:
        return _match((target,), hits, (), modules)
    parts = [part.strip() for part in target.split(",") if part.strip()]
    known = [part for part in parts if part in modules.names]
    if len(parts) == 1 and known:
        problem = (
            f"lora_target_modules {target} alone is treated as a pattern for the whole path and matches "
            f"nothing. Write .*\\.{target}, or more than one name"
        )
    elif len(parts) > 1:
        problem = (
            f"lora_target_modules is the one text {target}, where a list is meant, as [{', '.join(parts)}]; "
            f"it is not one of the model's Linear modules: {modules.told}"
        )
    else:
        problem = f"lora_target_modules {target} is not one of the model's Linear modules: {modules.told}"
    return LoraMatch((target,), 0, (), (target,), problem)


def _by_ends(targets: tuple[str, ...], modules: _Modules) -> LoraMatch:
    """Match a list of names, which are ends of paths."""
    found = {t: [p for p in modules.every if p == t or p.endswith(f".{t}")] for t in targets}
    hits = list(dict.fromkeys(path for paths in found.values() for path in paths))
    return _match(targets, hits, tuple(t for t, paths in found.items() if not paths), modules)


def _match(
    targets: tuple[str, ...], hits: list[str], missed: tuple[str, ...], modules: _Modules
) -> LoraMatch:
    matched = [path for path in hits if path in modules.able]
    unfit = [path for path in hits if path not in modules.able]
    problem = ""
    if unfit:
        problem = (
            f"lora_target_modules names {unfit[0]}, which is not a Linear module. The Linear modules "
            f"are {modules.told}"
        )
    elif not matched:
        problem = (
            f"lora_target_modules {', '.join(targets)}: none of the model's Linear modules: {modules.told}"
        )
    ends = tuple(dict.fromkeys(path.rpartition(".")[2] for path in matched))
    return LoraMatch(targets, len(matched), ends, missed, problem)


def _by_model_type(model: Any, modules: _Modules) -> LoraMatch:
    """Match PEFT's defaults for the model type."""
    try:
        from peft.utils.constants import TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING as KNOWN
    except ImportError:
        return LoraMatch((), 0, (), problem="use_peft needs the package peft: pip install peft")
    known = KNOWN.get(model.config.model_type, ())
    if isinstance(known, str):
        return _by_pattern(known, modules)
    targets = tuple(known)
    if not targets:
        return LoraMatch(
            (),
            0,
            (),
            problem=f"PEFT knows no targets for models of the type {model.config.model_type}; set "
            f"lora_target_modules to some of {modules.told}",
        )
    return _by_ends(targets, modules)
