"""Leave out the prompts that a filter file lists, or all others.

`grpo-tui prompts RUN --export FILE` writes such a file: a JSON object per line, with the prompt's `hash`. The
hold-out is split off before, so that it is the same as in the run that the file comes from.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from grpo_tui.config.section import Filters
from grpo_tui.core.prompt_memory import prompt_hash
from grpo_tui.data.sources import DataError

if TYPE_CHECKING:
    from datasets import Dataset

_AGAIN = "Export it again: `grpo-tui prompts RUN --export FILE`"


def filter_files(filters: Filters) -> list[tuple[str, frozenset[str], Path]]:
    """Read the filter files. Return key, hashes and file of each.

    Raises:
        DataError: a file cannot be read, or lists no prompts.
    """
    named = (("exclude", filters.exclude), ("only", filters.only))
    return [(key, _hashes(key, Path(file)), Path(file)) for key, file in named if file is not None]


def _hashes(key: str, file: Path) -> frozenset[str]:
    found = set()
    try:
        for number, line in enumerate(file.read_text(encoding="utf-8").split("\n"), 1):
            if line.strip():
                found.add(_hash(line, f"grpo_tui.filters.{key}: {file}, line {number}"))
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not a text file"
        raise DataError(f"grpo_tui.filters.{key}: {file} cannot be read: {why}. {_AGAIN}") from error
    if not found:
        raise DataError(f"grpo_tui.filters.{key}: {file} lists no prompts. {_AGAIN}")
    return frozenset(found)


def _hash(line: str, where: str) -> str:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        row = None
    found = row.get("hash") if isinstance(row, dict) else None
    if not isinstance(found, str) or len(found) != 16:
        raise DataError(f"{where}: this is not a prompt with its hash. {_AGAIN}")
    return found


def stale(key: str, file: Path, origin: str) -> str:
    """Say that a filter file belongs to other data."""
    return (
        f"grpo_tui.filters.{key}: none of the prompts in {file} is in the training rows of {origin}. Its run "
        f"had other data, another system prompt or other examples. Export a file from a run of this config, "
        f"or remove {key}"
    )


def by_files(rows: Dataset, filters: Filters, origin: str, *, whole: bool) -> tuple[Dataset, list[str]]:
    """Return the rows that the filter files leave, and what was removed.

    Args:
        rows: training rows, with prompts as the trainer gets them.
        whole: whether these are all rows, so that a file without any of them is an error.

    Raises:
        DataError: a file cannot be used, or no row is left.
    """
    notes: list[str] = []
    for key, hashes, file in filter_files(filters):
        if not hasattr(rows, "select"):
            rows = rows.filter(
                lambda row, key=key, hashes=hashes: (prompt_hash(row["prompt"]) in hashes) == (key == "only")
            )
            continue
        keys = [prompt_hash(prompt) for prompt in rows["prompt"]]
        here = hashes & set(keys)
        if whole and not here:
            raise DataError(stale(key, file, origin))
        kept = [place for place, one in enumerate(keys) if (one in hashes) == (key == "only")]
        if not kept:
            raise DataError(f"{origin}: no rows left after grpo_tui.filters.{key}: {file}")
        absent = f"; {len(hashes) - len(here):,} of its prompts are not here" if here != hashes else ""
        notes.append(f"{len(keys) - len(kept):,} of {len(keys):,} rows removed by {key}: {file}{absent}")
        rows = rows.select(kept)
    return rows, notes
