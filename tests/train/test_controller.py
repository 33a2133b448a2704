"""Commands at the safe point of a real run: each is carried out once, whatever the disk does meanwhile."""

from __future__ import annotations

import errno
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from grpo_tui.core.commands import Command
from grpo_tui.store import mailbox as store
from grpo_tui.store import recorder
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.live import read_rank
from grpo_tui.store.mailbox import Mailbox
from grpo_tui.store.read_series import metric_rows
from grpo_tui.store.reader import RunReader
from grpo_tui.train import checkpoints
from grpo_tui.train.session import Session
from tests import PATIENCE_S
from tests.train.tiny import FIRST_LAYER, run_recorded

pytestmark = pytest.mark.slow

FULL = OSError(errno.ENOSPC, "No space left on device")


def test_a_run_serves_its_commands_once_each_whatever_the_disk_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Steps 1 and 2: an unreadable mailbox; 3, an epoch's end: a full disk; 4: no room to save."""
    folder = RunFolder(tmp_path)
    box = Mailbox(folder.commands)
    now: dict[str, Any] = {"unreadable": False, "full": False, "room": True, "done": 0}
    seen: dict[str, Any] = {"ended": [], "tries": 0}
    pending, write_json, free_bytes = Mailbox.pending, store.write_json, checkpoints.free_bytes

    def readable(self: Mailbox) -> Any:
        if now["unreadable"]:
            raise RecursionError("nested too deeply")
        return pending(self)

    def written(*args: Any, **kwargs: Any) -> None:
        if now["full"]:
            raise FULL
        write_json(*args, **kwargs)

    monkeypatch.setattr(Mailbox, "pending", readable)
    monkeypatch.setattr(store, "write_json", written)
    monkeypatch.setattr(checkpoints, "free_bytes", lambda path: free_bytes(path) if now["room"] else 10)

    def until(phase: str) -> Any:
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            rank = read_rank(folder.rank(0))
            if rank is not None and rank.phase == phase:
                return rank
            time.sleep(0.02)
        raise AssertionError(f"it never came to {phase}")

    def from_outside() -> None:
        seen["paused"] = until("wait")
        seen["stop"] = box.wait(box.submit("stop"), PATIENCE_S)
        seen["refused"] = read_rank(folder.rank(0))
        now["room"] = True
        box.submit("resume")

    def write_the_model() -> None:
        seen["tries"] += 1
        if seen["tries"] < 3:
            box.submit("resume")
            raise FULL

    def a_bug() -> None:
        raise ValueError("a bug")

    helper = threading.Thread(target=from_outside)

    def at_safe_point(session: Session, trainer: Any) -> None:
        step = trainer.state.global_step
        if step == now["done"]:
            return
        now["done"] = step
        if step == 1:
            seen["set"] = box.submit("set", {"reward_weights": [1.0, 3.0]})
        now["unreadable"], now["full"] = step in (1, 2), step == 3
        if step == 4:
            seen["outcome at 3"] = box.outcome(seen["set"].id)
            now["room"], session.controller.stop_wanted = False, True
            helper.start()
        if step == 5:
            seen["resumed"] = read_rank(folder.rank(0))
            session.controller.until_written(write_the_model, "the model")
            with pytest.raises(ValueError, match="a bug"):
                session.controller.until_written(a_bug, "the model")
            for _ in range(2):
                session.runner._keep(0, [None], "aborted")
            seen["aborted"] = read_rank(folder.rank(0))
            seen["resume"] = box.submit("resume")

    def count(session: Session, trainer: Any) -> None:
        ended = session.phases.step_ended

        def step_ended(step: int) -> None:
            seen["ended"].append(step)
            ended(step)

        session.phases.step_ended = step_ended  # type: ignore[method-assign]

    rows, _, session = run_recorded(
        tmp_path, at_safe_point=at_safe_point, before_train=count, rows=12, max_steps=5
    )
    helper.join()
    said = capsys.readouterr().out
    assert session.ended_state() == "finished", "a stop without room to save does not end the run"
    assert [step for step, row in rows if "loss" in row] == [1, 2, 3, 4, 5]

    assert said.count("nested too deeply") == 1
    assert seen["outcome at 3"] is None
    outcome = box.outcome(seen["set"].id)
    assert outcome is not None
    assert (outcome.applied, outcome.step) == (True, 3)
    reader = RunReader(folder.database)
    assert [(s.step, s.new) for s in reader.settings()] == [(3, [1.0, 3.0])], "carried out once"

    assert seen["ended"] == [1, 2, 3, 4, 5], "the end of an epoch ends no second step"

    assert seen["paused"].note.startswith("no room for checkpoint-4: it needs about ")
    assert not seen["paused"].stopping
    assert not seen["stop"].applied
    assert seen["stop"].reason.endswith("make room and stop again, or stop at once without saving")
    assert (seen["refused"].phase, seen["refused"].stopping) == ("wait", False)
    assert not (tmp_path / "checkpoint-4").exists()

    assert seen["resumed"].note == "", "a pause that is over needs no reason"

    assert seen["tries"] == 3
    assert "no room for the model: [Errno 28] No space left on device" in said

    assert seen["aborted"].note == "two reward calls in a row were aborted"
    resumed = box.outcome(seen["resume"].id)
    assert resumed is not None
    assert (resumed.applied, resumed.reason) == (True, ""), "it was paused"


def test_the_row_of_a_step_is_in_the_record_before_its_checkpoint_is_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also while the recorder's thread is held back: both processes may be killed right after a save."""
    monkeypatch.setattr(recorder, "DRAIN_S", 600.0)
    found: list[list[int]] = []
    write_json = checkpoints.write_json

    def marked(path: Path, body: Any) -> None:
        with closing(RunReader(tmp_path / "run.db")) as reader:
            found.append([step for _, step, _ in metric_rows(reader)])
        write_json(path, body)

    monkeypatch.setattr(checkpoints, "write_json", marked)
    saving: dict[str, Any] = {"save_strategy": "steps", "save_steps": 1, "model_init_kwargs": FIRST_LAYER}
    run_recorded(tmp_path, max_steps=2, rows=12, **saving)
    assert found == [[1], [1, 2]]


def test_what_one_rank_cannot_carry_out_is_rejected_with_its_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def a_bug(command: Command) -> Any:
        raise ValueError("a bug")

    def at_safe_point(session: Session, trainer: Any) -> None:
        controller = session.controller
        controller._ranks.of_each = lambda refused: [refused, "out of memory"]  # type: ignore[method-assign]
        controller._on_sample = a_bug  # type: ignore[method-assign]
        if trainer.state.global_step == 1:
            box = Mailbox(RunFolder(tmp_path).commands)
            box.submit("set", {"reward_weights": [1.0, 2.0]})
            box.submit("sample", {"prompt": "3+4=?"})

    run_recorded(tmp_path, at_safe_point=at_safe_point, max_steps=2)
    became = {
        command.kind: outcome for command, outcome in RunReader(RunFolder(tmp_path).database).commands()
    }
    assert {kind: outcome and (outcome.applied, outcome.reason) for kind, outcome in became.items()} == {
        "set": (False, "rank 1: out of memory"),
        "sample": (False, "sample failed: ValueError: a bug"),
    }
    assert "in a_bug" in capsys.readouterr().err, "where it stands is in the log"
