"""A run that SIGTERM to its supervisor has stopped goes on by two keys in the list of runs, and is shown."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from grpo_tui.store.layout import RunFolder
from grpo_tui.store.live import read_heartbeat
from grpo_tui.store.reader import RunReader
from tests.processes.runs import Screen, at_step, start, state

pytestmark = pytest.mark.slow


def test_sigterm_saves_and_two_keys_resume_the_run_and_open_it(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start(run, "max_steps=4000")
    at_step(run, 2)
    heartbeat = read_heartbeat(RunFolder(run).heartbeat)
    assert heartbeat is not None
    os.kill(heartbeat.supervisor, signal.SIGHUP)  # which does nothing
    os.kill(heartbeat.supervisor, signal.SIGTERM)
    ended = state(run, "stopped")
    stopped = ended.step
    assert [c.step for c in ended.checkpoints if c.complete] == [stopped]
    (asked, outcome) = RunReader(RunFolder(run).database).commands()[0]
    assert (asked.kind, asked.by) == ("stop", "SIGTERM")
    assert outcome is not None
    assert outcome.applied

    monkeypatch.chdir(run.parent)
    screen = Screen(columns=120, lines=40)
    screen.until("stopped")
    screen.type("R")
    screen.until(f"checkpoint-{stopped}, saved")
    screen.type("y")
    status = at_step(run, stopped + 1)
    assert status.attempt == 2
    screen.until("newest group")
    screen.type("q")
    screen.until("training continues")
    screen.hang_up()
    assert state(run, "training", "finished").step > stopped
