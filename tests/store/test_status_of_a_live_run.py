"""What is read of a run that lives: each figure from where it is written, and each state at its border."""

from __future__ import annotations

import os
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from grpo_tui.core import records as r
from grpo_tui.core.findings import Finding
from grpo_tui.store import status as module
from grpo_tui.store.connection import open_writer
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.live import Heartbeat, RankFile, RankState, process_started, write_heartbeat
from grpo_tui.store.reader import Attempt
from grpo_tui.store.status import CheckpointNow, RankNow, Status, is_live, read_status
from grpo_tui.store.writer import Writer

NOW = 5_000.0
PID = os.getpid()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    monkeypatch.setattr(module.time, "time", lambda: NOW)
    found = RunFolder(tmp_path)
    writer = Writer(open_writer(found.database))
    writer.write([
        r.AttemptStarted(1, 1_000.0, "here", 1, None, 90),
        r.AttemptStarted(2, 2_000.0, socket.gethostname(), PID, 4),
        r.MetricRow(2, 6, 2_500.0, {"reward": 1.5, "kl": 0.25}),
        r.MetricRow(2, 6, 2_600.0, {"eval_reward": 9.0}),
        r.CheckpointSaved(2, 5, str(tmp_path / "checkpoint-5"), 2_400.0, True, False, 9),
        r.Dropped(2, "batches", 3),
    ])  # fmt: skip
    writer.close()
    for step in (5, 7):
        (tmp_path / f"checkpoint-{step}").mkdir()
    return found


def rank(folder: RunFolder, number: int, **changes: Any) -> None:
    file = RankFile(folder.rank(number), PID)
    file.update(**{"attempt": 2, "phase": "update", "usual_s": 1e6, **changes})
    file.close()


def test_every_figure_of_a_status_comes_from_its_own_place(folder: RunFolder) -> None:
    rank(folder, 0, phase="reward", phase_since=NOW - 2.5, step=8, progress_at=4_000.0, gpu="GPU-0",
         lost={"records": 4}, reward_since=NOW - 1.5)  # fmt: skip
    rank(folder, 1, phase="generate", phase_since=NOW - 3.25, step=9, reward_function="judge", gpu="GPU-1",
         reward_since=NOW - 0.5)  # fmt: skip
    write_heartbeat(folder.heartbeat, PID, PID)
    look = read_status(folder.root)
    age = look.heartbeat_age_s
    assert age is not None
    root = folder.root
    assert look == Status(
        state="training", step=8, total_steps=90, phase="reward", phase_s=2.5, reward_func="judge",
        heartbeat_age_s=age, pid=PID, attempt=2, metrics={"reward": 1.5, "kl": 0.25}, dropped=7,
        ranks=(
            RankNow(0, PID, "reward", 2.5, 8, "GPU-0", None, NOW - 2.5, NOW - 1.5),
            RankNow(1, PID, "generate", 3.25, 9, "GPU-1", "judge", NOW - 3.25, NOW - 0.5),
        ),
        checkpoints=(
            CheckpointNow(5, str(root / "checkpoint-5"), True),
            CheckpointNow(7, str(root / "checkpoint-7"), False),
        ),
        progress_at=4_000.0, started_at=2_000.0, supervised=True,
    )  # fmt: skip


def test_a_row_that_is_ahead_of_the_rank_is_the_newest_step(folder: RunFolder) -> None:
    rank(folder, 0, step=5, reward_function="own")
    rank(folder, 1, reward_function="judge")
    look = read_status(folder.root)
    assert (look.step, look.reward_func, look.pid, look.supervised) == (6, "own", None, False)
    assert (look.phase_s, look.progress_at) == (0.0, None)
    write_heartbeat(folder.heartbeat, GONE, PID)
    look = read_status(folder.root)
    assert (look.state, look.pid, look.supervised) == ("training", None, False)


def test_a_rank_of_another_attempt_says_nothing_of_this_one(folder: RunFolder) -> None:
    write_heartbeat(folder.heartbeat, PID, PID)
    rank(folder, 0, attempt=1, step=99, lost={"records": 4})
    look = read_status(folder.root)
    assert (look.state, look.step, look.phase, look.ranks, look.dropped) == ("starting", 6, "load", (), 3)
    rank(folder, 0, attempt=0, step=99)
    assert read_status(folder.root).step == 99


def test_what_an_ended_run_lost_is_not_counted_twice(folder: RunFolder) -> None:
    rank(folder, 0, step=99, lost={"records": 4})
    writer = Writer(open_writer(folder.database))
    writer.write([r.AttemptEnded(2, NOW, "stopped", 7, 0)])
    writer.close()
    look = read_status(folder.root)
    assert (look.state, look.step, look.dropped, look.ranks) == ("stopped", 7, 3, ())
    assert (look.phase, look.phase_s, look.supervised, look.hardware) == ("wait", 0.0, True, None)


