"""How often the poller shows a run, what it does when it cannot, and what becomes of commands given to it."""

from __future__ import annotations

from typing import Any

import pytest
from textual.message import Message

from grpo_tui.core import records as r
from grpo_tui.present.run_state import RunState
from grpo_tui.present.train_view import TrainView
from grpo_tui.ui import poller as module
from grpo_tui.ui.messages import CommandLost, RunAdvanced
from grpo_tui.ui.poller import Poller
from tests.ui.conftest import sent
from tests.ui.recorded_run import RecordedRun


@pytest.mark.parametrize(("untouched_s", "shown"), [(0.0, [57, 58, 59]), (1e9, [57, 59])])
def test_a_run_that_nobody_steers_is_shown_less_often_but_its_pause_at_once(
    untouched_s: float, shown: list[int], run: RecordedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "POST_APART_S", 0.0)
    monkeypatch.setattr(module, "ALONE_APART_S", 1e9)
    monkeypatch.setattr(module, "ALONE_AFTER_S", -1.0 if untouched_s else 20.0)
    posted: list[Message] = []
    poller = Poller(run.folder.root, posted.append, untouched_s=lambda: untouched_s)
    poller._look(urgent=False)
    run.advance(1)
    poller._look(urgent=False)
    run.advance(1)
    run.now("wait")
    poller._look(urgent=False)
    views = [message.view for message in posted if isinstance(message, RunAdvanced)]
    assert [view.step for view in views] == shown
    assert (views[0].state, views[-1].state) == ("training", "paused")


def test_a_command_sent_just_before_leaving_is_written(run: RecordedRun) -> None:
    poller: Poller

    def leave(message: Message) -> None:
        poller.send("checkpoint")
        poller.stop()

    poller = Poller(run.folder.root, leave)
    poller.run()
    assert sent(run) == [("checkpoint", {})]


def test_a_command_that_cannot_be_written_is_told_and_the_next_one_is_written(run: RecordedRun) -> None:
    run.folder.commands.write_text("in the way")
    posted: list[Message] = []
    poller = Poller(run.folder.root, posted.append)
    poller.send("pause")
    poller.send("checkpoint")
    poller._write_requests()
    lost = [(m.kind, m.reason) for m in posted if isinstance(m, CommandLost)]
    assert [kind for kind, _ in lost] == ["pause", "checkpoint"]
    assert all("commands cannot be written: " in reason for _, reason in lost)
    run.folder.commands.unlink()
    poller.send("pause")
    poller._write_requests()
    assert sent(run) == [("pause", {})]


@pytest.mark.parametrize("times", [1, 9])
def test_a_view_that_fails_once_is_made_again_and_one_that_always_fails_ends_the_poller(
    times: int, run: RecordedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "POLL_S", 0.0)
    view, failures, posted = RunState.view, iter(range(times)), list[Message]()

    def failing(*args: Any, **more: Any) -> TrainView:
        if next(failures, None) is not None:
            raise ZeroDivisionError("a view")
        poller.stop()
        return view(*args, **more)

    monkeypatch.setattr(RunState, "view", failing)
    poller = Poller(run.folder.root, posted.append)
    if times == 1:
        poller.run()
        assert [type(message) for message in posted] == [RunAdvanced]
    else:
        with pytest.raises(ZeroDivisionError):
            poller.run()
        assert next(failures) == 2, "it was tried twice"
        assert poller._reader is None, "the file is closed"


def test_pages_are_read_without_a_pause_and_the_view_says_when_it_is_whole(
    run: RecordedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A first view comes at once; the whole one does not wait until two would be too many a second."""
    monkeypatch.setattr(module, "POST_APART_S", 1e9)
    row = {f"own/{number}": 1.0 for number in range(40)}
    run.write(r.MetricRow(1, run.step, run.at(run.step), row))
    waits: list[float | None] = []
    posted: list[TrainView] = []

    def post(message: Message) -> None:
        assert isinstance(message, RunAdvanced)
        posted.append(message.view)
        if message.view.whole:
            poller.stop()

    poller = Poller(run.folder.root, post)
    wait = poller._wake.wait
    poller._wake.wait = lambda timeout=None: waits.append(timeout) or wait(timeout)  # type: ignore[assignment,func-returns-value]
    poller.run()
    assert [view.whole for view in posted] == [False, True]
    assert len(waits) == 1, "only after the last page"
    assert {f"own/{number}" for number in range(40)} <= {chart.key for chart in posted[-1].charts}
