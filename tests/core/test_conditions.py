"""A condition is read from one line, and holds when the run says so and not before."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

from grpo_tui.core.conditions import Condition, ConditionError, Watched, parse


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("policy.broke", Condition("finding", "policy.broke")),
        ("policy.*", Condition("finding", "policy.*")),
        ("error", Condition("finding", "error")),
        ("reward >= 2", Condition("metric", "reward", ">=", 2.0)),
        ("reward>=2 over 1 step", Condition("metric", "reward", ">=", 2.0)),
        (
            "rewards/f(x)/mean  <  -1.5e-2 over 20 steps",
            Condition("metric", "rewards/f(x)/mean", "<", -0.015, 20),
        ),
        ("reward gains less than .02 over 200 steps", Condition("gain", "reward", "<", 0.02, 200)),
        ("reward gains < 0 over 30 steps", Condition("gain", "reward", "<", 0.0, 30)),
        ("3 evaluations without gain", Condition("metric", "evaluate/without_gain", ">=", 3.0)),
        ("1 evaluation without a gain", Condition("metric", "evaluate/without_gain", ">=", 1.0)),
        ("8h", Condition("hours", value=8.0)),
        ("1 hour", Condition("hours", value=1.0)),
        ("0.5 GPU hours", Condition("gpu_hours", value=0.5)),
        ("16 gpu-hours", Condition("gpu_hours", value=16.0)),
    ],
)
def test_a_condition_is_read(text: str, read: Condition) -> None:
    assert parse(text) == read


@pytest.mark.parametrize(
    ("text", "said", "meant"),
    [
        ("polcy.broke", r"Did you mean policy\.broke", "policy.broke"),
        ("Error", "Did you mean error", "error"),
        ("reward", "Use `policy.broke`", None),
        ("reward == 2", "Use `policy.broke`", None),
        ("reward > 2 over 0 steps", "1 to 100000 steps", None),
        ("reward > 2 over 100001 steps", "1 to 100000 steps", None),
        ("0 hours", "more than 0", None),
        ("", "Use `policy.broke`", None),
    ],
)
def test_what_is_none_says_what_to_write(text: str, said: str, meant: str | None) -> None:
    with pytest.raises(ConditionError, match=said) as caught:
        parse(text)
    assert caught.value.meant == meant


def fed(text: str, values: list[float | None], key: str = "reward") -> list[tuple[int, str]]:
    """The steps, from 5 on, at which a condition holds."""
    watched = Watched(parse(text))
    said = [(step, watched.logged(step, {key: value})) for step, value in enumerate(values, 5)]
    return [(step, why) for step, why in said if why]


def test_a_metric_is_compared_by_its_mean_over_a_whole_window() -> None:
    assert fed("reward >= 2", [1, 2, 3]) == [(6, "reward is 2")]
    assert fed("reward > 2", [1, 2, 2.5]) == [(7, "reward is 2.5")]
    assert fed("reward >= 2 over 3 steps", [9, 9]) == [], "the window is not full"
    assert fed("reward >= 2 over 3 steps", [0, 1, 2, 3, 9]) == [(8, "reward is 2 over 3 steps")]
    assert fed("reward < 2 over 3 steps", [9, 9, 9, 1, 0, 0]) == [(10, "reward is 0.333 over 3 steps")]
    assert fed("kl < 2", [1, 1]) == [], "another metric"
    odd: list[Any] = [math.nan, None, math.inf, -math.inf, "-1", 1]
    assert fed("reward <= 0", odd) == []


def test_a_metric_that_is_not_logged_at_each_step_is_compared_over_what_there_is() -> None:
    watched = Watched(parse("eval_reward > 1 over 20 steps"))
    said = [
        watched.logged(step, {"reward": 1.0} if step % 10 else {"eval_reward": 2.0}) for step in range(1, 41)
    ]
    assert [step for step, why in enumerate(said, 1) if why] == [20]


def test_a_gain_holds_only_when_its_interval_is_below() -> None:
    noise = random.Random(3)
    flat = [1 + noise.gauss(0, 0.1) for _ in range(400)]
    rising = [value + 0.002 * place for place, value in enumerate(flat)]
    rule = "reward gains less than 0.05 over 100 steps"
    ((step, why),) = fed(rule, flat)
    assert step == 5 + 199, "two windows are needed"
    assert why.startswith("reward gained ")
    steps = [place // 30 * 0.02 + place % 2 for place in range(60)]
    told = "reward gained 0.02 over 30 steps, at most 0.28"
    assert fed("reward gains less than 0.5 over 30 steps", steps) == [(5 + 59, told)]
    assert not fed(rule, rising), "it gains 0.2 every 100 steps"
    assert not fed("reward gains less than 0.05 over 9 steps", flat[:60]), "too few rows for an interval"
    assert fed("reward gains less than 0.5 over 10 steps", flat[:20])[0][0] == 5 + 19
    late = [None if place < 30 and place % 4 else value for place, value in enumerate(flat[:60])]
    assert not fed("reward gains less than 0.5 over 30 steps", late), "too few rows in the first window"
    wild = [value + noise.gauss(0, 3) for value in flat]
    assert not fed(rule, wild[:200]), "the noise hides whether it gains"


def test_a_finding_counts_each_time_it_opens() -> None:
    assert not Watched(parse("error > 2")).opened({"policy.kl": "error"}), "a metric of that name is meant"
    watched = Watched(parse("policy.*"), open_before=["policy.kl"])
    assert not watched.opened({"policy.kl": "warning", "signal.cancel": "error"}), "it was open at the begin"
    assert watched.opened({"policy.kl": "warning", "policy.broke": "error"}) == "policy.broke"
    assert not watched.opened({"policy.broke": "error"})
    assert watched.opened({"policy.broke": "error", "policy.kl": "warning"}) == "policy.kl"
    assert Watched(parse("error")).opened({"a": "warning", "b": "error"}) == "b"
    assert not Watched(parse("error")).opened({"a": "warning"})
    assert not Watched(parse("8 hours")).opened({"policy.broke": "error"})


def test_hours_count_once() -> None:
    watched = Watched(parse("8 hours"))
    assert not watched.trained(7.99, 4)
    assert watched.trained(8.0, 4) == "the run has used 8 hours"
    assert not watched.trained(8.1, 4)
    assert Watched(parse("8 GPU hours")).trained(2.0, 4) == "the run has used 8 GPU hours"
    assert not Watched(parse("8 GPU hours")).trained(99.0, 0), "a run on the CPU"
    assert not Watched(parse("reward > 1")).trained(99.0, 1)
