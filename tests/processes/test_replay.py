"""A replayed step of a real run shows what was recorded when the run was really there."""

from __future__ import annotations

import shutil
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from grpo_tui.core.records import SettingChanged
from grpo_tui.present.replay import start_replay
from grpo_tui.present.run_state import DeltaReader, RunState
from grpo_tui.present.train_view import TrainView
from grpo_tui.store.connection import open_reader
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.reader import RunReader
from grpo_tui.store.replay import end
from grpo_tui.store.status import Status, read_status
from tests.processes.runs import at_step, command, left, start, state, until

pytestmark = pytest.mark.slow


def look(root: Path, held: Status | None = None) -> tuple[TrainView, Status]:
    """The view of a run and its status, which may have been read before."""
    with closing(RunReader(RunFolder(root).database)) as reader:
        folded, deltas, more = RunState("run", "run"), DeltaReader(reader), True
        while more:
            delta = deltas.read()
            folded.fold(delta)
            more = delta.more
        status = held or read_status(root, reader)
    return folded.view(status, 0.0), status


def recorded_settings(root: Path) -> list[SettingChanged]:
    with closing(RunReader(RunFolder(root).database)) as reader:
        return list(reader.settings())


def test_the_state_of_a_real_run_at_a_step_is_the_one_that_was_read_there(run: Path, tmp_path: Path) -> None:
    start(run, "save_steps=2")
    at_step(run, 3)
    command(run, "pause")
    step = state(run, "paused").step
    command(run, "set", "reward_weights=[3,1,1]")
    until(lambda: recorded_settings(run), "the record of the setting")
    held = state(run, "paused")
    copy = tmp_path / "copy"
    copy.mkdir()
    with closing(open_reader(RunFolder(run).database)) as source:
        source.execute("VACUUM INTO ?", (str(copy / "run.db"),))
    command(run, "resume")
    at_step(run, step + 1)
    command(run, "stop")
    state(run, "stopped")
    left(run)
    shutil.rmtree(run / "commands")
    replayed = start_replay(run, step)
    try:
        then, status = look(run)
        real, _ = look(copy, held)
        assert replayed.steps[replayed.place] == step
        assert status.metrics == held.metrics
        assert [one.step for one in status.checkpoints] == [one.step for one in held.checkpoints]
        assert (status.step, status.total_steps, status.attempt) == (step, 4000, 1)
        assert then.charts == real.charts
        for name in ("groups", "functions", "settings", "findings", "reward", "reward_change", "metric_rows"):
            assert getattr(then, name) == getattr(real, name), name
        assert then.settings["reward_weights"] == [3, 1, 1]
        assert any("reward_weights" in event.text for event in then.events), "set after the step"
        replayed.go(replayed.place - 1)
        assert look(run)[0].settings["reward_weights"] != [3, 1, 1]
    finally:
        end(RunFolder(run).database)
    assert replace(look(run)[1], alerts=()).state == "stopped"
