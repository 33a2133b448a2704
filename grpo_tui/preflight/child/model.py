"""A model's architecture on the meta device: parameters by part, Linear modules, LoRA targets.

It is built from the model's config, with the class that TRL 1.16's `create_model_from_path` uses. No weights
are read.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grpo_tui.config.run_config import RunConfig
from grpo_tui.preflight.child.hub import Hub
from grpo_tui.preflight.facts import LinearKind, LoraMatch, ModelFacts, Parameters, Whereabouts
from grpo_tui.rewards.lab_child.loaded import init_arguments

PARTS = ("embedding", "head", "attention", "mlp", "experts", "router", "norm", "vision", "other")
_VISION = re.compile(r"(^|\.)(visual|vision\w*|image\w*|multi_modal_projector|mm_projector)(\.|$)")
_EXPERTS = re.compile(r"(^|\.)experts(\.|$)")
_ROUTER = re.compile(r"(^|\.)(router|gate|shared_expert_gate)(\.|$)")
_NORM = re.compile(r"norm|(^|\.)ln_\w+(\.|$)", re.IGNORECASE)
_ATTENTION = re.compile(r"attn|attention|mixer|mamba", re.IGNORECASE)
_MLP = re.compile(r"mlp|ffn|feed_forward|(^|\.)fc\d(\.|$)|moe|shared_expert", re.IGNORECASE)


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
    from transformers import AutoConfig

    source = facts.where.path or facts.where.name
    found = AutoConfig.from_pretrained(
        source,
        revision=arguments.get("revision") if not facts.adapter else None,
        trust_remote_code=bool(arguments.get("trust_remote_code")),
    )
    text = found.get_text_config()

    def number(*names: str) -> int | None:
        values = [getattr(text, name, None) for name in names]
        return next((int(v) for v in values if isinstance(v, int) and not isinstance(v, bool)), None)

    stored = getattr(found, "dtype", None)
    dtype = facts.dtype
    if dtype in ("auto", "None"):
        dtype = str(stored).removeprefix("torch.") if stored is not None else "float32"
    heads, hidden = number("num_attention_heads", "n_head"), number("hidden_size", "n_embd", "d_model")
    experts = number("num_local_experts", "num_experts", "n_routed_experts") or 0
    per_token = (number("num_experts_per_tok", "moe_k") or 0) if experts else 0
    model, problem = on_meta(found, bool(arguments.get("trust_remote_code")))
    linears = _linears(model) if model is not None else ()
    return ModelFacts(
        where=facts.where,
        adapter=facts.adapter,
        architecture=type(model).__name__ if model is not None else (found.architectures or [""])[0],
        model_type=str(found.model_type),
        dtype=dtype,
        stored_dtype=str(stored).removeprefix("torch.") if stored is not None else "",
        layers=number("num_hidden_layers", "n_layer"),
        hidden=hidden,
        intermediate=number("intermediate_size", "n_inner", "ffn_dim"),
        heads=heads,
        kv_heads=number("num_key_value_heads") or heads,
        head_dim=number("head_dim") or (hidden // heads if hidden and heads else None),
        vocab=number("vocab_size"),
        context=number("max_position_embeddings", "n_positions"),
        tied=bool(getattr(found, "tie_word_embeddings", getattr(text, "tie_word_embeddings", False))),
        experts=experts,
        experts_per_token=per_token,
        parameters=_counted(model, experts, per_token) if model is not None else None,
        linears=linears,
        lora=_lora(config, model) if model is not None else None,
        problem=problem,
    )


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


def _part(path: str, embeddings: set[str], head: str | None) -> str:
    module = path.rpartition(".")[0] if path.endswith((".weight", ".bias")) else path
    if _VISION.search(path):
        return "vision"
    if module in embeddings:
        return "embedding"
    if module == head:
        return "head"
    for part, pattern in (
        ("norm", _NORM),
        ("experts", _EXPERTS),
        ("router", _ROUTER),
        ("attention", _ATTENTION),
        ("mlp", _MLP),
    ):
        if pattern.search(path):
            return part
    return "other"


def _places(model: Any) -> tuple[set[str], str | None]:
    import torch

    output = model.get_output_embeddings()
    embeddings, head = set(), None
    for path, module in model.named_modules():
        if isinstance(module, torch.nn.Embedding):
            embeddings.add(path)
        if module is output:
            head = path
    return embeddings, head


def _counted(model: Any, experts: int, per_token: int) -> Parameters:
    counts: Counter[str] = Counter()
    embeddings, head = _places(model)
    for path, parameter in model.named_parameters():  # yields a shared parameter once
        counts[_part(path, embeddings, head)] += parameter.numel()
    total = sum(counts.values())
    idle = counts["experts"] * (experts - per_token) // experts if experts else 0
    return Parameters(total=total, active=total - idle, **{part: counts[part] for part in PARTS})


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
    embeddings, head = _places(model)
    counts: Counter[tuple[str, int, int, str]] = Counter()
    for path, inputs, outputs in _linear_modules(model):
        counts[path.rpartition(".")[2], inputs, outputs, _part(path, embeddings, head)] += 1
    return tuple(
        LinearKind(name, inputs, outputs, count, part)
        for (name, inputs, outputs, part), count in counts.items()
    )


def _lora(config: RunConfig, model: Any) -> LoraMatch | None:
    """Resolve `lora_target_modules` as PEFT does (`check_target_module_exists`)."""
    if not config.model_args.get("use_peft"):
        return None
    asked = config.model_args.get("lora_target_modules")
    if isinstance(asked, (list, tuple)) and len(asked) == 1:
        asked = asked[0]  # as TRL's ModelConfig does
    embeddings, head = _places(model)
    paths = [path for path, _, _ in _linear_modules(model)]
    names = tuple(dict.fromkeys(path.rpartition(".")[2] for path in paths if path != head))
    if asked is None and config.model_args.get("lora_target_parameters"):
        return LoraMatch((), 0, ())  # targets parameters, not modules
    if isinstance(asked, str) and asked.lower() == "all-linear":
        return LoraMatch((asked,), len(paths) - (head in paths), names)
    modules = _Modules(paths, sorted(embeddings), [path for path, _ in model.named_modules() if path], names)
    if asked is None:
        return _by_model_type(model, modules)
    if isinstance(asked, str):
        return _by_pattern(asked, modules)
    return _by_ends(tuple(map(str, asked)), modules)


@dataclass(frozen=True, slots=True)
class _Modules:
    """Module paths of a model.

    Attributes:
        linear: Linear modules.
        embeddings: embeddings, which LoRA supports too.
        names: last path components of the Linear modules, without the head.
    """

    linear: list[str]
    embeddings: list[str]
    every: list[str]
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
    able = {*modules.linear, *modules.embeddings}
    matched = [path for path in hits if path in able]
    unfit = [path for path in hits if path not in able]
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
