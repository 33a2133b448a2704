"""The fields of a TRL config file, read from the installed source of TRL and transformers.

The source is parsed as text, which takes about a tenth of a second and imports none of torch, transformers
and TRL. Defaults computed at import time, such as the optimizer's, are `NoDefault.COMPUTED`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache, lru_cache
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any

# Rewards that `trl grpo` knows by name. The factory's arguments are those in trl/scripts/grpo.py.
SCRIPT_NAMES: Mapping[str, dict[str, Any] | None] = {
    "accuracy_reward": None,
    "reasoning_accuracy_reward": None,
    "think_format_reward": None,
    "get_soft_overlong_punishment": {"max_completion_len": 1280, "soft_punish_cache": 256},
}
FACTORIES = ("get_soft_overlong_punishment", "get_cosine_scaled_reward", "get_repetition_penalty_reward")
"""Functions that return a reward when called with their params."""
TRL_NAMES = (*SCRIPT_NAMES, "get_cosine_scaled_reward", "get_repetition_penalty_reward")
NAMES_OF_FACTORIES: Mapping[str, str] = {
    "get_soft_overlong_punishment": "soft_overlong_punishment_reward",
    "get_cosine_scaled_reward": "cosine_scaled_reward",
    "get_repetition_penalty_reward": "repetition_penalty_reward",
}
"""Names under which TRL logs the rewards that the factories return."""


_ENUM_FILES = ("trainer_utils.py", "training_args.py")
_INTEGRATIONS = "integrations/integration_utils.py"
_INTEGRATION_TABLE = re.compile(r"^INTEGRATION_TO_CALLBACK = \{[^}]*\}", re.MULTILINE)
_STATED = {
    "cache_implementation": (
        ("transformers", "generation/configuration_utils.py"),
        r"^(?:DEPRECATED_STATIC|STATIC|DYNAMIC)_CACHE_IMPLEMENTATIONS = \(([^)]*)\)",
    ),
    "torch_compile_backend": (
        ("accelerate", "utils/dataclasses.py"),
        r"^class DynamoBackend.*?(^    NO = .*?)\n\n",
    ),
    "torch_compile_mode": (("torch", "_inductor/__init__.py"), r"mode_options: .*?= (\{.*?\n    \})"),
}
"""Fields whose choices are quoted words in another file: the file, and a pattern for that part."""
_QUOTED = r"[`'\"]+([\w-]+)[`'\"]+"
_LISTED = re.compile(
    r"(?:Must be one of|Supported values are|Supported options are|Options)(?: of)?:?\s+"
    rf"({_QUOTED}(?:(?:,? (?:or|and) |, ){_QUOTED})+)"
)


def choices_of(
    name: str, annotation: str, metadata: ast.expr | None, help_text: str
) -> tuple[str, ...] | None:
    """Return the choices of a field, None if the source does not state them."""
    if name == "include_num_input_tokens_seen":  # its help lists them next to "or a boolean value"
        return ("all", "non_padding", "no")
    if name == "report_to":
        table = _INTEGRATION_TABLE.search(read_source("transformers", _INTEGRATIONS))
        return ("all", "none", *re.findall(r"""["'](\w+)["']\s*:""", table[0])) if table else None
    if name == "log_level_replica":  # its help does not list them; that of log_level does
        return ("debug", "info", "warning", "error", "critical", "passive")
    if name in _STATED:
        return _stated(*_STATED[name])
    if metadata is not None:
        try:
            return tuple(str(choice) for choice in ast.literal_eval(metadata))
        except ValueError:
            pass  # computed at import time; the help text below may still list them
    for enum_name in re.findall(r"\w+", annotation):
        if enum_name in _enums():
            return _enums()[enum_name]
    if name in _compared():
        return _compared()[name]
    listed = _LISTED.search(help_text)
    if listed is not None and annotation in ("str", "str | None"):
        return tuple(dict.fromkeys(re.findall(_QUOTED, listed.group(1))))
    return None


def _stated(file: tuple[str, str], part: str) -> tuple[str, ...] | None:
    try:
        parts = re.findall(part, read_source(*file), re.MULTILINE | re.DOTALL)
    except RuntimeError:  # not installed, or another layout
        return None
    words = re.findall(r"[\"']([\w-]+)[\"'](?!\w|\s*: (?:True|False))", "\n".join(parts))
    return tuple(dict.fromkeys(word.lower() for word in words)) or None


@cache
def _enums() -> dict[str, tuple[str, ...]]:
    enums: dict[str, tuple[str, ...]] = {}
    for relative in _ENUM_FILES:
        for node in parse_source("transformers", relative).body:
            if isinstance(node, ast.ClassDef) and "ExplicitEnum" in map(ast.unparse, node.bases):
                assigned = [item.value for item in node.body if isinstance(item, ast.Assign)]
                texts = [each.value for each in assigned if isinstance(each, ast.Constant)]
                enums[node.name] = tuple(text for text in texts if isinstance(text, str))
    return enums


@cache
def _compared() -> dict[str, tuple[str, ...]]:
    """Return the values that the trainer compares a setting with, if any other value makes it raise."""
    values: dict[str, dict[str, None]] = {}
    exhaustive: set[str] = set()
    for branch in _branches(parse_source("trl", "trainer/grpo_trainer.py").body):
        for node in ast.walk(branch.test):
            name, texts = _comparison(node) if isinstance(node, ast.Compare) else (None, ())
            if name is not None:
                values.setdefault(name, {}).update(dict.fromkeys(texts))
        name = _raising_chain(branch)
        if name is not None:
            exhaustive.add(name)
    return {name: tuple(sorted(values[name])) for name in exhaustive if len(values.get(name, ())) > 1}


@cache
def _aliases() -> dict[str, dict[str, str]]:
    """Return the values that TRL itself replaces when it builds the config, with lower-case keys.

    They are found in assignments like `self.x = {True: "group", False: "none"}.get(self.x, self.x)`.
    """
    found: dict[str, dict[str, str]] = {}
    for node in ast.walk(parse_source("trl", "trainer/grpo_config.py")):
        if not (isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute)):
            continue
        call = node.value
        if (
            isinstance(call, ast.Call)
            and isinstance(call.func, ast.Attribute)
            and call.func.attr == "get"
            and isinstance(call.func.value, ast.Dict)
        ):
            table = ast.literal_eval(call.func.value)
            found[node.targets[0].attr] = {str(key).lower(): str(value) for key, value in table.items()}
    return found


