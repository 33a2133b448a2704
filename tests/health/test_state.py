"""What is kept of a run up to a step, and how a finding is told from it: cause, remedies, begin and end."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from grpo_tui.core.findings import Remedy
from grpo_tui.core.records import TOOLS, Completion, SettingChanged
from grpo_tui.health import doctor as module
from grpo_tui.health.course import Course
from grpo_tui.health.doctor import Doctor
from grpo_tui.health.facts import GroupFacts, Observation, Settings, Visits, facts_of
from grpo_tui.health.state import NO_SIGNAL, Found, RunState, number, percent

ONE = Settings(weights=(1.0,), names=("right",))


def group(
    *totals: float | None, prompt: str = "p", texts: Sequence[str] = (), settings: Settings = ONE, **more: Any
) -> GroupFacts:
    """A group scored by one function, with advantages where the totals differ."""
    known = [total for total in totals if total is not None]
    middle = sum(known) / len(known) if known else 0.0
    members = [
        Completion(
            n,
            texts[n] if texts else f"{n}",
            (total,) * len(settings.weights),
            total,
            None if total is None else total - middle,
            more.get("tokens", 2 * n + 1),
            more.get("truncated", n == 0),
        )
        for n, total in enumerate(totals)
    ]
    return facts_of(members, prompt, settings)


def seen(
    *steps: Observation, settings: Settings = ONE, prompts: Mapping[str, Visits] | None = None
) -> RunState:
    state = RunState(settings, prompts)
    for step in steps:
        state.see(step)
    return state


def step(
    number: int, *groups: GroupFacts, values: Mapping[str, float] | None = None, **more: Any
) -> Observation:
    return Observation(number, number, values or {}, groups=groups, **more)


def test_groups_are_counted_by_cause_over_the_newest_steps_however_often_they_are_asked_for() -> None:
    mixed, low, high = group(0.0, 1.0), group(0.0, 0.0), group(1.0, 1.0)
    state = RunState(ONE)
    found = []
    for at, one in enumerate([mixed, low, high, mixed, low], 1):
        state.see(step(at, one, mixed))
        found.append({cause: count for cause, count in state.causes(2).items() if count})
    assert found == [
        {"some": 2}, {"some": 3, "all-wrong": 1}, {"some": 2, "all-wrong": 1, "all-correct": 1},
        {"some": 3, "all-correct": 1}, {"some": 3, "all-wrong": 1},
    ]  # fmt: skip
    assert state.signal_share(2) == 0.75
    assert state.causes(500)["some"] == 7
    assert state.course(NO_SIGNAL).newest(5) == [0.0, 0.5, 0.5, 0.0, 0.5]
    assert (state.groups, state.observations, state.first_step, state.step) == (10, 5, 1, 5)
    assert math.isnan(seen(step(1)).signal_share(2))


@pytest.mark.parametrize(
    ("before", "now", "cause"),
    [
        ((0.0, 1.0), (1.0, 1.0), "all-correct"),
        ((0.0, 1.0), (0.0, 0.0), "all-wrong"),
        ((0.0, 1.0), (0.5, 0.5), "equal"),
        ((1.0, 1.0), (1.0, 1.0), "equal"),
        ((0.0, 1.0), (0.0, 1.0), "some"),
        ((0.0, 1.0), (None, None), "unscored"),
    ],
)
def test_equal_totals_are_right_or_wrong_by_the_extremes_of_the_run_so_far(
    before: Any, now: Any, cause: str
) -> None:
    state = seen(step(1, group(*before)), step(2, group(*now)))
    assert {one: count for one, count in state.causes(1).items() if count} == {cause: 1}


@pytest.mark.parametrize(("total", "cause"), [(0.0, "identical"), (0.5, "identical"), (1.0, "all-correct")])
def test_the_same_text_is_told_as_such_unless_it_is_right(total: float, cause: str) -> None:
    same = group(total, total, texts=("a", "a"))
    assert seen(step(1, group(0.0, 1.0)), step(2, same)).causes(1)[cause] == 1
    assert seen(step(1, same)).causes(1)["identical"] == 1


def test_prompts_are_counted_from_the_groups_unless_they_are_known() -> None:
    steps = [step(1, group(0.0, 1.0)), step(2, group(2.0, 2.0), group(None, None, prompt="q"))]
    assert seen(*steps).prompts == {"p": Visits(2, 0.0, 2.0, 0)}
    known = {"p": Visits(9, -1.0, 3.0, 4)}
    state = seen(*steps, prompts=known)
    assert (state.prompts, state.low, state.high) == (known, 0.0, 2.0)
    assert state.texts_differed == 1
    assert (seen(steps[1]).had_signal, state.had_signal) == (False, True)


def test_prompts_that_are_counted_are_bounded_but_those_known_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("grpo_tui.health.state.MOST_PROMPTS", 1)
    state = seen(step(1, group(0.0, 1.0)), step(2, group(0.0, 1.0, prompt="q"), group(0.0, 3.0)))
    assert state.prompts == {"p": Visits(2, 0.0, 3.0, 0)}


def test_metrics_that_were_not_logged_come_from_the_groups() -> None:
    groups = group(0.0, 1.0), group(2.0, 3.0, truncated=True, tokens=10)
    of_groups = Settings(weights=(1.0,), names=("right",), from_groups=True)
    state = seen(step(1, *groups), settings=of_groups)
    assert state.course("reward").newest(1) == [1.5]
    assert state.course("completions/clipped_ratio").newest(1) == [0.75]
    assert state.course("completions/mean_length").newest(1) == [6.0]
    assert seen(step(1, *groups)).courses.keys() == {NO_SIGNAL}
    no_tokens = Settings(weights=(1.0,), names=("right",), from_groups=True, has_tokens=False)
    assert seen(step(1, *groups), settings=no_tokens).courses.keys() == {NO_SIGNAL, "reward"}
    assert seen(step(1), settings=of_groups).courses.keys() == set()
    assert "reward" not in seen(step(1, group(None, None)), settings=of_groups).courses


@pytest.mark.parametrize(
    ("calls", "failed", "share", "each"),
    [(10.0, 4.0, [0.4], [2.0]), (10.0, 10.0, [1.0], []), (0.0, 0.0, [], []), (10.0, None, [], [])],
)
def test_a_tool_has_a_share_of_failures_and_the_seconds_of_a_call_that_did_not_fail(
    calls: float, failed: float | None, share: list[float], each: list[float]
) -> None:
    values = {f"{TOOLS}add/calls": calls, f"{TOOLS}add/seconds": 12.0}
    state = seen(step(1, values=values if failed is None else {**values, f"{TOOLS}add/failed": failed}))
    assert list(state.course(f"{TOOLS}add/share").newest(1)) == share
    assert list(state.course(f"{TOOLS}add/each").newest(1)) == each


def test_the_newest_steps_are_those_that_are_asked_for() -> None:
    state = seen(
        step(1, group(0.0, 1.0), failed={0: 5}, ranks={0: 1.0, 1: 2.0}, seconds={"reward": 3.0}),
        step(4, group(0.0, 1.0, texts=("a", "a")), failed={0: 1, 1: 2}, ranks={0: 1.0}),
        step(7, group(1.0, 2.0, truncated=True), group(0.0, 1.0), ranks={0: 3.0, 1: 4.0}),
    )
    assert (dict(state.failed(2)), dict(state.failed(3))) == ({0: 1, 1: 2}, {0: 6, 1: 2})
    assert state.ranks(2) == [{0: 3.0, 1: 4.0}]
    assert (state.again(1), state.again(2)) == (0, 1)
    assert state.texts(1) == (2, 0, 4, 3, 0)
    assert state.texts(3).size == 8
    assert (state.window_start(1), state.window_start(2), state.window_start(9)) == (7, 4, 1)
    assert state.first(lambda one: one.failed, 3) == 1
    assert state.first(lambda one: one.failed, 1) is None
    assert state.course("phase/reward").newest(9) == [3.0]
    assert (RunState(ONE).window_start(3), RunState(ONE).course("reward").count) == (0, 0)
    assert (state.repeated(0, 2).again, state.repeated(0, 1).again) == (1, 0)


def test_reward_and_length_are_compared_within_groups() -> None:
    each, together = seen(step(1, group(0.0, 1.0, 3.0))).by_length(5)
    assert (each, together) == (pytest.approx(0.75), pytest.approx(6 / math.sqrt(8 * (14 / 3))))
    assert all(math.isnan(one) for one in seen(step(1, group(1.0, 1.0))).by_length(5))
    assert all(math.isnan(one) for one in seen(step(1, group(0.0, 1.0, tokens=3))).by_length(5))


def test_each_function_contributes_to_the_variance_by_its_weight() -> None:
    two = Settings(weights=(1.0, 0.0, 1.0), names=("a", "b", "c"))
    state = seen(step(1, group(0.0, 2.0, settings=two)), step(2), settings=two)
    assert state.contributions(5) == [0.5, 0.0, 0.5]
    assert [name for name, _, _ in state.used] == ["a", "c"]


def test_a_function_is_known_by_its_values_and_what_it_gave_no_score() -> None:
    state = seen(step(1, group(0.0, 1.0), group(2.0, 2.0)), step(2, group(None, 4.0)), step(3))
    (function,) = state.functions
    assert (function.low, function.high, function.span, function.values) == (0.0, 4.0, 4.0, 5)
    assert list(function.course.newest(9)) == [1.25, 4.0]
    assert list(function.abstained.newest(9)) == [0.0, 0.5]
    assert (list(function.varied), function.ever_varied) == ([1, 0, 0], True)
    assert (function.moved(3), function.moved(2)) == (1, 0)
    assert RunState(ONE).functions[0].span == 0.0


@pytest.mark.parametrize(("values", "rose"), [([0.0] * 5 + [0.4] * 5, False), ([0.0] * 5 + [0.6] * 5, True)])
def test_a_function_rose_by_a_share_of_its_range(values: list[float], rose: bool) -> None:
    (function,) = RunState(ONE).functions
    function.low, function.high = 0.0, 1.0
    for at, value in enumerate(values):
        function.course.add(at, value)
    assert function.rose(0.5, 5) is rose
    assert not function.rose(0.6, 5)


def logged(**courses: Sequence[float]) -> RunState:
    lasting = max(len(values) for values in courses.values())
    return seen(*(
        step(at + 1, values={name: values[at] for name, values in courses.items() if at < len(values)})
        for at in range(lasting)
    ))  # fmt: skip


def test_a_reward_gained_by_a_share_of_its_spread() -> None:
    state = logged(reward=[0.0] * 10 + [1.0] * 10, reward_std=[2.0] * 20)
    assert state.spread == 2.0
    assert (state.gained(0.4), state.gained(0.5)) == (True, False)
    noisy = logged(reward=[0.0, 3.0] * 5 + [1.5, 4.0] * 5, reward_std=[0.1] * 20)
    assert not noisy.gained(0.1), "it is within the noise"
    assert logged(reward=[0.0]).spread == 0.0
    assert logged(reward_std=[-1.0]).spread == 0.0


def test_a_reward_stood_still_since_the_entropy_was_at_half() -> None:
    entropy = [1.0] * 10 + [0.1] * 30
    still = logged(entropy=entropy, reward=[1.0] * 40)
    assert (still.stood_still(20), still.stood_still(30)) == (True, False)
    assert not logged(entropy=entropy, reward=[0.0] * 20 + [1.0] * 20).stood_still(20)
    assert not logged(entropy=[1.0] * 40, reward=[1.0] * 40).stood_still(0)


def test_what_was_measured_is_kept_with_the_reward_beside_it() -> None:
    rewards = [float(n) for n in range(12)] + [0.0] * 12
    state = logged(reward=rewards, eval_reward=[math.nan] * 11 + [0.7], entropy=[1.0] * 12 + [0.0] * 12)
    assert state.evaluations == [(12, 0.7, 6.5)]
    assert (state.at_best["reward"], state.at_best["entropy"]) == (6.5, 1.0)
    assert logged(eval_reward=[0.5]).evaluations == []


def test_a_finding_began_where_its_metric_changed_or_with_its_window() -> None:
    state = logged(reward=[0.0] * 10 + [1.0] * 4)
    course = state.course("reward")
    assert state.began(Found("", {}), 3) == 12
    assert state.began(Found("", {}, since=5), 3) == 5
    assert state.began(Found("", {}, changed=course), 3) == 11
    assert state.began(Found("", {}, changed=course, before=2.0), 3) == 12, "it was there already: its window"
    assert state.began(Found("", {}, changed=Course()), 3) == 1
    assert (state.turned(Found("", {}, since=5)), state.turned(Found("", {}))) == (5, None)


@pytest.mark.parametrize(
    ("value", "shown"), [(1234.5, "1,234"), (999.4, "999"), (0.01234, "0.0123"), (-1000.0, "-1,000")]
)
def test_a_number_is_shown_with_three_digits(value: float, shown: str) -> None:
    assert number(value) == shown
    assert percent(0.12345) == "12.3 %"


# -- how a finding is told -------------------------------------------------------------------------

RULE, OTHER = "signal.cancels", "policy.kl"


class Steps:
    """A doctor of rules that hold at the steps they are given."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, held: Mapping[str, Sequence[int]], **found: Any
    ) -> None:
        def check(name: str) -> Any:
            told = {"message": "Said.", "evidence": {"a": 1, "b": None}, **found}
            return lambda state, limits: Found(**told) if state.step in held.get(name, ()) else None

        monkeypatch.setattr(module, "CHECKS", {name: check(name) for name in module.CHECKS})
        self.doctor = Doctor(ONE)

    def until(self, last: int) -> Doctor:
        for at in range(self.doctor.state.step + 1, last + 1):
            self.doctor.see(step(at))
        return self.doctor


