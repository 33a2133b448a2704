"""Which changes at later steps a run takes, asked without a training."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from grpo_tui.core.records import Record
from grpo_tui.core.schedule import Scheduled
from grpo_tui.core.stages import START
from grpo_tui.train.settings import LiveSettings, Refused


@pytest.fixture
def settings(monkeypatch: pytest.MonkeyPatch) -> LiveSettings:
    """Of a run at step 5 of 10, whose every value fits."""
    trainer = SimpleNamespace(
        state=SimpleNamespace(global_step=5, max_steps=10), model=SimpleNamespace(named_parameters=lambda: ())
    )
    made = LiveSettings(trainer, list[Record]().append, 1)
    monkeypatch.setattr(made, "check", lambda changes, **how: checked.append((changes, how)))
    checked.clear()
    return made


checked: list[tuple[dict[str, Any], dict[str, Any]]] = []
LATER = {"sure": False, "later": True}


@pytest.mark.parametrize(
    ("wanted", "at_once", "why"),
    [
        ({7: {"top_k": 5}}, {}, ""),
        ({5: {"top_k": 5}}, {}, ""),
        ({4: {"top_k": 5}}, {}, "step 4 has passed: the run is at step 5. Leave out @step:4"),
        ({9: {"top_k": 5}}, {}, ""),
        ({10: {"top_k": 5}}, {}, "a change at step 10 would have no effect: the run ends at step 10. Raise"),
        ({10: {"max_steps": 20}}, {}, ""),
        ({11: {"max_steps": 20}}, {}, "at step 11 would have no effect"),
        ({12: {"top_k": 5}}, {"max_steps": 20}, ""),
        ({8: {"max_steps": 20}, 12: {"top_k": 5}}, {}, ""),
        ({8: {"max_steps": 11}, 12: {"top_k": 5}}, {}, "the run ends at step 11"),
        ({8: {"max_steps": "many"}, 12: {"top_k": 5}}, {}, "the run ends at step 10"),
    ],
)
def test_a_change_at_a_step_is_taken_if_the_run_comes_to_it_and_goes_on(
    settings: LiveSettings, wanted: dict[int, dict[str, Any]], at_once: dict[str, Any], why: str
) -> None:
    if why:
        with pytest.raises(Refused, match=why):
            settings.check_plan(wanted, at_once, sure=False)
    else:
        settings.check_plan(wanted, at_once, sure=False)
        assert checked == [(changes, LATER) for changes in wanted.values()]


def test_a_schedule_that_begins_now_begins_at_the_step_of_the_change(settings: LiveSettings) -> None:
    settings.check_plan({7: {START: "now"}, 8: {START: 6}, 9: {"top_k": 5}}, {}, sure=False)
    assert [changes for changes, _ in checked] == [{START: 7}, {START: 6}, {"top_k": 5}]


def test_what_waits_already_lengthens_the_run_and_is_not_checked_again(settings: LiveSettings) -> None:
    settings.plan({8: {"max_steps": 20}}, by="you", because="")
    settings.check_plan({12: {"top_k": 5}}, {}, sure=False)
    assert [changes for changes, _ in checked] == [{"top_k": 5}]


def test_a_scheduled_change_is_due_at_its_step_and_canceled_by_an_undo(settings: LiveSettings) -> None:
    settings.plan({5: {"top_k": 5}, 6: {"top_p": 0.5}}, by="loop", because="so")
    (due,) = settings.due()
    assert (due.step, due.by, due.because, due.state) == (5, "loop", "so", "waiting")
    assert settings.undo(1) == {}
    assert [one.state for one in settings.schedule] == ["waiting", "canceled"]
    settings.reject(due, "it does not fit")
    first: Scheduled = settings.schedule[0]
    assert (first.state, first.reason, first.decided_at > 0) == ("rejected", "it does not fit", True)
    with pytest.raises(Refused, match="there is no change to undo"):
        settings.undo(1)