def _branches(body: list[ast.stmt]) -> Iterator[ast.If]:
    """Yield every `if` statement. Expressions, most of a file, are not searched."""
    for node in body:
        if isinstance(node, ast.If):
            yield node
        for part in ("body", "orelse", "finalbody", "handlers"):
            yield from _branches(getattr(node, part, []))


def _comparison(node: ast.Compare) -> tuple[str | None, tuple[str, ...]]:
    """Return setting and texts of `self.x == "a"`, `args.x != "a"` or `self.x in ["a", "b"]`."""
    left = node.left
    if not (
        isinstance(left, ast.Attribute)
        and isinstance(left.value, ast.Name)
        and left.value.id in ("self", "args")
    ):
        return None, ()
    if len(node.ops) != 1 or not isinstance(node.ops[0], (ast.Eq, ast.NotEq, ast.In, ast.NotIn)):
        return None, ()
    right = node.comparators[0]
    items = right.elts if isinstance(right, (ast.List, ast.Tuple, ast.Set)) else [right]
    texts = tuple(
        item.value for item in items if isinstance(item, ast.Constant) and isinstance(item.value, str)
    )
    return (left.attr, texts) if texts and len(texts) == len(items) else (None, ())


def _raising_chain(node: ast.If) -> str | None:
    """Return the setting that every test of an `if … elif … else: raise` chain compares, or None."""
    name = None
    current = node
    while True:
        if not isinstance(current.test, ast.Compare):
            return None
        found, _ = _comparison(current.test)
        if found is None or (name is not None and found != name):
            return None
        name = found
        if len(current.orelse) == 1 and isinstance(current.orelse[0], ast.If):
            current = current.orelse[0]
            continue
        return name if current is not node and any(isinstance(n, ast.Raise) for n in current.orelse) else None


# Dataclasses that `trl grpo --config` parses, in order. Below, the files of these and of their bases.
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
    """Why a field has no literal default."""

    REQUIRED = "required"
    COMPUTED = "computed"


class FieldsUnavailableError(RuntimeError):
    """TRL or transformers is not installed, or its source has an unknown layout."""