def test_a_rule_is_reported_once_it_has_held_for_three_steps_and_ends_after_ten_without(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    steps = Steps(monkeypatch, {RULE: [1, 3, 4, 5, 7], "policy.broke": [2]}, since=3)
    assert [one.id for one in steps.until(2).open_findings()] == ["policy.broke"]
    assert RULE not in [one.id for one in steps.until(4).open_findings()]
    (finding,) = [one for one in steps.until(5).open_findings() if one.id == RULE]
    assert (finding.first_step, finding.last_step) == (3, 5)
    assert finding.evidence == {"a": 1, "completions": "step 3..5"}
    assert RULE in [one.id for one in steps.until(16).open_findings()]
    assert steps.until(17).open_findings() == []
    past = {one.id: one for one in steps.doctor.findings()}
    assert (past[RULE].severity, past[RULE].last_step) == ("info", 7)
    assert past[RULE].message.endswith("Said. It ended at step 7.")


def test_a_finding_that_comes_back_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = Steps(monkeypatch, {RULE: [1, 2, 3, 20, 21, 22]})
    assert [one.severity for one in steps.until(19).findings()] == ["info"]
    (finding,) = steps.until(22).findings()
    assert (finding.id, finding.last_step, finding.severity != "info") == (RULE, 22, True)


def test_what_follows_from_a_finding_is_hidden_while_that_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    held = range(1, 21)
    steps = Steps(monkeypatch, {"policy.broke": held, OTHER: range(4), RULE: held, "machine.memory": held})
    told = [one.id for one in steps.until(3).open_findings()]
    assert sorted(told) == ["machine.memory", "policy.broke", RULE]
    assert OTHER not in [one.id for one in steps.until(20).findings()]
    assert OTHER in steps.doctor._ended


def change(at: int, name: str, new: Any = 2.0, old: Any = 1.0) -> SettingChanged:
    return SettingChanged(1, at, 0.0, name, old, new)


BACK = ("Set temperature back to 1", "temperature", 1.0, True)


@pytest.mark.parametrize(
    ("rule", "changes", "cause", "back"),
    [
        (RULE, [], None, False),
        (RULE, [change(19, "temperature")], "temperature", True),
        (RULE, [change(10, "temperature")], "temperature", True),
        (RULE, [change(9, "temperature")], None, False),
        (RULE, [change(20, "temperature")], None, False),
        (RULE, [change(12, "temperature"), change(15, "stage", 2, 1)], "stage", False),
        (RULE, [change(12, "temperature"), change(15, "save_steps", 9, 5)], "temperature", True),
        (RULE, [change(12, "temperature"), change(30, "temperature", 1.0, 2.0)], "temperature", False),
        (RULE, [change(12, "temperature"), change(30, "temperature", 1.5, 2.0)], "temperature", True),
        (RULE, [change(12, "temperature"), change(25, "beta", 1.0, 0.5)], "temperature", True),
        (RULE, [change(15, "temperature", 0.5)], "temperature", True),
        (RULE, [change(15, "learning_rate", 2.0)], "learning_rate", False),
        (RULE, [change(15, "learning_rate", 1.0)], None, False),
        (RULE, [change(15, "learning_rate", 0.5)], None, False),
        (RULE, [change(15, "learning_rate", "x")], None, False),
        ("machine.memory", [change(19, "temperature")], None, False),
    ],
)
def test_a_setting_changed_shortly_before_is_the_cause_and_may_be_set_back(
    rule: str, changes: list[SettingChanged], cause: str | None, back: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = Remedy("Do it", "temperature", 0.5)
    other = Remedy("Do that", "beta", 0.5)
    steps = Steps(monkeypatch, {rule: range(20, 31)}, since=20, remedies=(own, other), query="masked")
    steps.doctor.changes += changes
    (finding,) = steps.until(30).open_findings()
    assert finding.evidence["completions"] == "step 20..30 and masked"
    told = finding.evidence.get("cause")
    assert (told["setting"] if isinstance(told, dict) else None) == cause
    fields = [(one.text, one.field, one.value, one.live) for one in finding.remedies]
    assert (BACK in fields[:1]) is back
    assert "stage" not in [one.field for one in finding.remedies]
    assert finding.severity != "info"
    assert "It ended" not in finding.message
    assert (own in finding.remedies) is (cause != "temperature")
    assert other in finding.remedies
    if cause is not None:
        assert isinstance(told, dict)
        assert f" Likely cause: {cause} was changed from {told['from']:g} to {told['to']:g} at step" in (
            finding.message
        )


def test_the_rules_about_prompts_are_looked_at_again_after_some_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    steps = Steps(monkeypatch, {"signal.prompts-solved": range(99)})
    assert steps.until(9).prompt_findings() is None
    found = steps.until(10).prompt_findings()
    assert [(one.id, one.first_step, one.last_step) for one in found or ()] == [
        ("signal.prompts-solved", 1, 10)
    ]
    assert all("It ended" not in one.message for one in found or ())
    assert steps.until(19).prompt_findings() is None
    steps.doctor.state.prompts = {f"{n}": Visits(1, 0.0, 1.0, n) for n in range(64 * 15)}
    assert steps.until(20).prompt_findings() is not None
    assert steps.until(34).prompt_findings() is None
    assert steps.until(35).prompt_findings() is not None


def test_a_limit_that_counts_is_at_least_one() -> None:
    doctor = Doctor(ONE, {"signal.cancels": {"groups": 0, "share": 0.1}, "policy.kl": None})
    assert (doctor._limits["signal.cancels"]["groups"], doctor._limits["signal.cancels"]["share"]) == (
        1.0,
        0.1,
    )
    assert "policy.kl" not in doctor._limits
    assert len(doctor._limits) == len(module.RULES) - 1
