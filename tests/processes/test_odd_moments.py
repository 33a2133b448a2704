"""Two starts at once, and a run folder that vanishes or is renamed under a live run."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from grpo_tui.demo import DEMO_CONFIG
from grpo_tui.store.checkpoints import judge
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.live import read_heartbeat, read_rank
from grpo_tui.store.mailbox import Mailbox
from grpo_tui.store.reader import RunReader
from grpo_tui.store.status import read_status
from tests import PATIENCE_S
from tests.family import gone
from tests.processes.runs import LIVING, Screen, at_step, command, end, state, until

pytestmark = pytest.mark.slow


def _train(run: Path, how: str) -> list[str]:
    """The command that starts a long run."""
    settings = [word for pair in LIVING for word in ("--set", pair)]
    program = [sys.executable, "-m", "grpo_tui", "train"]
    return [*program, str(DEMO_CONFIG), "--run-dir", str(run), how, "--quick-check", *settings]


def test_of_two_starts_at_the_same_moment_one_wins_and_outlives_its_folder(run: Path) -> None:
    words = _train(run, "--detach")
    starts = [
        subprocess.Popen(words, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        for _ in range(2)
    ]
    told = [process.communicate(timeout=PATIENCE_S)[1] for process in starts]
    assert sorted(process.returncode for process in starts) == [0, 2], told
    refused = next(text for process, text in zip(starts, told, strict=True) if process.returncode == 2)
    assert "another run is training in this folder" in refused or "a run is training in" in refused
    at_step(run, 2)
    _trains_on_and_can_be_stopped_when_its_folder_is_deleted(run)


def _trains_on_and_can_be_stopped_when_its_folder_is_deleted(run: Path) -> None:
    folder = RunFolder(run)
    rank, heartbeat = read_rank(folder.rank(0)), read_heartbeat(folder.heartbeat)
    assert rank is not None
    assert heartbeat is not None
    trainer, supervisor = psutil.Process(rank.pid), psutil.Process(heartbeat.supervisor)
    for process in (supervisor, trainer):  # a file that comes or goes meanwhile would end the deleting
        process.suspend()
    shutil.rmtree(run)
    run.mkdir()
    for process in (trainer, supervisor):
        process.resume()
    Mailbox(folder.commands).submit("stop_now", by="somebody else, who has made a folder under this name")
    before = sorted(path.name for path in run.rglob("*"))
    used = trainer.cpu_times().user
    time.sleep(4)  # longer than a stop at once takes, which this folder's asks for
    assert not gone(trainer)
    until(lambda: trainer.cpu_times().user > used + 0.5, "its going on to compute")
    os.kill(rank.pid, signal.SIGTERM)
    until(lambda: gone(trainer), "the end of the trainer")
    until(lambda: gone(supervisor), "the end of the supervisor")
    assert sorted(path.name for path in run.rglob("*")) == before, "another's folder is left alone"
    rescued = run.with_name(f"{run.name}.rescued")
    (saved,) = rescued.glob("checkpoint-*")
    assert judge(saved).usable


def test_a_renamed_folder_is_followed_by_the_run_and_who_prints_it_and_two_keys_resume_it_there(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    followed = subprocess.Popen(
        _train(run, "--headless"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    at_step(run, 1)
    renamed = run.with_name("renamed")
    run.rename(renamed)
    try:
        saved = command(renamed, "checkpoint")
        assert saved["result"]["path"] == str(renamed / f"checkpoint-{saved['step']}")
        at_step(renamed, saved["step"] + 2)
        assert read_status(renamed).supervised
        said_by_its_supervisor = f"the run folder is now {renamed}"
        until(lambda: said_by_its_supervisor in (renamed / "train.log").read_text(), "the supervisor's word")
        stopped = _is_saved_and_stopped_by_sigterm(renamed)
        output, said = followed.communicate(timeout=PATIENCE_S)
        assert followed.returncode == 3
        assert f"the run folder is {renamed} now" in said
        assert f"stopped at step {stopped}; {renamed}" in output
        assert not run.exists()
        monkeypatch.chdir(run.parent)
        _goes_on_by_two_keys_in_the_list_of_runs(renamed, stopped)
    finally:
        end(renamed)


def _is_saved_and_stopped_by_sigterm(run: Path) -> int:
    heartbeat = read_heartbeat(RunFolder(run).heartbeat)
    assert heartbeat is not None
    os.kill(heartbeat.supervisor, signal.SIGHUP)  # which does nothing
    os.kill(heartbeat.supervisor, signal.SIGTERM)
    ended = state(run, "stopped")
    assert ended.step in [c.step for c in ended.checkpoints if c.complete]
    asked, outcome = RunReader(RunFolder(run).database).commands()[-1]
    assert (asked.kind, asked.by) == ("stop", "SIGTERM")
    assert outcome is not None
    assert outcome.applied
    return ended.step


def _goes_on_by_two_keys_in_the_list_of_runs(run: Path, stopped: int) -> None:
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
