"""Say of a search that found nothing which column or extra of its query this run does not seem to have.

Looks at a sample, so that it is a hint and no error: a column may be in some groups alone. Knows rows and
queries.
"""

from __future__ import annotations

import difflib

from grpo_tui.store.queries import Queries
from grpo_tui.store.query_ast import Field, Query, fields
from grpo_tui.store.query_values import parsed

SAMPLE = 60
"""Groups, or completions, that are looked at, spread over the run."""
_PLACES = {"column": ("columns", "generation_group"), "extra": ("extra", "completion")}


def hint(queries: Queries, query: Query) -> str:
    """A sentence about the first name that no sampled row has; empty when all are there, or nothing is."""
    for field in fields(query):
        if field.name not in _PLACES or field.key is None:
            continue
        known = _keys(queries, *_PLACES[field.name])
        if known and field.key not in known:
            near = difflib.get_close_matches(field.key, known, 1, 0.5) or sorted(known)[:5]
            names = ", ".join(str(Field(field.name, name)) for name in near)
            return f"no completion that was looked at has {field}; there is {names}"
    return ""


def _keys(queries: Queries, column: str, table: str) -> set[str]:
    last = queries._one(f"SELECT max(id) FROM {table}")[0] or 0
    found: set[str] = set()
    for place in sorted({1 + last * number // SAMPLE for number in range(SAMPLE)}):
        row = queries._one(f"SELECT {column} FROM {table} WHERE id >= ? ORDER BY id LIMIT 1", place)
        value = None if row is None else parsed(row[0])
        if isinstance(value, dict):
            found.update(value)
    return found
