"""Files of rewards and samples for the lab."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from grpo_tui.rewards.lab import Lab
from grpo_tui.rewards.samples import Sample
from grpo_tui.rewards.scoring import Dataset, Report, ScoreOptions, config_of_functions, report


def write(folder: Path, text: str, name: str = "rewards.py") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def scored(lab: Lab, file: Path, names: Sequence[str], samples: Sequence[Sample], **options: Any) -> Report:
    """Load functions of a file and score samples, as `grpo-tui score FILE:NAME … --samples` does."""
    dataset: Dataset | None = options.pop("dataset", None)
    lab.load(config_of_functions([f"{file}:{name}" for name in names]))
    return report(lab, samples, dataset, ScoreOptions(**options))


def rows(*entries: tuple[str, str], **columns: str) -> list[Sample]:
    """Samples from (prompt, completion), all with the same further columns."""
    return [Sample(prompt, completion, columns) for prompt, completion in entries]
