"""Asking the held-out questions leaves no trace in the run that asks them."""

from __future__ import annotations

import json
import random

import pytest

from grpo_tui.demo import DEMO_MODEL
from grpo_tui.demo.before_after import (
    BeforeAfter,
    answer,
    compared,
    from_json,
    held_rows,
    prompt_text,
    to_json,
)
from grpo_tui.demo.task import all_rows


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
    with pytest.raises(ValueError, match="pass the tokenizer"):
        answer(loaded[0], None, ["7"])


def test_answers_survive_json() -> None:
    rows = [{"prompt": "1 + 1"}, {"prompt": [{"role": "user", "content": "What is 1 + 2?"}], "answer": 3}]
    items = compared(rows, ["1+1=2", "no"], ["yes", "<answer>3</answer>"])
    assert items[0] == BeforeAfter("1 + 1", "", "1+1=2", "yes")
    assert items[1] == BeforeAfter("What is 1 + 2?", "3", "no", "<answer>3</answer>")
    assert from_json(json.loads(json.dumps(to_json(items)))) == items
    assert prompt_text("plain") == "plain"
    with pytest.raises(KeyError):
        from_json([{"prompt": "x"}])
    with pytest.raises(ValueError):
        compared(rows, ["only one"], ["a", "b"])
