"""Read the logs of TRL and verl as groups of completions.

TRL writes `completions_*.parquet`, and `trainer_state.json` in its checkpoints. A parquet row has the step,
prompt, completion, one column per reward function, one per `log_extra`, and the advantage. It lacks token
counts, truncation, dataset columns and reward weights, and does not distinguish None from NaN in a reward.
Only parquet files need pyarrow.

With `trainer.rollout_data_dir`, verl writes a file `STEP.jsonl` with one line per completion: input, output,
score, step, usually `gts` (the reference answer), and what else the reward function returned. verl may have
shuffled the lines, so equal inputs anywhere in a file form a group. Advantages are missing and are computed
as in verl's GRPO. Token counts and truncation are missing too.
"""

from __future__ import annotations

import functools
import itertools
import json
import math
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from grpo_tui.core.records import Completion, GenerationBatch, Group, MetricRow, Mode
from grpo_tui.core.statistics import is_number, mean, std
from grpo_tui.core.text import whole_text
from grpo_tui.store.json_file import read_regular
from grpo_tui.store.values import as_float

TRL_EPSILON, VERL_EPSILON = 1e-4, 1e-6
"""Added to a group's std before dividing by it (TRL's `GRPOTrainer`, verl's `core_algos`)."""


def runs_of_equal(keys: Sequence[str]) -> list[int]:
    """Return the lengths of the runs of consecutive equal keys."""
    return [len(list(run)) for _, run in itertools.groupby(keys)]


def group_size(lengths: Sequence[int]) -> int:
    """Return the group size, given the lengths of runs of equal prompts.

    A prompt that appears twice in a row makes one run of two groups, so the size is the greatest common
    divisor of all lengths; 1 means that there is no common size.
    """
    return functools.reduce(math.gcd, lengths, 0) or 1


def consecutive(keys: Sequence[str], size: int) -> list[list[int]]:
    """Return the members of each group: consecutive equal keys, at most `size` unless it is 1."""
    groups: list[list[int]] = []
    place = 0
    for length in runs_of_equal(keys):
        step = length if size <= 1 else size
        groups += [
            list(range(start, min(start + step, place + length)))
            for start in range(place, place + length, step)
        ]
        place += length
    return groups


def gathered(keys: Sequence[str]) -> list[list[int]]:
    """Return the members of each group: all equal keys, in any position."""
    groups: dict[str, list[int]] = {}
    for place, key in enumerate(keys):
        groups.setdefault(key, []).append(place)
    return list(groups.values())


def total(rewards: Iterable[float | None]) -> float | None:
    """Return the unweighted sum of the rewards; None when every function abstained."""
    given = [value for value in rewards if value is not None and not math.isnan(value)]
    return sum(given) if given else None


def advantages(totals: Sequence[float | None], epsilon: float) -> list[float]:
    """Return (total − mean) / (std + epsilon) within a group; 0 for a completion that was not scored."""
    centre, spread = mean(totals), std(totals)
    if centre is None or spread is None:
        return [0.0] * len(totals)
    return [
        0.0 if value is None or math.isnan(value) else (value - centre) / (spread + epsilon)
        for value in totals
    ]


@dataclass(frozen=True, slots=True)
class Row:
    """One logged completion, a text or chat messages.

    Attributes:
        key: Equal for the completions of a group.
        advantage: None when it was not logged.
    """

    key: str
    prompt: Any
    completion: Any
    rewards: Mapping[str, float | None]
    total: float | None
    advantage: float | None = None
    tokens: int = 0
    truncated: bool = False
    columns: Mapping[str, Any] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)


def batch_of(
    step: int,
    at: float,
    rows: Sequence[Row],
    names: Sequence[str],
    epsilon: float = VERL_EPSILON,
    mode: Mode = "train",
    size: int | None = None,
) -> GenerationBatch:
    """Build a batch as this program's recorder would have written it.

    Advantages that were not logged for a whole group are computed.

    Args:
        epsilon: Added to a group's std.
        size: Group size when the rows of a group are consecutive, 1 when it is unknown; None when they may
            be anywhere.
    """
    keys, groups = [row.key for row in rows], []
    for index, places in enumerate(gathered(keys) if size is None else consecutive(keys, size)):
        members = [rows[place] for place in places]
        own = [row.advantage for row in members]
        known = advantages([row.total for row in members], epsilon) if None in own else own
        completions = []
        for place, (row, advantage) in enumerate(zip(members, known, strict=True)):
            text, messages = readable(row.completion)
            rewards, extra = tuple(row.rewards.get(name) for name in names), dict(row.extra)
            scores = (rewards, row.total, advantage or 0.0)
            completions.append(Completion(place, text, *scores, row.tokens, row.truncated, extra, messages))
        groups.append(Group(index, members[0].prompt, dict(members[0].columns), tuple(completions)))
    return GenerationBatch(1, step, 0, mode, step, step, at, tuple(groups))


def readable(completion: Any) -> tuple[str, list[dict[str, Any]] | None]:
    """Return a completion's text, and its messages when there is more than one plain answer."""
    if isinstance(completion, str | None):
        return completion or "", None
    messages = without_nothing(completion)
    if not isinstance(messages, list):
        return str(completion), None
    plain = len(messages) == 1 and messages[0].keys() <= {"role", "content"}
    return whole_text(messages), None if plain else messages


