"""What of a schedule waits again when a run continues from an earlier step."""

from __future__ import annotations

from dataclasses import replace

from grpo_tui.core.records import SettingChanged
from grpo_tui.core.schedule import BY_SCHEDULE, Scheduled, resumed_at, waiting_in, without_left


def changed(step: int, name: str = "beta", by: str = BY_SCHEDULE) -> SettingChanged:
    return SettingChanged(1, step, float(step), name, 0.0, 0.1, by)


def applied(step: int, name: str = "beta") -> Scheduled:
    return Scheduled(step, {name: 0.1}, 0.5, state="applied", decided_at=float(step))


def states(step: int, *history: SettingChanged) -> list[str]:
    known = [applied(one.step, one.name) for one in history if one.by == BY_SCHEDULE]
    return [one.state for one in resumed_at(step, known, history)]


def test_every_later_change_of_one_setting_waits_again() -> None:
    assert states(2, changed(3), changed(5)) == ["waiting", "waiting"]
    assert states(3, changed(3), changed(5)) == ["applied", "waiting"]
    assert states(5, changed(3), changed(5)) == ["applied", "applied"]


def test_a_setting_that_you_changed_since_keeps_its_value() -> None:
    assert states(2, changed(3), changed(4, by="you"), changed(5)) == ["applied", "waiting"]
    assert states(2, changed(3), changed(4, "delta", "you")) == ["waiting"]
    assert states(2, changed(3), changed(5), changed(6, by="you")) == ["applied", "applied"]


def test_a_change_without_its_record_stays_as_it_is() -> None:
    assert [one.state for one in resumed_at(0, [applied(3)], [])] == ["applied"]


def test_a_change_of_two_settings_waits_again_unless_you_changed_one_of_them() -> None:
    both = [changed(3), replace(changed(3, "delta"), at=3.0)]
    known = [Scheduled(3, {"beta": 0.1, "delta": 0.1}, 0.5, state="applied", decided_at=3.0)]
    assert [one.state for one in resumed_at(2, known, both)] == ["waiting"]
    assert [one.state for one in resumed_at(2, known, [*both, changed(4, "delta", "you")])] == ["applied"]


def test_what_waits_is_told_by_step_and_what_waits_again_is_no_history() -> None:
    known = [Scheduled(9, {"beta": 1.0}, 0.5), applied(3), Scheduled(5, {"beta": 0.5}, 0.5)]
    assert [one.step for one in waiting_in(known)] == [5, 9]
    again = replace(applied(5), state="waiting", left=(5.0,))
    mine = replace(changed(6, by="you"), at=5.0)
    assert without_left([changed(3), changed(5), mine], [again]) == [changed(3), mine]
