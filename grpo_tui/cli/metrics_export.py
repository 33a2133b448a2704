"""Write every logged row of runs as CSV or JSON lines, page by page, so that length costs no memory.

Knows rows and formats; what is chosen was decided before.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TextIO

from grpo_tui.core.metrics import is_computed
from grpo_tui.core.text import csv_text
from grpo_tui.store.read_series import TOKENS_PER_SECOND, last_metric_row_id, new_points, series_window
from grpo_tui.store.reader import RunReader
from grpo_tui.store.values import finite_json

Steps = tuple[int | None, int | None]
Row = tuple[int, float, dict[str, Any]]
"""Step, wall clock in seconds since the epoch, values by key."""


def write_csv(
    out: TextIO, readers: Mapping[str, RunReader], keys: Sequence[str], steps: Steps, every: int
) -> None:
    """A header and a line per logged row; what a row did not log is empty, `nan` and `inf` are words."""
    several = len(readers) > 1
    table = csv.writer(out, lineterminator="\n")
    table.writerow([*(["run"] if several else []), "step", "at", *map(csv_text, keys)])
    for name, reader in readers.items():
        for step, at, values in rows(reader, keys, steps, every):
            cells = [_cell(values.get(key)) for key in keys]
            table.writerow([*([csv_text(name)] if several else []), step, f"{at:.3f}", *cells])


def write_jsonl(
    out: TextIO, readers: Mapping[str, RunReader], keys: Sequence[str], steps: Steps, every: int
) -> None:
    """An object per logged row, with the keys that it logged; None, NaN and infinities are null."""
    several = len(readers) > 1
    for name, reader in readers.items():
        for step, at, values in rows(reader, keys, steps, every):
            row = {**({"run": name} if several else {}), "step": step, "at": round(at, 3), **values}
            out.write(json.dumps(finite_json(row)) + "\n")


def rows(reader: RunReader, keys: Sequence[str], steps: Steps, every: int) -> Iterator[Row]:
    """The rows of a run by step, those with a step between the two that is a multiple of `every`.

    What is computed from the groups of a step stands in the first row of that step, or in one of its own.
    """
    first, last = steps

    def wanted(step: int) -> bool:
        return (first is None or step >= first) and (last is None or step <= last) and step % every == 0

    computed = [key for key in keys if is_computed(key) and key != TOKENS_PER_SECOND]
    waiting = _by_step(reader, computed, steps)
    own = next(waiting, None)
    for step, at, values in _logged(reader, keys):
        while own is not None and own[0] < step:
            if wanted(own[0]):
                yield own
            own = next(waiting, None)
        if own is not None and own[0] == step:
            values |= own[2]
            own = next(waiting, None)
        if wanted(step) and values:
            yield step, at, values
    while own is not None:
        if wanted(own[0]):
            yield own
        own = next(waiting, None)


def _logged(reader: RunReader, keys: Sequence[str]) -> Iterator[Row]:
    """Logged rows as they were logged, superseded ones left out."""
    after, last = 0, last_metric_row_id(reader)
    while after < last:
        after, points = new_points(reader, after, keys=keys)
        page: dict[int, Row] = {}
        for key in keys:
            for point in points.get(key, ()):
                page.setdefault(point.row, (point.step, point.at, {}))[2][key] = point.value
        for row in sorted(page):
            yield page[row]


def _by_step(reader: RunReader, keys: Sequence[str], steps: Steps) -> Iterator[Row]:
    first, last = steps
    found: dict[int, Row] = {}
    for key in keys:
        for bucket in series_window(reader, key, first, last, buckets=1 << 40):
            found.setdefault(bucket.first, (bucket.first, bucket.first_at, {}))[2][key] = bucket.mean
    for step in sorted(found):
        yield found[step]


def _cell(value: Any) -> Any:
    return "" if value is None else csv_text(value) if isinstance(value, str) else value
