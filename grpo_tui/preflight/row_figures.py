"""Statistics of rows and lengths: value types, missing and repeated values, percentiles, histogram."""

from __future__ import annotations

import heapq
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from grpo_tui.core.text import one_line
from grpo_tui.preflight.facts import ColumnFacts, KindCount, Lengths

MOST_ROWS_NAMED = 5
MOST_VALUES = 8
BINS = 12
MOST_SHOWN = 3


def kind_of(value: Any) -> str:
    """Return the kind of a value, in words."""
    if isinstance(value, str):
        return "text"
    if isinstance(value, bool):
        return "truth"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, Mapping):
        return "mapping"
    if isinstance(value, list | tuple):
        return "messages" if is_messages(value) else "list"
    return type(value).__name__


def is_messages(value: Any) -> bool:
    """Return whether a value is a non-empty list of chat messages."""
    return (
        isinstance(value, list | tuple)
        and bool(value)
        and all(isinstance(item, Mapping) and isinstance(item.get("role"), str) for item in value)
    )


def column_facts(name: str, source: str, values: Sequence[Any], numbers: Sequence[int]) -> ColumnFacts:
    """Return the facts about a column.

    Args:
        name: after mapping.
        source: name in the source.
        values: (N,).
        numbers: row numbers, (N,).
    """
    rows: defaultdict[str, list[int]] = defaultdict(list)
    kinds: Counter[str] = Counter()
    texts: Counter[str] = Counter()
    nulls: list[int] = []
    empties: list[int] = []
    for number, value in zip(numbers, values, strict=True):
        if value is None or value != value:  # tables represent missing numbers as NaN
            nulls.append(number)
            continue
        kind = kind_of(value)
        kinds[kind] += 1
        if len(rows[kind]) < MOST_ROWS_NAMED:
            rows[kind].append(number)
        if (isinstance(value, str) and not value.strip()) or (isinstance(value, list | dict) and not value):
            empties.append(number)
        texts[value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str)] += 1
    return ColumnFacts(
        name=name,
        source=source,
        kinds=tuple(KindCount(kind, count, tuple(rows[kind])) for kind, count in kinds.most_common()),
        nulls=len(nulls),
        null_rows=tuple(nulls[:MOST_ROWS_NAMED]),
        empties=len(empties),
        empty_rows=tuple(empties[:MOST_ROWS_NAMED]),
        distinct=len(texts),
        top=tuple((one_line(text, 60), count) for text, count in texts.most_common(MOST_VALUES)),
        first=tuple(one_line(str(value), 40) for value in values[:MOST_SHOWN]),
    )


def with_cells(
    facts: ColumnFacts, values: Sequence[Any], cells: Sequence[str], numbers: Sequence[int]
) -> ColumnFacts:
    """Add the rows where reading a CSV file has changed a cell's value.

    Args:
        values: as read, (N,).
        cells: as in the file, (N,).
        numbers: row numbers, (N,).
    """
    found = [
        (
            number,
            one_line(cell, 40),
            "nothing" if value is None or value != value else one_line(str(value), 40),
        )
        for number, cell, value in zip(numbers, cells, values, strict=True)
        if _changed(cell.strip(), value)
    ]
    return replace(facts, otherwise=tuple(found[:MOST_ROWS_NAMED]), otherwise_count=len(found))


def _changed(cell: str, value: Any) -> bool:
    if value is None or value != value:
        return bool(cell)
    if isinstance(value, str) or cell == str(value):
        return False
    decimal = isinstance(value, float) and "." in cell and not re.match(r"[-+]?0\d", cell)
    return not decimal  # 1.50 equals 1.5


def lengths(counts: Sequence[int], numbers: Sequence[int]) -> Lengths | None:
    """Return the distribution of token counts, None without any.

    Args:
        counts: tokens of each text, (N,).
        numbers: row numbers, (N,).
    """
    if not counts:
        return None
    ordered = sorted(counts)
    longest = heapq.nlargest(MOST_ROWS_NAMED, zip(counts, numbers, strict=True), key=lambda pair: pair[0])
    return Lengths(
        count=len(ordered),
        least=ordered[0],
        mean=sum(ordered) / len(ordered),
        p50=percentile(ordered, 50),
        p95=percentile(ordered, 95),
        p99=percentile(ordered, 99),
        most=ordered[-1],
        longest=tuple((number, count) for count, number in longest),
        bins=histogram(ordered),
        by_length=tuple(sorted(Counter(ordered).items())),
    )


def percentile(ordered: Sequence[int], percent: float) -> int:
    """Return the nearest-rank percentile: the smallest value that at least `percent` % do not exceed."""
    rank = -(-len(ordered) * percent // 100)
    return ordered[max(0, int(rank) - 1)]


def histogram(ordered: Sequence[int], bins: int = BINS) -> tuple[tuple[int, int, int], ...]:
    """Return (first, last, count) of equally wide bins over sorted integers."""
    least, most = ordered[0], ordered[-1]
    width = max(1, -(-(most - least + 1) // bins))
    counts = Counter((value - least) // width for value in ordered)
    last = (most - least) // width
    return tuple((least + i * width, least + (i + 1) * width - 1, counts[i]) for i in range(last + 1))


def repeated(keys: Iterable[str], numbers: Sequence[int]) -> list[int]:
    """Return the rows whose key appears in an earlier row."""
    seen: set[str] = set()
    found = []
    for key, number in zip(keys, numbers, strict=True):
        if key in seen:
            found.append(number)
        seen.add(key)
    return found
