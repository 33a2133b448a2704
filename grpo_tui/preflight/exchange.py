"""Facts as JSON between the checker and its child: `plain` makes mappings of them, `rebuilt` the facts again.

Reads the fields' types, so that a new field needs no word here. It knows no single fact.
"""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from collections.abc import Mapping
from typing import Any, TypeVar

T = TypeVar("T")


def plain(facts: Any) -> dict[str, Any]:
    """Return a dataclass as plain data for JSON."""
    return dataclasses.asdict(facts)


def rebuilt(kind: type[T], data: Mapping[str, Any]) -> T:
    """Return the dataclass that `plain` was given, after JSON has made lists of its tuples.

    Args:
        kind: the dataclass.
        data: what `plain` gave; a key that the class does not know is left out.
    """
    hints = _hints(kind)  # type: ignore[arg-type] # a class is hashable
    return kind(**{name: _value(hints[name], value) for name, value in data.items() if name in hints})


@functools.cache
def _hints(kind: type[Any]) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _value(hint: Any, value: Any) -> Any:
    if value is None:
        return None
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        inner = next(part for part in typing.get_args(hint) if part is not type(None))
        return _value(inner, value)
    if origin is tuple:
        kinds = typing.get_args(hint)
        if len(kinds) == 2 and kinds[1] is Ellipsis:
            return tuple(_value(kinds[0], item) for item in value)
        return tuple(_value(part, item) for part, item in zip(kinds, value, strict=True))
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return rebuilt(hint, value)
    return value
