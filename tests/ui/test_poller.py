"""How often the poller shows a run: seldom while nobody presses a key, at once when its state turns."""

from __future__ import annotations

import pytest
from textual.message import Message

from grpo_tui.ui import poller as module
from grpo_tui.ui.messages import RunAdvanced
from grpo_tui.ui.poller import Poller
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
