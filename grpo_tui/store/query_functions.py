"""The functions that a condition of `query_sql` calls, put into a connection.

Knows values and JSON; the pattern of `matches` is run by whom it is given to, because Python's `re` can take
for ever and lets no other thread work meanwhile.
"""

from __future__ import annotations

import functools
import math
import sqlite3
from collections.abc import Callable
from typing import Any

from grpo_tui.core.text import whole_text
from grpo_tui.store.query_values import as_text, compare, holds, part
from grpo_tui.store.values import prompt_from, to_column, to_json


def register(
    connection: sqlite3.Connection, matches: Callable[[int, str | None], bool] | None = None
) -> None:
    """Make the functions known to a connection; `matches` gets the number of a pattern and a text or None."""
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
    """The words of a prompt as the database keeps it: the string, or the content of its messages."""
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
