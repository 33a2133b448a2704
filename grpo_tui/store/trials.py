"""Measurements of trial runs on this machine, in a small cache file, for the next plan.

A file that cannot be read counts as empty.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from grpo_tui.core.exchange import rebuilt
from grpo_tui.core.statistics import is_number
from grpo_tui.store.json_file import write_json
from grpo_tui.store.layout import own_folder

FILE = "trials.json"
MOST_KEPT = 200
DRILLS = ("hung-reward", "kill", "full-disk", "nan")
DRILL_FACT = "drill"
"""Key of a fact: what a drill broke, and what became of it."""
STAGES = ("trial: ", "reload: ")
"""Prefixes of lines with the stage of a trial, on stderr when it is not a terminal."""


@dataclass(frozen=True, slots=True)
class TrialFigures:
    """Measurements of one trial.

    Attributes:
        kind: `lora` or `full`.
        machine: Name of the GPU, or `cpu of HOST`.
        planned_bytes: Planned peak memory, without any correction.
        at: Seconds since the epoch.
    """

    model: str
    kind: str
    machine: str
    planned_bytes: int
    measured_bytes: int
    step_s: float
    completions: int
    max_completion_length: int
    world_size: int = 1
    device: str = "cuda"
    use_vllm: bool = False
    at: float = 0.0

    @property
    def ratio(self) -> float:
        """Measured memory ÷ planned."""
        return self.measured_bytes / self.planned_bytes if self.planned_bytes > 0 else 1.0

    @property
    def key(self) -> str:
        """Identifies the earlier trial that a newer one replaces."""
        return f"{self.model}|{self.kind}|{self.machine}"


def read_trials(folder: Path | None = None) -> tuple[TrialFigures, ...]:
    """Return every stored trial, oldest first."""
    try:
        body = json.loads(((folder or own_folder("cache")) / FILE).read_text(encoding="utf-8"))
        found = [_read(entry) for entry in body.values()]
    except (OSError, ValueError, AttributeError, RecursionError):
        return ()
    return tuple(sorted((trial for trial in found if trial is not None), key=lambda trial: trial.at))


def keep_trial(trial: TrialFigures, folder: Path | None = None) -> Path:
    """Store a trial, replacing an earlier one of the same model and machine. Return the file.

    Raises:
        OSError: It cannot be written.
    """
    place = (folder or own_folder("cache")) / FILE
    place.parent.mkdir(parents=True, exist_ok=True)
    kept = {known.key: known for known in read_trials(folder)}
    kept.pop(trial.key, None)
    kept[trial.key] = trial
    newest = dict(list(kept.items())[-MOST_KEPT:])
    write_json(place, {key: asdict(value) for key, value in newest.items()}, indent=1)
    return place


def _read(entry: Any) -> TrialFigures | None:
    try:
        trial = rebuilt(TrialFigures, entry)
    except ValueError:
        return None
    numbers = [value for value in asdict(trial).values() if not isinstance(value, str | bool)]
    return trial if all(map(is_number, numbers)) else None
