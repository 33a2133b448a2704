"""What a card and a report say of the rewards of a run."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from grpo_tui.core import records as r
from grpo_tui.present.run_rewards import read_rewards
from grpo_tui.store.reader import RunReader
from tests.ui.recorded_run import RecordedRun


@pytest.mark.parametrize(("steps", "averaged"), [(1, 1), (2, 1), (7, 3), (20, 10), (100, 10)])
def test_start_and_end_are_means_of_equally_many_steps_of_which_none_is_in_both(
    steps: int, averaged: int, tmp_path: Path
) -> None:
    run = RecordedRun(tmp_path)
    for step in range(1, steps + 1):
        values = {"reward": float(step), "rewards/gone/mean": -float(step), "loss": 0.0}
        run.write(r.MetricRow(1, step, run.at(step), values))
    run.close()
    with closing(RunReader(run.folder.database)) as reader:
        found, rewards = read_rewards(reader)
    start, end = (1 + averaged) / 2, steps - (averaged - 1) / 2
    assert found == averaged
    # A function that gave no value is left out, and one of which only values are left has no weight.
    told = [(one.name, one.weight, one.start, one.end) for one in rewards]
    assert told == [("gone", None, -start, -end), ("total", None, start, end)]
