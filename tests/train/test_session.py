"""How an attempt ends: the cause that is recorded, and what its rank says last."""

from __future__ import annotations

import json
import struct
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from grpo_tui.store.layout import RunFolder
from grpo_tui.store.live import RankFile, read_errors, read_rank, write_error
from grpo_tui.store.reader import RunReader
from grpo_tui.train.session import Session
from grpo_tui.train.settings import Refused


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
    ("rank", "killed", "causes"), [(1, True, []), (1, False, ["rank 1: "]), (0, True, [])]
)
def test_what_a_killed_rank_breaks_in_the_others_is_not_taken_for_the_cause(
    rank: int, killed: bool, causes: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", str(rank))
    monkeypatch.setenv("WORLD_SIZE", "2")
    other = subprocess.Popen(["sleep", "600"])
    RankFile(RunFolder(tmp_path).rank(1 - rank), other.pid).update(phase="generate")
    session = Session(RunFolder(tmp_path))
    session._trainer = SimpleNamespace(state=SimpleNamespace(global_step=3))
    if killed:
        other.kill()
        other.wait()
    session.failed(RuntimeError("closed"))
    other.kill()
    other.wait()
    told = read_errors(RunFolder(tmp_path))
    assert ([] if told is None else [told["cause"][: len(causes[0])]]) == causes
    if rank == 0:
        assert _cause(tmp_path).startswith("rank 1 is gone, while generating: it was killed")


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
