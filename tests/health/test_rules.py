"""Each rule reports what it is for and stays silent otherwise, on courses made by hand."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from grpo_tui.core.findings import RULES, Finding
from grpo_tui.core.records import TOOLS, Completion
from grpo_tui.health.course import Course
from grpo_tui.health.doctor import CHECKS, IMPLIED, Doctor
from grpo_tui.health.facts import GroupFacts, Observation, Settings, facts_of
from grpo_tui.health.machine_rules import GPU_MEMORY, GPU_RETRIES
from grpo_tui.health.state import RunState

TWO = Settings(weights=(1.0, 1.0), names=("format", "correct"), beta=0.04, total_steps=400)
ONE = Settings(weights=(1.0,), names=("correct",), beta=0.04, total_steps=400)
Metrics = Callable[[int, random.Random], dict[str, float]]


def group(
    rewards: Sequence[Sequence[float | None]],
    settings: Settings = ONE,
    *,
    advantages: Sequence[float] | None = None,
    texts: Sequence[str] = (),
    masked: bool = False,
    truncated: bool = False,
    tokens: Sequence[int] = (9,) * 8,
) -> GroupFacts:
    """The facts of a group, with TRL's advantages where none are given."""
    totals = [None if all(r is None for r in row) else sum(r or 0 for r in row) for row in rewards]
    known = [total or 0.0 for total in totals]
    given = advantages or [total - sum(known) / len(known) for total in known]
    members = [
        Completion(n, text, tuple(row), totals[n], given[n], tokens[n], truncated, masked=masked)
        for n, (row, text) in enumerate(zip(rewards, texts or "abcdefgh", strict=False))
    ]
    return facts_of(members, "prompt", settings)


MIXED = group([(0.0,), (1.0,), (0.0,), (1.0,)])


def course(
    metrics: Metrics,
    steps: int = 100,
    settings: Settings = ONE,
    groups: Callable[[int], Sequence[GroupFacts]] = lambda _: (MIXED,) * 4,
    limits: Any = None,
) -> list[Finding]:
    """What the rules say of a run with these metrics and groups."""
    doctor, chance = Doctor(settings, limits), random.Random(5)
    for step in range(1, steps + 1):
        values = {
            "reward_std": 1.0,
            "learning_rate": 1e-5,
            "grad_norm": 0.3,
            "entropy": 0.5,
            **metrics(step, chance),
        }
        missing = frozenset(key for key, value in values.items() if not math.isfinite(value))
        doctor.see(Observation(step, step, values, missing, tuple(groups(step))))
    return doctor.findings()


def ids(findings: Sequence[Finding]) -> list[str]:
    return [finding.id for finding in findings if finding.severity != "info"]


def climbs(step: int, chance: random.Random) -> dict[str, float]:
    """A run that learns and levels off."""
    return {
        "reward": 2 - 1.5 * math.exp(-step / 30) + chance.gauss(0, 0.15),
        "entropy": 0.05 + 0.4 * math.exp(-step / 30),
        "completions/mean_length": 100 + 100 * (1 - math.exp(-step / 40)) + chance.gauss(0, 5),
        "completions/clipped_ratio": 0.02,
        "grad_norm": abs(chance.gauss(0.4, 0.2)),
        "kl": 0.2 * (1 - math.exp(-step / 40)),
    }


def test_the_table_and_the_checks_name_the_same_rules() -> None:
    assert list(CHECKS) == list(RULES)
    assert {*IMPLIED, *(other for implied in IMPLIED.values() for other in implied)} <= set(RULES)


@pytest.mark.parametrize("steps", [5, 40, 400])
def test_a_run_that_learns_and_converges_has_no_finding(steps: int) -> None:
    assert course(climbs, steps) == []


@pytest.mark.parametrize("seed", range(20))
def test_noise_about_a_level_is_no_fall(seed: int) -> None:
    chance = random.Random(seed)
    found = course(lambda step, _: {"reward": chance.gauss(1, 0.3), "entropy": chance.gauss(0.5, 0.1)}, 400)
    assert set(ids(found)) <= {"policy.learning-rate-low"}  # nothing moves, although groups have a signal


NO_SIGNAL: dict[str, GroupFacts] = {
    "signal.masked": group([(0.0,), (1.0,)], masked=True, truncated=True),
    "signal.not-finite": group([(math.nan,), (1.0,)], advantages=[math.nan, math.nan]),
    "signal.unscored": group([(None,), (None,)]),
    "signal.cancels": group([(1.0, 0.0), (0.0, 1.0)], TWO),
    "signal.constant": group([(0.0,), (0.0,)]),
}


