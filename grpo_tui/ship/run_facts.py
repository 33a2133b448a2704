"""Read what a run's record offers for its model card and for a report: data, rewards, changes, results.

Only reads. What was not recorded is None or empty. Config values may have any type, because a run folder can
come from anyone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grpo_tui.config.fields import all_fields
from grpo_tui.config.trl_fields import FieldsUnavailableError, NoDefault
from grpo_tui.core.evaluations import FACT as EVALUATIONS
from grpo_tui.core.evaluations import Evaluations
from grpo_tui.core.exchange import mapping
from grpo_tui.core.records import SettingChanged
from grpo_tui.core.statistics import mean
from grpo_tui.present.evaluation_text import verdict
from grpo_tui.present.formatting import setting
from grpo_tui.present.run_findings import RunFinding, read_findings
from grpo_tui.present.run_rewards import TOTAL, Reward, function_of, read_rewards, series_of
from grpo_tui.present.window_load import settings_of
from grpo_tui.store.comparisons import newest_result
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.read_series import metric_keys, step_range
from grpo_tui.store.reader import RunReader
from grpo_tui.store.rollouts import IMPORTED
from grpo_tui.store.status import Status, final_step, read_status

_DATA = frozenset(
    {"model", "dataset_name", "dataset_config", "dataset_train_split", "reward_funcs", "reward_weights"}
)
"""Settings shown elsewhere, not in the list of settings."""


@dataclass(frozen=True, slots=True)
class Measured:
    """First and last value of something measured several times, each with its step."""

    name: str
    first_step: int
    first: float
    last_step: int
    last: float


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What is known about a run.

    Attributes:
        imported: `trl` or `verl` for imported logs, empty for a recorded run.
        record: Versions, seed, GPUs and rows, as recorded.
        rewards: The functions in TRL's order, and the total.
        averaged: Number of logged steps that `start` and `end` of a reward are averaged over.
        settings: Those that differ from TRL's defaults; all recorded ones if TRL is not installed.
        comparison: Newest finished comparison, as `compare --json` prints it.
        evaluated: What the evaluations made while training show, as a sentence; empty without any.
        scored: These evaluations; None without any.
        evaluations: Rewards on the evaluation rows and on probe prompts.
        duration_s: Total of all attempts, without the time in between.
        chat: Whether prompts are lists of messages; None without any.
    """

    name: str
    root: Path
    status: Status
    imported: str
    config: Mapping[str, Any]
    record: Mapping[str, Any]
    rewards: tuple[Reward, ...]
    averaged: int
    settings: tuple[tuple[str, str], ...]
    changes: tuple[SettingChanged, ...]
    findings: tuple[RunFinding, ...]
    comparison: Mapping[str, Any] | None
    evaluated: str
    scored: Evaluations | None
    evaluations: tuple[Measured, ...]
    duration_s: float | None
    chat: bool | None
    final: bool

    def part(self, name: str) -> Mapping[str, Any]:
        """Return a part of the config: `grpo`, `script`, `model_args`, `section`."""
        return mapping(self.config.get(name))


def read_facts(root: Path, name: str) -> RunFacts:
    """Read a run folder, which may be a copy of logs from TRL or verl.

    Raises:
        RunDatabaseError: It holds no run, or its record is damaged.
    """
    with closing(RunReader(RunFolder(root).database)) as reader:
        status = read_status(root, reader)
        config = mapping(reader.fact("config"))
        imported = str(mapping(reader.fact(IMPORTED)).get("kind") or "")
        averaged, rewards = read_rewards(reader)
        first = reader.groups(mode="train", limit=1)
        evaluated = Evaluations.from_json(reader.fact(EVALUATIONS))
        return RunFacts(
            name=name,
            root=root,
            status=status,
            imported=imported,
            config=config,
            record=mapping(reader.fact("reproduction")),
            rewards=rewards,
            averaged=averaged,
            settings=_settings(config),
            changes=tuple(reader.lasting_settings()),
            findings=read_findings(root, reader),
            comparison=newest_result(root),
            evaluated=verdict(evaluated)[1] if evaluated is not None else "",
            scored=evaluated,
            evaluations=(*_evaluations(reader), *(() if evaluated is not None else _probes(reader))),
            duration_s=None if imported else _duration(reader),
            chat=isinstance(first[0].prompt, list) if first else None,
            final=final_step(root, status) is not None,
        )


def _settings(config: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return TRL's settings that differ from their defaults, without tokens and those in `_DATA`."""
    try:
        fields = all_fields()
    except FieldsUnavailableError:
        fields = {}
    spelled = {
        name: setting(field.default)
        for name, field in fields.items()
        if not isinstance(field.default, NoDefault)
    }
    parts = {name: config.get(name) for name in ("grpo", "model_args", "script")}
    return tuple(
        (name, at_home(value))
        for name, value in settings_of(parts)
        if value != spelled.get(name) and name not in _DATA and not name.endswith("_token")
    )


def at_home(value: str) -> str:
    """Return the last part of a path: a location on this machine means nothing elsewhere."""
    return Path(value).name if value.startswith(("/", "~")) else value


def _evaluations(reader: RunReader) -> Iterator[Measured]:
    for key in metric_keys(reader):
        name = key.removeprefix("eval_")
        if name == key or not (name == TOTAL or (name.startswith("rewards/") and name.endswith("/mean"))):
            continue
        points = [bucket for bucket in series_of(reader, key).buckets if bucket.mean is not None]
        if points and points[0].mean is not None and points[-1].mean is not None:
            yield Measured(
                function_of(name), points[0].first, points[0].mean, points[-1].last, points[-1].mean
            )


def _probes(reader: RunReader) -> Iterator[Measured]:
    ends = []
    for newest in (False, True):
        groups = reader.groups(mode="probe", newest_first=newest, limit=200)
        step = groups[0].step if groups else 0
        means = [group.mean for group in groups if group.step == step and group.mean is not None]
        ends.append((step, mean(means)))
    (first_step, first), (last_step, last) = ends
    if first is not None and last is not None:
        yield Measured("probe prompts", first_step, first, last_step, last)


def _duration(reader: RunReader) -> float | None:
    """Return the seconds of all attempts. If the last has no end, it lasted until its last logged step."""
    attempts, logged = reader.attempts(), step_range(reader)
    total = 0.0
    for number, one in enumerate(attempts, 1):
        end = one.ended_at
        if end is None and number == len(attempts) and logged is not None:
            end = logged.newest_at
        total += max(0.0, end - one.started_at) if end is not None else 0.0
    return total or None
