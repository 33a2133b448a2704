"""Every field of a config with its value now and where that value came from.

The values are those of `inspect_config`, so they are what a start would use. It changes nothing and gives no
advice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Literal

from grpo_tui.config.coerce import kinds_of
from grpo_tui.config.field_groups import group_of, matters
from grpo_tui.config.resolve import Inspected
from grpo_tui.config.section_fields import SECTION, section_fields
from grpo_tui.config.trl_fields import FieldInfo, NoDefault, load_fields
from grpo_tui.config.yaml_edit import get_value, same
from grpo_tui.core.findings import Finding

Origin = Literal["file", "preset", "default", "--set"]

FOLLOWS: Mapping[str, str] = {
    "output_dir": "outputs/ and the name of the file",
    "bf16": "true, unless fp16 is",
    "num_generations_eval": "num_generations",
    "steps_per_generation": "gradient_accumulation_steps, or what generation_batch_size leaves",
    "generation_batch_size": "per_device_train_batch_size × processes × steps_per_generation",
    "epsilon_high": "epsilon",
    "reward_weights": "1.0 for every reward",
    "data_seed": "seed",
    "eval_steps": "logging_steps",
    "vllm_max_model_length": "the context of the model",
    "attn_implementation": "sdpa, where the model has it",
    "lora_target_modules": "the attention projections PEFT knows for the model",
    "router_aux_loss_coef": "the model's own",
    "optim": "adamw_torch_fused, or adamw_torch for an older torch",
    "run_name": "none",
    "grpo_tui.chat": "true with a system prompt or an example",
}
"""What an absent value stands for, where that is no value of its own."""


@dataclass(frozen=True, slots=True)
class FieldValue:
    """One field as a form shows it.

    Attributes:
        name: the key; one of the section is dotted.
        info: its type, default, help and choices.
        group: id of its group in `field_groups`.
        matters: whether it is among the few that are decided first.
        value: the value a start would use: from the file or `--set` as it is coerced, else the default
            (None where that is computed); where it does not fit its field, as it is written.
        written: the value as it stands in the file, after `--set`; None when it does not.
        origin: where `value` came from; `preset` for a line that still says what its preset says.
        line: its line in the file.
        kind: its type in words.
        default: the default in words.
        differs: whether the value is another than the default.
        findings: what the checks say of it.
    """

    name: str
    info: FieldInfo
    group: str
    matters: bool
    value: Any
    written: Any
    origin: Origin
    line: int | None
    kind: str
    default: str
    differs: bool
    findings: tuple[Finding, ...] = ()

    @property
    def choices(self) -> tuple[str, ...]:
        """The values to choose from; empty where any is allowed."""
        if self.info.choices is not None:
            return self.info.choices
        kinds = kinds_of(self.info.annotation)
        return ("true", "false") if "bool" in kinds and not any("str" in kind for kind in kinds) else ()


@lru_cache(maxsize=1)
def all_fields() -> Mapping[str, FieldInfo]:
    """Return every key a config may hold: TRL's, those of the section by dotted names, and `env`.

    Raises:
        FieldsUnavailableError: TRL or transformers cannot be read.
    """
    return MappingProxyType({**load_fields(), **section_fields()})


def field_values(
    inspected: Inspected, preset: Mapping[str, Any] | None = None, overrides: Sequence[str] = ()
) -> dict[str, FieldValue]:
    """Return every field with its value, by name.

    Args:
        inspected: the config, with the overrides in it.
        preset: the values of the preset the file came from.
        overrides: the `K=V` texts that are in `inspected`.
    """
    said: dict[str, list[Finding]] = {}
    for finding in inspected.findings:
        said.setdefault(field_of(finding) or "", []).append(finding)
    overridden = {top_field(text.partition("=")[0].strip()) for text in overrides}
    coerced = {name: value for part in inspected.parts.values() for name, value in part.items()}
    return {
        name: _field_value(name, info, inspected, coerced, preset or {}, overridden, said.get(name, ()))
        for name, info in all_fields().items()
    }


def field_of(finding: Finding) -> str | None:
    """Return the field a finding belongs to; None when it is one of the whole file."""
    return top_field(finding.field) if finding.field else None


def top_field(key: str) -> str:
    """Return the field of a dotted key: `grpo_tui.rewards.0.weight` belongs to `grpo_tui.rewards`."""
    return ".".join(key.split(".")[: 2 if key.startswith(f"{SECTION}.") else 1])


def field_path(name: str) -> tuple[str, ...]:
    """Return the path of a field in a file."""
    return tuple(name.split(".", 1)) if name.startswith(f"{SECTION}.") else (name,)


@lru_cache(maxsize=512)
def kind_in_words(annotation: str) -> str:
    """Return a type as a person says it: `float | None` is "number, may be empty"."""
    words = {
        "int": "whole number",
        "float": "number",
        "bool": "true or false",
        "str": "text",
        "dict": "mapping",
        "list[str]": "list of texts",
        "list[float]": "list of numbers",
        "list[dict]": "list of mappings",
        "list[DatasetConfig]": "list of datasets",
        "list[DebugOption]": "list of texts",
        "SchedulerType": "",
        "OptimizerNames": "",
        "false": "false",
    }
    kinds = kinds_of(annotation)
    found = [word for kind in _ORDER if kind in kinds and (word := words.get(kind, "text"))]
    others = [words.get(kind, "text") for kind in kinds if kind not in (*_ORDER, "none")]
    unique = list(dict.fromkeys([*found, *(word for word in others if word)])) or ["text"]
    return " or ".join(unique) + (", may be empty" if "none" in kinds else "")


_ORDER = (
    "bool", "int", "float", "str", "false", "list[str]", "list[float]", "list[dict]", "list[DatasetConfig]",
    "dict",
)  # fmt: skip


@lru_cache(maxsize=1024)
def _described(name: str) -> tuple[str, str, bool, str]:
    """Return group, type in words, whether it matters, and the default in words: they never change."""
    info = all_fields()[name]
    kind = kind_in_words(info.annotation)
    if info.choices:
        kind = f"one of {len(info.choices)}" + (", may be empty" if kind.endswith("may be empty") else "")
    return group_of(name, info), kind, matters(name), default_in_words(info)


def default_in_words(info: FieldInfo) -> str:
    """Return the default as a person reads it; where there is none, what stands in for it."""
    if info.default is None or info.default is NoDefault.COMPUTED:
        return FOLLOWS.get(info.name, "none" if info.default is None else "set at the start")
    if info.default is NoDefault.REQUIRED:
        return "must be given"
    if isinstance(info.default, bool):
        return "true" if info.default else "false"
    if info.default in ([], {}, ""):
        return "none"
    return str(info.default)


def _field_value(
    name: str,
    info: FieldInfo,
    inspected: Inspected,
    coerced: Mapping[str, Any],
    preset: Mapping[str, Any],
    overridden: set[str],
    findings: Sequence[Finding],
) -> FieldValue:
    group, kind, important, default = _described(name)
    path = field_path(name)
    absent = object()
    written = get_value(inspected.document.values, path, absent)
    value = None if isinstance(info.default, NoDefault) else info.default
    origin: Origin = "default"
    if written is not absent:
        value = coerced.get(name, written)
        from_preset = get_value(preset, path, absent)
        is_preset = from_preset is not absent and same(from_preset, written)
        origin = "--set" if name in overridden else "preset" if is_preset else "file"
    return FieldValue(
        name=name,
        info=info,
        group=group,
        matters=important,
        value=value,
        written=None if written is absent else written,
        origin=origin,
        line=inspected.document.lines.get(path),
        kind=kind,
        default=default,
        differs=written is not absent and not _equal(value, info.default),
        findings=tuple(findings),
    )


def _equal(value: Any, default: Any) -> bool:
    """True when a value says what the default says: 1 is 1.0, and an empty list is none."""
    if isinstance(default, NoDefault):
        return False
    if isinstance(value, bool) != isinstance(default, bool):
        return False
    return bool(value == default) or (value in (None, [], {}) and default in (None, [], {}))
