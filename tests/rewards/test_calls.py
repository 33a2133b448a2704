"""What one call of a reward function shows: its scores, its second result, and what it hides."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from grpo_tui.config.resolve import load_config
from grpo_tui.demo import DEMO_CONFIG
from grpo_tui.rewards.answer_format import Form
from grpo_tui.rewards.audit import _Reference
from grpo_tui.rewards.checks.function import call_findings
from grpo_tui.rewards.checks.gold import gold_findings
from grpo_tui.rewards.lab_child import calls
from grpo_tui.rewards.lab_child.calls import Batch, Caller, Ready, as_message, batch_of
from grpo_tui.rewards.next_reward import task_of
from grpo_tui.rewards.samples import Sample
from grpo_tui.rewards.score_report import (
    Failure,
    FunctionInfo,
    FunctionScore,
    OtherShape,
    Repeat,
    Swallowed,
    _parameter,
)
from grpo_tui.rewards.scoring import Dataset

TEXTS = Batch(["p", "p", "q"], ["a", "bb", "ccc"], [False, True, False], {"answer": ["1", "1", "2"]})


@pytest.fixture
def caller() -> Caller:
    return Caller(lambda completions, truncated: [[len(c)] for c in completions], "state")


def ready(target: Callable[..., Any], *broad: tuple[int, int], again: Any = None) -> Ready:
    return Ready(
        "f", target, False, False, {__file__: list(broad)} if broad else {}, again or (lambda: target)
    )


def test_the_arguments_are_those_of_trl_and_copies_of_the_batch(caller: Caller) -> None:
    given = caller.arguments(TEXTS)
    assert {name: given[name] for name in ("prompts", "completions", "completion_ids", "answer")} == {
        "prompts": ["p", "p", "q"], "completions": ["a", "bb", "ccc"], "completion_ids": [[1], [2], [3]],
        "answer": ["1", "1", "2"],
    }  # fmt: skip
    assert given["trainer_state"] == "state"
    given["answer"].append("x")
    assert TEXTS.columns["answer"] == ["1", "1", "2"]
    assert calls.changed_arguments(caller.arguments(TEXTS), given) == ["answer"]


def test_a_call_gives_scores_and_what_was_logged_or_the_error(caller: Caller) -> None:
    def logs(log_extra: Any, log_metric: Any, completions: list[str], **_: Any) -> list[float | None]:
        log_extra("words", [1, 2, 3])
        log_metric("m", 0.5)
        return [1, None, 1e39]

    found = caller.call(ready(logs), caller.arguments(TEXTS))
    assert found.scores == [1.0, None, 1e39] or found.scores == [1.0, None, math.inf]
    assert found.scores[2] == math.inf
    assert (found.extra, found.metrics, found.error) == ({"words": [1, 2, 3]}, {"m": [0.5]}, None)
    again = caller.call(ready(lambda **_: 1 / 0), caller.arguments(TEXTS))
    assert (again.scores, type(again.error), again.extra) == (None, ZeroDivisionError, {})
    short = caller.call(ready(lambda **_: [1.0, 2.0]), caller.arguments(TEXTS))
    assert short.scores is None
    assert "returned 2 values" in str(short.error)
    emptied = caller.call(ready(lambda prompts, **_: prompts.clear() or [0.0] * 3), caller.arguments(TEXTS))
    assert "changed prompts, which held 3 before and 0 after" in str(emptied.error)


def test_a_batch_is_all_texts_or_all_messages() -> None:
    samples = [
        {"prompt": "p", "completion": "a", "columns": {"answer": "1", "prompt": "x"}, "truncated": True},
        {
            "prompt": [{"role": "user", "content": "q"}],
            "completion": as_message("b"),
            "columns": {"level": 2},
        },
    ]
    made = batch_of(samples, lambda text: [{"role": "user", "content": text}])
    assert made.chat
    assert [prompt[0]["content"] for prompt in made.prompts] == ["p", "q"]
    assert made.completions == [as_message("a"), as_message("b")]
    assert (made.truncated, made.columns) == ([True, False], {"answer": ["1", None], "level": [None, 2]})
    plain = batch_of([{**samples[1], "prompt": "q"}], None)
    assert (plain.chat, plain.completions) == (False, ["b"])
    for name in ("prompts", "completions"):
        with pytest.raises(ValueError, match=f"the samples have a column {name}, under which TRL"):
            batch_of([{"prompt": "p", "completion": "a", "columns": {name: 1}}], None)


def test_a_batch_is_shortened_varied_and_given_in_the_other_form() -> None:
    assert TEXTS.first(2) == Batch(["p", "p"], ["a", "bb"], [False, True], {"answer": ["1", "1"]})
    assert TEXTS.first(9) == TEXTS
    varied, origins = TEXTS.first(2).varied()
    assert origins == [0] * 6 + [1] * 6
    assert varied.completions[6:11] == ["bb", "", "b", "x", "BB"]
    assert len(varied.completions[11]) > 9_000
    assert (varied.prompts[6], varied.columns["answer"][6], varied.truncated[6]) == ("p", "1", True)
    chat = TEXTS.flipped()
    assert (chat.chat, chat.prompts[2]) == (True, [{"role": "user", "content": "q"}])
    assert (chat.completions[1], chat.truncated, chat.columns) == (
        as_message("bb"), TEXTS.truncated, TEXTS.columns,
    )  # fmt: skip
    assert chat.first(1).varied()[0].completions[3] == as_message("x")
    assert chat.flipped().completions == TEXTS.completions


def as_text(completions: Sequence[Any], **_: Any) -> list[float]:
    return [float(len(completion)) for completion in completions]


def as_messages(completions: Sequence[Any], **_: Any) -> list[float]:
    return [float(len(completion[-1]["content"])) for completion in completions]


@pytest.mark.parametrize(
    ("function", "batch", "found"),
    [
        (as_messages, TEXTS, {"given": "texts", "works": True, "varies": False}),
        (as_text, TEXTS, None),
        (
            as_text,
            TEXTS.flipped(),
            {"given": "messages", "works": True, "varies": True, "tried": 18, "constant": 1.0},
        ),
        (lambda **_: [0.5] * 3, TEXTS, None),  # it cannot be called with other samples
        (
            lambda completions, **_: [0.5] * len(completions),
            TEXTS,
            {"given": "texts", "works": True, "varies": False, "tried": 18, "constant": 0.5},
        ),
        (
            lambda prompts, **_: [float(p in ("q", [{"role": "user", "content": "q"}])) for p in prompts],
            TEXTS,
            {"given": "texts", "works": True, "varies": False, "tried": 18, "constant": None},
        ),
    ],
)  # fmt: skip
def test_a_function_that_expects_the_other_form_is_found_by_giving_it(
    function: Any, batch: Batch, found: Mapping[str, Any] | None, caller: Caller
) -> None:
    first = caller.call(ready(function), caller.arguments(batch))
    assert calls.other_shape(caller, ready(function), batch, first) == found


def counting() -> Callable[..., list[float]]:
    made: list[int] = []

    def count(completions: Sequence[str], **_: Any) -> list[float]:
        made.append(1)
        return [0.0, float(len(made)), float("nan")]

    return count


@pytest.mark.parametrize(
    ("again", "fresh_repeats"),
    [(counting, True), (lambda: lambda **_: [0.0] * 3, False), (lambda: 1 / 0, None)],
)
def test_a_second_call_tells_state_from_chance(
    again: Any, fresh_repeats: bool | None, caller: Caller
) -> None:
    one = ready(counting(), again=again)
    given = caller.arguments(TEXTS)
    found = calls.repeat(caller, one, given, caller.call(one, given))
    assert found == {"differs": [1], "fresh_repeats": fresh_repeats}
    steady = ready(as_text)
    first = caller.call(steady, given)
    assert calls.repeat(caller, steady, given, first) == {"differs": [], "fresh_repeats": None}
    assert calls.repeat(caller, steady, given, replace(first, scores=None)) is None


def hides(completions: Sequence[str], answer: Sequence[str], **_: Any) -> list[float]:
    scores = []
    for completion in completions:
        try:  # broad
            scores.append(_parsed(completion))
        except Exception:
            scores.append(0.0)
        next(iter([]), None)
    return scores


def _parsed(text: str) -> float:
    if text == "bb":
        return {}["key"]  # type: ignore[no-any-return]
    return float(text) if text == "a" else float(len(text))


def test_exceptions_that_a_function_catches_itself_are_counted_where_they_were_raised(caller: Caller) -> None:
    start, inner = hides.__code__.co_firstlineno + 3, _parsed.__code__.co_firstlineno
    found = calls.swallowed(caller, ready(hides, (start, start + 3)), TEXTS)
    assert found == [
        {"type": "ValueError", "message": "could not convert string to float: 'a'", "file": __file__,
         "line": inner + 3, "count": 1},
        {"type": "KeyError", "message": "'key'", "file": __file__, "line": inner + 2, "count": 1},
    ]  # fmt: skip
    assert calls.swallowed(caller, ready(hides, (1, 2)), TEXTS) == []
    assert calls.swallowed(caller, ready(hides), TEXTS) == []


# -- what is said of it ----------------------------------------------------------------------------

SOURCE = "def f(completions, **kwargs):\n    return [float('4' in c) for c in completions]\n"
SAMPLES = [Sample("p", f"answer {n}") for n in range(4)]


def result(source: str = SOURCE, scores: Sequence[float | None] = (0.0,) * 4, **more: Any) -> FunctionScore:
    saves = more.pop("saves_state", False)
    info = FunctionInfo(0, "f", 1.0, "function", "f", "/a/r.py", 1, file_text=source, saves_state=saves)
    return FunctionScore(info, tuple(scores), **more)


RAISED = Failure("raised", "TypeError", "no", "/a/r.py", 7, 2)


@pytest.mark.parametrize(
    ("made", "rule", "said", "line"),
    [
        (
            result(other_shape=OtherShape("messages", True, True)),
            "rewards.shape",
            "so is each completion, as in `'4' in c`. It gives all completions of a prompt",
            2,
        ),
        (
            result("", other_shape=OtherShape("messages", True, True)),
            "rewards.shape",
            "each completion. It gives all completions",
            1,
        ),
        (
            result(other_shape=OtherShape("texts", True, True)),
            "rewards.shape",
            "so is each completion. It gives all completions of a prompt the same score. Use the completion",
            1,
        ),
        (
            result(failure=RAISED, other_shape=OtherShape("texts", True, False)),
            "rewards.shape",
            "as lists of messages, but the prompts are text, and so is each completion: TypeError",
            7,
        ),
        (
            result(failure=RAISED, other_shape=OtherShape("texts", False, False)),
            "rewards.raises",
            'raises: TypeError: no (r.py:7), on sample 3, the completion "answer 2"',
            7,
        ),
        (result(failure=replace(RAISED, kind="skipped"), changed=("answer",)), None, "", None),
        (result(failure=replace(RAISED, kind="hung", sample=None)), "rewards.hangs", "'f' no (r.py:7)", 7),
        (result(other_shape=OtherShape("texts", True, False)), None, "", None),
        (result(repeat=Repeat((), None)), None, "", None),
        (result(repeat=Repeat((1, 2), True)), "rewards.keeps-state", "2 of 4 samples get a", 1),
        (result(repeat=Repeat((1,), True), saves_state=True), None, "", None),
        (result(repeat=Repeat((1,), False)), "rewards.not-deterministic", "1 of 4 samples get a", 1),
        (result(repeat=Repeat((1,), None), saves_state=True), "rewards.not-deterministic", "part of the", 1),
        (
            result(swallowed=(Swallowed("KeyError", "'x'", "/a/r.py", 9, 3),)),
            "rewards.swallows",
            "returns a constant instead: KeyError: 'x' (r.py:9), 3 times in this call",
            9,
        ),
        (
            result(swallowed=(Swallowed("KeyError", "", "r.py", 9, 3),)),
            "rewards.swallows",
            "instead: KeyError (r.py:9)",
            9,
        ),
        (result(changed=("answer", "prompts")), "rewards.changes-arguments", "(answer, prompts)", 1),
        (result(left=("leaves a thread",)), "rewards.changes-process", "leaves a thread", 1),
    ],
)  # fmt: skip
def test_what_a_call_showed_is_told_with_its_line(
    made: FunctionScore, rule: str | None, said: str, line: int | None
) -> None:
    found = list(call_findings(made, SAMPLES))
    assert [one.id for one in found] == ([rule] if rule else [])
    for one in found:
        assert said in one.message
        assert one.line == line


@pytest.mark.parametrize(
    ("scores", "rule", "pair"),
    [
        ([(0.0, 5.0), (2.0, 1.0), (9.0, 9.0)], None, ""),
        ([(1.0, 2.0), (5.0, 9.0), (None, 1.0)], "rewards.gold-below-wrong", "right 5, wrong 9"),
        ([(9.0, 9.0), (1.0, 3.0)], "rewards.gold-below-wrong", "right 1, wrong 3"),
        ([(1.0, 1.0), (3.0, 3.0)], "rewards.gold-not-above-wrong", "right 1, wrong 1"),
    ],
)
def test_a_row_is_judged_by_the_form_in_which_its_answer_does_best_and_told_by_the_worst(
    scores: list[tuple[float | None, float | None]], rule: str | None, pair: str
) -> None:
    samples = [
        Sample("p", f"{kind} {n}", {"answer": "4"}, "row 1", kind)
        for n in range(len(scores))
        for kind in ("gold", "wrong")
    ]
    info = FunctionInfo(0, "f", 1.0, "function", "f", parameters=(_parameter("answer", 1, "empty"),))
    made = FunctionScore(info, tuple(score for both in scores for score in both))
    found = gold_findings([made], samples, "answer")
    assert [one.id for one in found] == ([rule] if rule else [])
    assert all(pair in one.message for one in found)


def test_a_task_is_read_from_the_systems_words_the_first_prompts_and_the_column_of_the_answer() -> None:
    config = load_config(DEMO_CONFIG)
    plain = replace(config, section=replace(config.section, system_prompt=None), grpo={})
    asks = {"prompt": [{"role": "user", "content": "Use <plan></plan> and <result></result>"}], "columns": {}}
    rows = ({"prompt": "2+2?", "columns": {}}, asks)
    assert task_of(plain, Dataset(rows, ("prompt", "solution"))).form == Form("tags", "plan", "result")
    assert task_of(plain, Dataset(rows[:1] * 3 + rows[1:], ("prompt",))).asked is False
    told = replace(plain, section=replace(plain.section, system_prompt="Use <a></a> and <answer></answer>"))
    assert task_of(told, None).form.answer == "answer"
    assert task_of(told, None).asked is True
    short = replace(plain, grpo={"max_completion_length": 40})
    assert (task_of(short, None).words, task_of(replace(short, model=""), None).words) == (30, 300)
    assert task_of(replace(plain, grpo={"max_completion_length": None}), None).words == 300


def refused(form: Form, text: str, gold: str) -> list[str]:
    return list(_Reference(form).refuse(text, gold))


@pytest.mark.parametrize(
    ("text", "gold", "by"),
    [
        ("<answer>4</answer>", "4", []),
        ("<answer>4.0</answer>", "4", []),
        ("<answer>5</answer>", "4", ["reference answer", "MathAnswer"]),
        ("nothing", "4", ["reference answer", "MathAnswer"]),
        ("<answer>paris</answer>", "Paris", []),
        ("<answer>Rome</answer>", "", []),
    ],
)
def test_an_answer_is_refused_by_the_reference_in_its_form(text: str, gold: str, by: list[str]) -> None:
    pytest.importorskip("math_verify")
    form = Form("tags", "think", "answer")
    assert [one for one in refused(form, text, gold) if gold != "Paris" or one != "MathAnswer"] == by
    assert _Reference(form).names(True) == ("reference answer", "MathAnswer")
    assert _Reference(form).names(False) == ()


def test_without_math_verify_the_other_reference_judges_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(**options: Any) -> None:
        raise ImportError("math-verify")

    monkeypatch.setattr("grpo_tui.rewards.audit.MathAnswer", absent)
    form = Form("tags", "think", "answer")
    assert _Reference(form).names(True) == ("reference answer",)
    assert refused(form, "<answer>5</answer>", "4") == ["reference answer"]
    assert refused(form, "<answer>4</answer>", "4") == []
