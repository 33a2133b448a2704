"""Convert values to columns and back: NaN, infinities, JSON with anything inside."""

from __future__ import annotations

import math
from json import loads
from typing import Any

from grpo_tui.core.exchange import clean, to_json

_LARGEST = 1 << 63
"""Limit of SQLite's integers."""


def to_column(value: Any) -> Any:
    """Return a metric or reward value in a form that SQLite stores without loss.

    None stays NULL, infinities are REAL, NaN becomes the text 'nan' because SQLite would store NULL.
    An integer too large for SQLite becomes a REAL.
    """
    if value is None:
        return value
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int):
        return int(value) if -_LARGEST <= value < _LARGEST else as_float(value)
    if isinstance(value, float):
        return "nan" if math.isnan(value) else float(value)
    if hasattr(value, "item") and getattr(value, "size", None) in (1, None):
        return to_column(value.item())
    return to_json(value)


def from_column(value: Any) -> Any:
    """Return the value given to `to_column`."""
    return math.nan if value == "nan" else value


UNREADABLE = "(unreadable)"
"""Shown in place of a prompt that cannot be read."""


def from_json(text: Any, kind: type | tuple[type, ...] = object, otherwise: Any = None) -> Any:
    """Return the value of a JSON column; `otherwise` for NULL, unreadable text, or another type.

    `RunReader.unreadable` finds the values that cannot be read.
    """
    try:
        value = None if text is None else loads(text)
    except (ValueError, TypeError, RecursionError):
        return otherwise
    return value if value is not None and isinstance(value, kind) else otherwise


def object_from(text: Any) -> dict[str, Any]:
    """Return the object of a JSON column; empty without a readable one."""
    return from_json(text, dict, {})


def prompt_from(text: Any) -> Any:
    """Return a prompt, a string or a list of messages; `UNREADABLE` when it is neither."""
    value = from_json(text, (str, list), UNREADABLE)
    return value if isinstance(value, str) or _are_messages(value) else UNREADABLE


def messages_from(text: Any) -> list[dict[str, Any]] | None:
    """Return the messages of a completion; None without readable ones."""
    value = from_json(text, list)
    return value if _are_messages(value) else None


def _are_messages(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(message, dict) for message in value)


def as_float(value: float) -> float:
    """Return a number as a float, infinite when it is too large."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
