"""SQL functions that compare and order the values in rows, called by the conditions of `query_sql`.

None and NaN compare as false with everything. Regular expressions are run by the `matches` passed to
`register`, because Python's `re` can take forever and blocks other threads meanwhile. A child process of the
search imports only this part of the query language.
"""

from __future__ import annotations

import functools
import math
import operator
import re
import sqlite3
from collections.abc import Callable
from json import dumps
from typing import Any

from grpo_tui.core.exchange import to_json
from grpo_tui.core.text import whole_text
from grpo_tui.store.values import from_json, prompt_from, to_column

_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt,
    ">=": operator.ge,
}  # fmt: skip


def as_text(value: Any) -> str:
    """Return a JSON value as text for a comparison: strings unchanged, others as JSON."""
    if isinstance(value, str):
        return value
    return dumps(value, ensure_ascii=False, separators=(",", ":"))


def as_number(value: Any) -> float | None:
    """Return a JSON value as a number: true as 1, a string that spells one; None for the rest and NaN."""
    if not isinstance(value, str | int | float):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return None if math.isnan(number) else number


def compare(value: Any, op: str, wanted: float | str) -> bool:
    """Compare a JSON value with a text as text, or with a number as number."""
    if value is None:
        return False
    if isinstance(wanted, str):
        return _COMPARE[op](as_text(value), wanted)
    number = as_number(value)
    return number is not None and _COMPARE[op](number, wanted)


def holds(text: str, wanted: str) -> bool:
    """Return whether a text contains another in any case; beyond ASCII as `re.IGNORECASE` does."""
    return _any_case(wanted).search(text) is not None


@functools.lru_cache(maxsize=64)
def _any_case(wanted: str) -> re.Pattern[str]:
    return re.compile(re.escape(wanted), re.IGNORECASE | (re.ASCII if wanted.isascii() else 0))


@functools.lru_cache(maxsize=4)
def parsed(text: str | None) -> Any:
    """Return the value of a JSON column. Cached: a group's is needed once per completion."""
    return from_json(text)


def part(text: str | None, key: str) -> Any:
    """Return the value under a key of a JSON object; None without it."""
    found = parsed(text)
    return found.get(key) if isinstance(found, dict) else None


def ordered(rows: list[Any], key: Callable[[Any], Any], *, descending: bool) -> list[Any]:
    """Sort rows by a key: numbers before texts, those without a value last. The sort is stable."""
    values = list(map(key, rows))
    if set(map(type, values)) <= {int, float, bool} and not any(map(operator.ne, values, values)):
        return sorted(rows, key=key, reverse=descending)  # the common case, much cheaper than the general one
    numbers: list[Any] = []
    texts: list[Any] = []
    without: list[Any] = []
    for row in rows:
        value = key(row)
        if isinstance(value, bool | int | float):
            (without if value != value else numbers).append(row)
        elif value is None or value == "nan":
            without.append(row)
        else:
            texts.append(row)
    numbers.sort(key=key, reverse=descending)
    texts.sort(key=lambda row: as_text(key(row)), reverse=descending)
    return numbers + texts + without


def register(
    connection: sqlite3.Connection, matches: Callable[[int, str | None], bool] | None = None
) -> None:
    """Register the functions with a connection; `matches` gets a pattern's number and a text or None."""
    for name, count, function in (
        ("prompt_words", 1, prompt_words),
        ("json_part", 2, _part),
        ("json_words", 2, _words),
        ("json_compares", 4, lambda text, key, op, value: compare(part(text, key), op, value)),
        ("json_is", 3, _is),
        ("holds", 2, lambda text, wanted: text is not None and holds(text, wanted)),
    ):
        connection.create_function(name, count, function, deterministic=True)
    if matches is not None:
        connection.create_function("matches", 2, matches, deterministic=True)


@functools.lru_cache(maxsize=4)
def prompt_words(text: str) -> str:
    """Return the text of a stored prompt: the string, or the content of its messages."""
    return whole_text(prompt_from(text))


def _part(text: str | None, key: str) -> Any:
    value = part(text, key)
    return to_json(value) if isinstance(value, dict | list) else to_column(value)


def _words(text: str | None, key: str) -> str | None:
    value = part(text, key)
    return None if value is None else as_text(value)


def _is(text: str | None, key: str, what: str) -> bool:
    value = part(text, key)
    return value is None if what == "none" else isinstance(value, float) and math.isnan(value)
