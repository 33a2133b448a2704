"""Read what rlprobe, trackio and prime-rl recorded: metrics with TRL's names, completions, settings.

rlprobe writes `manifest.json`, `steps.parquet` (while it records: `steps/part-*.parquet`) and samples of the
completions in `samples/*.parquet`. trackio keeps all runs of a project in one SQLite file. prime-rl writes
`rollouts/step_N/train_rollouts.jsonl`, one line per rollout, and `metrics.jsonl` when asked to.

Every file is hostile: what is not a finite step or a number is left out, and nothing is executed.
"""

from __future__ import annotations

import json
import math
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from grpo_tui.core.exchange import mapping
from grpo_tui.core.records import GenerationBatch
from grpo_tui.core.text import one_line
from grpo_tui.store.connection import RunDatabaseError, open_other
from grpo_tui.store.importers.formats import Row, batch_of, read_lines, total
from grpo_tui.store.json_file import open_regular, read_object
from grpo_tui.store.rollouts import SAMPLED
from grpo_tui.store.values import as_float, from_json

LAST_STEP = 2**62
MOST_KEYS = 2_000
_NUMBERS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


@dataclass(slots=True)
class Recording:
    """A run as another tool recorded it.

    Attributes:
        absent: Fields of completions that are missing.
        settings: Settings of the run by TRL's names.
        broken: Place of the first line that cannot be read, by file.
    """

    rows: dict[int, dict[str, float]] = field(default_factory=lambda: defaultdict(dict))
    batches: list[GenerationBatch] = field(default_factory=list)
    names: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    notes: list[str] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)
    broken: dict[str, str] = field(default_factory=dict)
    keys: set[str] = field(default_factory=set)

    def add(self, by_step: Mapping[int, Sequence[Row]]) -> None:
        """Add the completions of each step."""
        rollouts = (row for rows in by_step.values() for row in rows)
        self.names = tuple(dict.fromkeys(name for row in rollouts for name in row.rewards))
        self.batches += [batch_of(step, 0.0, rows, self.names) for step, rows in sorted(by_step.items())]

    def log(self, step: Any, values: Iterable[tuple[str, Any]]) -> None:
        """Add the metrics of a step, without those that are not numbers."""
        number = _step(step)
        if number is None:
            return
        for key, value in values:
            known = _NUMBERS.get(value) if isinstance(value, str) else value
            if isinstance(known, bool) or not isinstance(known, int | float) or len(key) > 200:
                continue
            if key in self.keys or len(self.keys) < MOST_KEYS:
                self.keys.add(key)
                self.rows[number][key] = as_float(known)


def _step(value: Any) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return int(value) if 0 <= value <= LAST_STEP else None


def _value(value: Any) -> float | None:
    """Return a reward; None for anything that is not a number."""
    return None if isinstance(value, bool) or not isinstance(value, int | float) else as_float(value)


# -- rlprobe -------------------------------------------------------------------------------------

MANIFEST = "manifest.json"
_RLPROBE = {
    "reward_mean": "reward", "reward_std": "reward_std", "kl_mean": "kl", "entropy_mean": "entropy",
    "clip_fraction": "clip_ratio/region_mean", "grad_norm": "grad_norm", "lr": "learning_rate",
    "zero_variance_group_frac": "frac_reward_zero_std", "completion_len_mean": "completions/mean_length",
    "completion_len_max": "completions/max_length", "truncation_rate": "completions/clipped_ratio",
    "step_time_s": "step_time",
}  # fmt: skip
"""TRL's names of what rlprobe renames; `repetition_rate` and others keep theirs."""
_SETTINGS = {
    "beta": "beta", "learning_rate": "learning_rate", "lr": "learning_rate", "max_steps": "max_steps",
    "max_completion_length": "max_completion_length", "max_new_tokens": "max_completion_length",
    "importance_sampling_level": "importance_sampling_level",
}  # fmt: skip


def is_rlprobe(folder: Path) -> bool:
    """Return whether a folder is a recording of rlprobe."""
    if not ((folder / "steps.parquet").is_file() or (folder / "steps").is_dir()):
        return False
    found = read_object(folder / MANIFEST) or {}
    return found.keys() >= {"schema_version", "run_id", "algorithm"}


def rlprobe_files(folder: Path) -> list[Path]:
    """Return the files of a recording: the steps, then the samples."""
    whole = folder / "steps.parquet"
    steps = [whole] if whole.is_file() else sorted((folder / "steps").glob("part-*.parquet"))
    return [*steps, *sorted((folder / "samples").glob("*.parquet"))]


