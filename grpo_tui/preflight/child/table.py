"""The source's rows as plain columns, all of them or a sample.

A Hub dataset that is not on this machine is streamed instead of downloaded, and only its first rows are read.
"""

from __future__ import annotations

import csv
import json
import os
import random
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

from grpo_tui.config.paths import DATA_SUFFIXES
from grpo_tui.config.run_config import RunConfig
from grpo_tui.data.sources import DataError, Rows, load_rows
from grpo_tui.preflight.child.hub import Hub, offline
from grpo_tui.preflight.facts import Whereabouts

MOST_ROWS = 20_000
"""Maximum rows to check. A larger dataset is sampled with the config's seed."""
STREAMED_ROWS = 1_000
_SEEN = ("Image", "Audio", "Video")
"""Features whose values would have to be decoded, which no check needs."""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of the training split.

    Attributes:
        columns: values by the source's column name, (N,) each.
        numbers: row numbers in the source, (N,), from 1.
        total: rows of the source, None for a stream.
        sampled: how the rows were chosen, empty if all are here.
        where: location of a Hub dataset.
        written: columns of mixed types as in the file, where reading changed them: the text "5" beside
            numbers is read as the number 5.
        streamed: whether training would stream too.
        cells: columns of a CSV file as in the file, if not all their values are read as text.
    """

    origin: str
    columns: dict[str, list[Any]]
    numbers: list[int]
    total: int | None
    sampled: str
    rows: Rows | None
    where: Whereabouts | None = None
    written: dict[str, list[Any]] = field(default_factory=dict)
    streamed: bool = False
    cells: dict[str, list[str]] = field(default_factory=dict)

    def row(self, place: int) -> dict[str, Any]:
        """Return the row at an index from 0."""
        return {name: values[place] for name, values in self.columns.items()}


class NoDataError(DataError):
    """The data is not available. `where` is its location."""

    def __init__(self, message: str, where: Whereabouts) -> None:
        super().__init__(message)
        self.where = where


def read_table(config: RunConfig, hub: Hub, tell: Callable[[str], None]) -> Table:
    """Read the rows.

    Raises:
        DataError: they cannot be used as the config says.
    """
    where, streamed = _hub_data(config, hub)
    tell(f"reading {where.name}" if where is not None else "reading the dataset")
    if streamed:
        config = replace(
            config,
            script={**config.script, "dataset_streaming": True},
            mixture={**config.mixture, **({"streaming": True} if config.mixture.get("datasets") else {})},
        )
    # Use the cached version as it is. Looking for a newer one on the Hub is left to training.
    with offline() if where is not None and where.place == "cached" else nullcontext():
        rows = load_rows(config)
    if not hasattr(rows.train, "select"):
        return _of_stream(rows, where, streamed)
    total = len(rows.train)
    if total == 0:
        raise DataError(f"{rows.origin} has no rows")
    numbers = list(range(1, total + 1))
    sampled = ""
    if total > MOST_ROWS:
        seed = int(config.grpo.get("seed") or 42)
        numbers = sorted(random.Random(seed).sample(numbers, MOST_ROWS))
        sampled = f"{MOST_ROWS:,} of {total:,} rows, chosen at random"
    columns = columns_of(rows.train, numbers)
    written = _as_written(rows, columns, numbers)
    cells = _cells(rows.origin, columns, numbers, total)
    return Table(rows.origin, columns, numbers, total, sampled, rows, where, written, cells=cells)


def _cells(
    origin: str, columns: dict[str, list[Any]], numbers: Sequence[int], total: int
) -> dict[str, list[str]]:
    """Return a CSV file's cells of columns that are not all text. Empty if they do not match the rows."""
    wanted = [name for name, values in columns.items() if not all(isinstance(v, str) for v in values)]
    kind = Path(origin).suffix.lower()
    if kind not in (".csv", ".tsv") or not wanted or not os.path.isfile(origin):
        return {}
    chosen, count = set(numbers), 0
    found: dict[str, list[str]] = {name: [] for name in wanted}
    try:
        with Path(origin).open(encoding="utf-8-sig", newline="") as file:
            lines = csv.reader(file, delimiter="\t" if kind == ".tsv" else ",")
            header = next(lines)
            places = {name: header.index(name) for name in wanted}
            for count, cells in enumerate(filter(None, lines), 1):
                if count in chosen:
                    for name, place in places.items():
                        found[name].append(cells[place] if place < len(cells) else "")
    except (OSError, ValueError, csv.Error, StopIteration):
        return {}
    return found if count == total else {}


