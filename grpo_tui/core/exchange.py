"""Rebuild dataclasses from JSON data, and convert any value to JSON text.

`rebuilt` validates types, so a file from elsewhere cannot give a field an unexpected one.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import types
import typing
from collections.abc import Mapping, Sequence
from json import dumps
from typing import Any, TypeVar

T = TypeVar("T")


def rebuilt(kind: type[T], data: Any, **known: Any) -> T:
    """Rebuild a dataclass from the data of `asdict`. Lists become tuples again.

    Args:
        data: JSON data. Unknown keys are ignored.
        **known: Fields to use unchecked instead of those in `data`.

    Raises:
        ValueError: A field is missing or has the wrong type.
    """
    if not isinstance(data, Mapping):
        raise ValueError(f"{kind.__name__} is written as a mapping, not as {type(data).__name__}")
    hints = _hints(kind)  # type: ignore[arg-type] # a class is hashable
    values = {
        name: _value(hints[name], value, name)
        for name, value in data.items()
        if name in hints and name not in known
    }
    try:
        return kind(**values, **known)
    except TypeError as error:
        raise ValueError(str(error)) from error


@functools.cache
def _hints(kind: type[Any]) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _value(hint: Any, value: Any, name: str) -> Any:
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return value
    if origin in (typing.Union, types.UnionType):
        for part in parts:
            try:
                return _value(part, value, name)
            except ValueError:
                continue
    elif origin is typing.Literal:
        if any(value == part and type(value) is type(part) for part in parts):
            return value
    elif origin in (tuple, list, Sequence):
        if isinstance(value, list | tuple):
            return _items(origin, parts, value, name)
    elif (origin or hint) in (dict, Mapping):
        if isinstance(value, Mapping):
            key, item = parts or (Any, Any)
            return {_value(key, k, name): _value(item, v, name) for k, v in value.items()}
    elif isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return rebuilt(hint, value)
    elif hint is float:
        if isinstance(value, int | float):
            return value
    elif isinstance(value, hint) and (hint is bool or not isinstance(value, bool)):
        return value
    raise ValueError(f"{name} is {type(value).__name__}, not {getattr(hint, '__name__', hint)}")


def _items(kind: type[Any], parts: tuple[Any, ...], value: Any, name: str) -> Any:
    if kind is Sequence:
        return [_value(parts[0], item, name) for item in value]
    if kind is list or (len(parts) == 2 and parts[1] is Ellipsis):
        return kind(_value(parts[0], item, name) for item in value)
    if len(parts) != len(value):
        raise ValueError(f"{name} has {len(value)} items, not {len(parts)}")
    return tuple(_value(part, item, name) for part, item in zip(parts, value, strict=True))


def clean(text: str) -> str:
    """Replace lone surrogates with `?`, because SQLite cannot encode them."""
    return text.encode("utf-8", "replace").decode("utf-8")


def to_json(value: Any) -> str:
    """Return any value as JSON text. Whatever JSON cannot represent becomes its `repr`."""
    try:
        text = dumps(value, ensure_ascii=False, default=as_json, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError):
        # Keys that are not strings, circular references, a `tolist` that raises.
        text = dumps(_shown(value), ensure_ascii=False)
    return clean(text)


def as_json(value: Any) -> Any:
    """Convert a value that JSON does not support, as the `default` of `json.dumps`."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if isinstance(value, set | frozenset):
        return sorted(map(str, value))
    return _shown(value)


def _shown(value: Any) -> str:
    try:
        return repr(value)[:1000]
    except Exception:
        return f"<{type(value).__name__}, which cannot be shown>"


def mapping(value: Any) -> Mapping[str, Any]:
    """Return the value if it is a mapping, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def finite_json(value: Any) -> Any:
    """Return a copy for standard JSON, with NaN and infinities as None."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): finite_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite_json(item) for item in value]
    return value
