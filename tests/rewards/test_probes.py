"""Probes: what is made from a row, and who is fooled by what."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from grpo_tui.rewards.answer_format import Form, find_form, wrong_answer
from grpo_tui.rewards.lab import Lab
from grpo_tui.rewards.library import ExactAnswer, IncrementalTags, NumericAnswer, TagFormat
from grpo_tui.rewards.probes import (
    Aspect,
    Probe,
    ProbeRow,
    aspect,
    by_kind,
    judge,
    made_up_rows,
    make_probes,
    probe,
    probes_for,
)
from grpo_tui.rewards.scoring import config_of_functions
from tests.rewards.labs import write

TAGS = Form("tags", "think", "answer")
ROW = ProbeRow("What is 2+2?", "4", "5", ("7", "9"))


def fooled(reward: Callable[[str], float], form: Form = TAGS, row: ProbeRow = ROW) -> dict[str, set[str]]:
    """Kinds of probes that fool a reward, and those it is unfair to."""
    probes = make_probes(row, form)
    verdicts = judge(probes, {"it": [reward(probe.text) for probe in probes]})
    return {fault: {v.kind for v in verdicts if v.fault == fault} for fault in ("fooled", "unfair")}


def library(reward: NumericAnswer | TagFormat | IncrementalTags) -> Callable[[str], float]:
    return lambda text: reward([text], answer=["4"], prompts=["p"])[0] or 0.0


@pytest.mark.parametrize("gold", ["4", "-12", "1500", "0.5", "3/4", "Paris", "B", "yes", "", "a b c"])
@pytest.mark.parametrize("form", [TAGS, Form("boxed"), Form("hashes"), Form(), Form("tags", None)])
def test_probes_are_made_for_any_gold_answer_and_form(gold: str, form: Form) -> None:
    probes = make_probes(ProbeRow("p", gold, wrong_answer(gold)), form)
    kinds = [probe.kind for probe in probes]
    assert len(set(kinds)) == len(kinds)
    assert {"right", "wrong", "formless", "empty", "echo", "list of candidates", "padding"} <= set(kinds)
    assert all(probe.answer in ("right", "wrong", "none") for probe in probes)


@pytest.mark.parametrize(
    ("gold", "spelled", "not_made"),
    [
        ("Paris", {"letter case": "PARIS"}, {"thousands", "minus sign"}),
        ("PARIS", {"letter case": "paris"}, {"decimal zero"}),
        ("B", {"full stop": "B."}, {"letter case"}),
        ("数学", {"full stop": "数学."}, {"letter case"}),
        ("0", {"decimal zero": "0.0"}, {"minus sign", "thousands"}),
        ("-1", {"minus sign": "−1"}, {"thousands", "fraction"}),
        ("999", {"decimal zero": "999.0"}, {"thousands", "non-breaking space"}),
        ("1000", {"thousands": "1,000", "non-breaking space": "1\u00a0000"}, {"minus sign"}),
        ("1,000", {"thousands": "1000"}, {"fraction"}),
        ("-1000", {"thousands": "-1,000", "minus sign": "−1000"}, {"fraction"}),
    ],
)
def test_each_other_spelling_of_an_answer_is_one_that_differs(
    gold: str, spelled: dict[str, str], not_made: set[str]
) -> None:
    made = {probe.kind: probe.text for probe in make_probes(ProbeRow("p", gold, wrong_answer(gold)), TAGS)}
    assert {
        kind: made.get(kind, "").partition("<answer>")[2].removesuffix("</answer>") for kind in spelled
    } == spelled
    assert not not_made & set(made)


def test_the_form_is_found_in_the_prompt_or_in_the_rewards() -> None:
    assert find_form(["Use <reasoning></reasoning><answer></answer>"]) == Form("tags", "reasoning", "answer")
    assert find_form(["2+2"], [r're.match("<think>.*</think>", c)', "#### "]) == Form("hashes", "think")
    assert find_form([r"Put it in \boxed{}"]).style == "boxed"
    assert find_form(["Q\n<think>\n"], ["<answer>"]).prefilled
    assert find_form(["2+2"]) == Form()


def test_what_the_prompt_asks_for_counts_more_than_what_stands_in_a_rewards_file() -> None:
    library = ["<think>", "<answer>", "a <final> tag"]
    assert find_form(["Use <reasoning> and <result>"], library) == Form("tags", "reasoning", "result")
    assert find_form([r"Think in <think>, then \boxed{}"], library) == Form("boxed", "think")
    assert find_form(["Q\n#### "], library) == Form("hashes", "think")


def test_the_system_prompt_is_asked_for_the_form_too() -> None:
    prompt = [{"role": "system", "content": "Use <plan> and <result>"}, {"role": "user", "content": "2+2?"}]
    form, _ = probes_for(Lab(), [{"prompt": prompt, "columns": {"gold": "4"}}], "gold")
    assert form == Form("tags", "plan", "result")


def test_a_completion_is_written_as_the_form_wants_it() -> None:
    assert TAGS.write("r", "4") == "<think>\nr\n</think>\n<answer>4</answer>"
    assert Form("tags", "think", prefilled=True).write("r", "4") == "r\n</think>\n<answer>4</answer>"
    assert Form("hashes").write("r", "4") == "r\n#### 4"


def test_a_reward_that_looks_for_the_gold_anywhere_is_fooled() -> None:
    found = fooled(lambda text: float("4" in text))
    assert {"list of candidates", "wrong, gold in the reasoning", "hedged", "gold inside another"} <= found[
        "fooled"
    ]
    assert found["unfair"] == {"full-width digits"}


def test_a_reward_that_compares_texts_is_unfair_to_other_spellings() -> None:
    def exact(text: str) -> float:
        match = re.search(r"<answer>(.*?)</answer>", text)
        return float(bool(match) and match[1] == "4")

    found = fooled(exact)
    assert {"spaces around", "decimal zero", "unit", "answer on its own line"} <= found["unfair"]
    assert {"one answer each", "right, then wrong"} & found["fooled"]


def test_a_format_reward_that_counts_tags_is_fooled_by_tags() -> None:
    found = fooled(
        lambda text: float(all(f"<{tag}>" in text for tag in ("think", "/think", "answer", "/answer")))
    )
    assert {"empty reasoning", "nested tags", "wrong order", "tags in prose"} <= found["fooled"]


def test_the_library_holds_against_all_of_it() -> None:
    assert fooled(library(NumericAnswer())) == {"fooled": set(), "unfair": set()}
    assert fooled(library(TagFormat())) == {"fooled": set(), "unfair": set()}
    assert fooled(library(IncrementalTags())) == {"fooled": set(), "unfair": set()}


@pytest.mark.parametrize(
    ("gold", "kinds"),
    [
        ("-4", {"minus sign", "full-width digits"}),
        ("1250", {"thousands", "non-breaking space", "full-width digits"}),
        ("café au lait", {"accents apart", "non-breaking space"}),
        ("cafe\u0301", {"accents joined"}),
    ],
)
def test_other_characters_of_the_same_answer_are_a_probe_that_the_library_takes(
    gold: str, kinds: set[str]
) -> None:
    row = ProbeRow("p", gold, wrong_answer(gold, ["thé"]))

    def exact(text: str) -> float:
        match = re.search(r"<answer>(.*?)</answer>", text)
        return float(bool(match) and match[1] == gold)

    assert kinds <= fooled(exact, row=row)["unfair"]
    reward = NumericAnswer() if gold[-1].isdigit() else ExactAnswer()
    fair = fooled(lambda text: reward([text], answer=[gold])[0] or 0.0, row=row)
    assert not kinds & fair["unfair"]


def test_what_a_function_looks_at_is_told_by_the_measures() -> None:
    assert aspect(1.0, 0.0, 1.0).answer
    assert aspect(1.0, 1.0, 0.0).form
    assert aspect(0.0, 1.0, 0.0).reversed
    assert aspect(1.0, 1.0, 1.0) == aspect(None, 1.0, 1.0) == Aspect(False, False, False)


def test_a_function_looks_at_what_holds_on_more_than_half_of_the_rows(lab: Lab, tmp_path: Path) -> None:
    body = "    return [float(a in c or a == '42') for a, c in zip(answer, completions)]\n"
    file = write(tmp_path, f"def odd(completions, answer, **kwargs):\n{body}")
    lab.load(config_of_functions([f"{file}:odd"]))
    rows = [{"prompt": "q", "columns": {"answer": gold}} for gold in ("71", "42", "93")]
    assert not probe(lab, rows[:2], "answer").aspects["odd"].answer, "one in two is no more than half"
    assert probe(lab, rows, "answer").aspects["odd"].answer


def test_verdicts_are_counted_by_kind_over_the_rows() -> None:
    verdicts = []
    for number, gold in enumerate(("4", "17", "23")):
        row = ProbeRow("p", gold, wrong_answer(gold))
        probes: list[Probe] = make_probes(row, TAGS)
        verdicts += judge(probes, {"contains": [float(gold in probe.text) for probe in probes]}, number)
    report = {(r.kind, r.fault): (r.rows, r.of) for r in by_kind(verdicts, 3)}
    assert report["hedged", "fooled"] == (3, 3)


def test_functions_alone_are_tried_with_messages_where_they_fail_with_text(lab: Lab, tmp_path: Path) -> None:
    file = write(
        tmp_path,
        "def chat(completions, answer, **kw):\n"
        "    return [float(a in c[-1]['content']) for a, c in zip(answer, completions)]\n"
        "def plain(completions, **kw): return [float(isinstance(c, str)) for c in completions]\n"
        "def broken(completions, **kw): return [c.nothing for c in completions]\n",
    )
    lab.load(config_of_functions([f"{file}:{name}" for name in ("chat", "plain", "broken")]))
    rows, column = made_up_rows(["answer"])
    chat, plain, broken = probe(lab, rows, column, made_up=True).functions
    assert (chat.failure, plain.failure) == (None, None)
    assert set(chat.scores) == {0.0, 1.0}
    assert set(plain.scores) == {1.0}, "what takes text is not tried again"
    assert broken.failure is not None
    assert "AttributeError: 'str' object" in broken.failure.text, "the failure of the form it was asked in"
    assert probe(lab, rows, column).functions[0].failure is not None, "a dataset has one form"


@pytest.mark.parametrize(
    ("columns", "answers", "column"),
    [
        (["prompt", "target", "solution"], {"target", "solution"}, "solution"),
        (["prompt", "hint"], {"answer"}, "answer"),
        ([], {"answer"}, "answer"),
    ],
)
def test_rows_that_are_made_up_have_the_answer_columns_that_functions_read(
    columns: list[str], answers: set[str], column: str
) -> None:
    rows, found = made_up_rows(columns)
    assert found == column
    assert all(row["columns"].keys() == answers for row in rows)
    assert {row["prompt"]: row["columns"][column] for row in rows}["What is 17 + 25?"] == "42"
