"""The library's rewards: what they give, what they refuse, and what they cannot be fooled by."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from grpo_tui.rewards import library as lib
from grpo_tui.rewards.library.base import RESERVED
from grpo_tui.rewards.library.correctness import last_number, parse_number
from grpo_tui.rewards.loading import RewardLoadError, callable_name
from tests import PATIENCE_S


def one(reward: lib.Reward, text: str, **columns: Any) -> float | None:
    """The value of one completion, given as text and as messages, which must be the same."""
    batch = {key: [value] for key, value in columns.items()}
    plain = reward(completions=[text], prompts=["p"], **batch)
    chat = reward(completions=[[{"role": "assistant", "content": text}]], prompts=[[]], **batch)
    assert plain == chat
    return plain[0]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1,000", 1000), ("$1,200.50", 1200.5), ("1/2", 0.5), (r"\frac{1}{2}", 0.5), (r"\dfrac{3}{4}", 0.75),
        ("−5", -5), ("+ 3", 3), (".5", 0.5), ("5 apples", 5), ("3 km/h", 3), ("50 %", 50), (r"50\%", 50),
        ("１２", 12), ("－１，２００．５", -1200.5), ("\u22123", -3), ("1\u00a0000", 1000),
        (r"1\,000", 1000),
        ("1\u202f234\u202f567", 1234567), ("5\u00a0km", 5), ("1e3", 1000), ("12.", 12),
        (r"5\text{ cm}", 5),
        ("$42$", 42),
    ],
)  # fmt: skip
def test_a_number_is_read_however_it_is_written(text: str, value: float) -> None:
    found = parse_number(text)
    assert found is not None
    assert float(found) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "none",
        "1,00",
        "1/0",
        "12 13",
        "4 or 5",
        "4 5",
        "3 to 4",
        "9" * 500,
        "1e999",
        "x=4",
        "²",
        "1\u00a012",
    ],
)
def test_what_is_no_number_is_none(text: str) -> None:
    assert parse_number(text) is None


def test_the_last_number_of_a_text_is_found() -> None:
    assert last_number("3 + 4 = 7, so it costs $1,250.") == "1,250"
    assert last_number("it is −４２ here") == "-42"
    assert last_number("nothing") is None


def test_a_numeric_answer_is_right_in_every_form() -> None:
    reward = lib.NumericAnswer()
    for text in ("0.5", "1/2", ".50", r"\frac{1}{2}"):
        assert one(reward, f"<think>x</think><answer>{text}</answer>", answer="0.5") == 1.0
    assert one(reward, "<answer>0.51</answer>", answer="0.5") == 0.0
    assert one(reward, "<answer>4</answer>", answer="Two and two.\n#### 4") == 1.0


def test_a_text_is_the_same_in_other_characters() -> None:
    exact = lib.ExactAnswer(answer_in="whole")
    for gold, same in (("café", "cafe\u0301"), ("New York", "New\u00a0York"), ("A-1", "Ａ−１")):
        assert one(exact, same, answer=gold) == one(exact, gold, answer=same) == 1.0
    for gold, other in (("x²", "x2"), ("1/2", "½"), ("naïve", "naive"), ("1990–95", "1990-95")):
        assert one(exact, other, answer=gold) == 0.0
    assert one(lib.MultipleChoice(answer_in="whole"), "（Ｂ）", answer="B") == 1.0


def test_a_tolerance_is_relative_to_the_reference_above_1_and_a_distance_below() -> None:
    reward = lib.NumericAnswer(answer_in="whole", tolerance=0.01)
    for gold, answer, value in (
        ("1000", "1010", 1.0), ("1000", "1010.1", 0.0), ("-1000", "-1010", 1.0), ("-1000", "-1010.1", 0.0),
        ("0.5", "0.51", 1.0), ("0.5", "0.511", 0.0), ("0", "0.01", 1.0), ("-1", "-0.99", 1.0),
        ("-1", "1", 0.0),
    ):  # fmt: skip
        assert one(reward, answer, answer=gold) == value, (gold, answer)


def test_a_reference_that_is_a_place_counts_from_0_and_none_is_before_the_first() -> None:
    reward = lib.MultipleChoice(letters="ABC", answer_in="whole")
    assert [one(reward, letter, answer=place) for place, letter in enumerate("ABC")] == [1.0, 1.0, 1.0]
    for place in (-1, -3, 3):
        assert one(reward, "C", answer=place) is None
    assert one(reward, "B", answer=True) is None, "True is no place"


def test_listing_all_candidates_or_contradicting_oneself_wins_nothing() -> None:
    reward = lib.NumericAnswer()
    assert one(reward, "<answer>3</answer><answer>4</answer>", answer="4") == 0.0
    assert one(reward, "<answer>4</answer> or rather <answer>5</answer>", answer="4") == 0.0
    assert one(reward, "<answer>3 or 4</answer>", answer="4") == 0.0
    assert one(lib.MultipleChoice(), "<answer>A, B, C, D</answer>", answer="B") == 0.0


def test_a_gold_answer_that_cannot_be_read_says_nothing() -> None:
    for gold in ("", "see above", None):
        assert one(lib.NumericAnswer(), "<answer>4</answer>", answer=gold) is None
    assert one(lib.ExactAnswer(), "<answer>x</answer>", answer=" ") is None


def test_no_answer_is_wrong_even_when_the_gold_is_empty_looking() -> None:
    assert one(lib.NumericAnswer(wrong=-1.0), "the answer is 4", answer="4") == -1.0


def test_what_was_compared_is_kept_beside_the_completions() -> None:
    kept: dict[str, list[Any]] = {}
    lib.NumericAnswer(name="right")(
        ["<answer>7</answer>", "no"],
        answer=["7", "8"],
        log_extra=lambda key, values: kept.update({key: values}),
    )
    assert kept == {"right_extracted": ["7", "none"], "right_gold": ["7", "8"]}


def test_a_missing_column_is_named_with_those_there_are() -> None:
    with pytest.raises(lib.MissingColumnError, match=r"numeric_answer reads the column 'answer'.*solution"):
        lib.NumericAnswer()(["x"], solution=["4"], completion_ids=[[1]])
    reserved = {"prompts": ["p"], "completion_ids": [[1]], "trainer_state": None}
    for columns, known in (({"level": [1], "answers": ["4"]}, "answers, level"), ({}, "none")):
        with pytest.raises(lib.MissingColumnError, match=rf"and the dataset has: {known}\. Give"):
            lib.NumericAnswer()(["x"], **columns, **reserved)


@pytest.mark.parametrize("text", ["B", "(b)", "B.", "B) because A is wrong", "**B**", "answer: B"])
def test_a_choice_is_read_however_it_is_written(text: str) -> None:
    assert one(lib.MultipleChoice(), f"<answer>{text}</answer>", answer="B") == 1.0
    assert one(lib.MultipleChoice(), f"<answer>{text}</answer>", answer=1) == 1.0
    assert one(lib.MultipleChoice(), f"<answer>{text}</answer>", answer="C") == 0.0


def test_mathematics_is_judged_by_math_verify() -> None:
    pytest.importorskip("math_verify")
    reward = lib.MathAnswer()
    assert one(reward, r"So it is $\boxed{\frac{1}{2}}$", answer="0.5") == 1.0
    assert one(reward, r"So it is $\boxed{3}$", answer="0.5") == 0.0


def test_json_is_judged_by_its_schema() -> None:
    pytest.importorskip("jsonschema")
    schema = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}
    reward = lib.JsonSchema(schema=schema)
    assert one(reward, '{"n": 3}') == 1.0
    assert one(reward, '{"n": "3"}') == 0.0
    assert one(reward, "no json") == 0.0
    assert one(lib.JsonSchema(), '{"n": 3}', schema={"type": 5}) is None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("<think>a\nb</think>\n<answer>4</answer>", 1.0),
        ("<think>a</think><answer>4</answer> and so on", 0.0),
        ("<think></think><answer>4</answer>", 0.0),
        ("<think> </think><answer>4</answer>", 0.0),
        ("<think><think>a</think></think><answer>4</answer>", 0.0),
        ("<answer>4</answer><think>a</think>", 0.0),
        ("<think>a</think><answer>4</answer><answer>5</answer>", 0.0),
        ("", 0.0),
    ],
)
def test_the_whole_format_counts_once_and_in_order(text: str, value: float) -> None:
    assert one(lib.TagFormat(), text) == value


def test_a_tag_that_the_template_wrote_is_not_asked_for_again() -> None:
    assert one(lib.TagFormat(), "two</think><answer>4</answer>") == 0.0
    assert one(lib.TagFormat(prefilled="<think>"), "two</think><answer>4</answer>") == 1.0
    assert one(lib.IncrementalTags(prefilled="<think>"), "nothing") == 0.0
    assert one(lib.IncrementalTags(prefilled="<think>"), "a</think><answer>4</answer>") == 1.0


def test_text_around_the_tags_is_allowed_when_it_need_not_be_strict() -> None:
    assert one(lib.TagFormat(strict=False), "So: <think>a</think> then <answer>4</answer> done") == 1.0


def test_every_tag_earns_its_share_and_trailing_text_costs() -> None:
    reward = lib.IncrementalTags()
    assert one(reward, "<think>a") == 0.25
    assert one(reward, "<think>a</think>") == 0.5
    assert one(reward, "<think>a</think><answer>4</answer>\n") == 1.0
    assert one(reward, "<think><think>a</think><answer>4</answer>") == 0.75
    assert one(reward, "<think> </think><answer></answer>") == 0.5
    assert one(reward, "<think>a</think><answer>4</answer>" + "x" * 100) == pytest.approx(0.9)
    assert one(reward, "<think>a</think><answer>4</answer>" + "x" * 9999) == 0.5
    assert one(reward, "") == 0.0


def test_json_and_patterns() -> None:
    assert one(lib.JsonFormat(), '{"a": 1}') == 1.0
    assert one(lib.JsonFormat(), "[1]") == 0.0
    assert one(lib.JsonFormat(kind="any"), "[" * 100_000) == 0.0
    assert one(lib.JsonFormat(fence=True), '```json\n{"a": 1}\n```') == 1.0
    assert one(lib.FullPattern(pattern="a.c"), "a\nc") == 1.0
    assert one(lib.FullPattern(pattern="a.c"), "a\nc!") == 0.0
    assert one(lib.FullPattern(pattern="a.c", anywhere=True), "xa\nc!") == 1.0


def test_lengths_are_counted_in_tokens_where_trl_passes_them() -> None:
    reward = lib.TargetLength(target=10, slack=2, reach=12)
    ids = [[1] * n for n in (10, 12, 17, 22, 99, 0)]
    assert reward([""] * 6, completion_ids=ids) == [1.0, 1.0, 0.5, 0.0, 0.0, pytest.approx(0.2)]
    with pytest.raises(ValueError, match="completion_ids"):
        reward(["a"])
    soft = lib.SoftLengthLimit(limit=100, start=80)
    assert soft([""] * 4, completion_ids=[[1] * n for n in (80, 90, 100, 200)]) == [0.0, -0.5, -1.0, -1.0]
    assert one(lib.TargetLength(target=3, unit="words"), "one two three") == 1.0


def test_repetition_and_forbidden_words_cost() -> None:
    assert one(lib.Repetition(), "a b c d e f g h") == 0.0
    assert one(lib.Repetition(), "the " * 500) == pytest.approx(-1.0, abs=0.01)
    assert one(lib.Repetition(), "!" * 2000) == pytest.approx(-1.0, abs=0.01)
    assert one(lib.Repetition(), "") == 0.0
    words = lib.ForbiddenWords(words=["wait", "as an AI"], penalty=0.25)
    assert one(words, "Wait, as an AI model I waited") == -0.5
    assert one(words, "awaited") == 0.0


def test_diversity_is_measured_inside_each_group() -> None:
    reward = lib.GroupDiversity()
    values = reward(["a b c", "a b c", "x y z", "a b c"], prompts=["p", "p", "q", "p"])
    assert values == [0.0, 0.0, None, None]
    assert reward(["a b c", "d e f"], prompts=["p", "p"]) == [1.0, 1.0]


def test_code_is_run_against_its_tests() -> None:
    reward = lib.PassesTests(timeout_s=60, workers=2)
    tests = ["assert add(2, 3) == 5", "assert add(-1, 1) == 0"]
    right = "Here:\n```python\ndef add(a, b):\n    return a + b\n```"
    half = "```python\ndef add(a, b):\n    return 5\n```"
    assert reward([right, half, "no code", right], tests=[tests, tests, tests, None]) == [1.0, 0.5, 0.0, None]
    assert lib.PassesTests(timeout_s=60, all_or_nothing=True)([half], tests=[tests]) == [0.0]
    lines = "\n" + "\n  \n".join(tests) + "\n"
    assert reward([half, right, right], tests=[lines, lines, "\n \n"]) == [0.5, 1.0, None]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("```python\nx = 1\n```", "x = 1\n"),
        ("```\nx = 1\n```\nor\n```py\nx = 2\n```", "x = 2\n"),
        ("```python\n  \n```", None),
        ("```\nx = 1\n```\n```python\n\n```", None),
        ("x = 1", None),
    ],
)
def test_the_code_of_a_completion_is_its_last_block_if_that_holds_any(text: str, code: str | None) -> None:
    assert lib.PassesTests().code(text) == code


@pytest.mark.parametrize(
    "code",
    [
        "import os; os._exit(0)",
        "import sys; sys.exit(0)",
        "print('passed'); raise SystemExit",
        "while True: pass",
        "x = 'a' * (1 << 34)",
        "import os\nwhile os.fork(): pass\nos._exit(0)",
        "import os\nif os.fork(): os._exit(0)",
        "def add(a, b): return type('A', (), {'__eq__': lambda s, o: False})()",
    ],
)
def test_code_that_exits_hangs_or_hogs_passes_nothing(code: str) -> None:
    assert lib.PassesTests(timeout_s=1).passes(code, "assert add(2, 3) == 5") is False


def test_wrappers_change_what_the_reward_inside_gives() -> None:
    def inside(completions: list[str], **_: Any) -> list[float | None]:
        return [None if text == "none" else float(text) for text in completions]

    assert lib.Clip(inside, low=0, high=1)(["-2", "0.5", "9", "none"]) == [0.0, 0.5, 1.0, None]
    gate = lib.Gate(inside, when=lib.FullPattern(pattern="[2-9]"), otherwise=-1.0)
    assert gate(["1", "2"]) == [-1.0, 2.0]
    assert callable_name(gate) == "inside"

    logged: dict[str, float] = {}
    schedule = lib.ScheduledWeight(inside, points=[[0, 0.0], [100, 1.0]])
    for step, weight in ((0, 0.0), (50, 0.5), (200, 1.0)):
        state = SimpleNamespace(global_step=step)
        assert schedule(["2"], trainer_state=state, log_metric=logged.__setitem__) == [2 * weight]
        assert logged == {"weight/inside": weight}


def test_an_adaptive_weight_rises_with_failure_falls_with_success_and_is_remembered() -> None:
    reward = lib.AdaptiveWeight(lib.FullPattern(pattern="x"), up=2.0, down=0.5, maximum=3.0)
    assert reward(["x", "a", "a", "a", "a"])[0] == 1.0
    assert reward.weight == 2.0
    assert reward(["a"] * 4) == [0.0] * 4
    assert reward.weight == 3.0
    assert reward(["x"] * 4) == [3.0] * 4
    assert reward.weight == 1.5
    assert reward(["x", "a"]) == [1.5, 0.0]
    assert reward.weight == 1.5

    again = lib.AdaptiveWeight(lib.FullPattern(pattern="x"))
    again.load_state_dict(reward.state_dict())
    assert again.weight == 1.5
    plain = lib.AdaptiveWeight(lib.FullPattern(pattern="x"), name="form")
    state = SimpleNamespace(global_step=9, log_history=[{"weight/form": 2.5}, {"loss": 0.0}])
    assert plain(["x", "a"], trainer_state=state)[0] == 2.5


def test_an_adaptive_weight_is_that_of_the_checkpoint_before_that_of_the_log_and_inside_its_bounds() -> None:
    state = SimpleNamespace(global_step=9, log_history=[{"weight/form": 2.5}, {"weight/form": 0.5}])
    form = lib.FullPattern(pattern="x")
    logged = lib.AdaptiveWeight(form, name="form")
    assert logged(["x", "a"], trainer_state=state)[0] == 0.5, "the newest"
    saved = lib.AdaptiveWeight(form, name="form")
    saved.load_state_dict({"weight": 3.0})
    assert saved(["x", "a"], trainer_state=state)[0] == 3.0
    state.log_history.append({"weight/form": 4.0})
    assert saved(["x", "a"], trainer_state=state)[0] == 3.0
    for weight, kept in ((0.01, 0.1), (9.0, 5.0)):
        saved.load_state_dict({"weight": weight})
        assert saved.weight == kept


def test_an_adaptive_weight_stays_between_its_rates_and_takes_nothing_from_what_was_not_scored() -> None:
    def inside(completions: list[str], **_: Any) -> list[float | None]:
        return [None if text == "none" else float(text) for text in completions]

    for batch, weight in (
        (["1", "0", "0", "0", "0"], 1.2),
        (["1", "1", "1", "0", "0", "0", "0", "0", "0", "0"], 1.0),  # at `low`
        (["1", "1", "1", "1", "0"], 1.0),  # at `high`
        (["1"] * 9 + ["0"], 0.9),
        (["1", "0", "none", "none", "none"], 1.0),
        (["none"], 1.0),
        (["0.9"], 1.2),  # below `success`
    ):
        reward = lib.AdaptiveWeight(inside)
        reward(batch)
        assert reward.weight == pytest.approx(weight), batch


def test_a_config_can_write_the_reward_inside_a_wrapper() -> None:
    inner = {"source": "grpo_tui.rewards.library.TagFormat", "params": {"tags": ["plan", "reply"]}}
    gate = lib.Gate("grpo_tui.rewards.library.JsonFormat", when=inner)
    assert one(gate, "{}") == 0.0
    with pytest.raises(TypeError, match="source"):
        lib.Clip({"source": "x.y", "weight": 2}, low=0)


def test_a_wrapper_refuses_what_it_cannot_call() -> None:
    async def judge(completions: list[str], **_: Any) -> list[float]:
        return [1.0]

    for wrong in (judge, lib.TagFormat, 5):
        with pytest.raises(TypeError):
            lib.Clip(wrong, low=0)  # type: ignore[arg-type]
    for model in ("org/judge", {"source": "org/judge", "name": "mine"}):
        with pytest.raises(RewardLoadError, match="cannot go around a reward model, which TRL runs itself"):
            lib.Clip(model, low=0)


SENSIBLE: dict[str, dict[str, Any]] = {
    "AdaptiveWeight": {"reward": lib.TagFormat()},
    "Clip": {"reward": lib.TagFormat(), "low": 0},
    "ForbiddenWords": {"words": "wait"},
    "FullPattern": {"pattern": "x"},
    "Gate": {"reward": lib.TagFormat(), "when": lib.TagFormat()},
    "ScheduledWeight": {"reward": lib.TagFormat(), "points": [[0, 1]]},
    "SoftLengthLimit": {"limit": 10},
    "TargetLength": {"target": 10},
}
REWARDS = sorted({*lib.__all__} - {"MissingColumnError", "Reward", "TextReward"})


@pytest.mark.parametrize("name", REWARDS)
def test_a_reward_is_logged_under_the_name_that_it_is_given(name: str) -> None:
    if name in ("MathAnswer", "JsonSchema"):
        pytest.importorskip({"MathAnswer": "math_verify", "JsonSchema": "jsonschema"}[name])
    kind, params = getattr(lib, name), SENSIBLE.get(name, {})
    assert callable_name(kind(**params, name="own")) == "own"
    own = "tag_format" if "reward" in params else re.sub("(?<=[a-z])(?=[A-Z])", "_", name).lower()
    assert callable_name(kind(**params)) == own


@pytest.mark.parametrize(
    ("name", "wrong", "sentence"),
    [
        ("NumericAnswer", {"answer_in": "somewhere"}, "answer_in is one of"),
        ("NumericAnswer", {"tolerance": -0.1}, "tolerance is a distance"),
        ("ExactAnswer", {"answer_in": "regex"}, "needs a pattern"),
        ("MultipleChoice", {"letters": "A"}, "fewer than two letters"),
        ("TagFormat", {"tags": []}, "needs the name of a tag"),
        ("TagFormat", {"tags": ["a", "< >"]}, "needs the name of a tag"),
        ("TagFormat", {"tags": ["a", "<a>"]}, "a tag is named twice"),
        ("IncrementalTags", {"tags": ["a", "a"]}, "a tag is named twice"),
        ("IncrementalTags", {"trailing": -1}, "a penalty is given as a positive number"),
        ("IncrementalTags", {"most_trailing": -1}, "a penalty is given as a positive number"),
        ("JsonFormat", {"kind": "list"}, "kind is object, array or any"),
        ("GroupDiversity", {"ngram": 0}, "at least one word"),
        ("Repetition", {"ngram": 0}, "at least one word"),
        ("Repetition", {"most": -1}, "a penalty is given as a positive number"),
        ("ForbiddenWords", {"words": []}, "name at least one word"),
        ("ForbiddenWords", {"words": ["a", ""]}, "name at least one word"),
        ("ForbiddenWords", {"penalty": -1}, "a penalty is given as a positive number"),
        ("ForbiddenWords", {"worst": -1}, "a penalty is given as a positive number"),
        ("SoftLengthLimit", {"start": 10}, "lies below limit"),
        ("SoftLengthLimit", {"start": -1}, "lies below limit"),
        ("SoftLengthLimit", {"unit": "bytes"}, "unit is one of tokens, words, characters"),
        ("TargetLength", {"target": 0}, "a target is above 0"),
        ("TargetLength", {"slack": -1}, "a slack not below it"),
        ("TargetLength", {"slack": 3, "reach": 3}, "lies beyond slack"),
        ("Clip", {"low": None}, "a clip needs low, high or both"),
        ("Clip", {"high": 0}, "lies below high"),
        ("ScheduledWeight", {"points": []}, "points are"),
        ("ScheduledWeight", {"points": [[0, 1], [2]]}, "points are"),
        ("ScheduledWeight", {"points": [[0, 1], [0, 2]]}, "a step has two weights"),
        ("AdaptiveWeight", {"low": 0.8}, "low the lower one"),
        ("AdaptiveWeight", {"high": 1.1}, "low the lower one"),
        ("AdaptiveWeight", {"up": 0.9}, "is at least 1"),
        ("AdaptiveWeight", {"down": 0}, "above 0"),
        ("AdaptiveWeight", {"initial": 9}, "lies between minimum and maximum"),
        ("PassesTests", {"code_in": "file"}, "code_in is fence, tag or whole"),
        ("PassesTests", {"timeout_s": 0}, "too small to run anything"),
        ("PassesTests", {"memory_mib": 63}, "too small to run anything"),
        ("PassesTests", {"workers": 0}, "too small to run anything"),
    ],
)
def test_parameters_that_make_no_sense_are_refused(name: str, wrong: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        getattr(lib, name)(**{**SENSIBLE.get(name, {}), **wrong})


@pytest.mark.parametrize(
    ("name", "least"),
    [
        ("AdaptiveWeight", {"low": 0, "high": 1, "up": 1, "down": 1, "minimum": 1, "maximum": 1}),
        ("Clip", {"low": 0, "high": 0.1}),
        ("ForbiddenWords", {"penalty": 0, "worst": 0}),
        ("GroupDiversity", {"ngram": 1}),
        ("IncrementalTags", {"trailing": 0, "most_trailing": 0}),
        ("MultipleChoice", {"letters": "AB"}),
        ("NumericAnswer", {"tolerance": 0}),
        ("PassesTests", {"timeout_s": 0.1, "memory_mib": 64, "workers": 1}),
        ("Repetition", {"ngram": 1, "most": 0}),
        ("SoftLengthLimit", {"limit": 1, "start": 0}),
        ("TargetLength", {"target": 1, "slack": 0, "reach": 1}),
    ],
)
def test_the_least_that_makes_sense_is_taken(name: str, least: dict[str, Any]) -> None:
    getattr(lib, name)(**{**SENSIBLE.get(name, {}), **least})


OTHER: dict[str, Any] = {
    "answer_in": "boxed", "column": "other", "tags": ["plan", "reply"], "schema": {"type": "object"},
    "pattern": "y+", "kind": "array", "code_in": "whole", "letters": "XYZ", "words": ["hm"],
    "reward": lib.JsonFormat(), "when": lib.JsonFormat(), "points": [[0, 2], [9, 1]], "tag": "reply",
    "prefilled": "<think>", "above": 0.25, "initial": 1.25, "minimum": 0.75, "maximum": 3.5, "low": 0.125,
    "high": 0.875, "down": 0.5, "limit": 99, "target": 99, "start": 3, "reach": 50,
    "unit": "words",
}  # fmt: skip
"""A value of each option that is not its default."""


def _options(name: str) -> dict[str, Any]:
    """Names and defaults of the options that a reward takes, with those of the classes it extends."""
    found: dict[str, Any] = {}
    for kind in getattr(lib, name).__mro__[:-1]:
        taken = inspect.signature(kind.__init__).parameters.values()
        for one in taken:
            if one.name not in ("self", "name") and one.kind not in (one.VAR_KEYWORD, one.VAR_POSITIONAL):
                found.setdefault(one.name, one.default)
        if all(one.kind is not one.VAR_KEYWORD for one in taken):
            break
    return found


def _state(reward: Any) -> str:
    return repr(sorted((name, repr(value)) for name, value in vars(reward).items()))


@pytest.mark.parametrize("name", REWARDS)
def test_no_option_of_a_reward_is_taken_and_ignored(name: str) -> None:
    if name in ("MathAnswer", "JsonSchema"):
        pytest.importorskip({"MathAnswer": "math_verify", "JsonSchema": "jsonschema"}[name])
    kind, params = getattr(lib, name), SENSIBLE.get(name, {})
    before = _state(kind(**params))
    for option, default in _options(name).items():
        value = OTHER.get(option)
        if value is None:
            assert isinstance(default, int | float), f"give {option} another value in OTHER"
            value = not default if isinstance(default, bool) else default + 1
        assert _state(kind(**{**params, option: value})) != before, option


@pytest.mark.parametrize("reserved", sorted(RESERVED))
@pytest.mark.parametrize("name", [name for name in REWARDS if "column" in _options(name)])
def test_what_trl_hands_over_beside_the_columns_is_no_column(name: str, reserved: str) -> None:
    if name in ("MathAnswer", "JsonSchema"):
        pytest.importorskip({"MathAnswer": "math_verify", "JsonSchema": "jsonschema"}[name])
    reward = getattr(lib, name)(column=reserved)
    with pytest.raises(lib.MissingColumnError, match=f"reads the column '{reserved}'.* has: answer. "):
        reward(["4"], answer=["4"], **{name: ["4"] for name in RESERVED - {"completions"}})


def test_the_library_brings_in_nothing_of_the_ml_stack() -> None:
    code = "import sys, grpo_tui.rewards.library; print({'torch', 'trl', 'transformers'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "set()\n"


def test_code_that_leaves_its_session_is_ended_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    leaves = (
        "import os, time\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    if os.fork() == 0: time.sleep(600)\n"
        "    os._exit(0)\n"
        "os.wait()\n"
        "def f(x): return 2 * x\n"
    )
    reward = lib.PassesTests(timeout_s=60, code_in="whole")
    assert reward(completions=[leaves], tests=[["assert f(2) == 4"]]) == [1.0]

    def left() -> list[str]:
        homes = [(p.info["environ"] or {}).get("HOME", "") for p in psutil.process_iter(["environ"])]
        return [home for home in homes if home.startswith(str(tmp_path))]

    end = time.monotonic() + PATIENCE_S
    while left():  # what was killed ends when it comes to run
        assert time.monotonic() < end, left()
        time.sleep(0.02)


@pytest.mark.parametrize(
    ("reward", "text", "value"),
    [
        (lib.ForbiddenWords(words=["wait", "hm"], penalty=0.25, worst=2.0), "wait, Wait, wait", -0.25),
        (lib.ForbiddenWords(words=["wait", "hm"], penalty=0.25, worst=2.0), "wait, hm, wait", -0.5),
        (lib.ForbiddenWords(words=["wait", "hm"], penalty=0.25, worst=0.3), "wait, hm", -0.3),
        (lib.SoftLengthLimit(limit=10, unit="characters"), "x" * 8, 0.0),  # four fifths
        (lib.SoftLengthLimit(limit=10, unit="characters"), "x" * 9, -0.5),
        (lib.SoftLengthLimit(limit=10, unit="characters"), "x" * 30, -1.0),
        (lib.TargetLength(target=4, unit="characters"), "xxxxx", 0.75),
        (lib.TargetLength(target=4, unit="characters"), "xxx", 0.75),
        (lib.Repetition(most=0.5), "the " * 500, pytest.approx(-0.5, abs=0.01)),
        (lib.Repetition(ngram=1), "a a b c", -0.25),
        (
            lib.IncrementalTags(trailing=0.1, most_trailing=0.25),
            "<think>a</think><answer>4</answer>xy z",
            0.75,
        ),
        (lib.IncrementalTags(trailing=0.1), "<think>a</think><answer>4</answer> x ", 0.9),
        (lib.IncrementalTags(), "<think></think><answer>4</answer>", 0.75),
        (lib.IncrementalTags(trailing=0.0), "<answer>4</answer><think>a</think>", 0.5),
    ],
)
def test_a_shape_is_worth_what_its_parameters_say(reward: Any, text: str, value: float) -> None:
    assert reward([text]) == [value]


@pytest.mark.parametrize(
    ("texts", "values"),
    [(["a", "a"], [0.0, 0.0]), (["a", "B"], [1.0, 1.0]), (["a b c", "A B d"], [2 / 3, 2 / 3])],
)
def test_diversity_is_of_runs_of_words_in_any_case_and_of_short_texts_too(
    texts: list[str], values: list[float]
) -> None:
    assert lib.GroupDiversity()(texts, prompts=["p", "p"]) == pytest.approx(values)


@pytest.mark.parametrize(
    ("options", "text", "value"),
    [
        ({}, "paris", 0.0),
        ({"ignore_case": True}, "PARIS", 1.0),
        ({}, " **Paris** ", 1.0),
        ({"right": 2.0, "wrong": -1.0}, "Paris", 2.0),
        ({"right": 2.0, "wrong": -1.0}, "Rome", -1.0),
        ({"right": 2.0, "wrong": -1.0}, "", -1.0),
    ],
)
def test_an_exact_answer_is_exact_as_its_options_say(
    options: dict[str, Any], text: str, value: float
) -> None:
    reward = lib.ExactAnswer(answer_in="whole", **options)
    assert reward([text], answer=["Paris"]) == [value]
