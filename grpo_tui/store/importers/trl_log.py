"""Read what TRL logs: `completions_*.parquet` and the `trainer_state.json` of its checkpoints.

A row of the parquet file has step, prompt, completion, a column per reward function, one per `log_extra`,
and the advantage. Token counts, truncation, columns of the dataset and the weights of the rewards are not in
it; None and NaN of a reward are one there. pyarrow is needed for the parquet files alone.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grpo_tui.core.records import GenerationBatch, MetricRow
from grpo_tui.core.statistics import is_number, mean
from grpo_tui.store.importers.grouping import (
    TRL_EPSILON,
    consecutive,
    group_of,
    group_size,
    runs_of_equal,
    total,
    without_nothing,
)
from grpo_tui.store.json_file import read_regular

OWN = ("step", "prompt", "completion", "advantage")
ABSENT = ("tokens", "truncated", "column")
"""What these files do not say."""
_NOT_METRICS = ("step", "epoch")


@dataclass(frozen=True, slots=True)
class TrainerState:
    """What a checkpoint says of the run."""

    history: tuple[Mapping[str, Any], ...] = ()
    step: int = 0
    total_steps: int | None = None
    changed_at: float = 0.0

    def reward_names(self) -> tuple[str, ...]:
        """Names of the reward functions, in TRL's order."""
        found: dict[str, None] = {}
        for row in self.history:
            for key in row:
                parts = key.removeprefix("eval_").split("/")
                if parts[0] == "rewards" and parts[-1] == "mean" and len(parts) > 2:
                    found["/".join(parts[1:-1])] = None
        return tuple(found)

    def metric_rows(self, after: int) -> list[MetricRow]:
        """The logged rows behind the first `after` ones, at the file's age: their own is not known."""
        rows = []
        for row in self.history[after:]:
            values = {key: value for key, value in row.items() if key not in _NOT_METRICS}
            rows.append(MetricRow(1, int(row.get("step", 0)), self.changed_at, values))
        return rows

    def row_at(self, step: int) -> Mapping[str, Any]:
        """The row with a reward that TRL logged at a step; empty without any."""
        rows = (row for row in self.history if row.get("step") == step and is_number(row.get("reward")))
        return next(rows, {})


def read_state(root: Path) -> TrainerState:
    """The newest `trainer_state.json` of an output folder; an empty state without any that can be read."""
    best = TrainerState()
    for path in (root / "trainer_state.json", *root.glob("checkpoint-*/trainer_state.json")):
        try:
            state = json.loads(read_regular(path, below=root))
            step = int(state["global_step"])
            rows = tuple(row for row in state["log_history"] if isinstance(row, dict))
            if step >= best.step:
                best = TrainerState(
                    rows, step, int(state.get("max_steps") or 0) or None, path.stat().st_mtime
                )
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            continue
    return best


def read_parquet(path: Path) -> list[dict[str, Any]]:
    """The rows of a file.

    Raises:
        ImportError: There is no pyarrow.
        OSError, ValueError: It cannot be read, or not yet.
    """
    import pyarrow.parquet

    try:
        rows = pyarrow.parquet.read_table(path).to_pylist()
    except pyarrow.ArrowException as error:
        raise ValueError(str(error)) from error
    if rows and not {"prompt", "completion"} <= rows[0].keys():
        raise ValueError(f"it has no columns prompt and completion, but {', '.join(rows[0])}")
    return rows


def reward_columns(rows: Sequence[Mapping[str, Any]], known: Sequence[str]) -> tuple[str, ...]:
    """Which columns hold rewards: those that TRL logged metrics of, else all that hold numbers alone."""
    columns = [name for name in (rows[0] if rows else ()) if name not in OWN]
    named = tuple(name for name in columns if name in known)
    if named:
        return named
    return tuple(
        name
        for name in columns
        if all(isinstance(row[name], float | None) for row in rows)
        and any(row[name] is not None for row in rows)
    )


def batch_of(
    step: int, at: float, rows: Sequence[Mapping[str, Any]], names: Sequence[str], size: int
) -> GenerationBatch:
    """The rows of a file as a batch of groups.

    Args:
        step: The step that the file's name says.
        at: When it was written.
        rows: Its rows.
        names: Columns that hold rewards.
        size: Of the groups; 1 when it is not known.
    """
    keys = [prompt_of(row) for row in rows]
    groups = []
    for index, places in enumerate(consecutive(keys, size)):
        members = [rows[place] for place in places]
        own = [row.get("advantage") for row in members]
        extras = [
            {
                key: value
                for key, value in row.items()
                if key not in OWN and key not in names and value is not None
            }
            for row in members
        ]
        groups.append(
            group_of(
                index,
                without_nothing(members[0]["prompt"]),
                {},
                [row["completion"] for row in members],
                [[_reward(row.get(name)) for name in names] for row in members],
                None if any(value is None for value in own) else own,
                extras,
                TRL_EPSILON,
            )
        )
    return GenerationBatch(1, step, 0, "train", step, step, at, tuple(groups))


def prompt_of(row: Mapping[str, Any]) -> str:
    """By what two prompts are found equal."""
    return json.dumps(row["prompt"], sort_keys=True, default=str)


def size_in(rows: Sequence[Mapping[str, Any]], so_far: int) -> int:
    """The size of the groups, from these rows and what was known before (0 for nothing)."""
    return math.gcd(so_far, group_size(runs_of_equal([prompt_of(row) for row in rows])))


def weights_differ(
    rows: Sequence[Mapping[str, Any]], names: Sequence[str], logged: Mapping[str, Any]
) -> bool:
    """Whether TRL logged another mean total than the plain sums have: its weights are not in these files.

    Args:
        rows: Of a file.
        names: Columns that hold rewards.
        logged: What was logged at that step. A mean over more than these rows is of no use; that it is one
            shows in the mean of a function.
    """
    values = [[_reward(row.get(name)) for name in names] for row in rows]
    for number, name in enumerate(names):
        if not _same(mean(row[number] for row in values), logged.get(f"rewards/{name}/mean")):
            return False
    return bool(names) and not _same(mean(map(total, values)), logged.get("reward"))


def _same(own: float | None, logged: Any) -> bool:
    return own is not None and is_number(logged) and abs(own - logged) <= 1e-3 * max(1.0, abs(logged))


def _reward(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not math.isnan(value) else None
