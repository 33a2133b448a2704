"""All fields of a config, with group, current value and the origin of that value.

Groups and the help of the section's own keys are in `fields.toml`. Names of the `grpo_tui:` section are
dotted and grouped with TRL's own. A field without a group, as of a newer TRL, is assigned one by its name and
class. Values come from `inspect_config`, so they are those that a start would use.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, cast

from grpo_tui.config.coerce import kinds_of
from grpo_tui.config.resolve import Inspected
from grpo_tui.config.section import SECTION_KEYS
from grpo_tui.config.trl_fields import FieldInfo, NoDefault, load_fields
from grpo_tui.config.yaml_edit import get_value, same
from grpo_tui.core.findings import Finding


@dataclass(frozen=True, slots=True)
class FieldGroup:
    """One group of the form.

    Attributes:
        about: One sentence on what the group decides.
        first: The most important fields, in the order in which to decide them.
    """

    id: str
    title: str
    about: str
    first: tuple[str, ...]
    others: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """All fields of the group, the most important first."""
        return (*self.first, *self.others)


_DATA = tomllib.loads(Path(__file__).with_name("fields.toml").read_text(encoding="utf-8"))
GROUPS: tuple[FieldGroup, ...] = tuple(
    FieldGroup(**{**group, "first": tuple(group["first"].split()), "others": tuple(group["others"].split())})
    for group in _DATA["groups"]
)
FOLLOWS: Mapping[str, str] = _DATA["follows"]
"""What a field without a value falls back to."""
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
    """Return the position of each grouped field in the form, from 0. Other fields come last."""
    return MappingProxyType(
        {name: n for n, name in enumerate(name for each in GROUPS for name in each.names)}
    )


def group_of(name: str, info: FieldInfo | None = None) -> str:
    """Return the group id of a field. A field without a group is assigned one by its name and class.

    Args:
        name: The key, dotted for a key of the section (`grpo_tui.holdout`) or below another key.
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
    """Return names by group id, in form order. Every group is present."""
    order = form_order()
    found: dict[str, list[str]] = {group.id: [] for group in GROUPS}
    for name in names:
        found[group_of(name, (fields or {}).get(name))].append(name)
    return {key: tuple(sorted(each, key=lambda n: order.get(n, len(order)))) for key, each in found.items()}


def matters(name: str) -> bool:
    """Return whether a field is one of the few to decide first."""
    return any(name in group.first for group in GROUPS)


def neighbours(name: str, present: Sequence[str], info: FieldInfo | None = None) -> list[str]:
    """Return the keys of a file after which a new one may be inserted, best first.

    First the nearest key before it in its group, then the rest of the group, then the last keys of earlier
    groups.
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
    """Return the keys of the section by dotted name, in the section's order, and `env`."""
    fields = {}
    for key in SECTION_KEYS:
        told = _DATA["section"][key]
        help_text = " ".join(told["help"].split())
        name = f"{SECTION}.{key}"
        fields[name] = FieldInfo(name, SECTION, told["type"], told.get("default"), help_text)
    return MappingProxyType({**fields, "env": ENV_FIELD})


_ABSENT = object()
Origin = Literal["file", "preset", "default", "--set"]


@dataclass(frozen=True, slots=True)
class FieldValue:
    """One field as shown in a form.

    Attributes:
        matters: Whether it is one of the few to decide first.
        value: The value that a start would use: from the file or `--set`, else the default. None for a
            computed default. A value that does not fit its field is unchanged.
        written: The value in the file after `--set`, None if absent.
        origin: `preset` means that the line still has the preset's value.
    """

    name: str
    info: FieldInfo
    group: str
    kind: str
    matters: bool
    default: str
    value: Any
    written: Any
    origin: Origin
    line: int | None
    differs: bool
    findings: tuple[Finding, ...] = ()

    @property
    def choices(self) -> tuple[str, ...]:
        """The valid values, empty if any is allowed."""
        if self.info.choices is not None:
            return self.info.choices
        kinds = kinds_of(self.info.annotation)
        return ("true", "false") if "bool" in kinds and not any("str" in kind for kind in kinds) else ()


@lru_cache(maxsize=1)
def all_fields() -> Mapping[str, FieldInfo]:
    """Return all keys that a config may contain: TRL's, those of the section by dotted name, and `env`.

    Raises:
        FieldsUnavailableError: TRL or transformers cannot be read.
    """
    return MappingProxyType({**load_fields(), **section_fields()})


def field_values(
    inspected: Inspected, preset: Mapping[str, Any] | None = None, overrides: Sequence[str] = ()
) -> dict[str, FieldValue]:
    """Return every field with its value, by name."""
    said: dict[str, list[Finding]] = {}
    for finding in inspected.findings:
        said.setdefault(field_of(finding) or "", []).append(finding)
    overridden = {top_field(text.partition("=")[0].strip()) for text in overrides}
    coerced = {name: value for part in inspected.settings.parts.values() for name, value in part.items()}
    document, found = inspected.settings.document, {}
    for name, info in all_fields().items():
        path, value = field_path(name), None if isinstance(info.default, NoDefault) else info.default
        written, origin = get_value(document.values, path, _ABSENT), "default"
        if written is not _ABSENT:
            value, usual = coerced.get(name, written), get_value(preset or {}, path, _ABSENT)
            is_preset = usual is not _ABSENT and same(usual, written)
            origin = "--set" if name in overridden else "preset" if is_preset else "file"
        found[name] = FieldValue(
            name,
            info,
            *_described(name),
            value=value,
            written=None if written is _ABSENT else written,
            origin=cast(Origin, origin),
            line=document.lines.get(path),
            differs=written is not _ABSENT and not _equal(value, info.default),
            findings=tuple(said.get(name, ())),
        )
    return found


def field_of(finding: Finding) -> str | None:
    """Return the field of a finding, None if it concerns the whole file."""
    return top_field(finding.field) if finding.field else None


def top_field(key: str) -> str:
    """Return the field of a dotted key: `grpo_tui.rewards.0.weight` belongs to `grpo_tui.rewards`."""
    return ".".join(key.split(".")[: 2 if key.startswith(f"{SECTION}.") else 1])


def field_path(name: str) -> tuple[str, ...]:
    """Return the path of a field in the file."""
    return tuple(name.split(".", 1)) if name.startswith(f"{SECTION}.") else (name,)


@lru_cache(maxsize=512)
def kind_in_words(annotation: str) -> str:
    """Return a type in words: `float | None` is "number, may be empty"."""
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
    """Return the constant facts of a field: group, type in words, whether it matters, default in words."""
    info = all_fields()[name]
    kind = kind_in_words(info.annotation)
    if info.choices:
        kind = f"one of {len(info.choices)}" + (", may be empty" if kind.endswith("may be empty") else "")
    return group_of(name, info), kind, matters(name), default_in_words(info)


def default_in_words(info: FieldInfo) -> str:
    """Return the default in words. Without one, return what the field falls back to."""
    if info.default is None or info.default is NoDefault.COMPUTED:
        return FOLLOWS.get(info.name, "none" if info.default is None else "set at the start")
    if info.default is NoDefault.REQUIRED:
        return "must be given"
    if isinstance(info.default, bool):
        return "true" if info.default else "false"
    if info.default in ([], {}, ""):
        return "none"
    return str(info.default)


def _equal(value: Any, default: Any) -> bool:
    """Return whether a value equals the default. 1 equals 1.0, and an empty list equals None."""
    if isinstance(default, NoDefault):
        return False
    if isinstance(value, bool) != isinstance(default, bool):
        return False
    return bool(value == default) or (value in (None, [], {}) and default in (None, [], {}))
