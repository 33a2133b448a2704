"""What is told of a whole run, from its record."""

from __future__ import annotations

from pathlib import Path

import pytest

from grpo_tui.core import records as r
from grpo_tui.ship.run_facts import _duration
from grpo_tui.store.connection import open_writer
from grpo_tui.store.reader import RunReader
from grpo_tui.store.writer import Writer

FIRST = (r.AttemptStarted(1, 100.0, "here", 1), r.MetricRow(1, 1, 130.0, {"reward": 1.0}))
ENDED = r.AttemptEnded(1, 160.0, "failed", 1)
SECOND = (r.AttemptStarted(2, 500.0, "here", 1, 1, 4), r.MetricRow(2, 2, 507.0, {"reward": 1.0}))


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ((), None),
        (FIRST[:1], None),
        (FIRST, 30.0),
        ((*FIRST, ENDED), 60.0),
        ((*FIRST, ENDED, *SECOND), 67.0),
        ((*FIRST, *SECOND), 7.0),
        ((*FIRST, r.AttemptEnded(1, 40.0, "failed", 1)), None),
    ],
)
def test_the_time_of_a_run_is_that_of_its_attempts_and_none_between_them(
    written: tuple[r.Record, ...], seconds: float | None, tmp_path: Path
) -> None:
    writer = Writer(open_writer(tmp_path / "run.db"))
    writer.write(list(written))
    writer.close()
    assert _duration(RunReader(tmp_path / "run.db")) == seconds
