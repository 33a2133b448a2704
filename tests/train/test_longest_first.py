"""A trial takes the longest prompts first, and none is lost."""

from __future__ import annotations

from typing import Any

import pytest

from grpo_tui.train import build
from grpo_tui.train.build import by_length


def _words(prompts: list[Any]) -> list[int]:
    """Tokens of prompts whose characters say little about them."""
    return [len(prompt.split()) for prompt in prompts]


@pytest.mark.parametrize("counted", [1, 3, 4, 2_000])
def test_every_row_is_kept_with_the_most_tokens_first(counted: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "MOST_TOKENIZED", counted)
    prompts = ["a b c", "x" * 40, "a b c d e f", "", "y" * 30 + " z"]
    by_characters = [1, 4, 2, 0, 3]
    front = sorted(by_characters[:counted], key=lambda row: -_words([prompts[row]])[0])
    order, most = by_length(prompts, _words)
    assert order == [*front, *by_characters[counted:]]
    assert most == _words([prompts[front[0]]])[0]
    assert by_length(prompts, None) == (by_characters, None)
    assert by_length([], _words) == ([], None)
