"""Say of a search that found nothing what in its query can find nothing in this run.

Either a column or extra that no completion has, seen in a sample, so it is a hint and no error; or a number
outside of what a field goes through. Knows rows and queries.
"""

from __future__ import annotations

import difflib

from grpo_tui.store.queries import Queries
from grpo_tui.store.query_ast import NUMBERS, Between, Comparison, Field, Query, fields, leaves
from grpo_tui.store.query_sql import RunNames, sort_key
from grpo_tui.store.query_values import parsed

SAMPLE = 60
"""Groups, or completions, that are looked at, spread over the run."""
_PLACES = {"column": ("columns", "generation_group"), "extra": ("extra", "completion")}
_PAIRS = "generation_group g JOIN completion c ON c.group_id = g.id WHERE NOT g.superseded"


def hint(queries: Queries, query: Query, names: RunNames) -> str:
    """A sentence about the first part of a query that no completion answers; empty when there is none.

    Args:
        queries: the run.
        query: what found nothing.
        names: what it is understood by.
    """
    for field in fields(query):
        if field.name not in _PLACES or field.key is None:
            continue
        known = _keys(queries, *_PLACES[field.name])
        if known and field.key not in known:
            near = difflib.get_close_matches(field.key, known, 1, 0.5) or sorted(known)[:5]
            keys = ", ".join(str(Field(field.name, name)) for name in near)
            return f"no completion that was looked at has {field}; there is {keys}"
    for leaf in leaves(query):
        if isinstance(leaf, Comparison | Between) and leaf.field.name in (*NUMBERS, "rewards"):
            told = _outside(queries, leaf, names)
            if told:
                return told
    return ""


def _outside(queries: Queries, leaf: Comparison | Between, names: RunNames) -> str:
    """That a field has no value, or goes through others than those asked for."""
    text, values = sort_key(leaf.field, names)
    # NaN is kept as a text, and every text is more than every number.
    number = f"CASE WHEN {text} < '' THEN {text} END"
    low, high = queries._one(f"SELECT min({number}), max({number}) FROM {_PAIRS}", *(values * 4))
    if low is None:
        return f"no completion has a {leaf.field}"
    if isinstance(leaf, Between):
        missed = (leaf.low is not None and leaf.low > high) or (leaf.high is not None and leaf.high < low)
    elif isinstance(leaf.value, str):
        return ""
    else:
        missed = {
            "<": low >= leaf.value,
            "<=": low > leaf.value,
            ">": high <= leaf.value,
            ">=": high < leaf.value,
            "==": not low <= leaf.value <= high,
            "!=": low == high == leaf.value,
        }[leaf.op]
    through = f"is {low:g} everywhere" if low == high else f"goes from {low:g} to {high:g}"
    return f"{leaf.field} {through} in this run" if missed else ""


def _keys(queries: Queries, column: str, table: str) -> set[str]:
    last = queries._one(f"SELECT max(id) FROM {table}")[0] or 0
    found: set[str] = set()
    for place in sorted({1 + last * number // SAMPLE for number in range(SAMPLE)}):
        row = queries._one(f"SELECT {column} FROM {table} WHERE id >= ? ORDER BY id LIMIT 1", place)
        value = None if row is None else parsed(row[0])
        if isinstance(value, dict):
            found.update(value)
    return found
