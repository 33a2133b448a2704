"""Convert one value to its field's type, or say why it cannot be.

TRL's dataclasses do not check types, so a string such as '1e-5' would reach the optimizer. Every conversion
is reported in a note.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import Any

from grpo_tui.config.meant import meant_list, meant_mapping, meant_number, meant_word, nearest, word_hint
from grpo_tui.config.trl_fields import FieldInfo, NoDefault

_NUMBER = re.compile(r"[+-]?(\d[\d_]*\.?\d*|\.\d+)([eE][+-]?\d+)?")
_PLAIN_NAME = re.compile(r"[\w.\-/:@ ]+")
_TRUE = ("true", "yes", "on", "y", "t", "1")
_FALSE = ("false", "no", "off", "n", "f", "0")
_NEVER_WHOLE = ("temperature", "repetition_penalty")
"""transformers' `generate` rejects an int for these, in the first step."""
_PATH_DICTS = ("deepspeed", "fsdp_config", "accelerator_config")


class CoerceError(ValueError):
    """The value does not fit.

    Attributes:
        suggestion: A value that fits, if there is an obvious one.
        remove: Whether to remove the key instead.
    """

    def __init__(self, message: str, suggestion: Any = None, remove: bool = False) -> None:
        super().__init__(message)
        self.suggestion = suggestion
        self.remove = remove


@dataclass(frozen=True, slots=True)
class Coerced:
    """A value that fits. `note` says what was converted, None if nothing was."""

    value: Any
    note: str | None = None


def kinds_of(annotation: str) -> frozenset[str]:
    """Return the alternatives of an annotation: `dict[str, Any] | None` gives `{"dict", "none"}`."""
    parts = re.split(r"\s*\|\s*", annotation)
    named = {"None": "none", "Literal[False]": "false"}
    return frozenset("dict" if part.startswith("dict") else named.get(part, part) for part in parts)


def coerce(info: FieldInfo, value: Any) -> Coerced:
    """Convert a value read from YAML to a field's type.

    Raises:
        CoerceError: The value has the wrong type or is not one of the field's choices.
    """
    kinds = kinds_of(info.annotation)
    if value is None:
        return _coerce_none(info, kinds)
    no_value = isinstance(value, str) and value.strip().lower() in ("none", "null", "")
    if no_value and value not in (info.choices or ()):
        if "none" in kinds:
            return _read(info, value, None, "no value")
        if not any("str" in kind for kind in kinds):
            return _coerce_none(info, kinds)
    if info.name == "resume_from_checkpoint":
        return _coerce_resume(info, value)
    if info.name == "parallelism_config":
        message = "Remove parallelism_config: it is a Python object and cannot be set in a file"
        raise CoerceError(message, remove=True)
    list_kind = next((kind for kind in kinds if kind.startswith("list[")), None)
    if list_kind is not None:
        return _coerce_list(info, value, list_kind, kinds)
    if "dict" in kinds:
        return _coerce_dict(info, value)
    if "bool" in kinds and not (isinstance(value, str) and "str" in kinds):
        return _coerce_bool(info, value)
    if "int" in kinds:
        return _coerce_int(info, value, "str" in kinds)
    if "float" in kinds:
        return _coerce_float(info, value)
    return _coerce_text(info, value, kinds)


def _coerce_none(info: FieldInfo, kinds: frozenset[str]) -> Coerced:
    if "none" in kinds:
        return Coerced(None)
    if isinstance(info.default, NoDefault):
        raise CoerceError(f"{info.name} has no value. Remove the line to use TRL's default", remove=True)
    raise CoerceError(f"{info.name} needs a value; the default is {_show(info.default)}", info.default)


def _coerce_resume(info: FieldInfo, value: Any) -> Coerced:
    """Read `true` as the newest checkpoint and text as a path. TRL's script passes either to `train()`."""
    if isinstance(value, bool):
        return Coerced(value)
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return _read(info, value, value.lower() == "true")
    if isinstance(value, str):
        return Coerced(value)
    message = f"{info.name} must be a checkpoint folder, or true for the newest one; it is {value!r}"
    raise CoerceError(message, True)


