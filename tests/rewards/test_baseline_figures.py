"""The figures of a baseline and what follows from them, without a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, product
from statistics import fmean

import pytest

from grpo_tui.config.run_config import RunConfig
from grpo_tui.config.section import Section
from grpo_tui.rewards.baseline import (
    Baseline,
    BaselineOptions,
    _notes,
    baseline_of,
    drawn_share,
    mixed_share,
    with_findings,
)
from grpo_tui.rewards.generating import DatasetRow, Generated
from grpo_tui.rewards.right_answers import Judge, JudgeError, Measures, find_forms, find_judge, made_of
from grpo_tui.rewards.samples import Sample
from grpo_tui.rewards.score_report import Aggregate, Failure, FunctionInfo, FunctionScore, GroupScore


def _function(index: int, name: str, scores: Sequence[float | None], weight: float = 1.0) -> FunctionScore:
    return FunctionScore(FunctionInfo(index, name, weight, "function", name), tuple(scores))


def _baseline(
    groups: Sequence[Sequence[float]],
    *,
    cut: int = 0,
    texts: Sequence[str] = (),
    judged: bool = True,
    form: Sequence[float] | None = None,
    failure: Failure | None = None,
    temperature: float = 1.0,
) -> Baseline:
    """The baseline of groups of 0/1 scores by one function; the first `cut` completions are cut off."""
    flat = [score for group in groups for score in group]
    count = len(groups[0])
    words = list(texts) or [f"completion {i}" for i in range(len(flat))]
    samples = tuple(
        Sample(f"question {i // count}", words[i], {}, f"row {i // count}", truncated=i < cut)
        for i in range(len(flat))
    )
    generated = Generated(samples, (20,) * len(flat), count, 2.0, 1.0, "cpu", temperature, 40)
    parts = tuple(
        GroupScore(
            tuple(range(g * count, (g + 1) * count)), None, None, tuple(s - fmean(scores) for s in scores)
        )
        for g, scores in enumerate(groups)
    )
    aggregate = Aggregate(tuple(flat), parts, None, None, None)
    functions = [_function(0, "correct", flat)]
    forms = []
    if form is not None:
        functions.append(_function(1, "format", form))
        forms.append(Judge(1, "format", 1.0, "what the whole form gets"))
    if failure is not None:
        functions.append(FunctionScore.failed(FunctionInfo(1, "judge", 1.0, "function", "judge"), 1, failure))
    judge = Judge(0, "correct", 1.0, "what gold answers get") if judged else None
    return with_findings(baseline_of(generated, functions, aggregate, judge, forms, model="m", seed=1))


def _ids(found: Baseline) -> dict[str, str]:
    return {finding.id.removeprefix("baseline."): finding.severity for finding in found.findings}


def test_groups_are_mixed_all_right_or_all_wrong() -> None:
    found = _baseline([[1, 0, 0, 0], [0, 0, 0, 0], [1, 1, 1, 1], [1, 1, 0, 0]])
    assert (found.pass_rate, found.right, found.completions) == (7 / 16, 7, 16)
    assert (found.mixed, found.all_right, found.all_wrong, found.flat) == (0.5, 0.25, 0.25, 0.5)
    assert [(r.right, r.flat) for r in found.results] == [(1, False), (0, True), (4, True), (2, False)]
    assert found.reward == 7 / 16
    assert (found.tokens, found.tokens_per_s) == (20.0, 160.0)


@pytest.mark.parametrize(("p", "size"), [(0.25, 4), (0.5, 2), (0.9, 3), (0.0, 8), (1.0, 8)])
def test_the_share_of_mixed_groups_is_that_of_all_outcomes_counted(p: float, size: int) -> None:
    outcomes = list(product((0, 1), repeat=size))
    mixed = [o for o in outcomes if 0 < sum(o) < size]
    expected = sum(p ** sum(o) * (1 - p) ** (size - sum(o)) for o in mixed)
    assert mixed_share(p, size) == pytest.approx(expected)


def test_the_share_that_is_drawn_is_that_of_all_groups_counted() -> None:
    seen = [[1, 0, 0, 0, 0], [1, 1, 1, 0, 0], [0, 0, 0, 0, 0]]
    counted = [
        sum(0 < sum(group) < 3 for group in combinations(row, 3)) / len(list(combinations(row, 3)))
        for row in seen
    ]
    drawn = drawn_share([sum(row) for row in seen], [5, 5, 5], 3)
    assert drawn == pytest.approx(sum(counted) / 3)
    assert drawn_share([1, 3, 0], [5, 5, 5], 8) is None


def test_rows_that_differ_give_fewer_mixed_groups_than_rows_that_are_alike() -> None:
    found = _baseline([[1, 1, 1, 1], [0, 0, 0, 0], [1, 1, 1, 0], [1, 0, 0, 0]])
    four = found.group_sizes[0]
    assert (four.size, four.alike, four.drawn) == (4, pytest.approx(1 - 2 * 0.5**4), 0.5)
    assert [m.drawn for m in found.group_sizes[1:]] == [None, None, None]


def test_a_healthy_start_has_no_findings() -> None:
    assert _ids(_baseline([[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 0, 0], [1, 0, 1, 1]])) == {}


def test_nothing_right_is_an_error_with_the_bound_that_it_shows() -> None:
    found = _baseline([[0] * 8] * 4)
    assert _ids(found) == {"nothing-right": "error", "flat-groups": "error"}
    message = found.findings[0].message
    assert "none of 32 completions is right by correct" in message
    assert "below 9.4 %" in message, "3 / 32"
    assert "partial credit" in message


def test_all_right_is_an_error_that_asks_for_harder_rows() -> None:
    found = _baseline([[1] * 4] * 2)
    assert _ids(found)["all-right"] == "error"
    assert "harder rows" in found.findings[0].message


def test_few_and_most_right_are_warnings() -> None:
    few = [[1, 0, 0, 0, 0, 0, 0, 0], [0] * 7 + [1], [0] * 6 + [1, 0], [0, 0, 1] + [0] * 5]
    assert _ids(_baseline(few)) == {"few-right": "warning"}
    assert _ids(_baseline([[1 - score for score in group] for group in few])) == {"most-right": "warning"}


def test_flat_groups_ask_for_the_smallest_larger_group_that_would_be_mixed() -> None:
    found = _baseline([[0] * 4, [0] * 4, [1, 1, 0, 0], [0] * 4, [0] * 4])
    (flat,) = [f for f in found.findings if f.id == "baseline.flat-groups"]
    assert flat.message.startswith("80 % of the groups have zero std")
    assert flat.fix is not None
    assert (flat.fix.field, flat.fix.value) == ("num_generations", 8)
    assert mixed_share(0.1, 8) >= 0.5 > mixed_share(0.1, 4)


def test_flat_groups_of_like_texts_ask_for_more_temperature_and_never_for_too_much() -> None:
    groups = [[0] * 4, [0] * 4, [1, 1, 1, 1], [1, 1, 0, 0]]
    found = _baseline(groups, texts=["the same words"] * 16, temperature=0.6)
    (flat,) = [f for f in found.findings if f.id == "baseline.flat-groups"]
    assert flat.fix is not None
    assert (flat.fix.field, flat.fix.value) == ("temperature", 0.8)
    hot = _baseline(groups, texts=["the same words"] * 16, temperature=1.2)
    assert [f.fix for f in hot.findings if f.id == "baseline.flat-groups"] == [None]


def test_like_texts_are_told_where_groups_are_not_flat() -> None:
    found = _baseline([[1, 0, 0, 0], [1, 1, 0, 0]], texts=["a", "b", "b", "b", "a", "a", "b", "b"])
    assert _ids(found) == {"alike": "warning"}


def test_cut_off_completions_are_told_from_a_fifth_on_and_all_of_them_are_an_error() -> None:
    groups = [[1, 0, 0, 0, 1], [1, 1, 0, 0, 0]]
    assert _ids(_baseline(groups, cut=2)) == {}
    found = _baseline(groups, cut=3)
    assert _ids(found) == {"truncated": "warning"}
    assert found.findings[0].fix is not None
    assert found.findings[0].fix.value == 80
    never = _baseline(groups, cut=10)
    assert _ids(never) == {"never-ends": "error"}
    assert "eos_token" in never.findings[0].message


def test_a_form_that_is_never_written_is_told() -> None:
    groups = [[1, 0], [0, 1], [1, 0]]
    assert _ids(_baseline(groups, form=[0.0] * 6)) == {"no-format": "warning"}
    found = _baseline(groups, form=[1.0, 0.0, 0.25, 1.0, 0.0, 0.0])
    assert found.form == pytest.approx(2 / 6)
    assert _ids(found) == {}


def test_without_a_judge_there_is_no_pass_rate_and_it_is_said_how_to_name_one() -> None:
    found = _baseline([[1, 0], [0, 1]], judged=False)
    assert (found.pass_rate, found.mixed, found.group_sizes) == (None, None, ())
    assert _ids(found) == {"no-judge": "info"}


def test_a_reward_that_failed_is_an_error() -> None:
    found = _baseline([[1, 0], [0, 1]], failure=Failure("raised", "ValueError", "no judge"))
    assert _ids(found) == {"reward-failed": "error"}
    assert "ValueError: no judge" in found.findings[0].message


# -- who says what is right ------------------------------------------------------------------------


def _config() -> RunConfig:
    return RunConfig(None, "m", {}, {}, {}, {}, Section())


def _measures(*functions: tuple[str, float], more: Sequence[str] = ()) -> Measures:
    """Made-up completions of two rows, and of rows with the answers `more`, scored by these functions."""
    asked = [("2+2?", "4"), ("3+4?", "7"), *((f"{answer}+0?", answer) for answer in more)]
    rows = [DatasetRow(at, prompt, {"answer": answer}) for at, (prompt, answer) in enumerate(asked, 1)]
    samples = made_of(rows, _config(), "answer", ["<think>x</think><answer>y</answer>"])

    def score(name: str, sample: Sample) -> float | None:
        text, gold = str(sample.completion), sample.columns["answer"]
        tagged = f"<answer>{gold}" in text
        return {
            "right": 2.0 if tagged else 0.0,
            "too": 1.0 if tagged else 0.0,
            "not 4": 1.0 if tagged and gold != "4" else 0.0,
            "by row": (2.0 if gold == "4" else 1.0) if tagged else 0.0,
            "format by row": (1.0 if gold == "4" else 0.5) * ("</answer>" in text and "<think>" in text),
            "format": float(text.startswith("<think>") and "<answer>" in text),
            "short": -len(text) / 100,
            "none": None,
        }[name]

    return Measures(
        tuple(samples),
        tuple(
            _function(i, name, [score(name, sample) for sample in samples], weight)
            for i, (name, weight) in enumerate(functions)
        ),
        gold=True,
    )


def test_the_function_that_puts_gold_above_wrong_says_what_is_right_at_what_gold_gets() -> None:
    measures = _measures(("format", 5.0), ("short", 1.0), ("right", 1.0), ("none", 1.0))
    judge = find_judge(measures, measures.functions)
    assert judge is not None
    assert (judge.name, judge.least) == ("right", 2.0)
    assert [form.name for form in find_forms(measures)] == ["format"], "length is no form"


@pytest.mark.parametrize(
    ("weights", "name"), [((2.0, 1.0), "right"), ((1.0, 2.0), "too"), ((1.0, -2.0), "too")]
)
def test_of_several_that_tell_gold_from_wrong_the_one_that_weighs_most_is_taken(
    weights: tuple[float, float], name: str
) -> None:
    measures = _measures(("right", weights[0]), ("too", weights[1]))
    judge = find_judge(measures, measures.functions)
    assert judge is not None
    assert judge.name == name


@pytest.mark.parametrize(("more", "name"), [((), None), (("9",), "not 4"), (("4",), None)])
def test_a_function_must_put_gold_above_wrong_on_more_than_half_of_the_rows(
    more: Sequence[str], name: str | None
) -> None:
    measures = _measures(("not 4", 1.0), more=more)
    own = [_function(0, "not 4", [0.1, 0.2, 0.3, 0.4])]
    judge = find_judge(measures, own)
    assert (None if judge is None else judge.name) == name


def test_what_differs_by_row_is_asked_at_its_lowest() -> None:
    measures = _measures(("by row", 1.0), ("format by row", 1.0))
    judge = find_judge(measures, measures.functions)
    assert judge is not None
    assert (judge.name, judge.least) == ("by row", 1.0)
    assert [(form.name, form.least) for form in find_forms(measures)] == [("format by row", 0.5)]


def test_without_gold_a_function_of_few_scores_is_taken_at_its_best_and_only_when_they_differ() -> None:
    measures = _measures(("format", 1.0), ("short", 1.0))
    own = [_function(0, "format", [0, 1]), _function(1, "short", [0.1, 0.2, 0.3, 0.4])]
    assert find_judge(measures, own) is None, "one looks at the form, the other has no best score"
    own[1] = _function(1, "short", [0.0, 0.0, 0.5])
    judge = find_judge(measures, own)
    assert judge is not None
    assert (judge.name, judge.least) == ("short", 0.5)
    own[1] = _function(1, "short", [0.0, 0.0])
    assert find_judge(measures, own) is None, "nothing right and all right look the same"


def test_a_wanted_function_is_taken_at_the_wanted_score_and_a_wrong_name_lists_them() -> None:
    measures = _measures(("right", 1.0), ("short", 1.0))
    judge = find_judge(measures, measures.functions, "short >= -0.5")
    assert judge is not None
    assert (judge.name, judge.least) == ("short", -0.5)
    by_name = find_judge(measures, measures.functions, "right")
    assert by_name is not None
    assert by_name.least == 2.0
    with pytest.raises(JudgeError, match="the rewards are right, short"):
        find_judge(measures, measures.functions, "correct")


def test_a_wanted_function_that_gives_all_nothing_takes_none() -> None:
    measures = _measures(("short", 1.0))
    judge = find_judge(measures, [_function(0, "short", [0.0, 0.0])], "short")
    assert judge is not None
    assert not judge.says_yes(0.0)
    ones = find_judge(measures, [_function(0, "short", [1.0, 1.0])], "short")
    assert ones is not None
    assert ones.says_yes(1.0)


def test_what_a_baseline_does_otherwise_than_training_is_noted() -> None:
    options = BaselineOptions(rows=8)
    plain = RunConfig(None, "m", {}, {}, {}, {}, Section())
    vllm = replace(plain, grpo={"use_vllm": True}, model_args={"use_peft": True})
    assert list(_notes(plain, options, 8, "transformers")) == []
    assert list(_notes(plain, options, 7, "transformers")) == ["the dataset has only 7 rows"]
    engine, adapter = _notes(vllm, options, 9, "transformers")
    assert "use_vllm is set, but transformers generated" in engine
    assert "the adapter was left out" in adapter
    assert list(_notes(vllm, options, 9, "vllm")) == [adapter]
