"""Read what verl logs with `trainer.rollout_data_dir`: a file `STEP.jsonl` with a line per completion.

A line has input, output, score, step, mostly `gts` (the gold answer), and what the reward function returned
besides. verl may have shuffled the lines, so equal inputs of a file make a group wherever they stand.
Advantages are not in it and are computed as verl's GRPO does; token counts and truncation are not in it
either.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from grpo_tui.core.records import GenerationBatch, Mode
from grpo_tui.store.importers.grouping import VERL_EPSILON, gathered, group_of
from grpo_tui.store.json_file import read_regular

ABSENT = ("tokens", "truncated")
REWARD = "score"
_OWN = ("input", "output", "score", "step", "gts", "uid", "request_id")


def read_lines(path: Path) -> tuple[list[dict[str, Any]], list[int]]:
    """The rows of a file, and the numbers of lines, from 1, that are none.

    A last line without its end is still being written, and counts as neither.

    Raises:
        OSError: It cannot be read.
    """
    rows: list[dict[str, Any]] = []
    broken: list[int] = []
    lines = read_regular(path, largest=1 << 33).decode("utf-8-sig", "replace").split("\n")
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        if isinstance(row, dict) and "input" in row and "output" in row:
            rows.append(row)
        elif number < len(lines):
            broken.append(number)
    return rows, broken


def batch_of(step: int, at: float, rows: Sequence[Mapping[str, Any]], folder: str) -> GenerationBatch:
    """The rows of a file as a batch of groups.

    Args:
        step: The step that the file's name says.
        at: When it was written.
        rows: Its rows.
        folder: The folder's name; one that begins with `val` holds validation.
    """
    key = "uid" if all("uid" in row for row in rows) else "input"
    groups = []
    for index, places in enumerate(gathered([str(row[key]) for row in rows])):
        members = [rows[place] for place in places]
        columns = {"gts": members[0]["gts"]} if "gts" in members[0] else {}
        groups.append(
            group_of(
                index,
                str(members[0]["input"]),
                columns,
                ["" if row["output"] is None else str(row["output"]) for row in members],
                [[_score(row.get(REWARD))] for row in members],
                None,
                [{name: value for name, value in row.items() if name not in _OWN} for row in members],
                VERL_EPSILON,
            )
        )
    mode: Mode = "eval" if folder.lower().startswith("val") else "train"
    return GenerationBatch(1, step, 0, mode, step, step, at, tuple(groups))


def _score(value: Any) -> float | None:
    try:
        return float(value) if isinstance(value, int | float) else None
    except OverflowError:
        return math.inf if value > 0 else -math.inf
