"""The fields a TRL config file may hold, read from the installed source of TRL and transformers.

The source is parsed as text, so nothing of torch, transformers or TRL is imported: all fields with types,
defaults and help are there in about a tenth of a second. It does not know values computed at import time
(the default optimizer depends on the installed torch): those are `NoDefault.COMPUTED`.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any

from grpo_tui.config import field_choices

# The dataclasses that `trl grpo --config` parses, in its order, and the file each of them and of their bases
# is in.
TARGETS = ("GRPOScriptArguments", "GRPOConfig", "ModelConfig", "DatasetMixtureConfig")
_CLASS_FILES = {
    "GRPOScriptArguments": ("trl", "scripts/grpo.py"),
    "ScriptArguments": ("trl", "scripts/utils.py"),
    "DatasetMixtureConfig": ("trl", "scripts/utils.py"),
    "DatasetConfig": ("trl", "scripts/utils.py"),
    "GRPOConfig": ("trl", "trainer/grpo_config.py"),
    "_BaseConfig": ("trl", "trainer/base_config.py"),
    "ModelConfig": ("trl", "trainer/model_config.py"),
    "TrainingArguments": ("transformers", "training_args.py"),
}


class NoDefault(Enum):
    """Why a field has no default that can be shown."""

    REQUIRED = "required"
    COMPUTED = "computed"


class FieldsUnavailableError(RuntimeError):
    """TRL or transformers is not installed, or their source has another layout than the known ones."""


@dataclass(frozen=True, slots=True)
class FieldInfo:
    """One key of a TRL config file.

    Attributes:
        name: the key.
        owner: the dataclass that receives it, one of `TARGETS`.
        annotation: the type as written in the source, such as `float | None`.
        default: the literal default, or a `NoDefault`.
        help: the help text, empty when there is none.
        choices: the values allowed where the source states them (enum, metadata, or the trainer's own
            comparisons).
        aliases: texts that TRL itself turns into another value, such as `{"false": "none"}` for
            `scale_rewards`.
        defined_in: the class whose body holds the field, for grouping.
    """

    name: str
    owner: str
    annotation: str
    default: Any
    help: str
    choices: tuple[str, ...] | None = None
    aliases: Mapping[str, str] | None = None
    defined_in: str = ""


def source_root(package: str) -> Path:
    """Return the folder of an installed package without importing it.

    Raises:
        FieldsUnavailableError: the package is not installed.
    """
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise FieldsUnavailableError(f"{package} is not installed: pip install 'grpo-tui[train]'")
    return Path(next(iter(spec.submodule_search_locations)))


@lru_cache(maxsize=64)
def parse_source(package: str, relative: str) -> ast.Module:
    """Parse one source file of an installed package.

    Raises:
        FieldsUnavailableError: the package or the file is missing.
    """
    return ast.parse(read_source(package, relative))


def read_source(package: str, relative: str) -> str:
    """Read one source file of an installed package.

    Raises:
        FieldsUnavailableError: the package or the file is missing.
    """
    path = source_root(package) / relative
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise FieldsUnavailableError(
            f"{package} has no {relative}: this version of {package} is not supported"
        ) from error


@lru_cache(maxsize=1)
def load_fields() -> Mapping[str, FieldInfo]:
    """Return every key that `trl grpo --config` accepts (without `env`), by name.

    Raises:
        FieldsUnavailableError: TRL or transformers cannot be read.
    """
    choices = field_choices.ChoiceSource(parse_source, read_source)
    fields: dict[str, FieldInfo] = {}
    for owner in TARGETS:
        for name, (node, defined_in) in _class_fields(owner).items():
            fields[name] = _field_info(name, owner, node, defined_in, choices)
    return MappingProxyType(fields)


def fields_of(owner: str) -> dict[str, FieldInfo]:
    """Return the fields of one dataclass of `TARGETS`, in the order of its definition."""
    return {name: info for name, info in load_fields().items() if info.owner == owner}


def class_field_names(class_name: str) -> tuple[str, ...]:
    """Return the field names of one of the known dataclasses, such as `DatasetConfig`."""
    return tuple(_class_fields(class_name))


def _class_fields(class_name: str) -> dict[str, tuple[ast.AnnAssign, str]]:
    """Return the annotated assignments of a class and its known bases; a subclass's definition wins."""
    package, relative = _CLASS_FILES[class_name]
    body = next(
        (
            n
            for n in parse_source(package, relative).body
            if isinstance(n, ast.ClassDef) and n.name == class_name
        ),
        None,
    )
    if body is None:
        raise FieldsUnavailableError(
            f"{package}/{relative} has no class {class_name}: this version is not supported"
        )
    found: dict[str, tuple[ast.AnnAssign, str]] = {}
    for base in body.bases:
        if isinstance(base, ast.Name) and base.id in _CLASS_FILES:
            found.update(_class_fields(base.id))
    for node in body.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found[node.target.id] = (node, class_name)
    return found


def _field_info(
    name: str, owner: str, node: ast.AnnAssign, defined_in: str, choices: field_choices.ChoiceSource
) -> FieldInfo:
    keywords = _field_keywords(node.value)
    metadata = _metadata(keywords.get("metadata"))
    help_text = _literal(metadata.get("help"), "")
    help_text = help_text.replace("%%", "%") if isinstance(help_text, str) else ""
    annotation = ast.unparse(node.annotation)
    return FieldInfo(
        name=name,
        owner=owner,
        annotation=annotation,
        default=_default(node.value, keywords),
        help=help_text,
        choices=choices.of(name, annotation, metadata.get("choices"), help_text),
        aliases=choices.aliases(name),
        defined_in=defined_in,
    )


def _field_keywords(value: ast.expr | None) -> dict[str, ast.expr]:
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "field":
        return {keyword.arg: keyword.value for keyword in value.keywords if keyword.arg is not None}
    return {}


def _metadata(node: ast.expr | None) -> dict[str, ast.expr]:
    if not isinstance(node, ast.Dict):
        return {}
    return {
        key.value: value
        for key, value in zip(node.keys, node.values, strict=True)
        if isinstance(key, ast.Constant) and isinstance(key.value, str)
    }


def _default(value: ast.expr | None, keywords: Mapping[str, ast.expr]) -> Any:
    if value is None:
        return NoDefault.REQUIRED
    if not (isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "field"):
        return _literal(value, NoDefault.COMPUTED)
    if "default" in keywords:
        return _literal(keywords["default"], NoDefault.COMPUTED)
    factory = keywords.get("default_factory")
    if isinstance(factory, ast.Name) and factory.id in ("list", "dict"):
        return [] if factory.id == "list" else {}
    return NoDefault.COMPUTED if factory is not None else NoDefault.REQUIRED


def _literal(node: ast.expr | None, otherwise: Any) -> Any:
    if node is None:
        return otherwise
    try:
        return ast.literal_eval(node)
    except ValueError:
        return otherwise