STARTED = process_started(PID)
STATE = RankState(0, PID, STARTED, phase="generate", phase_since=NOW)
ATTEMPT = Attempt(1, 1.0, socket.gethostname(), PID, None, None, None, None, None, None, None)
BEAT = Heartbeat(PID, STARTED, socket.gethostname(), PID, STARTED)
GONE = 2**22 - 3


@pytest.mark.parametrize(
    ("attempt", "beat", "state", "found"),
    [
        (None, BEAT, None, "starting"),
        (None, None, None, "crashed"),
        (ATTEMPT, None, STATE, "training"),
        (ATTEMPT, BEAT, None, "starting"),
        (ATTEMPT, BEAT, replace(STATE, phase="load"), "starting"),
        (ATTEMPT, BEAT, replace(STATE, phase="wait"), "paused"),
        (ATTEMPT, BEAT, replace(STATE, phase="wait", stopping=True), "paused"),
        (ATTEMPT, BEAT, replace(STATE, stopping=True), "stopping"),
        (replace(ATTEMPT, pid=GONE), BEAT, STATE, "stopping"),
        (replace(ATTEMPT, pid=GONE), None, STATE, "crashed"),
        (replace(ATTEMPT, pid=GONE), replace(BEAT, supervisor=GONE), STATE, "crashed"),
        (ATTEMPT, None, replace(STATE, started=1.0), "crashed"),
        (ATTEMPT, replace(BEAT, trainer_started=1.0), None, "stopping"),
        (ATTEMPT, replace(BEAT, trainer=GONE), None, "stopping"),
        (replace(ATTEMPT, pid=GONE), replace(BEAT, host="afar", age_s=29.9), STATE, "training"),
        (replace(ATTEMPT, pid=GONE), replace(BEAT, host="afar", age_s=30.0), STATE, "crashed"),
        (replace(ATTEMPT, state="failed", ended_at=NOW), None, STATE, "failed"),
    ],
)
def test_the_state_follows_from_who_lives(
    attempt: Attempt | None, beat: Heartbeat | None, state: RankState | None, found: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(module.time, "time", lambda: NOW)
    assert module._state(attempt, beat, state) == found


@pytest.mark.parametrize(
    ("changes", "patience"),
    [
        ({"usual_s": 0.0}, module.STALL_AT_LEAST_S),
        ({"usual_s": 100.0}, 100.0 * module.STALL_FACTOR),
        ({}, module.STALL_UNKNOWN_S),
        ({"step_time_s": 1_000.0}, 1_000.0 * module.STALL_FACTOR),
    ],
)
def test_a_stretch_is_called_stalled_once_it_lasts_longer_than_its_patience(
    changes: dict[str, Any], patience: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module.time, "time", lambda: NOW + 1e6)
    base = NOW + 1e6 - patience
    for since, stalled in ((base, False), (base - 1, True)):
        assert module._stalled(replace(STATE, phase_since=since, **changes)) is stalled
        assert module._stalled(replace(STATE, phase_since=0.0, progress_at=since, **changes)) is stalled


def test_each_trouble_of_a_live_run_is_an_alert_of_its_own(folder: RunFolder) -> None:
    rank(folder, 0, step=8, note="all rewards are None", trouble="no space", differs="another seed")
    alerts = read_status(folder.root).alerts
    assert [(a["id"], a["message"], a["first_step"], a["last_step"]) for a in alerts] == [
        ("run.paused-itself", "all rewards are None", 8, 8),
        ("store.cannot-write", "no space", 8, 8),
        ("resume.differs", "another seed", 8, 8),
    ]
    assert [a["remedies"][0]["text"] for a in alerts] == [
        "put it right, then resume",
        "make room; what waits in memory is written then",
        "start again from the model of a checkpoint",
    ]


def test_the_json_has_findings_among_the_alerts_and_nothing_that_is_not_documented() -> None:
    finding = Finding("a.b", "warning", None, None, "odd", None, 3, 4)
    look = Status("training", ranks=(RankNow(0, 1, "update"),), findings=(finding,), alerts=({"id": "x"},))
    body = look.to_json()
    assert body["alerts"] == ({"id": "x"}, finding.to_alert())
    assert not {"progress_at", "started_at", "supervised", "findings"} & set(body)
    assert not {"phase_since", "reward_since"} & set(body["ranks"][0])
    states = ("training", "paused", "finished", "crashed", "empty", "broken")
    assert [state for state in states if Status(state).live] == ["training", "paused"]


def test_only_a_run_whose_process_exists_is_live(folder: RunFolder) -> None:
    assert not is_live(folder.root / "none")
    assert not is_live(folder.root)
    write_heartbeat(folder.heartbeat, PID, PID)
    assert is_live(folder.root)