@dataclass(frozen=True, slots=True)
class FieldInfo:
    """One key of a TRL config file.

    Attributes:
        owner: The dataclass that receives it, one of `TARGETS`.
        annotation: Type as written in the source, such as `float | None`.
        default: The literal default, or a `NoDefault`.
        choices: Allowed values, None if the source does not state them (by enum, metadata, or comparisons in
            the trainer).
        aliases: Values that TRL itself replaces, such as `{"false": "none"}` for `scale_rewards`.
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
        FieldsUnavailableError: The package is not installed.
    """
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise FieldsUnavailableError(f"{package} is not installed: pip install 'grpo-tui[train]'")
    return Path(next(iter(spec.submodule_search_locations)))


@lru_cache(maxsize=64)
def parse_source(package: str, relative: str) -> ast.Module:
    """Parse one source file of an installed package.

    Raises:
        FieldsUnavailableError: The package or the file is missing.
    """
    return ast.parse(read_source(package, relative))


def read_source(package: str, relative: str) -> str:
    """Read one source file of an installed package.

    Raises:
        FieldsUnavailableError: The package or the file is missing.
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
    """Return every key that `trl grpo --config` accepts, by name and without `env`.

    Raises:
        FieldsUnavailableError: TRL or transformers cannot be read.
    """
    fields: dict[str, FieldInfo] = {}
    for owner in TARGETS:
        for name, (node, defined_in) in _class_fields(owner).items():
            fields[name] = _field_info(name, owner, node, defined_in)
    return MappingProxyType(fields)


def class_field_names(class_name: str) -> tuple[str, ...]:
    """Return the field names of a known dataclass, such as `DatasetConfig`."""
    return tuple(_class_fields(class_name))


def _class_fields(class_name: str) -> dict[str, tuple[ast.AnnAssign, str]]:
    """Return the fields of a class and its known bases. A subclass's definition wins."""
    package, relative = _CLASS_FILES[class_name]
    body = class_in(parse_source(package, relative), class_name)
    if body is None:
        raise FieldsUnavailableError(
            f"{package}/{relative} has no class {class_name}: this version is not supported"
        )
    found: dict[str, tuple[ast.AnnAssign, str]] = {}
    for base in body.bases:
        if isinstance(base, ast.Name) and base.id in _CLASS_FILES:
            found.update(_class_fields(base.id))
    return found | {name: (node, class_name) for name, node in annotated_in(body).items()}


def class_in(tree: ast.Module, name: str) -> ast.ClassDef | None:
    """Return a top-level class of a module, None if there is none of that name."""
    return next((n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == name), None)


def annotated_in(body: ast.ClassDef | None) -> dict[str, ast.AnnAssign]:
    """Return the annotated names of a class."""
    nodes = [node for node in body.body if isinstance(node, ast.AnnAssign)] if body is not None else []
    return {node.target.id: node for node in nodes if isinstance(node.target, ast.Name)}


def _field_info(name: str, owner: str, node: ast.AnnAssign, defined_in: str) -> FieldInfo:
    keywords = _field_keywords(node.value)
    metadata = _metadata((keywords or {}).get("metadata"))
    help_text = _literal(metadata.get("help"), "")
    help_text = help_text.replace("%%", "%") if isinstance(help_text, str) else ""
    annotation = ast.unparse(node.annotation)
    return FieldInfo(
        name=name,
        owner=owner,
        annotation=annotation,
        default=_default(node.value, keywords),
        help=help_text,
        choices=choices_of(name, annotation, metadata.get("choices"), help_text),
        aliases=_aliases().get(name),
        defined_in=defined_in,
    )


def _field_keywords(value: ast.expr | None) -> dict[str, ast.expr] | None:
    """Return the arguments of `field(…)`, None for any other value."""
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "field":
        return {keyword.arg: keyword.value for keyword in value.keywords if keyword.arg is not None}
    return None


def _metadata(node: ast.expr | None) -> dict[str, ast.expr]:
    if not isinstance(node, ast.Dict):
        return {}
    return {
        key.value: value
        for key, value in zip(node.keys, node.values, strict=True)
        if isinstance(key, ast.Constant) and isinstance(key.value, str)
    }


def _default(value: ast.expr | None, keywords: Mapping[str, ast.expr] | None) -> Any:
    if value is None:
        return NoDefault.REQUIRED
    if keywords is None:
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
