"""A run that was stopped goes on by two keys in the list of runs, and is shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.processes.runs import Screen, at_step, command, start, state

pytestmark = pytest.mark.slow


def test_two_keys_resume_a_stopped_run_and_open_it(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start(run, "max_steps=400")
    at_step(run, 2)
    command(run, "stop")
    stopped = state(run, "stopped").step
    monkeypatch.chdir(run.parent)
    screen = Screen(columns=120, lines=40)
    screen.until("stopped")
    screen.type("r")
    screen.until(f"checkpoint-{stopped}, saved")
    screen.type("y")
    status = at_step(run, stopped + 1)
    assert status.attempt == 2
    screen.until("newest group")
    screen.type("q")
    screen.until("training goes on")
    screen.hang_up()
    assert state(run, "training", "finished").step > stopped
