"""How an attempt ends: the cause that is recorded, and what its rank says last."""

from __future__ import annotations

import json
import struct
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from grpo_tui.store import live
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.live import RankFile, read_errors, read_rank, write_error
from grpo_tui.store.reader import RunReader
from grpo_tui.train.failure import describe
from grpo_tui.train.session import Session
from grpo_tui.train.settings import Refused

CLOSED = RuntimeError("[gloo] Connection closed by peer [127.0.0.1]:4711")


def _checkpoint(root: Path, step: int) -> None:
    path = root / f"checkpoint-{step}"
    path.mkdir(parents=True)
    header = json.dumps({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
    (path / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(4))
    (path / "trainer_state.json").write_text(json.dumps({"global_step": step}))


def _cause(root: Path) -> str:
    (*_, last) = RunReader(RunFolder(root).database).attempts()
    assert last.state == "failed"
    assert last.error is not None
    return str(last.error["cause"])


@pytest.mark.parametrize(
    ("steps", "resumed_from", "error", "ending"),
    [
        ((2, 4, 6), 4, RuntimeError("bad"), "; if that one is damaged, `--resume 2` takes an earlier one"),
        ((4,), 4, RuntimeError("bad"), "; if that one is damaged, there is no earlier one"),
        ((2,), None, RuntimeError("bad"), ": RuntimeError: bad"),
        ((2, 4), 4, Refused("beta cannot change"), "beta cannot change"),
    ],
)
def test_a_resume_that_makes_no_step_names_the_checkpoint_before_it(
    steps: tuple[int, ...], resumed_from: int | None, error: Exception, ending: str, tmp_path: Path
) -> None:
    for step in steps:
        _checkpoint(tmp_path, step)
    Session(RunFolder(tmp_path), resumed_from=resumed_from).failed(error)
    assert _cause(tmp_path).endswith(ending)


def test_the_advice_about_memory_is_the_cause_where_no_reward_failed(tmp_path: Path) -> None:
    def failed(folder: Path, runner: Any) -> str:
        session = Session(RunFolder(folder))
        session.memory_advice = lambda message, phase: f"{message} in {phase}: halve the batch"
        session.runner = runner
        with pytest.raises(RuntimeError) as raised, session.phases.during("generate"):
            raise RuntimeError("out of memory")
        session.failed(raised.value)
        return _cause(folder)

    nothing: Any = SimpleNamespace(failed_function=None, failed_sample="")
    assert failed(tmp_path / "model", nothing) == "out of memory in generate: halve the batch"
    judge: Any = SimpleNamespace(failed_function="judge", failed_sample="the sample")
    said = failed(tmp_path / "reward", judge)
    assert said.startswith("reward function 'judge' failed")
    assert said.endswith("RuntimeError: out of memory, on the sample")


@pytest.mark.parametrize(
    ("of_other", "error", "told", "cause"),
    [
        ({}, CLOSED, None, "rank 1 is gone, while generating: it was killed"),
        ({}, CLOSED, CLOSED, "rank 1 is gone, while generating: it was killed"),
        ({}, CLOSED, ValueError("my own"), "rank 1: generating failed: ValueError: my own"),
        ({}, ValueError("my own"), None, "loading failed: ValueError: my own"),
        ({"ended": "finished"}, CLOSED, None, "loading failed: RuntimeError: [gloo]"),
        ({"host": "another"}, CLOSED, None, "loading failed: RuntimeError: [gloo]"),
    ],
    ids=["killed", "seen by two", "told", "its own", "ended", "another machine"],
)
def test_the_first_rank_names_a_killed_one_only_for_an_error_that_follows_from_it(
    of_other: dict[str, Any],
    error: Exception,
    told: Exception | None,
    cause: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setattr(live, "PATIENCE_S", 0.0)
    folder = RunFolder(tmp_path)
    other = subprocess.Popen(["sleep", "600"])
    RankFile(folder.rank(1), other.pid).update(**{"phase": "generate", **of_other})
    other.kill()
    other.wait()
    session = Session(folder)
    session._trainer = SimpleNamespace(state=SimpleNamespace(global_step=3))
    if told is not None:
        write_error(folder, 1, describe(told, "generate"), follows=told is CLOSED)
    session.failed(error)
    assert _cause(tmp_path).startswith(cause)


@pytest.mark.parametrize("follows", [True, False])
def test_a_first_rank_told_to_stop_names_the_killed_one_and_not_who_lost_contact_with_it(
    follows: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "3")
    folder = RunFolder(tmp_path)
    RankFile(folder.rank(2), 2**22 + 1).update(phase="generate")
    session = Session(folder)
    session._trainer = SimpleNamespace(state=SimpleNamespace(global_step=3))
    write_error(folder, 1, describe(CLOSED, "update"), follows=follows)
    assert session.another_rank_failed()
    assert _cause(tmp_path).startswith("rank 2 is gone" if follows else "rank 1: the update failed")


def test_another_rank_always_writes_its_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    session = Session(RunFolder(tmp_path))
    session._trainer = SimpleNamespace(state=SimpleNamespace(global_step=3))
    RankFile(RunFolder(tmp_path).rank(0), 2**22 + 1).update(phase="generate")
    session.failed(CLOSED)
    told = read_errors(RunFolder(tmp_path))
    assert told is not None
    assert told["cause"].startswith("rank 1: loading failed: RuntimeError: [gloo]")


def test_a_rank_says_how_it_ended_and_no_longer_why_it_waited(tmp_path: Path) -> None:
    session = Session(RunFolder(tmp_path))
    session.phases.tell(note="no room for checkpoint-4")
    session.close("failed", {"type": "", "message": "m", "cause": "the cause"})
    session.close("finished")
    rank = read_rank(RunFolder(tmp_path).rank(0))
    assert rank is not None
    assert (rank.ended, rank.ended_cause, rank.note, rank.closed) == ("failed", "the cause", "", True)
    assert [a.state for a in RunReader(RunFolder(tmp_path).database).attempts()] == ["failed"]


def test_the_first_rank_alone_forgets_what_ranks_of_the_earlier_attempt_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def errors_seen_by(rank: int) -> bool:
        monkeypatch.setenv("RANK", str(rank))
        write_error(
            RunFolder(tmp_path), 2, {"type": "ValueError", "message": "no", "cause": "the earlier one"}
        )
        Session(RunFolder(tmp_path)).close("stopped")
        return read_errors(RunFolder(tmp_path)) is not None

    assert [errors_seen_by(0), errors_seen_by(1)] == [False, True]
