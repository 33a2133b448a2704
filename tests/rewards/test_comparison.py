"""What a comparison says is computed from the answers alone, and each verdict has its words."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from grpo_tui.present.comparison_text import asked as what_was_asked
from grpo_tui.present.comparison_text import chosen_columns, digits_of, report, sentence
from grpo_tui.rewards.comparison import Answers, Asked, compared, measures_of
from grpo_tui.rewards.generating import DatasetRow
from grpo_tui.rewards.right_answers import Judge

JUDGE = Judge(0, "correct", 1.0, "as given")


def _answers(*scores: tuple[float | None, ...]) -> Answers:
    texts = tuple(f"text {number}: {one}" for number, one in enumerate(scores))
    return Answers(texts, (3,) * len(scores), (False,) * len(scores), scores)


def _asked(*policies: list[Answers], judge: Judge | None = JUDGE) -> Asked:
    rows = [
        DatasetRow(number, f"prompt {number}", {"answer": "1"}) for number in range(1, len(policies[0]) + 1)
    ]
    names = ["base", "first", "second"][: len(policies)]
    return Asked(names, rows, policies, ["correct", "tidy"], [2.0, 0.5], judge, [])


def _body(asked: Asked, **more: Any) -> dict[str, Any]:
    return {
        "rows": len(asked.rows),
        "samples": 2,
        "seed": 1,
        "held": True,
        "prompts": None,
        "policies": [{"name": name, "path": name, "step": None} for name in asked.names],
        "sampling": {"engine": "transformers", "device": "cpu", "temperature": 1.0, "max_tokens": 9},
        "notes": [],
        **compared(asked),
        **more,
    }


def test_the_measures_of_two_policies() -> None:
    base = [_answers((1.0, None), (0.0, 1.0)), _answers((0.0, 0.0), (0.0, 0.0))]
    other = [_answers((0.0, 1.0), (0.0, 1.0)), _answers((1.0, 1.0), (1.0, 0.0))]
    found = compared(_asked(base, other))
    values = {one["name"]: one["values"] for one in found["measures"]}
    assert values == {
        "pass@1": [0.25, 0.5],
        "pass@2": [0.5, 0.5],
        "total": [pytest.approx(0.625), pytest.approx(1.375)],
        "correct": [0.25, 0.5],
        "tidy": [0.5, 0.75],
        "length": [3, 3],
        "truncated": [0, 0],
    }
    assert found["wins"] == [{"policy": "first", "win": 1, "tie": 0, "loss": 1}]
    assert found["deciding"] == "pass@1"
    (worst,) = found["worst"]
    assert (worst["row"], worst["values"], worst["base"]) == (1, [0.5, 0.0], "text 0: (1.0, None)")
    printed = list(report(_body(_asked(base, other)), 80))
    at = printed.index("Worse than the base on these:")
    assert printed[at + 1 : at + 4] == [
        "  prompt 1   pass@1 0.500 → 0.000",
        "    base   text 0: (1.0, None)",
        "    first  text 0: (0.0, 1.0)",
    ]


def test_a_prompt_without_columns_counts_only_where_the_judge_gave_a_score() -> None:
    unjudged = _answers((None, 0.5), (None, 0.5))
    wrong, right = _answers((0.0, 0.5), (0.0, 0.5)), _answers((1.0, 0.5), (1.0, 0.5))
    asked = _asked([unjudged, wrong], [unjudged, right])
    bare = [replace(row, columns={}) for row in asked.rows]
    found = compared(replace(asked, rows=bare))
    assert found["measures"][0]["values"] == [0.0, 1.0]
    assert found["wins"] == [{"policy": "first", "win": 1, "tie": 0, "loss": 0}]
    assert compared(asked)["measures"][0]["values"] == [0.0, 0.5], "with columns it is a wrong answer"
    formed = replace(asked, judge=None, forms=[replace(JUDGE, index=1), JUDGE], rows=bare)
    assert [one.by_prompt for one in measures_of(formed) if one.kind == "format"] == [[[None, 0.0]] * 2]
    many = _asked([unjudged] * 9 + [wrong, right] * 14, [unjudged] * 9 + [right] * 28)
    body = _body(replace(many, rows=[replace(row, columns={}) for row in many.rows]))
    said = sentence(body, body["verdict"][0])
    assert said.startswith("not shown: at least 30 prompts are needed. pass@1 +0.500")
    assert said.endswith("on 28 of 37 held-out prompts")


def test_without_a_judge_the_total_decides() -> None:
    found = compared(_asked([_answers((1.0, 0.0))], [_answers((1.0, 1.0))], judge=None))
    assert found["deciding"] == "total"
    assert found["judge"] is None
    assert found["wins"] == [{"policy": "first", "win": 1, "tie": 0, "loss": 0}]


RIGHT, WRONG = _answers((1.0, 0.0), (1.0, 0.0)), _answers((0.0, 0.0), (0.0, 0.0))


@pytest.mark.parametrize(
    ("base", "other", "said"),
    [
        ([WRONG] * 40, [RIGHT, WRONG] * 20, "better than the base: pass@1 +0.500 (95 %: +0.338 to +0.662)"),
        ([RIGHT] * 40, [RIGHT, WRONG] * 20, "worse than the base: pass@1 -0.500 (95 %: -0.662 to -0.338)"),
        ([WRONG, RIGHT] * 20, [RIGHT, WRONG] * 20, "not shown: pass@1 +0.000 (95 %: -0.324 to +0.324)"),
        ([WRONG] * 10, [RIGHT, WRONG] * 5, "not shown: at least 30 prompts are needed. pass@1 +0.500"),
        ([WRONG] * 40, [RIGHT] * 40, "not shown: the difference is the same on every prompt. pass@1 +1.00"),
        ([_answers((None, None))], [_answers((None, None))], "not shown: at least 30 prompts"),
    ],
)
def test_a_verdict_in_words(base: list[Answers], other: list[Answers], said: str) -> None:
    body = _body(_asked(base, other))
    assert sentence(body, body["verdict"][0]).startswith(said)
    assert f"on {len(base)} held-out prompt" in sentence(body, body["verdict"][0])


@pytest.mark.parametrize(
    ("held", "prompts", "said"),
    [
        (True, None, "on 40 held-out prompts"),
        (False, None, "on 40 training prompts"),
        (True, "sums.jsonl", "on 40 prompts"),
    ],
)
def test_a_verdict_says_which_prompts_were_asked(held: bool, prompts: str | None, said: str) -> None:
    body = _body(_asked([WRONG] * 40, [RIGHT, WRONG] * 20), held=held, prompts=prompts)
    assert said in sentence(body, body["verdict"][0])
    asked = " ".join(" ".join(report(body, 200)).split())
    assert ("Training may have seen these prompts" in asked) is not held
    assert ("prompts of sums.jsonl" in asked) is (prompts is not None)


@pytest.mark.parametrize(
    ("values", "digits"),
    [
        ([], 3),
        ([None], 3),
        ([0.999, -0.2], 3),
        ([0.5, 1.0], 2),
        ([-9.99, None], 2),
        ([0.1, -10.0], 1),
        ([500.0], 1),
    ],
)
def test_the_largest_value_has_three_digits(values: list[float | None], digits: int) -> None:
    assert digits_of(values) == digits


@pytest.mark.parametrize(("engine", "said"), [("vllm", True), ("transformers", False)])
def test_the_engine_is_named_where_it_is_not_transformers(engine: str, said: bool) -> None:
    body = _body(_asked([WRONG] * 2, [RIGHT] * 2))
    body["sampling"]["engine"] = engine
    assert ("with vLLM" in what_was_asked(body)) is said


def test_nothing_that_was_scored_on_both_sides_shows_nothing() -> None:
    nothing = [_answers((None, None))]
    body = _body(_asked(nothing, nothing, judge=None))
    assert sentence(body, body["verdict"][0]) == "not shown: no prompt was scored for both"
    assert any(line.startswith("total") and line.endswith("–") for line in report(body, 80))


def test_several_policies_have_a_column_each_with_the_difference_above_its_interval() -> None:
    lines = list(report(_body(_asked([WRONG] * 40, [RIGHT, WRONG] * 20, [WRONG] * 40)), 80))
    assert lines[0].startswith("first: better than the base: ")
    assert any(line.startswith("second: not shown: the difference is the same") for line in lines)
    head = next(at for at, line in enumerate(lines) if line.split() == ["measure", "base", "first", "second"])
    assert lines[head + 1].split() == ["pass@1", "0.000", "0.500", "+0.500", "0.000", "same"]
    assert lines[head + 2].split() == ["95", "%", "interval", "+0.338", "to", "+0.662"]
    assert lines[head + 1].index("same") + 4 == len(lines[head]), "columns are aligned"
    assert "first: better on 20 prompts, the same on 20, worse on 0 (by pass@1)" in lines
    assert max(map(len, lines)) <= 80


def test_policies_that_do_not_fit_have_a_second_table_with_the_first_again() -> None:
    asked = replace(
        _asked([WRONG] * 40, *[[RIGHT, WRONG] * 20] * 5), names=["base", *(f"run@{n}0" for n in range(1, 6))]
    )
    lines = [line.split() for line in report(_body(asked), 80)]
    assert ["measure", "base", "run@10", "run@20", "run@30"] in lines
    assert ["measure", "base", "run@40", "run@50"] in lines
    assert max(len(line) for line in report(_body(asked), 80)) <= 80
    wide = [line.split() for line in report(_body(asked), 120)]
    assert ["measure", "base", *(f"run@{n}0" for n in range(1, 6))] in wide


def test_the_columns_that_fit_are_the_one_shown_the_newest_and_the_best() -> None:
    half = [RIGHT, WRONG] * 20
    asked = replace(
        _asked([WRONG] * 40, half, [RIGHT] * 40, half, half, half),
        names=["base", *(f"run@{n}0" for n in range(1, 6))],
    )
    body = _body(asked)
    for at, policy in enumerate(body["policies"]):
        policy["step"] = 10 * at or None
    assert chosen_columns(body, 78, 3) == [2, 3, 5], "best, shown, newest"
    assert chosen_columns(body, 78, 5) == [1, 2, 5]
    assert chosen_columns(body, 20, 3) == [3], "the one shown is always there"
    body["policies"][2]["step"], body["policies"][5]["step"] = 50, 20
    assert chosen_columns(body, 20, 3) == [3]
    assert chosen_columns(body, 60, 4) == [2, 4], "the newest by its step"
    body["policies"][2]["step"], body["policies"][5]["step"] = 20, 50
    body["measures"][0]["values"][1] = None
    assert chosen_columns(body, 78, 3) == [2, 3, 5], "one without a value is not the best"


def test_the_worst_prompts_are_those_that_became_worse_furthest_first_and_at_most_ten() -> None:
    half = _answers((1.0, 0.0), (0.0, 0.0))
    base = [RIGHT, RIGHT, WRONG, RIGHT, RIGHT, half]
    tidy = _answers((0.0, 1.0), (0.0, 1.0))
    other = [RIGHT, half, RIGHT, tidy, WRONG, half]
    found = compared(_asked(base, other))
    assert [(one["row"], one["values"]) for one in found["worst"]] == [
        (5, [1.0, 0.0]),  # as far behind as row 4, whose total is higher
        (4, [1.0, 0.0]),
        (2, [1.0, 0.5]),
    ]
    assert len(compared(_asked([RIGHT] * 12, [WRONG] * 12))["worst"]) == 10
    unscored = _answers((None, None))
    assert not compared(_asked([RIGHT, unscored], [unscored, RIGHT], judge=None))["worst"]


def test_the_format_is_that_of_all_rewards_on_it_and_left_out_where_it_is_one_of_them() -> None:
    answers = [_answers((1.0, 1.0), (1.0, 0.0), (0.0, 1.0), (0.0, 0.0))]
    forms = [Judge(0, "correct", 1.0, "form"), Judge(1, "tidy", 1.0, "form")]

    def named(*chosen: Judge) -> dict[str, list[float]]:
        asked = replace(_asked(answers, answers), forms=chosen)
        return {one["name"]: one["values"] for one in compared(asked)["measures"]}

    assert named(*forms)["answer format"] == [0.25, 0.25]
    assert "answer format" not in named(forms[1]), "tidy says the same"
    assert "answer format" not in named()


def test_a_share_is_cut_off_and_the_best_answer_is_a_right_one() -> None:
    long = replace(
        _answers((1.0, -9.0), (0.0, 1.0), (0.0, 0.0), (0.0, 0.0)), truncated=(True, False, False, False)
    )
    found = compared(_asked([long], [replace(_answers(*[(0.0, 0.0)] * 4), tokens=(1, 2, 1, 2))]))
    values = {one["name"]: one["values"] for one in found["measures"]}
    assert values["truncated"] == [0.25, 0.0]
    assert values["length"] == [3.0, 1.5]
    assert found["worst"][0]["base"] == "text 0: (1.0, -9.0)", "right, though its total is the lowest"


def test_the_worst_prompts_of_each_policy_are_its_own_with_its_best_and_worst_texts() -> None:
    mixed = _answers((0.0, 1.0), (1.0, 0.0))
    asked = _asked([mixed, mixed], [WRONG, RIGHT], [RIGHT, WRONG])
    found = compared(asked)
    assert [(one["name"], one["row"]) for one in found["worst"]] == [("first", 1), ("second", 2)]
    assert found["worst"][0]["base"] == "text 1: (1.0, 0.0)"
    back = compared(_asked([RIGHT], [mixed]))["worst"]
    assert back[0]["policy"] == "text 0: (0.0, 1.0)"
    assert _listed(asked) == [["prompt 1", "base", "first"], ["prompt 2", "base", "second"]]


def test_three_of_the_worst_prompts_are_printed_and_none_of_a_policy_that_is_never_worse() -> None:
    asked = _asked([RIGHT] * 4, [RIGHT] * 4, [WRONG] * 4)
    texts = [word for number in (1, 2, 3) for word in (f"prompt {number}", "base", "second")]
    assert _listed(asked) == [[*texts, "--json lists more, with whole texts"]]
    assert len(_listed(_asked([RIGHT] * 3, [WRONG] * 3))[0]) == 3 * 3, "no more than are printed"


def _listed(asked: Asked) -> list[list[str]]:
    """What is printed below the heading of each policy's worst prompts, without scores and texts."""
    _, *parts = "\n".join(report(_body(asked), 80)).split("Worse than the base on these:\n")
    rows = [part.splitlines() for part in parts]
    return [[re.split(" {2,}", row.strip())[0] for row in each if row] for each in rows]
