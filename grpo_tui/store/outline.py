"""The course of one metric in a few numbers, at a cost that does not grow with the length of the run.

A list of many runs needs a small curve of each, not every value: some places spread evenly over the rows are
looked up, with a few neighbours each. Knows rows and keys, not what is drawn of them.
"""

from __future__ import annotations

from typing import Any

from grpo_tui.store.reader import RunReader
from grpo_tui.store.values import from_column

# One statement for all places: asked one by one, most of the time would go into asking.
_PLACES = (
    "WITH RECURSIVE place (number, at) AS (SELECT 0, :first UNION ALL"
    " SELECT number + 1, :first + (number + 1) * :rows / :places FROM place WHERE number + 1 < :places)"
    " SELECT place.number, m.value FROM place"
    " CROSS JOIN metric m ON m.key = :key AND m.row BETWEEN place.at AND place.at + :neighbours - 1"
    " CROSS JOIN metric_row r ON r.id = m.row AND r.superseded = 0"
)
_WHOLE = (
    "SELECT m.value FROM metric m CROSS JOIN metric_row r ON r.id = m.row"
    " WHERE m.key = ? AND r.superseded = 0 ORDER BY m.row"
)

_NEWEST = (
    "SELECT m.value FROM metric m CROSS JOIN metric_row r ON r.id = m.row"
    " WHERE m.key = ? AND m.row > ? AND m.row <= ? AND r.superseded = 0 ORDER BY m.row"
)


def outline(reader: RunReader, key: str, places: int = 48, neighbours: int = 6) -> list[list[Any]]:
    """Values of a metric at so many places of the run, in the order they were logged.

    Args:
        reader: The run.
        key: TRL's key of the metric.
        places: How many places, spread evenly over the logged rows, the last one at the newest.
        neighbours: How many rows are looked at in each place.

    Returns:
        A list of values per place that has any, superseded rows left out; a run of at most `places` ×
        `neighbours` rows comes whole. Values are as logged: None, NaN and infinities among them.
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
        values = [from_column(row[0]) for row in reader._all(_WHOLE, number)]
        count = min(places, len(values))
        return [values[i * len(values) // count : (i + 1) * len(values) // count] for i in range(count)]
    asked = {"first": first, "rows": rows, "places": places - 1, "neighbours": neighbours}
    stretches: dict[int, list[Any]] = {}
    for place, value in reader._db.execute(_PLACES, asked | {"key": number}).fetchall():
        stretches.setdefault(place, []).append(from_column(value))
    # The last place ends with the newest row.
    newest = reader._all(_NEWEST, number, last - neighbours, last)
    if newest:
        stretches[places] = [from_column(row[0]) for row in newest]
    return [stretches[place] for place in sorted(stretches)]
