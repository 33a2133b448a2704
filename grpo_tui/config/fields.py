"""Every field of a config: the group it is shown in, its value now, and where that value came from.

Groups and the help of the section's own keys are in `fields.toml`. Names of the section `grpo_tui:` are
dotted and stand with TRL's own that mean the same. A field that no group names (a newer TRL's) falls into one
by its name and its class. The values are those of `inspect_config`, so they are what a start would use.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from grpo_tui.config.coerce import kinds_of
from grpo_tui.config.resolve import Inspected
from grpo_tui.config.section import SECTION_KEYS
from grpo_tui.config.trl_fields import FieldInfo, NoDefault, load_fields
from grpo_tui.config.yaml_edit import get_value, same
from grpo_tui.core.findings import Finding


@dataclass(frozen=True, slots=True)
class FieldGroup:
    """One heading of the form.

    Attributes:
        id: short name, stable.
        title: the heading.
        about: one sentence on what is decided here.
        first: the fields that matter, in the order in which a person decides them.
        others: the rest, in a sensible order.
    """

    id: str
    title: str
    about: str
    first: tuple[str, ...]
    others: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """All fields named here, those that matter first."""
        return (*self.first, *self.others)


_DATA = tomllib.loads(Path(__file__).with_name("fields.toml").read_text(encoding="utf-8"))
GROUPS: tuple[FieldGroup, ...] = tuple(
    FieldGroup(**{**group, "first": tuple(group["first"].split()), "others": tuple(group["others"].split())})
    for group in _DATA["groups"]
)
FOLLOWS: Mapping[str, str] = _DATA["follows"]
"""What an absent value stands for, where that is no value of its own."""
_BY_NAME: tuple[tuple[str, str], ...] = (
    ("vllm", r"vllm"),
    ("lora", r"\w*lora|peft|bnb|quant(?!ile)|load_in_|\w*dora"),
    ("rewards", r"reward"),
    ("distributed", r"ddp|fsdp|deepspeed|ds3|tensor_parallel|parallelism|launcher|gpus?$|rank|nccl"),
    (
        "logging",
        r"log|save|eval|hub|report|metric|checkpoint_(dir|format)|resume|trackio|wandb|tqdm|completions_to",
    ),
    ("data", r"dataset|dataloader|column|prompt|row|split|stream|shuffle|template|filter|few_shot|answer"),
    ("generation", r"generat|completion|sampl|top_[pk]|min_p|temperature|penalty|token|tool|cache"),
    ("optimisation", r"lr_|learning|optim|adam|grad|batch|epoch|steps|warmup|fp16|bf16|fp8|compile|kernel"),
    ("model", r"model|dtype|attn|attention|weights|dropout|lm_head|router"),
)
_BY_CLASS = {
    "GRPOConfig": "grpo",
    "ModelConfig": "model",
    "ScriptArguments": "data",
    "GRPOScriptArguments": "rewards",
    "DatasetMixtureConfig": "data",
    "_BaseConfig": "optimisation",
    "TrainingArguments": "optimisation",
}
_SECTION = "grpo_tui."


@lru_cache(maxsize=1)
def _placed() -> dict[str, str]:
    return {name: group.id for group in GROUPS for name in group.names}


@lru_cache(maxsize=1)
def form_order() -> Mapping[str, int]:
    """Return the place of every named field in the form, from 0; one that no group names comes last."""
    return MappingProxyType(
        {name: n for n, name in enumerate(name for each in GROUPS for name in each.names)}
    )


def group_of(name: str, info: FieldInfo | None = None) -> str:
    """Return the id of the group a field stands in; one that no group names is placed by its name and class.

    Args:
        name: the key; one of the section is dotted (`grpo_tui.holdout`), and so is anything below a key.
        info: the field, where it is one of TRL's.
    """
    placed = _placed()
    if name in placed:
        return placed[name]
    top = ".".join(name.split(".")[: 2 if name.startswith(_SECTION) else 1])
    if top in placed:
        return placed[top]
    word = top.removeprefix(_SECTION)
    for group, pattern in _BY_NAME:
        if re.search(rf"(?:^|_)(?:{pattern})", word):
            return group
    return _BY_CLASS.get(info.defined_in, "optimisation") if info is not None else "data"


def grouped(names: Iterable[str], fields: dict[str, FieldInfo] | None = None) -> dict[str, tuple[str, ...]]:
    """Sort names into groups: `{group id: names}`, every group there, each in the order of the form."""
    order = form_order()
    found: dict[str, list[str]] = {group.id: [] for group in GROUPS}
    for name in names:
        found[group_of(name, (fields or {}).get(name))].append(name)
    return {key: tuple(sorted(each, key=lambda n: order.get(n, len(order)))) for key, each in found.items()}


def matters(name: str) -> bool:
    """Whether a field is among the few that a person decides first."""
    return any(name in group.first for group in GROUPS)


def neighbours(name: str, present: Sequence[str], info: FieldInfo | None = None) -> list[str]:
    """Return the keys of a file behind which a new one may stand, the best first.

    The nearest one before it of its own group comes first, then the others of the group, then the last ones
    of the groups before.

    Args:
        name: the new key, at the top of the file.
        present: the keys at the top of the file, in its order.
        info: the field, where it is one of TRL's.
    """
    ids = [group.id for group in GROUPS]
    order = form_order()
    mine, own = ids.index(group_of(name, info)), order.get(name, len(order))
    others = [key for key in present if key != "grpo_tui"]
    same = [key for key in others if ids.index(group_of(key)) == mine]
    before = sorted((k for k in same if order.get(k, len(order)) <= own), key=lambda k: -order.get(k, 0))
    earlier = [key for key in reversed(others) if ids.index(group_of(key)) < mine]
    earlier.sort(key=lambda key: -ids.index(group_of(key)))
    return [*before, *reversed([key for key in same if key not in before]), *earlier, *reversed(others)]


SECTION = "grpo_tui"


ENV_FIELD = FieldInfo(
    "env",
    SECTION,
    "dict[str, str] | None",
    None,
    "Environment variables of the training process, set before anything else, as {WANDB_PROJECT: maths}.",
)


def section_fields() -> Mapping[str, FieldInfo]:
    """Return the keys of the section by their dotted names, and `env`, in the section's order."""
    fields = {}
    for key in SECTION_KEYS:
        told = _DATA["section"][key]
        help_text = " ".join(told["help"].split())
        name = f"{SECTION}.{key}"
        fields[name] = FieldInfo(name, SECTION, told["type"], told.get("default"), help_text)
    return MappingProxyType({**fields, "env": ENV_FIELD})


Origin = Literal["file", "preset", "default", "--set"]


@dataclass(frozen=True, slots=True)
class FieldValue:
    """One field as a form shows it.

    Attributes:
        name: the key; one of the section is dotted.
        info: its type, default, help and choices.
        group: id of its group.
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