@pytest.mark.parametrize("cause", NO_SIGNAL)
def test_groups_without_signal_are_told_apart_by_cause(cause: str) -> None:
    facts = NO_SIGNAL[cause]
    settings = TWO if len(facts.functions) == 2 else ONE
    found = course(lambda *_: {"reward": 0.5, "grad_norm": 0.0}, 20, settings, lambda _: (facts,) * 4)
    assert ids(found) == [cause]
    assert (found[0].severity, found[0].first_step, found[0].last_step) == ("error", 1, 20)
    assert str(found[0].evidence["completions"]).startswith("step 1..20 and ")


def test_causes_none_of_which_explains_most_are_told_by_the_most_frequent_one() -> None:
    lost = [group([(0.0,), (1.0,)], masked=True, truncated=True)] * 3
    lost += [group([(None,), (None,)])] * 2 + [group([(0.0,), (1.0,)], advantages=[0.0, 0.0])] * 2
    (found,) = course(lambda *_: {"reward": 0.5}, 20, ONE, lambda _: lost)
    assert (found.id, found.evidence["masked"]) == ("signal.masked", 3 / 7)
    equal = [group([(score,)] * 4) for score in (0.0, 0.0, 0.5, 1.0, 1.0)]
    (found,) = course(lambda *_: {"reward": 0.5}, 20, ONE, lambda step: [MIXED] if step < 3 else equal)
    assert found.id == "signal.equal"
    assert "Totals are equal in 100 % of the groups of the last 10 steps" in found.message


def test_a_reward_of_the_prompt_alone_is_not_taken_for_solved_and_unsolved_prompts() -> None:
    wrong, right = group([(0.0,)] * 4), group([(1.0,)] * 4)
    found = course(lambda *_: {"reward": 0.5}, 20, ONE, lambda step: (wrong, right) * 2)
    assert ids(found) == ["signal.prompt-only"]


def test_prompts_that_are_too_easy_from_the_start_are_told_from_a_solved_task() -> None:
    right, wrong = group([(1.0,)] * 4), group([(0.0,)] * 4)

    def easy(step: int) -> list[GroupFacts]:
        return [right, right, right, wrong if step == 1 else right]

    def learned(step: int) -> list[GroupFacts]:
        return [MIXED if step < 30 else right] * 4

    found = {f.id: f.severity for f in course(lambda *_: {"reward": 1.0}, 9, ONE, easy)}
    assert found == {"signal.all-correct": "warning"}
    late = course(lambda step, _: {"reward": min(1.0, step / 30)}, 60, ONE, learned)
    assert {f.id: f.severity for f in late}["signal.all-correct"] == "info"
    assert ids(late) == []


def test_identical_completions_are_named_as_such_unless_they_are_right() -> None:
    alike = group([(0.0,)] * 4, texts=["the"] * 4)
    found = course(lambda step, _: {"reward": 0.1}, 40, ONE, lambda step: [MIXED if step < 20 else alike] * 4)
    assert "signal.identical" in ids(found)
    solved = group([(1.0,)] * 4, texts=["4"] * 4)
    found = course(
        lambda step, _: {"reward": 0.9}, 40, ONE, lambda step: [MIXED if step < 20 else solved] * 4
    )
    assert "signal.identical" not in ids(found)


def test_a_function_that_never_moves_is_named_with_its_value() -> None:
    facts = group([(0.0, 0.0), (1.0, 0.0)] * 2, TWO)
    found = course(lambda *_: {"reward": 0.5}, 30, TWO, lambda _: (facts,) * 4)
    stuck = next(f for f in found if f.id == "signal.reward-stuck")
    assert (stuck.severity, stuck.evidence["function"], stuck.evidence["value"]) == (
        "warning",
        "correct",
        0.0,
    )


def test_a_function_without_a_weight_is_not_judged() -> None:
    loud = group([(0.0, 1.0), (40.0, 0.0), (13.0, 0.0), (27.0, 1.0)], TWO)
    stuck = group([(0.0, 1.0), (1.0, 1.0)] * 2, TWO)
    forms = [learns_form(step, answers=False) for step in range(151)]
    for weights in ((1.0, 0.0), (0.0, 1.0)):
        settings = Settings(weights=weights, names=TWO.names)
        for facts in ([loud] * 151, [stuck] * 151, forms):
            found = course(
                lambda *_: {"reward": 0.5}, 150, settings, lambda step, facts=facts: (facts[step],) * 4
            )
            unused = settings.names[weights.index(0.0)]
            assert unused not in {finding.evidence.get("function") for finding in found}


