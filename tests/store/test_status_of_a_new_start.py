"""A run that is started again right after its end is starting, not ended."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from grpo_tui.cli.headless import _standstill
from grpo_tui.core.records import AttemptEnded, AttemptStarted
from grpo_tui.store import status
from grpo_tui.store.connection import open_writer
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.live import RankFile, read_rank, write_heartbeat
from grpo_tui.store.status import read_status
from grpo_tui.store.writer import Writer


def _ended_run(root: Path, ended_at: float) -> RunFolder:
    folder = RunFolder(root)
    writer = Writer(open_writer(folder.database))
    writer.write(
        [
            AttemptStarted(1, ended_at - 60, "here", 1, None),
            AttemptEnded(1, ended_at, "crashed", 3, -9, {"message": "killed"}),
        ]
    )
    writer.close()
    return folder


def test_a_supervisor_started_in_the_second_of_the_end_counts_as_a_new_start(tmp_path: Path) -> None:
    folder = _ended_run(tmp_path, time.time())
    supervisor = subprocess.Popen(["sleep", "600"])
    try:
        write_heartbeat(folder.heartbeat, supervisor.pid, None)
        assert read_status(tmp_path).state == "starting"
    finally:
        supervisor.kill()
        supervisor.wait()
    assert read_status(tmp_path).state == "crashed"


def test_the_total_is_that_of_the_newest_attempt_that_knows_it(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    writer = Writer(open_writer(folder.database))
    now, found = time.time(), []
    for attempt, total in enumerate((None, 90, 120, None), 1):
        writer.write([AttemptStarted(attempt, now, "here", 1, None, total)])
        found.append(read_status(tmp_path).total_steps)
        writer.write([AttemptEnded(attempt, now, "stopped", 3, 0, None)])
    writer.close()
    assert found == [None, 90, 120, 120]


def test_the_supervisor_that_saw_the_end_does_not_start_it_anew(tmp_path: Path) -> None:
    folder = _ended_run(tmp_path, time.time() + 60)
    write_heartbeat(folder.heartbeat, os.getpid(), None)
    assert read_status(tmp_path).state == "crashed"


def test_a_process_that_is_gone_is_crashed_only_when_no_supervisor_is_about_to_say_how_it_ended(
    tmp_path: Path,
) -> None:
    folder = RunFolder(tmp_path)
    writer = Writer(open_writer(folder.database))
    writer.write([AttemptStarted(1, time.time(), "here", 2**22 - 3, None)])
    writer.close()
    found = read_status(tmp_path)
    assert found.state == "crashed"
    assert found.error is not None
    assert found.error["cause"].endswith(f"; see {folder.log}"), "the file to look into is named"
    write_heartbeat(folder.heartbeat, os.getpid(), None)
    found = read_status(tmp_path)
    assert (found.state, [alert["id"] for alert in found.alerts]) == ("stopping", ["process.gone"])


def test_a_run_whose_database_was_removed_is_training_and_says_what_is_lost(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    write_heartbeat(folder.heartbeat, os.getpid(), os.getpid())
    assert read_status(tmp_path).state == "starting"
    rank = RankFile(folder.rank(0), os.getpid())
    rank.update(rank=0, phase="load", phase_since=time.time())
    assert read_status(tmp_path).state == "starting"
    rank.update(phase="generate", step=7, progress_at=time.time())
    look = read_status(tmp_path)
    rank.close()
    assert (look.state, look.step, look.phase) == ("training", 7, "generate")
    assert [alert["id"] for alert in look.alerts] == ["store.removed"]


def test_a_training_process_held_by_a_signal_is_stalled_at_once_and_its_pid_is_told(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    trainer = subprocess.Popen(["sleep", "600"])
    try:
        write_heartbeat(folder.heartbeat, os.getpid(), trainer.pid)
        writer = Writer(open_writer(folder.database))
        writer.write([AttemptStarted(1, time.time(), "here", trainer.pid, None)])
        writer.close()
        rank = RankFile(folder.rank(0), trainer.pid)
        now = time.time()
        rank.update(attempt=1, phase="reward", phase_since=now, step=7, progress_at=now, reward_function="r")
        rank.close()
        assert read_status(tmp_path).state == "training"
        os.kill(trainer.pid, signal.SIGSTOP)
        os.waitpid(trainer.pid, os.WUNTRACED)
        look = read_status(tmp_path)
        assert (look.state, [alert["id"] for alert in look.alerts]) == ("stalled", ["process.held"])
        assert f"Continue it with `kill -CONT {trainer.pid}`" in look.alerts[0]["message"]
        assert "kill -CONT" in _standstill(tmp_path, look)
        os.kill(trainer.pid, signal.SIGCONT)
        os.waitpid(trainer.pid, os.WCONTINUED)
        assert read_status(tmp_path).state == "training"
    finally:
        trainer.kill()
        trainer.wait()


def test_a_reward_that_runs_on_another_rank_than_the_first_is_named(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    write_heartbeat(folder.heartbeat, os.getpid(), os.getpid())
    writer = Writer(open_writer(folder.database))
    writer.write([AttemptStarted(1, time.time(), "here", os.getpid(), None)])
    writer.close()
    for number, name in ((0, None), (1, "judge")):
        rank = RankFile(folder.rank(number), os.getpid())
        now = time.time()
        rank.update(attempt=1, phase="reward", phase_since=now, progress_at=now, reward_function=name)
        rank.close()
    assert read_status(tmp_path).reward_func == "judge"


@pytest.mark.parametrize("character", ["x", "\x1b", "\u5b57", "\U0001f642", "\ud800"])
def test_a_rank_file_can_be_read_however_long_all_its_texts_are(character: str, tmp_path: Path) -> None:
    rank = RankFile(RunFolder(tmp_path).rank(0), os.getpid())
    names = ("reward_function", "note", "trouble", "ended_cause")
    rank.update(attempt=1, phase="generate", step=7, lost={"batches": 10**6}, gpu="00000000:4F:00.0")
    rank.update(**dict.fromkeys(names, 1000 * character))
    told = read_rank(RunFolder(tmp_path).rank(0))
    rank.close()
    assert told is not None
    assert all(len(getattr(told, name)) >= 40 for name in names)


@pytest.mark.parametrize(
    ("usual_s", "in_it_s", "state"),
    [
        (0.2, 25, "training"),
        (0.2, 35, "stalled"),
        (4.0, 75, "training"),
        (4.0, 85, "stalled"),
        (None, 290, "training"),
        (None, 310, "stalled"),
    ],
)
def test_a_run_is_stalled_after_many_times_what_its_phase_usually_takes(
    usual_s: float | None, in_it_s: float, state: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = RunFolder(tmp_path)
    writer = Writer(open_writer(folder.database))
    writer.write([AttemptStarted(1, time.time() - 1000, "here", os.getpid())])
    writer.close()
    rank = RankFile(folder.rank(0), os.getpid())
    now = time.time()
    monkeypatch.setattr(status, "time", SimpleNamespace(time=lambda: now))
    since = now - in_it_s
    rank.update(attempt=1, step=7, progress_at=since - 5, phase="reward", phase_since=since, usual_s=usual_s)
    assert read_status(tmp_path).state == state
    rank.update(progress_at=now)
    assert read_status(tmp_path).state == "training", "a step that ended is progress"
    rank.close()
