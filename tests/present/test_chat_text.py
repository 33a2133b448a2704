"""What is said below the answers of a chat."""

from __future__ import annotations

from grpo_tui.present.chat_text import remarks

ERRORS = {"correctness": "KeyError: 'answer'", "close": "KeyError: 'answer'"}


def test_a_prompt_without_a_row_is_the_one_cause_of_missing_scores() -> None:
    (note,) = remarks({"notes": [], "errors": ERRORS, "row": None})
    assert note.startswith("no score from correctness, close: the prompt is not a row of the dataset")
    assert "KeyError: 'answer'" in note


def test_a_row_that_a_reward_cannot_score_has_the_reason_of_each() -> None:
    notes = list(remarks({"notes": ["one"], "errors": ERRORS, "row": {"answer": "2"}}))
    assert notes == ["one", *(f"{name} gave no score: KeyError: 'answer'" for name in ERRORS)]