def test_a_loud_function_drowns_a_quiet_one_unless_both_are_normalized() -> None:
    settings = Settings(weights=(1.0, 1.0), names=("loud", "quiet"))
    facts = group([(0.0, 1.0), (40.0, 0.0), (13.0, 0.0), (27.0, 1.0)], settings)
    found = course(lambda *_: {"reward": 20.0}, 30, settings, lambda _: (facts,) * 4)
    assert "signal.reward-drowned" in ids(found)
    settings = Settings(weights=(1.0, 1.0), names=("loud", "quiet"), normalized=True)
    assert "signal.reward-drowned" not in ids(course(lambda *_: {}, 30, settings, lambda _: (facts,) * 4))


def learns_form(step: int, *, answers: bool) -> GroupFacts:
    form, right = (
        (n < min(8, step // 5) for n in range(8)),
        (n < (step // 20 if answers else 1) for n in range(8)),
    )
    return group([(float(f), float(r)) for f, r in zip(form, right, strict=True)], TWO)


def test_format_that_rises_alone_is_reported_and_format_that_rises_first_is_not() -> None:
    alone = course(lambda *_: {}, 150, TWO, lambda step: (learns_form(step, answers=False),) * 4)
    assert "signal.format-only" in ids(alone)
    first = course(lambda *_: {}, 150, TWO, lambda step: (learns_form(step, answers=True),) * 4)
    assert "signal.format-only" not in ids(first)


@pytest.mark.parametrize(
    ("answers", "steps", "named"),
    [
        (lambda step: 0.04, 200, True),
        (lambda step: 0.04 + step / 2000, 200, False),
        (lambda step: 0.92, 200, False),
        (lambda step: 0.04, 149, False),
    ],
    ids=["stays", "rises", "is solved", "too few rows"],
)
def test_format_alone_is_told_from_the_logged_means_when_no_completions_are_recorded(
    answers: Callable[[int], float], steps: int, named: bool
) -> None:
    def logged(step: int, chance: random.Random) -> dict[str, float]:
        form = 1 - 0.8 * math.exp(-step / 20)
        means = {"format_reward": form, "accuracy_reward": answers(step)}
        return {"reward": form} | {
            f"rewards/{name}/mean": mean + chance.gauss(0, 0.01) for name, mean in means.items()
        }

    found = course(logged, steps, Settings(), lambda _: ())
    assert ids(found) == ["signal.format-only"] * named
    recorded = course(logged, steps, TWO, lambda step: (learns_form(step, answers=True),) * 4)
    assert "signal.format-only" not in ids(recorded)  # what the completions say counts


def breaks(step: int, chance: random.Random) -> dict[str, float]:
    broken = step > 2
    return {"reward": 0.02 if broken else 0.6, "completions/mean_length": 400 if broken else 90,
            "completions/clipped_ratio": float(broken), "entropy": 0.01 if broken else 0.3}  # fmt: skip


FAULTS: dict[str, tuple[int, Metrics]] = {
    "policy.broke": (12, breaks),
    "policy.reward-fell": (
        120,
        lambda step, chance: {"reward": 2 - abs(step - 60) / 40 + chance.gauss(0, 0.1)},
    ),
    "policy.collapse": (
        60,
        lambda step, chance: {"reward": chance.gauss(0.5, 0.05), "entropy": 0.5 * math.exp(-step / 15)},
    ),
    "policy.truncation": (15, lambda *_: {"completions/clipped_ratio": 0.7}),
    "policy.length-runaway": (
        80,
        lambda step, chance: {"reward": chance.gauss(0.5, 0.1), "completions/mean_length": 100.0 + step * 3},
    ),
    "policy.kl": (60, lambda step, chance: {"reward": chance.gauss(0.5, 0.05), "kl": 0.01 * 1.1**step}),
    "policy.mismatch": (
        60,
        lambda step, chance: {
            "reward": chance.gauss(0.5, 0.05),
            "sampling/sampling_logp_difference/mean": 0.01 * 1.08**step,
            "sampling/sampling_logp_difference/max": 3.0 + step / 60,
            "sampling/importance_sampling_ratio/mean": 1.0,
        },
    ),
    "policy.gradient-nan": (20, lambda step, _: {"grad_norm": math.nan if step > 18 else 0.3}),
    "policy.gradient-spikes": (60, lambda step, _: {"grad_norm": 40.0 if step % 15 == 0 else 0.3}),
    "policy.gradient-zero": (15, lambda *_: {"grad_norm": 0.0}),
    "policy.learning-rate-ended": (
        100,
        lambda step, _: {"learning_rate": max(0.0, 1e-5 * (1 - step / 80))},
    ),
    "policy.learning-rate-low": (200, lambda step, chance: {"reward": chance.gauss(0.5, 0.1)}),
    "machine.memory": (
        40,
        lambda step, chance: {
            "reward": step / 60 + chance.gauss(0, 0.05),
            GPU_MEMORY: 0.97,
            GPU_RETRIES: float(step // 5),
        },
    ),
    "machine.tools": (
        60,
        lambda step, chance: {
            "reward": step / 60 + chance.gauss(0, 0.05),
            TOOLS + "search/calls": 8.0,
            TOOLS + "search/failed": 6.0 if step >= 40 else 0.5,
            TOOLS + "search/seconds": 0.4 if step >= 40 else 1.5,
        },
    ),
    "policy.held-out": (
        130,
        lambda step, chance: {
            "reward": step / 60 + chance.gauss(0, 0.05),
            **({"eval_reward": 0.8 - abs(step - 60) / 100} if step % 24 == 0 else {}),
        },
    ),
}


@pytest.mark.parametrize("rule", FAULTS)
def test_each_fault_of_the_policy_is_named_alone(rule: str) -> None:
    steps, metrics = FAULTS[rule]
    assert ids(course(metrics, steps)) == [rule]


@pytest.mark.parametrize("rate", [1e-5, 1.2345e-6, 0.000333])
@pytest.mark.parametrize("rule", FAULTS)
def test_a_remedy_that_sets_a_value_says_that_value(rule: str, rate: float) -> None:
    steps, metrics = FAULTS[rule]
    for finding in course(lambda step, chance: {"learning_rate": rate, **metrics(step, chance)}, steps):
        for remedy in finding.remedies:
            if remedy.field is not None:
                assert remedy.text.startswith(f"{remedy.field} {remedy.value:g}"), finding.id


def test_a_policy_that_breaks_is_named_at_its_third_broken_step() -> None:
    assert course(breaks, 4) == []
    (found,) = course(breaks, 5)
    assert (found.id, found.first_step) == ("policy.broke", 3)


def breaks_late(step: int, chance: random.Random) -> dict[str, float]:
    broken = step > 60
    return {
        "reward": (0.8 if broken else min(2.0, 0.5 + step / 30)) + chance.gauss(0, 0.1),
        "entropy": 0.25 if broken else 0.1 + 0.15 * math.exp(-step / 10),
        "completions/clipped_ratio": 0.0,
    }


def test_a_policy_that_breaks_after_it_has_learned_is_compared_with_its_best_and_stays_broken() -> None:
    assert course(breaks_late, 62) == []
    (found,) = course(breaks_late, 63)
    assert (found.id, found.first_step) == ("policy.broke", 61)
    assert ids(course(breaks_late, 160)) == ["policy.broke"]


def test_an_entropy_that_is_first_logged_after_the_best_steps_says_nothing_of_a_break() -> None:
    def logged_late(step: int, chance: random.Random) -> dict[str, float]:
        return breaks_late(step, chance) | ({} if step > 60 else {"entropy": math.nan})

    assert "policy.broke" not in ids(course(logged_late, 70))


def test_a_reward_that_was_never_above_its_lowest_value_does_not_break() -> None:
    found = course(lambda step, _: {"reward": 0.0, "reward_std": 0.0, "entropy": 0.5 / step}, 12)
    assert "policy.broke" not in ids(found)


@pytest.mark.parametrize(("steps", "found"), [(12, []), (30, ["policy.reward-fell"])])
def test_twelve_low_steps_of_a_noisy_reward_are_no_fall_and_thirty_are(steps: int, found: list[str]) -> None:
    def dips(step: int, chance: random.Random) -> dict[str, float]:
        low = 150 <= step < 150 + steps
        high = 130 <= step < 150
        level = 0.33 if low else 0.66 if high else 0.53
        return {"reward": level + 0.09 * (-1) ** step, "reward_std": 0.46}

    assert [one for one in ids(course(dips, 150 + steps)) if one == "policy.reward-fell"] == found


def test_a_task_that_is_nearly_solved_from_the_start_is_too_easy_although_a_group_had_a_signal() -> None:
    right = group([(1.0,)] * 4)

    def groups(step: int) -> list[GroupFacts]:
        return [right, right, right, MIXED if step == 1 else right]

    found = course(lambda step, _: {"reward": 0.9 if step == 1 else 1.0}, 12, ONE, groups)
    assert {f.id: f.severity for f in found}["signal.all-correct"] == "warning"


def test_format_alone_is_reported_also_beside_partial_credit_that_rises_with_it() -> None:
    three = Settings(weights=(1.0,) * 3, names=("correctness", "format", "incremental"))

    def facts(step: int) -> tuple[GroupFacts, ...]:
        form = [float(n < min(8, step // 5)) for n in range(8)]
        return (group([(float(n < 1), one, one) for n, one in enumerate(form)], three),) * 4

    assert "signal.format-only" in ids(course(lambda *_: {}, 150, three, facts))
    other = Settings(weights=(1.0,) * 3, names=("judge", "format", "incremental"))
    assert "signal.format-only" not in ids(course(lambda *_: {}, 150, other, facts))


@pytest.mark.parametrize(("end", "noise", "named"), [(0.515, 0.0, 1), (0.53, 0.0, 0), (0.53, 0.05, 1)])
def test_entropy_that_moves_by_no_more_than_its_noise_has_not_moved(
    end: float, noise: float, named: int
) -> None:
    def still(step: int, chance: random.Random) -> dict[str, float]:
        swing = noise * (-1) ** step
        return {"reward": chance.gauss(0.5, 0.1), "entropy": (0.5 if step < 100 else end) + swing}

    assert ids(course(still, 200)).count("policy.learning-rate-low") == named


@pytest.mark.parametrize("moves", ["reward", "completions/mean_length", "entropy", ""])
def test_a_learning_rate_is_not_too_low_when_anything_of_the_policy_moves(moves: str) -> None:
    def still(step: int, chance: random.Random) -> dict[str, float]:
        values = {"reward": 0.5, "completions/mean_length": 100.0, "entropy": 0.5}
        return {
            key: (1 + step / 150 * (key == moves)) * value + chance.gauss(0, value / 100)
            for key, value in values.items()
        }

    assert ("policy.learning-rate-low" in ids(course(still, 200))) == (moves == "")


def test_truncation_that_is_logged_is_judged_although_the_groups_have_no_token_counts() -> None:
    settings = Settings(weights=(1.0,), names=("correct",), has_tokens=False)
    found = course(lambda *_: {"reward": 0.5, "completions/clipped_ratio": 0.7}, 15, settings)
    assert ids(found) == ["policy.truncation"]


def test_a_schedule_that_ends_with_the_run_is_not_reported() -> None:
    settings = Settings(weights=(1.0,), names=("correct",), total_steps=80)
    falls: Metrics = lambda step, chance: {**climbs(step, chance), "learning_rate": 1e-5 * (1 - step / 80)}  # noqa: E731
    assert course(falls, 80, settings) == []


def test_entropy_that_falls_while_the_reward_rises_is_convergence() -> None:
    assert (
        course(lambda step, chance: {"reward": step / 50 + chance.gauss(0, 0.1), "entropy": 0.5 / step}, 100)
        == []
    )


def test_a_finding_that_ended_is_kept_as_info_with_its_steps() -> None:
    found = course(lambda step, _: {"completions/clipped_ratio": 0.9 if 20 <= step < 50 else 0.0}, 100)
    assert [(f.id, f.severity) for f in found] == [("policy.truncation", "info")]
    first, last = found[0].first_step or 0, found[0].last_step or 0
    assert 15 <= first <= 25
    assert 50 <= last <= 56
    assert f"ended at step {last}" in found[0].message


def test_limits_replace_those_of_the_table_and_none_turns_a_rule_off() -> None:
    truncated: Metrics = lambda *_: {"completions/clipped_ratio": 0.4}  # noqa: E731
    assert course(truncated, 20) == []
    assert ids(course(truncated, 20, limits={"policy.truncation": {"share": 0.3}})) == ["policy.truncation"]
    most: Metrics = lambda *_: {"completions/clipped_ratio": 0.9}  # noqa: E731
    assert course(most, 20, limits={"policy.truncation": None}) == []


def test_slow_steps_name_the_phase_that_grew_unless_completions_grew() -> None:
    def run(length: Callable[[int], float]) -> list[str]:
        doctor = Doctor(ONE)
        for step in range(1, 121):
            slow = 1.0 if step < 60 else 4.0
            values = {"step_time": 1 + slow, "completions/mean_length": length(step), "reward": 1.0}
            doctor.see(Observation(step, step, values, seconds={"reward": slow, "generate": 1.0}))
        return [f.message for f in doctor.findings() if f.id == "machine.slow-step"]

    assert "reward: 1 to 4 s" in run(lambda _: 100)[0]
    assert run(lambda step: 100 if step < 60 else 250) == []


def test_slow_steps_name_the_phase_that_grew_and_not_the_longest() -> None:
    doctor = Doctor(ONE)
    for step in range(1, 121):
        slow = 0.1 if step < 60 else 6.5
        seconds = {"generate": 6.0, "reward": slow, "update": 0.1}
        values = {"step_time": sum(seconds.values()), "completions/mean_length": 100.0, "reward": 1.0}
        doctor.see(Observation(step, step, values, seconds=seconds))
    (finding,) = [f for f in doctor.findings() if f.id == "machine.slow-step"]
    assert "Most of it is reward: 0.1 to 6.5 s." in finding.message


@pytest.mark.parametrize(("update", "severity"), [(2.0, "info"), (1.0, "warning")])
def test_slow_steps_are_no_warning_when_every_phase_is_slower_as_next_to_other_programs(
    update: float, severity: str
) -> None:
    doctor = Doctor(ONE)
    for step in range(1, 121):
        busy = step >= 60
        seconds = {"generate": 2.4 if busy else 1.0, "reward": 0.1, "update": update if busy else 0.9}
        values = {"step_time": 4.4 if busy else 2.0, "completions/mean_length": 100.0, "reward": 1.0}
        doctor.see(Observation(step, step, values, seconds=seconds))
    (finding,) = [f for f in doctor.findings() if f.id == "machine.slow-step"]
    assert finding.severity == severity
    assert ("Every phase became slower" in finding.message) == (severity == "info")


def test_failed_calls_and_a_function_that_stops_answering_are_named() -> None:
    doctor = Doctor(TWO)
    for step in range(1, 21):
        doctor.see(Observation(step, step, failed={1: 1} if step in (15, 17) else {}))
    assert doctor.findings()[0].evidence["function"] == "correct"
    silent = group([(1.0, None), (0.0, None)], TWO)
    heard = group([(1.0, 0.0), (0.0, 1.0), (1.0, 1.0), (0.0, 0.0)], TWO)
    found = course(lambda *_: {"reward": 0.5}, 60, TWO, lambda step: [heard if step < 30 else silent] * 4)
    assert "machine.reward-fails" in ids(found)


def test_what_is_known_of_the_newest_groups_is_that_of_the_last_steps_alone() -> None:
    state = RunState(TWO, {})
    cancels = NO_SIGNAL["signal.cancels"]
    heard = group([(1.0, 0.0), (0.0, 0.0)], TWO)
    for step in range(1, 71):
        state.see(Observation(step, step, groups=(heard if step % 3 else cancels,) * 2))
        assert state.causes(10) == Counter(
            {"some": 2 * sum(n % 3 > 0 for n in range(max(1, step - 9), step + 1))}
            | {"cancels": 2 * sum(n % 3 == 0 for n in range(max(1, step - 9), step + 1))}
        )
    assert state.causes(50).total() == 100
    assert state.texts(10) == (20, 0, 40, 0, 0)
    assert state.contributions(3)[1] == pytest.approx(0.0)


def test_a_course_knows_its_extremes_and_leaves_out_what_is_no_number() -> None:
    course = Course()
    assert (course.span, course.count) == (0.0, 0)
    assert math.isnan(course.first)
    for step, value in enumerate([2.0, math.nan, 1.0, math.inf, 3.0, 1.5], 1):
        course.add(step, value)
    assert (course.low, course.high, course.span, course.count) == (1.0, 3.0, 2.0, 4)
    assert (course.opening, course.first, course.start) == (2.0, 2.0, 1.75)
    assert (course.missing(6), course.missing(3), course.missing(2)) == (2, 1, 0)