def _coerce_bool(info: FieldInfo, value: Any) -> Coerced:
    if isinstance(value, bool):
        return Coerced(value)
    word = str(value).strip().lower()
    if word in _TRUE or word in _FALSE:
        return _read(info, value, word in _TRUE)
    raise CoerceError(f"{info.name} must be true or false; it is {_said(value)}", info.default)


def _coerce_int(info: FieldInfo, value: Any, text_allowed: bool) -> Coerced:
    if isinstance(value, int) and not isinstance(value, bool):
        return Coerced(value)
    number = _number(value)
    if number is not None and math.isfinite(number) and number == int(number):
        exact = int(value) if isinstance(value, str) and value.strip().lstrip("+-").isdigit() else int(number)
        return _read(info, value, exact)
    if text_allowed and isinstance(value, str) and value == info.default:
        return Coerced(value)
    number = number if number is not None else meant_number(value)
    suggestion = round(number) if number is not None and math.isfinite(number) else _default(info)
    raise CoerceError(f"{info.name} must be a whole number; it is {_said(value)}", suggestion)


def _coerce_float(info: FieldInfo, value: Any) -> Coerced:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return Coerced(float(value) if info.name in _NEVER_WHOLE else value)
    number = _number(value)
    if number is not None:
        return _read(info, value, number)
    meant = meant_number(value)
    suggestion = meant if meant is not None and math.isfinite(meant) else _default(info)
    raise CoerceError(f"{info.name} must be a number; it is {_said(value)}", suggestion)


def _coerce_text(info: FieldInfo, value: Any, kinds: frozenset[str]) -> Coerced:
    aliases = info.aliases or {}
    spelled = str(value).lower() if isinstance(value, (bool, str)) else ""
    if spelled in aliases:
        return _read(info, value, aliases[spelled])
    if isinstance(value, bool):
        if ("false" in kinds and value is False) or info.name == "fsdp" or "bool" in kinds:
            return Coerced(value)
        if value is False and info.choices and "no" in info.choices:
            said = f"{info.name} was no without quotes, which YAML reads as false; read as 'no'"
            return Coerced("no", said)
        message = f"{info.name} must be text; it is {_said(value)}{_choices_hint(info)}"
        raise CoerceError(message, _default(info))
    if isinstance(value, (dict, list)):
        raise CoerceError(f"{info.name} must be text; it is a {kind_of(value)}", _default(info))
    note = None
    if not isinstance(value, str):
        note, value = f"{info.name} was {_said(value)}; read as the text '{value}'", str(value)
    if info.choices is None or value in info.choices:
        return Coerced(value, note)
    if "bool" in kinds and spelled in _TRUE + _FALSE:
        return _read(info, value, spelled in _TRUE)
    for choice in info.choices:
        if value.strip().lower().replace("-", "_").removeprefix("torch.") == choice.lower():
            return Coerced(choice, f"{info.name} was '{value}'; read as '{choice}'")
    hint = _choices_hint(info) + word_hint(info.name, value)
    raise CoerceError(f"{info.name}: unknown value '{value}'{hint}", _near(info, value) or _default(info))


def _coerce_list(info: FieldInfo, value: Any, list_kind: str, kinds: frozenset[str]) -> Coerced:
    item_kind = list_kind.removeprefix("list[").removesuffix("]")
    if item_kind == "DatasetConfig":
        if isinstance(value, list) and all(isinstance(item, dict) for item in value):
            return Coerced(value)
        items = value if isinstance(value, list) else [value]
        entries = [{"path": item} if isinstance(item, str) else item for item in items]
        raise CoerceError(
            f"{info.name} must be a list of datasets, each with `path:`; it is a {kind_of(value)}",
            entries if all(isinstance(entry, dict) for entry in entries) else None,
        )
    note = None
    if isinstance(value, dict):
        items = list(value.values() if item_kind == "float" else value)
        raise CoerceError(f"{info.name} must be a list; it is a mapping", items)
    if value is False and info.choices and "none" in info.choices:
        return _read(info, value, "none")
    if not isinstance(value, list):
        if "str" in kinds and isinstance(value, str) and names_in(value, spaced=False) is None:
            return Coerced(_one_of(info, value))
        items = names_in(value, spaced="str" not in kinds) or [value]
        note = f"{info.name} was {_said(value)}; read as the list {_show(items)}"
        value = items
    numbers = item_kind == "float"
    read: list[Any] = []
    for item in value:
        if numbers:
            number = item if isinstance(item, (int, float)) and not isinstance(item, bool) else _number(item)
            if number is None:
                suggestion = [1.0 if (n := meant_number(each)) is None else n for each in value]
                message = f"{info.name} must contain only numbers; {_said(item)} is not a number"
                raise CoerceError(message, suggestion)
            read.append(number)
        elif isinstance(item, (dict, list)) or item is None:
            texts = [str(each) for each in value if each is not None and not isinstance(each, dict | list)]
            raise CoerceError(f"{info.name} must contain only text; one item is {_said(item)}", texts or None)
        else:
            read.append(_one_of(info, str(item)))
    if note is None and any(type(new) is not type(old) for new, old in zip(read, value, strict=True)):
        note = f"{info.name} was {_show(value)}; read as {_show(read)}"
    elif note is not None and numbers:
        note = note.rpartition(";")[0] + f"; read as the list {_show(read)}"
    return Coerced(read, note)


