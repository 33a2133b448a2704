"""Read rows from files, the user's function, a named dataset, or TRL's mixture, without mapping them.

`datasets`, and TRL for a mixture, are imported when needed.
"""

from __future__ import annotations

import json
import os
import traceback
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grpo_tui.config.paths import DATA_SUFFIXES, split_file_source
from grpo_tui.config.run_config import RunConfig
from grpo_tui.core.text import one_line
from grpo_tui.core.user_code import UserCodeError, load_from_file

if TYPE_CHECKING:
    from datasets import Dataset

MOST_DRAWN = 500_000
"""Maximum rows to take from a generator, which may be endless."""
_LONGEST_REASON = 300
_TOO_DEEP = "this line is nested too deeply"
_READERS = {".csv": "csv", ".tsv": "csv", ".jsonl": "json", ".json": "json", ".parquet": "parquet"}


class DataError(ValueError):
    """The data cannot be used. The message names the place, the cause and the fix."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows before any mapping.

    Attributes:
        test: the evaluation split, None if the source has none.
    """

    train: Dataset
    test: Dataset | None
    origin: str


def load_rows(config: RunConfig) -> Rows:
    """Load the rows of a config.

    Raises:
        DataError: the source does not exist, cannot be read, or lacks the split.
    """
    train_split = str(config.script.get("dataset_train_split", "train"))
    test_split = str(config.script.get("dataset_test_split", "test"))
    if config.section.dataset is not None:
        return _split(read_source(config.section.dataset), train_split, test_split, config.section.dataset)
    if config.mixture.get("datasets"):
        return _split(_mixture(config), train_split, test_split, "datasets")
    name = config.script.get("dataset_name")
    if not name:
        raise DataError("no dataset: set dataset_name, datasets, or grpo_tui.dataset")
    path = Path(str(name))
    if os.path.isfile(path) and path.suffix.lower() in DATA_SUFFIXES:
        return _split(read_source(str(name)), train_split, test_split, str(name))
    return _split(_named(config, str(name)), train_split, test_split, str(name))


def read_source(source: str) -> Any:
    """Read a data file, or call `file.py:function`.

    The function is called without arguments and returns a Dataset, a DatasetDict, a list of rows, or a
    mapping of columns.

    Raises:
        DataError: the file or the function fails.
    """
    parts = split_file_source(source)
    return _from_function(*parts) if parts is not None else _from_file(Path(source))


def _from_file(path: Path) -> Dataset:
    import datasets

    if not os.path.isfile(path):
        raise DataError(f"{path}: no such file")
    suffix = path.suffix.lower()
    options = {"delimiter": "\t"} if suffix == ".tsv" else {}
    try:
        found = datasets.load_dataset(_READERS[suffix], data_files=_escaped(path), split="train", **options)
        if _READERS[suffix] == "json":
            found.data.validate(full=True)  # the reader accepts invalid UTF-8, which fails later
    except Exception as error:
        raise DataError(_why_unreadable(path, error)) from error
    return found


def _escaped(path: Path) -> str:
    return "".join(f"[{c}]" if c in "[*?" else c for c in str(path))


def _why_unreadable(path: Path, error: Exception) -> str:
    """Find the first line that is not valid text or JSON, because the reader's message has no line number."""
    if not path.stat().st_size:
        return f"{path} is empty"
    if path.suffix.lower() != ".parquet":
        with path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                wrong = _wrong_line(line, is_row=path.suffix.lower() == ".jsonl")
                if wrong:
                    return f"{path}:{number}: {wrong}"
    cause: BaseException = error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    if isinstance(cause, RecursionError) or "Recursion level" in str(cause):  # json read it, datasets cannot
        return f"{path}:{_deepest_line(path)}: {_TOO_DEEP}"
    if "corresponds to no data" in str(cause):
        return f"{path} has no rows"
    return f"{path} cannot be read: {_first_line(cause)}"


def _deepest_line(path: Path) -> int:
    with path.open("rb") as lines:
        return max(enumerate(lines, 1), key=lambda numbered: sum(map(numbered[1].count, (b"[", b"{"))))[0]


