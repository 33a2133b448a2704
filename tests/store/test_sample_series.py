"""The course of a metric in a few numbers, whatever the length of the run."""

from __future__ import annotations

import math
from pathlib import Path

from grpo_tui.core import records as r
from grpo_tui.store.connection import open_writer
from grpo_tui.store.read_series import sample_series
from grpo_tui.store.reader import RunReader
from grpo_tui.store.writer import Writer


def run_of(path: Path, values: list[float | None]) -> RunReader:
    writer = Writer(open_writer(path))
    writer.write([r.MetricRow(1, step, 0.0, {"reward": v, "loss": 0.0}) for step, v in enumerate(values, 1)])
    writer.close()
    return RunReader(path)


def test_a_short_run_comes_whole(tmp_path: Path) -> None:
    reader = run_of(tmp_path / "run.db", [1.0, None, math.inf, 4.0])
    assert [v for lot in sample_series(reader, "reward", 4) for v in lot] == [1.0, None, math.inf, 4.0]
    assert sample_series(reader, "reward", 2) == [[1.0, None], [math.inf, 4.0]]


def test_a_long_run_is_looked_up_at_its_places_and_ends_with_its_newest_value(tmp_path: Path) -> None:
    reader = run_of(tmp_path / "run.db", [float(i) for i in range(10_000)])
    lots = sample_series(reader, "reward", 11, 4)
    assert [len(lot) for lot in lots] == [4] * 11
    assert [lot[0] for lot in lots[:-1]] == [float(i * 1000) for i in range(10)]
    assert lots[-1][-1] == 9999.0


def test_a_metric_that_was_never_logged_has_no_course(tmp_path: Path) -> None:
    reader = run_of(tmp_path / "run.db", [1.0])
    assert sample_series(reader, "kl") == []
