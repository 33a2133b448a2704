"""Commands at the safe point: each is carried out once, whatever becomes of its outcome."""

from __future__ import annotations

import errno
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from grpo_tui.store import mailbox as store
from grpo_tui.store.mailbox import Mailbox
from grpo_tui.train.controller import Controller
from grpo_tui.train.ranks import Ranks


def _controller(mailbox: Mailbox, applied: list[Any]) -> Controller:
    """A controller whose trainer is at rest, on one rank, and whose settings only count."""
    alone = SimpleNamespace(process_index=0, num_processes=1)
    trainer: Any = SimpleNamespace(state=SimpleNamespace(global_step=7), accelerator=alone)
    phases: Any = SimpleNamespace(phase="update", enter=lambda phase: None, tell=lambda **changes: None)

    def apply(changes: Any, by: str) -> dict[str, Any]:
        applied.append(changes)
        return {"temperature": {"old": 1.0, "new": 2.0}}

    settings: Any = SimpleNamespace(apply=apply)
    checkpoints: Any = SimpleNamespace(owed=False)
    return Controller(trainer, mailbox, phases, checkpoints, settings, lambda: None, Ranks(trainer))


def test_an_outcome_that_cannot_be_written_waits_and_its_command_is_not_carried_out_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mailbox, applied = Mailbox(tmp_path), []  # type: ignore[var-annotated]
    command = mailbox.submit("set", {"temperature": 2.0})
    controller = _controller(mailbox, applied)

    def full(path: Path, body: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(store, "write_json", full)
        controller.safe_point()
        controller.safe_point()
    assert mailbox.outcome(command.id) is None
    controller.safe_point()
    outcome = mailbox.outcome(command.id)
    assert outcome is not None
    assert (outcome.applied, outcome.step) == (True, 7)
    assert applied == [{"temperature": 2.0}]


def test_what_one_rank_cannot_carry_out_is_rejected_with_its_reason(tmp_path: Path) -> None:
    mailbox = Mailbox(tmp_path)
    controller = _controller(mailbox, [])
    controller._ranks.of_each = lambda refused: [refused, "out of memory"]  # type: ignore[method-assign]
    command = mailbox.submit("set", {"temperature": 2.0})
    controller.safe_point()
    outcome = mailbox.outcome(command.id)
    assert outcome is not None
    assert (outcome.applied, outcome.reason) == (False, "rank 1: out of memory")


def test_a_mailbox_that_cannot_be_read_stops_no_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    mailbox, applied = Mailbox(tmp_path), []  # type: ignore[var-annotated]
    controller = _controller(mailbox, applied)
    mailbox.submit("set", {"temperature": 2.0})
    with monkeypatch.context() as patch:

        def broken(self: Mailbox) -> Any:
            raise RecursionError("nested too deeply")

        patch.setattr(Mailbox, "pending", broken)
        controller.safe_point()
        controller.safe_point()
    assert capsys.readouterr().out.count("nested too deeply") == 1
    controller.safe_point()
    assert applied == [{"temperature": 2.0}]


def test_a_model_that_cannot_be_written_at_the_end_waits_for_room(tmp_path: Path) -> None:
    mailbox, tries, told = Mailbox(tmp_path), [], []  # type: ignore[var-annotated]
    controller = _controller(mailbox, [])

    def write() -> None:
        tries.append(1)
        if len(tries) < 3:
            raise OSError(errno.ENOSPC, "No space left on device")

    def tell(**changes: Any) -> None:
        told.append(changes.get("note"))
        if changes.get("note"):
            mailbox.submit("resume")

    controller._phases.tell = tell  # type: ignore[method-assign]
    controller.until_written(write, "the model")
    assert len(tries) == 3
    assert told[0] == "no room for the model: [Errno 28] No space left on device"


def test_what_is_no_trouble_of_the_disk_is_raised_at_the_end(tmp_path: Path) -> None:
    def write() -> None:
        raise ValueError("a bug")

    with pytest.raises(ValueError, match="a bug"):
        _controller(Mailbox(tmp_path), []).until_written(write, "the model")
