"""The demonstration's rewards, on completions written by hand."""

from __future__ import annotations

from typing import Any

import pytest

from grpo_tui.demo.rewards import correctness, format_reward, incremental_format

WHOLE = "<think>7+15=22</think><answer>22</answer>"


def chat(*texts: str) -> list[list[dict[str, str]]]:
    return [[{"role": "assistant", "content": text}] for text in texts]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (WHOLE, 1.0),
        ("<answer>22</answer>", 1.0),
        ("<answer> 022 </answer>", 1.0),
        ("<answer>12</answer>", 0.0),
        ("7+15=22", 0.0),
        ("<answer>21</answer><answer>22</answer>", 0.0),
        ("<answer></answer>", 0.0),
        ("", 0.0),
    ],
)
def test_correctness_reads_the_one_number_between_the_answer_tags(text: str, value: float) -> None:
    assert correctness(chat(text), answer=["22"]) == [value]


def test_correctness_says_what_it_compared() -> None:
    kept: dict[str, list[Any]] = {}
    correctness(chat(WHOLE, "twelve"), answer=["22", "12"], log_extra=kept.__setitem__, trainer_state=None)
    assert kept == {"extracted": ["22", "none"], "gold": ["22", "12"]}


@pytest.mark.parametrize(
    ("text", "whole", "share"),
    [
        (WHOLE, 1.0, 1.0),
        ("<think>first\nthen</think>\n<answer>22</answer>\n", 1.0, 1.0),
        ("<think>7+15=22</think>22", 0.0, 0.5),
        ("<answer>22</answer>", 0.0, 0.5),
        ("<think></think><answer>22</answer>", 0.0, 1.0),
        ("<answer>22</answer><think>7+15=22</think>", 0.0, 0.5),
        ("<think><think>7</think><answer>22</answer>", 0.0, 0.75),
        ("<think>7</think><answer>2</answer><answer>22</answer>", 0.0, 0.5),
        (WHOLE + WHOLE, 0.0, 0.0),
        ("so " + WHOLE, 0.0, 1.0),
        ("7 plus 15 makes 22.", 0.0, 0.0),
    ],
)
def test_the_format_is_whole_or_counted_tag_by_tag(text: str, whole: float, share: float) -> None:
    assert format_reward(chat(text)) == [whole]
    assert incremental_format(chat(text)) == [share]


def test_rewards_take_plain_text_completions_too() -> None:
    assert (
        correctness([WHOLE], answer=["22"]) == format_reward([WHOLE]) == incremental_format([WHOLE]) == [1.0]
    )