def _wrong_line(line: bytes, *, is_row: bool) -> str:
    try:
        text = line.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        return f"not UTF-8 text (byte 0x{line[problem.start]:02x}); save the file as UTF-8"
    if not is_row or not text.strip():
        return ""
    try:
        row = json.loads(text)
    except ValueError as problem:
        return f"this line is not valid JSON: {problem}"
    except RecursionError:
        return _TOO_DEEP
    return (
        ""
        if isinstance(row, dict)
        else 'this line is not a row. A row is a JSON object, such as {"prompt": "…"}'
    )


def _from_function(file: str, name: str) -> Any:
    try:
        function = load_from_file(file, name)
    except UserCodeError as error:
        raise DataError(str(error)) from error
    if not callable(function):
        raise DataError(
            f"{file}: {name} is not a function. It must return the rows when called without arguments"
        )
    try:
        return function()
    except (Exception, SystemExit) as error:
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
        line = f":{frames[-1].lineno}" if frames else ""
        why = one_line(f"{type(error).__name__}: {error}", _LONGEST_REASON)
        raise DataError(f"{file}{line}: {name}() failed: {why}") from error


def _mixture(config: RunConfig) -> Any:
    from trl import DatasetMixtureConfig, get_dataset

    arguments = {key: value for key, value in config.mixture.items() if value is not None}
    arguments["datasets"] = [dict(entry) for entry in arguments["datasets"]]
    try:
        return get_dataset(DatasetMixtureConfig(**arguments))
    except Exception as error:
        raise DataError(f"datasets: {_first_line(error)}") from error


def _named(config: RunConfig, name: str) -> Any:
    import datasets

    folder = Path(name)
    if os.path.isdir(folder) and any(
        (folder / mark).is_file() for mark in ("dataset_dict.json", "state.json")
    ):
        return datasets.load_from_disk(name)
    try:
        return datasets.load_dataset(
            name,
            name=config.script.get("dataset_config"),
            streaming=bool(config.script.get("dataset_streaming", False)),
        )
    except Exception as error:
        hint = ""
        if not os.path.isdir(folder) and name.lower().endswith(DATA_SUFFIXES):
            hint = f" There is no file {folder.absolute()}."
        raise DataError(f"dataset_name {name}: {_first_line(error)}{hint}") from error


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return one_line(lines[0], _LONGEST_REASON) if lines else type(error).__name__


def _split(found: Any, train_split: str, test_split: str, origin: str) -> Rows:
    import datasets

    if (
        isinstance(found, Mapping)
        and found
        and all(isinstance(part, (datasets.Dataset, datasets.IterableDataset)) for part in found.values())
    ):
        if train_split not in found:
            raise DataError(
                f"{origin} has no split {train_split}; it has {', '.join(found)}. Set dataset_train_split"
            )
        return Rows(found[train_split], found.get(test_split), origin)
    return Rows(as_dataset(found, origin), None, origin)


def as_dataset(found: Any, origin: str) -> Dataset:
    """Turn a function's return value into a Dataset.

    Raises:
        DataError: it has an unsupported type.
    """
    import datasets

    if isinstance(found, (datasets.Dataset, datasets.IterableDataset)):
        return found
    try:
        if isinstance(found, Mapping):
            return datasets.Dataset.from_dict(dict(found))
        if isinstance(found, Iterable) and not isinstance(found, (str, bytes)):
            return datasets.Dataset.from_list(_rows_of(found, origin))
    except DataError:
        raise
    except Exception as error:
        raise DataError(f"{origin}: the rows do not have the same structure: {_first_line(error)}") from error
    raise DataError(
        f"{origin} returned {type(found).__name__}. It must return a Dataset, a list of rows or a mapping"
    )


def _rows_of(found: Iterable[Any], origin: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    most = MOST_DRAWN if isinstance(found, Iterator) else None
    for number, row in enumerate(islice(found, most), 1):
        if not isinstance(row, Mapping):
            said = one_line(repr(row), _LONGEST_REASON)
            raise DataError(f"{origin}: row {number} is {said}. A row must be a mapping of columns")
        rows.append(dict(row))
    if most is not None and len(rows) == most:
        raise DataError(
            f"{origin} did not end after {most:,} rows, and all rows are read before training begins. "
            "Let it end, or return datasets.IterableDataset.from_generator(…) with max_steps"
        )
    return rows
