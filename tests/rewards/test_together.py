"""What several rewards do to each other is told, and only where the samples prove it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest

from grpo_tui.core.findings import Finding
from grpo_tui.rewards.answer_format import FORMS
from grpo_tui.rewards.checks.function import signature_findings, value_findings
from grpo_tui.rewards.checks.gold import LOWER, Retyped, gold_findings
from grpo_tui.rewards.checks.together import (
    cost_findings,
    count_findings,
    float32_findings,
    names_findings,
    pair_findings,
    share_findings,
    unscored_findings,
)
from grpo_tui.rewards.samples import Sample, gold_and_wrong
from grpo_tui.rewards.score_report import (
    Aggregate,
    Failure,
    FunctionInfo,
    FunctionScore,
    GroupScore,
    _parameter,
)

SAMPLES = [Sample(f"p{i // 4}", f"answer {i} " + "x" * i) for i in range(8)]


def _function(name: str, scores: Sequence[float | None], seconds: float = 0.0) -> FunctionScore:
    info = FunctionInfo(0, name, 1.0, "function", name, parameters=(_parameter("answer", 1, "empty"),))
    return FunctionScore(info, tuple(scores), seconds)


def _ids(findings: Iterable[Finding]) -> list[str]:
    return [finding.id for finding in findings]


RIGHT = [1.0, 0.0, 0.0, 1.0, 0.0, 1.0, 0.0, 0.0]
SHORT = [0.1, 0.9, 0.3, 0.5, 0.2, 0.2, 0.8, 0.4]


def test_two_rewards_that_cancel_are_told_with_their_weights() -> None:
    right, wrong = _function("right", RIGHT), _function("wrong", [2 - 2 * r for r in RIGHT])
    assert _ids(pair_findings([right, wrong], SAMPLES, [2.0, 1.0])) == ["rewards.cancel"]
    assert _ids(pair_findings([right, wrong], SAMPLES, [2.0, 0.5])) == []
    assert _ids(pair_findings([right, _function("short", SHORT)], SAMPLES, [1.0, 1.0])) == []


def test_two_rewards_that_measure_the_same_are_told_though_their_level_differs_by_prompt() -> None:
    shifted = [3 * r + (10 if i < 4 else 0) for i, r in enumerate(RIGHT)]
    pair = [_function("right", RIGHT), _function("shifted", shifted)]
    assert _ids(pair_findings(pair, SAMPLES, [1.0, 1.0])) == ["rewards.same"]
    assert _ids(pair_findings(pair, SAMPLES[:6], [1.0, 1.0])) == ["rewards.same"]
    assert _ids(pair_findings(pair, SAMPLES[:5], [1.0, 1.0])) == [], "five samples prove nothing"


def test_a_reward_that_drowns_the_others_is_told_until_its_weight_is_lowered() -> None:
    pair = [_function("right", RIGHT), _function("length", [100 * s for s in SHORT])]
    (finding,) = share_findings(pair, SAMPLES, [1.0, 1.0])
    assert finding.id == "rewards.drowns"
    assert finding.field == "length"
    assert "so right hardly matters" in finding.message
    assert share_findings(pair, SAMPLES, [1.0, 0.01]) == []
    # Normalized before it is summed, each function varies as much as its weight.
    assert "scale it to 0" in finding.message
    assert share_findings(pair, SAMPLES, [1.0, 1.0], normalized=True) == []
    (finding,) = share_findings(pair, SAMPLES, [10.0, 1.0], normalized=True)
    assert (finding.field, "scale it" in finding.message) == ("right", False)
    apart = [_function(name, [level] * 4 + [2 * level] * 4) for name, level in (("one", 1.0), ("two", 50.0))]
    assert share_findings(apart, SAMPLES, [1.0, 1.0]) == [], "nothing varies within a group"


DIED = Failure("died", "", "it ended")


def test_a_function_that_failed_or_has_no_weight_is_compared_with_none() -> None:
    right, double = _function("right", RIGHT), _function("double", [2 * r for r in RIGHT])
    loud = _function("loud", [100 * s for s in SHORT])
    for pair, told in (([right, double], ["rewards.same"]), ([right, loud], [])):
        assert _ids(pair_findings(pair, SAMPLES, [1.0, 1.0])) == told
        assert _ids(pair_findings(pair, SAMPLES, [1.0, 0.0])) == []
        assert _ids(pair_findings([pair[0], replace(pair[1], failure=DIED)], SAMPLES, [1.0, 1.0])) == []
    quiet = _function("quiet", SHORT)
    three, other = [right, loud, quiet], ", so right hardly matters"
    (finding,) = share_findings(three, SAMPLES, [1.0, 1.0, 0.0])
    assert other in finding.message
    (finding,) = share_findings([right, loud, replace(quiet, failure=DIED)], SAMPLES, [1.0, 1.0, 1.0])
    assert other in finding.message
    (finding,) = share_findings([right, loud, _function("same", [1.0] * 8)], SAMPLES, [1.0, 1.0, 1.0])
    assert other in finding.message
    assert share_findings([loud, _function("same", [1.0] * 8)], SAMPLES, [1.0, 1.0]) == []
    assert share_findings([right, loud], SAMPLES[:5], [1.0, 1.0]) == [], "five samples prove nothing"
    against = [_function("right", [s < 0.4 for s in SHORT]), loud]  # takes a part of the differences back
    assert "it causes 100% of the differences" in share_findings(against, SAMPLES[:6], [1.0, 1.0])[0].message


def test_functions_that_cancel_once_each_is_normalized_are_told_only_where_it_is() -> None:
    pair = [_function("right", RIGHT), _function("wrong", [5 - 5 * r for r in RIGHT])]
    assert _ids(pair_findings(pair, SAMPLES, [1.0, 1.0])) == []
    assert _ids(pair_findings(pair, SAMPLES, [1.0, 1.0], normalized=True)) == ["rewards.cancel"]
    assert _ids(pair_findings(pair, SAMPLES, [5.0, 1.0])) == ["rewards.cancel"]
    assert _ids(pair_findings(pair, SAMPLES, [1.0, -1.0])) == ["rewards.same"]
    alone = [Sample(f"p{i}", "x") for i in range(8)]
    assert _ids(pair_findings(pair, alone, [5.0, 1.0])) == [], "a group of one says nothing"


@pytest.mark.parametrize(
    ("totals", "told"),
    [
        ((1.0, None, 0.0, 2.0), "1 of 4 samples get no score from any function (first: sample 2)"),
        ((1.0, None, None, 2.0), "2 of 4 samples get no score from any function (first: sample 2)"),
        ((1.0, 0.0, None, None), None),
        ((None, None, None, None), None),
        ((1.0, 0.0, 1.0, 0.0), None),
    ],
)
def test_a_sample_without_a_score_is_told_unless_its_whole_group_has_none(
    totals: tuple[float | None, ...], told: str | None
) -> None:
    groups = tuple(GroupScore(places, None, None, (0.0, 0.0)) for places in ((0, 1), (2, 3)))
    aggregate = Aggregate(totals, groups, None, None, None)
    functions = [_function("f", totals), _function("g", [None] * 4)]
    found = unscored_findings(functions, aggregate)
    assert [finding.message.partition(";")[0] for finding in found] == ([told] if told else [])
    assert unscored_findings([functions[0], replace(functions[1], failure=DIED)], aggregate) == []


def test_two_functions_of_one_name_are_told_once() -> None:
    same = [_function("correct", RIGHT), _function("short", SHORT), _function("correct", SHORT)]
    (finding,) = names_findings(same)
    assert "rewards/correct/mean" in finding.message
    assert _ids(names_findings(same[:2])) == []


def test_a_slow_reward_is_told_in_seconds_of_the_configs_batch() -> None:
    slow = _function("judge", RIGHT, seconds=0.8)
    (finding,) = cost_findings([slow], 64)
    assert "about 6.4 s for the 64 completions" in finding.message
    assert _ids(cost_findings([slow], 16)) == []
    assert _ids(cost_findings([_function("judge", RIGHT, seconds=2.0)], 8)) == [], "just what is allowed"
    assert _ids(cost_findings([replace(slow, failure=DIED)], 64)) == []


def test_advantages_that_float32_makes_of_equal_totals_are_told() -> None:
    flat = [_function("high", [1000.1] * 8)]
    group = GroupScore(tuple(range(8)), 1000.1, 0.0, (0.37,) * 8)
    aggregate = Aggregate((1000.1,) * 8, (group,), 1000.1, 0.0, 0.0)
    assert _ids(float32_findings(flat, [1.0], aggregate, "group")) == ["rewards.float32"]
    assert float32_findings(flat, [1.0], aggregate, "none") == []
    assert float32_findings([_function("right", RIGHT)], [1.0], aggregate, "group") == []


def test_flat_within_each_group_but_not_for_the_prompt_alone_has_a_finding_of_its_own() -> None:
    samples = [Sample("same", f"text {i}", group=str(i // 2)) for i in range(4)]
    (finding,) = value_findings(_function("f", [1.0, 1.0, 0.0, 0.0]), samples, alone=True)
    assert finding.id == "rewards.flat-groups"
    alike = [Sample("same", "text", group=str(i // 2)) for i in range(4)]
    assert value_findings(_function("f", [1.0, 1.0, 1.0, 1.0]), alike, alone=True) == [], "nothing is proved"


@pytest.mark.parametrize(
    ("scores", "grows"),
    [
        ([1.0, 2.0, 3.0, 4.0], True),
        ([4.0, 3.0, 2.0, 1.0], False),
        ([3.0, 1.0, 4.0, 2.0], False),
        ([0.5, 1.0, 1.5, 2.0], False),
        ([1.0, None, 3.0, 4.0], True),
        ([1.0, 4.0, None, None], False),
    ],
)
def test_a_score_that_grows_with_the_length_beyond_two_is_told(
    scores: list[float | None], grows: bool
) -> None:
    samples = [Sample("same", "x" * (10 * i + 1), group="g") for i in range(4)]
    found = _ids(value_findings(_function("f", scores), samples, alone=True))
    assert ("rewards.grows-with-length" in found) is grows


ROWS = [{"prompt": f"{i}+1?", "columns": {"answer": str(i + 1)}} for i in range(3)]


@pytest.mark.parametrize(
    ("score", "rule"),
    [
        (lambda kind, form: float(kind == "gold" and form == 2), None),
        (lambda kind, form: 0.0, "rewards.gold-not-above-wrong"),
        (lambda kind, form: float(kind == "wrong"), "rewards.gold-below-wrong"),
        (lambda kind, form: form and 1.0 + (kind == "wrong"), "rewards.gold-below-wrong"),
        (lambda kind, form: None, "rewards.gold-abstains"),
    ],
)
def test_a_gold_answer_has_to_win_in_one_form(score: object, rule: str | None) -> None:
    samples = gold_and_wrong(ROWS, FORMS)
    assert callable(score)
    values = [score(s.kind, i // 2 % len(FORMS)) for i, s in enumerate(samples)]
    found = _ids(gold_findings([_function("correct", values)], samples, "answer"))
    assert found == ([rule] if rule else [])
    assert gold_findings([_function("correct", values)], samples, "level") == [], (
        "it does not read that column"
    )


@pytest.mark.parametrize(
    ("count", "found"), [(1, "rewards.few"), (2, "rewards.few"), (3, None), (5, None), (6, "rewards.many")]
)
def test_fewer_than_three_rewards_and_more_than_five_get_a_note(count: int, found: str | None) -> None:
    functions = [_function(f"f{k}", RIGHT) for k in range(count)]
    notes = list(count_findings(functions))
    assert _ids(notes) == ([found] if found else [])
    assert all(note.severity == "info" for note in notes)


def test_a_reward_model_alone_gets_no_note() -> None:
    model = FunctionScore(FunctionInfo(0, "judge", 1.0, "model", "org/judge"), tuple(RIGHT))
    assert _ids(count_findings([model])) == []
    assert _ids(count_findings([model, _function("right", RIGHT)])) == ["rewards.few"]


def test_the_type_that_an_answer_is_compared_with_is_one_that_would_be_right() -> None:
    samples = gold_and_wrong([{"prompt": "2=2?", "columns": {"answer": True}}], FORMS)
    never, right = [0.0] * len(samples), [float(s.kind == "gold") for s in samples]
    failed = FunctionScore.failed(_function("f", []).info, len(samples), Failure("raised", "KeyError", "a"))

    def found(*tried: tuple[str, FunctionScore]) -> Finding:
        retyped = [Retyped(words, [result]) for words, result in tried]
        (finding,) = gold_findings([_function("f", never)], samples, "answer", retyped)
        return finding

    other, lower = ("text", _function("f", never)), (LOWER, _function("f", right))
    told = found(other, ("a number", failed), lower)
    assert told.id == "rewards.gold-type"
    assert "holds true and false (True) and the function compares it with text in small" in told.message
    assert "Write str(…).lower() around" in told.message
    assert told.fix is None
    assert found(("text", _function("f", right))).fix is not None
    assert found(other, ("a number", failed)).id == "rewards.gold-not-above-wrong"


@pytest.mark.parametrize(
    ("name", "default", "near"),
    [
        ("sourse", "other", "source"),
        ("score", "other", None),  # a setting of its own, whose name is only somewhat alike
        ("score", "blank", "source"),
        ("source", "other", None),
        ("prompts", "other", None),
    ],
)
def test_a_default_is_a_misspelled_column_if_the_names_are_close_or_it_is_blank(
    name: str, default: str, near: str | None
) -> None:
    given = (
        _parameter("completions", 1, "empty"),
        _parameter(name, 1, default),
        _parameter("kw", 4, "empty"),
    )
    found = signature_findings(
        replace(_function("f", []).info, parameters=given), ["prompt", "source", "day"]
    )
    assert [finding.fix and finding.fix.value for finding in found] == ([{name: near}] if near else [])