def _as_written(rows: Rows, columns: dict[str, list[Any]], numbers: Sequence[int]) -> dict[str, list[Any]]:
    """Return values as in the file for columns of mixed types, which `datasets` keeps as JSON."""
    features = rows.train.features  # each access copies every column's description
    mixed = [name for name in columns if type(features[name]).__name__ == "Json"]
    if not mixed or not rows.origin.lower().endswith(".jsonl"):
        return {}
    try:
        chosen = set(numbers)
        with Path(rows.origin).open(encoding="utf-8") as lines:
            written = enumerate((line for line in lines if line.strip()), 1)
            read = [json.loads(line) for number, line in written if number in chosen]
        return {name: [row.get(name) for row in read] for name in mixed} if len(read) == len(numbers) else {}
    except (OSError, ValueError, AttributeError):
        return {}


def columns_of(rows: Any, numbers: Sequence[int]) -> dict[str, list[Any]]:
    """Return the values of some rows of a dataset by column."""
    if len(numbers) < len(rows):
        rows = rows.select([number - 1 for number in numbers])
    # `rows.features` and `rows[name]` copy the description of every column, so use them once, not per column.
    kinds = {name: type(feature).__name__ for name, feature in rows.features.items()}
    unread = [name for name, kind in kinds.items() if kind in _SEEN]
    read = (rows.remove_columns(unread) if unread else rows)[:]
    return {
        name: [f"<{kinds[name]}>"] * len(numbers) if name in unread else list(read[name])
        for name in rows.column_names
    }


def _of_stream(rows: Rows, where: Whereabouts | None, not_here: bool) -> Table:
    first = list(islice(iter(rows.train), STREAMED_ROWS))
    if not first:
        raise DataError(f"{rows.origin} has no rows")
    names = list(dict.fromkeys(name for row in first for name in row))
    columns = {name: [row.get(name) for row in first] for name in names}
    numbers = list(range(1, len(first) + 1))
    whole = len(first) < STREAMED_ROWS
    why = "it is not on this machine yet" if not_here else "it is streamed"
    sampled = "" if whole else f"the first {len(first):,} rows, since {why}"
    total = len(first) if whole else None
    return Table(rows.origin, columns, numbers, total, sampled, rows, where, streamed=not not_here)


def _hub_data(config: RunConfig, hub: Hub) -> tuple[Whereabouts | None, bool]:
    """Return the location of the first dataset that must come from the Hub, and whether to stream it."""
    found = None
    for name in _hub_names(config):
        where = hub.dataset(name)
        if where.place == "cached":
            found = found or where
        elif where.place == "hub":
            return where, True
        elif not where.here:
            raise NoDataError(where.problem, where)
    return found, False


def _hub_names(config: RunConfig) -> list[str]:
    """Return the datasets that are not local files or folders."""
    if config.section.dataset is not None:
        return []
    entries = config.mixture.get("datasets")
    if entries:
        names = [str(entry.get("path")) for entry in entries if not entry.get("data_files")]
    else:
        names = [str(config.script["dataset_name"])] if config.script.get("dataset_name") else []
    return [name for name in names if not _is_local(name)]


def _is_local(name: str) -> bool:
    return os.path.isdir(name) or (os.path.isfile(name) and name.lower().endswith(DATA_SUFFIXES))
