"""The course of one metric in a few numbers, at a cost that does not grow with the length of the run.

A list of many runs needs a small curve of each, not every value: some places spread evenly over the rows are
looked up, with a few neighbours each. Knows rows and keys, not what is drawn of them.
"""

from __future__ import annotations

from typing import Any

from grpo_tui.store.reader import RunReader
from grpo_tui.store.values import from_column

_STRETCH = (
    "SELECT m.row, m.value FROM metric m JOIN metric_row r ON r.id = m.row"
    " WHERE m.key = ? AND m.row >= ? AND m.row <= ? AND r.superseded = 0 ORDER BY m.row LIMIT ?"
)


def outline(reader: RunReader, key: str, places: int = 48, neighbours: int = 8) -> list[list[Any]]:
    """Values of a metric at so many places of the run, in the order they were logged.

    Args:
        reader: The run.
        key: TRL's key of the metric.
        places: How many places, spread evenly over the logged rows.
        neighbours: How many values in a row are taken at each place.

    Returns:
        A list of values per place, superseded rows left out; a run of at most `places` × `neighbours` rows
        comes whole. Values are as logged: None, NaN and infinities among them.
    """
    found = reader._all("SELECT id FROM metric_key WHERE key = ?", key)
    if not found:
        return []
    number = found[0][0]
    # Two lookups at the ends of the key; asked together, SQLite would go over the whole key.
    first = reader._all("SELECT min(row) FROM metric WHERE key = ?", number)[0][0]
    last = reader._all("SELECT max(row) FROM metric WHERE key = ?", number)[0][0]
    if first is None:
        return []
    rows = last - first + 1
    if rows <= places * neighbours:
        values = [from_column(row[1]) for row in reader._all(_STRETCH, number, first, last, rows)]
        return _gathered(values, places)
    stretches = []
    for place in range(places):
        start = first + place * rows // places
        end = first + (place + 1) * rows // places - 1
        at = max(start, end - neighbours + 1) if place == places - 1 else start
        stretch = [from_column(row[1]) for row in reader._all(_STRETCH, number, at, end, neighbours)]
        if stretch:
            stretches.append(stretch)
    return stretches


def _gathered(values: list[Any], places: int) -> list[list[Any]]:
    """All values in at most so many neighbouring lots."""
    count = min(places, len(values))
    return [values[i * len(values) // count : (i + 1) * len(values) // count] for i in range(count)]