def read_rlprobe(folder: Path) -> Recording:
    """Read a recording of rlprobe.

    Raises:
        ImportError: pyarrow is not installed.
        OSError, ValueError: It cannot be read.
    """
    manifest = read_object(folder / MANIFEST) or {}
    found = Recording(absent=("column",), settings=settings_in(manifest.get("trainer_config")))
    samples: dict[int, list[Row]] = defaultdict(list)
    whole = True
    for path in rlprobe_files(folder):
        rows = _parquet(path)
        for row in rows:
            step = _step(row.get("step"))
            if path.parent.name != "samples":
                found.log(step, _rlprobe_metrics(row))
            elif step is not None:
                samples[step].append(_sample(row))
                whole = whole and row.get("capture_reason") == "all"
    found.add(samples)
    if not whole:
        found.absent = ("column", SAMPLED)
        found.notes.append("rlprobe kept a selection of the completions, so groups are not judged")
    return found


def _parquet(path: Path) -> list[dict[str, Any]]:
    import pyarrow
    import pyarrow.parquet

    try:
        with open_regular(path) as file:
            return pyarrow.parquet.read_table(file).to_pylist()
    except pyarrow.ArrowException as error:
        raise ValueError(f"{path.name}: {error}") from error


def _rlprobe_metrics(row: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    lost = [row.get(key) for key in ("nan_count", "inf_count")]
    for key, value in row.items():
        kind, _, name = key.partition(".")
        if kind == "reward_component":
            yield f"rewards/{name}/mean", value
        elif kind == "extra" and name:
            yield name.replace(".", "/"), value
        elif key not in ("step", "rank", "timestamp", "grad_norm"):
            yield _RLPROBE.get(key, key), value
    gradient = (
        math.nan if any(isinstance(one, int | float) and one > 0 for one in lost) else row.get("grad_norm")
    )
    yield "grad_norm", gradient


def settings_in(config: Any) -> dict[str, Any]:
    """Return the settings that rules use, from a trainer's config with TRL's names or rlprobe's."""
    if not isinstance(config, Mapping):
        return {}
    named = {_SETTINGS[key]: config[key] for key in _SETTINGS if key in config}
    return {key: value for key, value in named.items() if isinstance(value, int | float | str)}


def _sample(row: Mapping[str, Any]) -> Row:
    parts = {key.partition("."): _value(value) for key, value in row.items()}
    return Row(
        _key(row, "group_id", "prompt_text"), str(row.get("prompt_text") or ""), row.get("completion_text"),
        {name: value for (kind, _, name), value in parts.items() if kind == "reward_component"},
        _value(row.get("reward_total")), _value(row.get("advantage")), _step(row.get("completion_len")) or 0,
        row.get("truncated") is True, {}, {"capture_reason": row.get("capture_reason")},
    )  # fmt: skip


def _key(row: Mapping[str, Any], *names: str) -> str:
    found = next((row[name] for name in names if row.get(name) is not None), "")
    return found if isinstance(found, str) else json.dumps(found, sort_keys=True, default=str)


# -- trackio -------------------------------------------------------------------------------------


def trackio_runs(path: Path) -> list[str] | None:
    """Return the names of the runs in a project file of trackio; None if it is not one."""
    if path.suffix != ".db" or not path.is_file():
        return None
    rows = _of_trackio(path, "SELECT DISTINCT run_name FROM metrics")
    return None if rows is None else [row[0] for row in rows]


def _of_trackio(path: Path, query: str, *values: str) -> list[sqlite3.Row] | None:
    try:
        with closing(open_other(path)) as db:
            return db.execute(query, values).fetchall()
    except (sqlite3.Error, RunDatabaseError, OSError):
        return None


def read_trackio(path: Path, run: str | None) -> Recording:
    """Read one run of a project file, the only one if it is not named.

    Raises:
        ValueError: There is no such run, or it has to be named.
    """
    names = trackio_runs(path) or []
    if run is None and len(names) != 1:
        told = ", ".join(one_line(str(one), 40) for one in sorted(map(str, names))[:8])
        raise ValueError(f"it holds {len(names)} runs: {told}. Name one, such as {path.name}/RUN")
    name = names[0] if run is None else run
    if name not in names:
        raise ValueError(f"it holds no run {one_line(name, 40)}")
    found = Recording()
    of_run = "WHERE run_name = ? ORDER BY id"
    for row in _of_trackio(path, f"SELECT step, metrics FROM metrics {of_run}", name) or ():
        values = from_json(row["metrics"], dict) or {}
        step = values.get("train/global_step", row["step"])
        found.log(step, ((_trl_key(str(key)), value) for key, value in values.items()))
    for row in _of_trackio(path, f"SELECT config FROM configs {of_run}", name) or ():
        found.settings |= settings_in(from_json(row["config"], dict))
    return found


def _trl_key(key: str) -> str:
    """Return TRL's name for a metric, which its report to trackio prefixes."""
    kind, slash, rest = key.partition("/")
    return rest if slash and kind == "train" else f"eval_{rest}" if slash and kind == "eval" else key


# -- prime-rl ------------------------------------------------------------------------------------

ROLLOUTS = "train_rollouts.jsonl"
_PRIME = {
    **{f"{name}{part}/mean": ours for name, ours in (
        ("reward", "reward"), ("entropy", "entropy"), ("completion_len", "completions/mean_length"),
        ("decode_len", "completions/mean_length"), ("is_truncated", "completions/clipped_ratio"),
    ) for part in ("", "/all")},
    "optim/grad_norm": "grad_norm", "optim/lr": "learning_rate", "time/step": "step_time",
}  # fmt: skip


def prime_steps(folder: Path) -> list[tuple[int, Path]]:
    """Return step and file of the rollouts in a run folder of prime-rl, by step."""
    found = []
    for path in (folder / "rollouts").glob(f"step_*/{ROLLOUTS}"):
        number = path.parent.name.removeprefix("step_")
        if number.isdecimal() and int(number) <= LAST_STEP and path.is_file() and not path.is_symlink():
            found.append((int(number), path))
    return sorted(found)


def prime_metrics(folder: Path) -> list[Path]:
    """Return the files with metrics of a run folder and of its parts."""
    return sorted([*folder.glob("metrics.jsonl"), *folder.glob("*/metrics.jsonl")])


def read_prime(folder: Path) -> Recording:
    """Read the rollouts and metrics of a run of prime-rl.

    Raises:
        OSError: A file cannot be read.
    """
    found = Recording(absent=("tokens",))
    for path in prime_metrics(folder):
        for row in read_lines(path, {"step"}, folder)[0]:
            found.log(
                row["step"], ((_PRIME.get(key, key), value) for key, value in row.items() if key != "step")
            )
    steps: dict[int, list[Row]] = {}
    for step, path in prime_steps(folder):
        rows, broken = read_lines(path, set(), folder)
        steps[step] = [one for one in map(_rollout, rows) if one is not None]
        if broken or len(steps[step]) < len(rows):
            where = f"line {broken[0]} of" if broken else f"{len(rows) - len(steps[step])} lines of"
            found.broken[str(path)] = f"{where} {path.parent.name}/{path.name}"
    found.add(steps)
    return found


def _rollout(row: Mapping[str, Any]) -> Row | None:
    """Read a line: the output of a rollout, or the trace that newer versions write; None for neither."""
    task, rewards = row, {"reward": _value(row.get("reward"))}
    prompt, completion, key = row.get("prompt"), row.get("completion"), _key(row, "example_id", "prompt")
    truncated = row.get("is_truncated") is True
    if completion is None:
        messages = _branch(row.get("nodes"))
        start = next((place for place, (own, _) in enumerate(messages) if own), None)
        if start is None:
            return None
        prompt, completion = ([one for _, one in part] for part in (messages[:start], messages[start:]))
        key, task = (
            _key(mapping(row.get("task")), "key", "hash", "data"),
            mapping(mapping(row.get("task")).get("data")),
        )
        rewards = {str(name): _weighed(mapping(one)) for name, one in mapping(row.get("rewards")).items()}
        truncated = "trunc" in str(row.get("stop_condition"))
    columns = {"answer": task["answer"]} if task.get("answer") is not None else {}
    return Row(
        key, prompt, completion, rewards, total(list(rewards.values())), None, 0, truncated, columns,
        mapping(row.get("metrics")),
    )  # fmt: skip


def _weighed(reward: Mapping[str, Any]) -> float | None:
    score, weight = _value(reward.get("score")), _value(reward.get("weight", 1.0))
    return None if score is None or weight is None else score * weight


def _branch(nodes: Any) -> list[tuple[bool, dict[str, Any]]]:
    """Return the messages from the root to the last one, each with whether the model wrote it."""
    nodes = nodes if isinstance(nodes, list) else []
    place: Any = len(nodes) - 1
    found: list[tuple[bool, dict[str, Any]]] = []
    while isinstance(place, int) and 0 <= place < len(nodes):
        node = mapping(nodes[place])
        message = mapping(node.get("message"))
        if message:
            found.append((node.get("sampled") is True, dict(message)))
        parent = node.get("parent")
        place = parent if isinstance(parent, int) and parent < place else None
    return found[::-1]