def without_nothing(value: Any) -> Any:
    """Remove null entries, because every object in a parquet file has every key."""
    if isinstance(value, list):
        return [without_nothing(item) for item in value]
    if isinstance(value, dict):
        return {key: without_nothing(item) for key, item in value.items() if item is not None}
    return value


OWN = ("step", "prompt", "completion", "advantage")
TRL_ABSENT = ("tokens", "truncated", "column")
_NOT_METRICS = ("step", "epoch")


@dataclass(frozen=True, slots=True)
class TrainerState:
    """What a checkpoint records about the run."""

    history: tuple[Mapping[str, Any], ...] = ()
    step: int = 0
    total_steps: int | None = None
    changed_at: float = 0.0

    def reward_names(self) -> tuple[str, ...]:
        """Return the names of the reward functions, in TRL's order."""
        found: dict[str, None] = {}
        for row in self.history:
            for key in row:
                parts = key.removeprefix("eval_").split("/")
                if parts[0] == "rewards" and parts[-1] == "mean" and len(parts) > 2:
                    found["/".join(parts[1:-1])] = None
        return tuple(found)

    def metric_rows(self, after: int) -> list[MetricRow]:
        """Return the logged rows after the first `after`, timed by the file: their own times are unknown."""
        rows = []
        for row in self.history[after:]:
            values = {key: value for key, value in row.items() if key not in _NOT_METRICS}
            rows.append(MetricRow(1, int(row.get("step", 0)), self.changed_at, values))
        return rows

    def row_at(self, step: int) -> Mapping[str, Any]:
        """Return the row with a reward that TRL logged at a step; empty without one."""
        rows = (row for row in self.history if row.get("step") == step and is_number(row.get("reward")))
        return next(rows, {})


def read_state(root: Path) -> TrainerState:
    """Return the newest readable `trainer_state.json` of an output folder, or an empty state."""
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


def read_trl(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a file.

    Raises:
        ImportError: pyarrow is not installed.
        OSError, ValueError: The file cannot be read, or is still being written.
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
    """Return the columns with rewards: those with metrics in TRL's log, else all numeric ones."""
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


def trl_batch(
    step: int, at: float, rows: Sequence[Mapping[str, Any]], names: Sequence[str], size: int
) -> GenerationBatch:
    """Build a batch from the rows of a file. `names` are columns with rewards, a `size` of 1 is unknown."""
    found = []
    for row in rows:
        rewards = {name: _reward(row.get(name)) for name in names}
        apart = {*OWN, *names}
        extra = {key: value for key, value in row.items() if key not in apart and value is not None}
        prompt = without_nothing(row["prompt"])
        found.append(
            Row(prompt_of(row), prompt, row["completion"], rewards, total(rewards.values()),
                row.get("advantage"), extra=extra)
        )  # fmt: skip
    return batch_of(step, at, found, names, TRL_EPSILON, size=size)


def prompt_of(row: Mapping[str, Any]) -> str:
    """Return a key that is equal for equal prompts."""
    return json.dumps(row["prompt"], sort_keys=True, default=str)


def size_in(rows: Sequence[Mapping[str, Any]], so_far: int) -> int:
    """Return the group size, from these rows and the size found so far (0 for none)."""
    return math.gcd(so_far, group_size(runs_of_equal([prompt_of(row) for row in rows])))


def weights_differ(
    rows: Sequence[Mapping[str, Any]], names: Sequence[str], logged: Mapping[str, Any]
) -> bool:
    """Return whether TRL's logged mean total differs from the plain sums, so that weights were used.

    Args:
        logged: Values logged at that step. A mean over more rows than these cannot be compared. It is
            recognized by the mean of a function.
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


VERL_ABSENT = ("tokens", "truncated")
VERL_REWARD = "score"
_OWN = ("input", "output", "score", "step", "gts", "uid", "request_id")


def read_verl(path: Path) -> tuple[list[dict[str, Any]], list[int]]:
    """Return the rows of a file; see `read_lines`."""
    return read_lines(path, {"input", "output"})


def read_lines(
    path: Path, keys: Set[str], below: Path | None = None
) -> tuple[list[dict[str, Any]], list[int]]:
    """Return the JSON objects with these keys of a file of lines, and the numbers, from 1, of broken lines.

    A last line without a line end is still being written and counts as neither.

    Raises:
        OSError: It cannot be read.
    """
    rows: list[dict[str, Any]] = []
    broken: list[int] = []
    lines = read_regular(path, below=below, largest=1 << 33).decode("utf-8-sig", "replace").split("\n")
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        if isinstance(row, dict) and row.keys() >= keys:
            rows.append(row)
        elif number < len(lines):
            broken.append(number)
    return rows, broken


def verl_batch(step: int, at: float, rows: Sequence[Mapping[str, Any]], folder: str) -> GenerationBatch:
    """Build a batch from the rows of a file of a folder, whose name `val…` means validation."""
    key = "uid" if all("uid" in row for row in rows) else "input"
    found = []
    for row in rows:
        score, output = row.get(VERL_REWARD), row["output"]
        rewards = {VERL_REWARD: as_float(score) if isinstance(score, int | float) else None}
        extra = {name: value for name, value in row.items() if name not in _OWN}
        found.append(
            Row(str(row[key]), str(row["input"]), "" if output is None else str(output), rewards,
                total(rewards.values()), columns={"gts": row["gts"]} if "gts" in row else {}, extra=extra)
        )  # fmt: skip
    mode: Mode = "eval" if folder.lower().startswith("val") else "train"
    return batch_of(step, at, found, (VERL_REWARD,), mode=mode)
