"""What several runs have in common and where their settings differ, for charts laid over each other.

Knows the configs as recorded and the keys that were logged; all texts are safe to show.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grpo_tui.core.text import one_line
from grpo_tui.present.charts import chart_keys
from grpo_tui.present.formatting import MISSING, setting
from grpo_tui.store.connection import RunDatabaseError
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.reader import RunReader

FIRST = ("model", "learning_rate", "beta", "num_generations", "temperature", "rewards", "dataset")
"""Settings that a person looks at first."""
_PLACES = frozenset({"output_dir", "run_name", "logging_dir"})
"""Differ for every run and say nothing about it."""


@dataclass(frozen=True, slots=True)
class SettingRow:
    """One setting with its value in each run."""

    name: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OverlayFacts:
    """The metrics of the runs and the settings in which they differ."""

    keys: tuple[str, ...]
    """Metrics of any of the runs, those that all of them have first."""
    settings: tuple[SettingRow, ...]
    same: int = 0
    """How many settings are the same in all."""


def read_overlay(folders: Sequence[Path]) -> OverlayFacts:
    """Look into each run once; one that cannot be read has no settings and no metrics."""
    keys: list[list[str]] = []
    configs: list[dict[str, str]] = []
    for folder in folders:
        found, config = _one(folder)
        keys.append(chart_keys(found))
        configs.append(_flat(config))
    every = [key for mine in keys for key in mine]
    ordered = chart_keys(dict.fromkeys(every))
    shared = {key for key in ordered if all(key in mine for mine in keys if mine)}
    rows, same = _different(configs)
    return OverlayFacts(tuple(sorted(ordered, key=lambda k: k not in shared)), rows, same)


def _one(folder: Path) -> tuple[list[str], Any]:
    try:
        reader = RunReader(RunFolder(folder).database)
    except (RunDatabaseError, OSError):
        return [], None
    try:
        return reader.metric_keys(), reader.fact("config")
    except Exception:  # what cannot be read is shown as unknown
        return [], None
    finally:
        reader.close()


def _flat(config: Any) -> dict[str, str]:
    """The settings of a recorded config, spelled: TRL's own, the model's, and what the section says."""
    if not isinstance(config, Mapping):
        return {}
    values: dict[str, Any] = {}
    for part in ("model_args", "script", "grpo"):
        if isinstance(config.get(part), Mapping):
            values |= config[part]
    section = config.get("section")
    if isinstance(section, Mapping):
        values |= {k: v for k, v in section.items() if k != "rewards"}
        rewards = section.get("rewards")
        if isinstance(rewards, list):
            values["rewards"] = ", ".join(
                f"{r.get('name')} × {setting(r.get('weight'))}" for r in rewards if isinstance(r, Mapping)
            )
    values["model"] = config.get("model")
    values.pop("model_name_or_path", None)
    return {str(k): one_line(setting(v), 80) for k, v in values.items() if k not in _PLACES and v is not None}


def _different(configs: Sequence[Mapping[str, str]]) -> tuple[tuple[SettingRow, ...], int]:
    names = list(dict.fromkeys([*FIRST, *(name for config in configs for name in config)]))
    rows, same = [], 0
    for name in names:
        values = [config.get(name, MISSING) for config in configs]
        if len(set(values)) > 1:
            rows.append(SettingRow(one_line(name, 40), tuple(values)))
        elif values and values[0] != MISSING:
            same += 1
    return tuple(rows), same