def _coerce_dict(info: FieldInfo, value: Any) -> Coerced:
    if isinstance(value, dict):
        return Coerced(value)
    if isinstance(value, str):
        if value.lstrip().startswith("{"):
            try:
                read = json.loads(value)
            except ValueError as error:
                meant = meant_mapping(value)
                raise CoerceError(f"{info.name} is not valid JSON: {error}", meant) from error
            return Coerced(read, f"{info.name} was JSON text; read as a mapping")
        if info.name in _PATH_DICTS:
            return Coerced(value)
    raise CoerceError(
        f"{info.name} must be a mapping, such as `{info.name}: {{key: value}}`; it is {_said(value)}"
    )


def _one_of(info: FieldInfo, value: str) -> str:
    if info.choices is None or value in info.choices:
        return value
    hint = _choices_hint(info)
    raise CoerceError(f"{info.name} contains the unknown value '{value}'{hint}", _near(info, value))


def _near(info: FieldInfo, value: str) -> str | None:
    choices = info.choices or ()
    return meant_word(info.name, value, choices) or nearest(value, choices, cutoff=0.5)


def _read(info: FieldInfo, was: Any, value: Any, said: str | None = None) -> Coerced:
    return Coerced(value, f"{info.name} was {_said(was)}; read as {_show(value) if said is None else said}")


def numbers_in_text(value: Any) -> float | None:
    """Return the number in a text such as `1e-5`, which YAML 1.1 reads as a string, or None."""
    return _number(value) if isinstance(value, str) else None


def _number(value: Any) -> float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        return float(value)
    if isinstance(value, str):
        text = value.strip()
        if _NUMBER.fullmatch(text):
            return float(text.replace("_", ""))
        if text.lower().lstrip("+-") in ("inf", "nan", ".inf", ".nan"):
            return float(text.replace(".", ""))
    return None


def names_in(value: Any, *, spaced: bool) -> list[Any] | None:
    """Split a text at commas, semicolons, brackets or spaces. Return None for a single name.

    A comma inside a regular expression, as in `.*(q|v){1,2}`, does not split it.
    """
    if not isinstance(value, str):
        return None
    if (listed := meant_list(value)) is not None:
        return listed
    for sign in (",", ";", None) if spaced else (",", ";"):
        parts = [part.strip() for part in value.split(sign)]
        if len(parts) > 1 and all(_PLAIN_NAME.fullmatch(part) for part in parts if part):
            return [part for part in parts if part]
    return None


def _choices_hint(info: FieldInfo) -> str:
    if not info.choices:
        return ""
    if len(info.choices) > 16:
        return f". Choices: {', '.join(info.choices[:12])} and {len(info.choices) - 12} more"
    return f". Choices: {', '.join(info.choices)}"


def _default(info: FieldInfo) -> Any:
    return None if isinstance(info.default, NoDefault) else info.default


def kind_of(value: Any) -> str:
    """Return YAML's name for the type of a value."""
    names = {dict: "mapping", list: "list", str: "text", bool: "true/false", int: "number", float: "number"}
    return names.get(type(value), type(value).__name__)


def _said(value: Any) -> str:
    return f"the text {value!r}" if isinstance(value, str) else _show(value)


def _show(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "empty"
    return repr(value)
