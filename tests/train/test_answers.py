"""Asking the held-out questions leaves no trace in the run that asks them."""

from __future__ import annotations

import json
import random

import pytest

from grpo_tui.demo import DEMO_MODEL
from grpo_tui.demo.task import all_rows
from grpo_tui.train.sampling import answer, compared, held_rows, score


@pytest.fixture(scope="module")
def loaded():
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(DEMO_MODEL, dtype="float32")
    return model, AutoTokenizer.from_pretrained(DEMO_MODEL)


def test_held_rows_are_spread_over_what_is_held_out() -> None:
    rows = all_rows()[:40]
    assert held_rows(rows, 4) == [rows[0], rows[10], rows[20], rows[30]]
    assert held_rows(rows[:3], 6) == rows[:3]
    assert held_rows([], 6) == []


def test_asking_changes_neither_the_random_state_nor_the_mode(loaded) -> None:
    import numpy as np
    import torch

    model, tokenizer = loaded
    prompts = [row["prompt"] for row in all_rows()[::100]]

    def draws() -> tuple[float, float, float]:
        return random.random(), float(np.random.rand()), float(torch.rand(()))

    for training in (True, False):
        model.train(training)
        for ask in (lambda: answer(model, tokenizer, prompts), lambda: answer(DEMO_MODEL, None, prompts)):
            random.seed(1)
            np.random.seed(1)
            torch.manual_seed(1)
            untouched = draws()
            random.seed(1)
            np.random.seed(1)
            torch.manual_seed(1)
            ask()
            assert draws() == untouched
        assert model.training is training


def test_an_answer_does_not_depend_on_the_prompts_asked_beside_it(loaded) -> None:
    prompts = [all_rows()[0]["prompt"], all_rows()[-1]["prompt"]]
    together = answer(*loaded, prompts)
    assert together == [answer(*loaded, [prompt])[0] for prompt in prompts]
    assert together == answer(DEMO_MODEL, None, prompts)
    assert answer(*loaded, []) == []


def test_a_model_without_its_tokenizer_is_refused_with_the_fix(loaded) -> None:
    with pytest.raises(ValueError, match="Pass the tokenizer"):
        answer(loaded[0], None, ["7"])


def test_both_answers_are_compared_by_the_runs_own_rewards() -> None:
    rows = [
        {"prompt": [{"role": "user", "content": "What is 1 + 2?"}], "answer": "3"},
        {"prompt": [{"role": "user", "content": "What is 2 + 2?"}], "answer": "4"},
    ]

    def right(completions, answer, log_extra, **kwargs):
        log_extra("seen", list(answer))
        return [
            None if not c[0]["content"] else float(c[0]["content"] == a)
            for c, a in zip(completions, answer, strict=True)
        ]

    def short(completions, **kwargs):
        return [-len(c[0]["content"]) / 10 for c in completions]

    def scores(texts):
        return score([right, short], [2.0, 1.0], rows, texts)

    found = compared(rows, ["no", ""], ["3", "5"], scores)
    assert [(r["prompt"], r["gold"], r["before"], r["after"]) for r in found["rows"]] == [
        ("What is 1 + 2?", "3", "no", "3"),
        ("What is 2 + 2?", "4", "", "5"),
    ]
    assert [r["before_reward"] for r in found["rows"]] == pytest.approx([-0.2, 0.0])
    assert [r["after_reward"] for r in found["rows"]] == pytest.approx([1.9, -0.1])
    assert found["gain"] == pytest.approx(0.9 + 0.1)
    json.dumps(found)


def test_rewards_only_trl_can_call_leave_the_answers_unscored() -> None:
    async def judge(completions, **kwargs):
        return [1.0] * len(completions)

    rows = [{"prompt": "1 + 1"}]
    assert score([judge], [1.0], rows, ["2"]) is None
    assert score(["some/reward-model"], [1.0], rows, ["2"]) is None
    found = compared(rows, ["2"], ["3"], lambda texts: None)
    assert found["gain"] is None
    assert found["rows"][0]["gold"] == ""
