"""The screen can die in any way; the run does not notice, and the next screen shows it without a gap."""

from __future__ import annotations

from pathlib import Path

import pytest

from grpo_tui.store.layout import RunFolder
from grpo_tui.store.read_series import metric_rows
from grpo_tui.store.reader import RunReader
from tests.processes.runs import Screen, at_step, grpo_tui, start, state

pytestmark = pytest.mark.slow


def test_hang_up_and_kill_of_the_screen_leave_the_run_whole(run: Path) -> None:
    start(run, "max_steps=120")
    at_step(run, 1)

    watched = Screen("attach", run)
    watched.until("training")
    first = at_step(run, 5).step
    watched.hang_up()
    at_step(run, first + 5)

    watched = Screen("attach", run)
    watched.until("training")
    second = at_step(run, first + 10).step
    watched.kill()
    at_step(run, second + 5)

    watched = Screen("attach", run)
    watched.until("step")
    watched.type("q")
    watched.until("training goes on")
    watched.hang_up()

    assert state(run, "finished").step == 120
    reader = RunReader(RunFolder(run).database)
    assert [s for _, s, v in metric_rows(reader, limit=10_000) if "reward" in v] == list(range(1, 121))
    assert sorted({g.step for g in reader.iter_groups()}) == list(range(1, 121))
    assert reader.completion_count() == 120 * 16


def test_without_a_terminal_attach_follows_line_by_line(run: Path) -> None:
    start(run, "max_steps=3")
    done = grpo_tui("attach", run)
    assert [line.split()[1] for line in done.stdout.splitlines() if line.startswith("step")] == [
        "1",
        "2",
        "3",
    ]
    assert "first mean reward" in done.stdout
