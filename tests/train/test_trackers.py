"""Trackers go on working beside the record: TensorBoard's values equal those in run.db."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from grpo_tui.store.layout import RunFolder
from grpo_tui.store.read_series import metric_keys, read_points
from grpo_tui.store.reader import RunReader
from tests.train.tiny import run_recorded

pytestmark = pytest.mark.slow


def test_tensorboards_values_equal_the_recorded_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    monkeypatch.setenv("TENSORBOARD_LOGGING_DIR", str(tmp_path / "tensorboard"))
    run_recorded(tmp_path / "run", report_to="tensorboard", max_steps=3)
    events = EventAccumulator(str(tmp_path / "tensorboard"), size_guidance={"scalars": 0})
    events.Reload()
    reader = RunReader(RunFolder(tmp_path / "run").database)
    recorded = {key: read_points(reader, key) for key in metric_keys(reader)}
    tags = [tag for tag in events.Tags()["scalars"] if tag.startswith("train/")]
    assert "train/reward" in tags
    assert "train/rewards/correctness/mean" in tags
    compared = 0
    for tag in tags:
        for event in events.Scalars(tag):
            key = tag.removeprefix("train/")
            values = [p.value for p in recorded[key] if p.step == event.step]
            assert any(math.isclose(event.value, v, rel_tol=1e-6, abs_tol=1e-9) for v in values), (tag, event)
            compared += 1
    assert compared >= 3 * 15
