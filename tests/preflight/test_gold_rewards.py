"""What the rewards give for a row's right answer, from the scores of every usual form."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from grpo_tui.config.section import Section
from grpo_tui.preflight.facts import RowView
from grpo_tui.preflight.rewards import gold_rewards
from grpo_tui.rewards.checks.source_text import RewardSource
from grpo_tui.rewards.score_report import Failure, FunctionInfo, FunctionScore


class Scoring:
    """Stands for the lab: scores texts with plain functions."""

    def __init__(self, **functions: Any) -> None:
        self.functions = tuple(
            FunctionInfo(i, name, 1.0, "model" if function is None else "function", name)
            for i, (name, function) in enumerate(functions.items())
        )
        self._made = tuple(functions.values())
        self.config = SimpleNamespace(section=Section())
        self.only: list[int] | None = None

    def score(self, samples: Any, *, only: list[int], repeat_limit_s: float) -> Any:
        self.only = only
        results = []
        for info in self.functions:
            if info.index not in only:
                skipped = Failure("skipped", "", "it was not called")
                results.append(FunctionScore(info, (), failure=skipped))
                continue
            scores = tuple(self._made[info.index](sample.completion, sample.columns) for sample in samples)
            failure = Failure("raised", "ValueError", "it broke") if None in scores else None
            results.append(FunctionScore(info, scores, failure=failure))
        return SimpleNamespace(functions=results)


ROW = RowView(1, 9, {}, "7 + 15?", {"answer": "22"}, answer_column="answer")


def boxed(text: str, columns: Any) -> float:
    return float(f"\\boxed{{{columns['answer']}}}" in text)


def form(text: str, columns: Any) -> float:
    return float("<answer>" in text)


def never(text: str, columns: Any) -> float:
    return 0.0


@pytest.mark.parametrize(
    ("function", "right", "wrong", "written"),
    [(boxed, 1.0, 0.0, "boxed"), (form, 1.0, 1.0, "tagged"), (never, 0.0, 0.0, "plain")],
)
def test_the_form_counts_that_a_function_tells_apart_best(
    function: Any, right: float, wrong: float, written: str
) -> None:
    (found,) = gold_rewards(Scoring(one=function), ROW)  # type: ignore[arg-type]
    assert (found.right, found.wrong, found.form) == (right, wrong, written)


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ("return [float(a in c) for c, a in zip(completions, kw['answer'])]", True),
        ("gold = kw.get('answer')\n    return [0.0] * len(gold)", True),
        ("return [float('answer' in c) for c in completions]", False),
        ("return [float(c.count('answer')) for c in completions]", False),
        ("return [float(c.startswith('answer')) for c in completions]", False),
    ],
)
def test_a_column_is_read_by_its_key_and_not_by_a_word_that_is_looked_for(body: str, named: bool) -> None:
    source = RewardSource(f"def right(completions, **kw):\n    {body}\n", 1)
    assert source.names("answer") is named


def test_a_reward_model_is_not_asked() -> None:
    lab = Scoring(judge=None, one=boxed)
    judge, one = gold_rewards(lab, ROW)  # type: ignore[arg-type]
    assert lab.only == [1]
    assert "not loaded" in judge.skipped
    assert one.right == 1.0
    (alone,) = gold_rewards(Scoring(judge=None), ROW)  # type: ignore[arg-type]
    assert alone.skipped


def test_a_function_that_fails_says_why() -> None:
    (found,) = gold_rewards(Scoring(one=lambda text, columns: None), ROW)  # type: ignore[arg-type]
    assert found.right is None
    assert "it broke" in found.failure


@pytest.mark.parametrize("change", [{"prompt": None}, {"answer_column": ""}])
def test_a_row_without_prompt_or_answer_has_none(change: dict[str, Any]) -> None:
    assert gold_rewards(Scoring(one=boxed), replace(ROW, **change)) == ()  # type: ignore[arg-type]
