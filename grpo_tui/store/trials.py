"""What trial runs on this machine measured, in one small file of the cache, for the next plan.

A file that cannot be read counts as empty.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from grpo_tui.core.exchange import rebuilt
from grpo_tui.core.statistics import is_number
from grpo_tui.store.importers.copies import cache_folder
from grpo_tui.store.json_file import write_json

FILE = "trials.json"
MOST_KEPT = 200
STAGES = ("trial: ", "reload: ")
"""What begins a line that tells the stage of a trial, on stderr where that is no terminal."""


@dataclass(frozen=True, slots=True)
class TrialFigures:
    """What one trial measured.

    Attributes:
        model: the model as the config names it.
        kind: `lora` or `full`.
        machine: the GPU's name, or `cpu of HOST`.
        planned_bytes: peak of memory as planned, without any correction.
        measured_bytes: peak as measured.
        step_s: seconds of a step.
        completions: completions of a step.
        max_completion_length: the longest a completion could be.
        world_size: processes.
        device: `cuda` or `cpu`.
        use_vllm: whether vLLM generated.
        at: when, seconds since the epoch.
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
        """What a newer trial replaces."""
        return f"{self.model}|{self.kind}|{self.machine}"


def read_trials(folder: Path | None = None) -> tuple[TrialFigures, ...]:
    """Every trial that is kept, oldest first."""
    try:
        body = json.loads(((folder or cache_folder()) / FILE).read_text(encoding="utf-8"))
        found = [_read(entry) for entry in body.values()]
    except (OSError, ValueError, AttributeError, RecursionError):
        return ()
    return tuple(sorted((trial for trial in found if trial is not None), key=lambda trial: trial.at))


def keep_trial(trial: TrialFigures, folder: Path | None = None) -> Path:
    """Keep a trial in place of an earlier one of the same model on the same machine; returns the file.

    Raises:
        OSError: It cannot be written.
    """
    place = (folder or cache_folder()) / FILE
    place.parent.mkdir(parents=True, exist_ok=True)
    kept = {known.key: known for known in read_trials(folder)}
    kept.pop(trial.key, None)
    kept[trial.key] = trial
    newest = dict(list(kept.items())[-MOST_KEPT:])
    write_json(place, {key: asdict(value) for key, value in newest.items()}, indent=1)
    return place


def _read(entry: Any) -> TrialFigures | None:
    """One trial of the file, None when it is none."""
    try:
        trial = rebuilt(TrialFigures, entry)
    except ValueError:
        return None
    numbers = [value for value in asdict(trial).values() if not isinstance(value, str | bool)]
    return trial if all(map(is_number, numbers)) else None
