"""Which prompts are listed, and in which order."""

from __future__ import annotations

import pytest

from grpo_tui.core.prompt_memory import PromptMemory
from grpo_tui.present.prompt_memory import chosen

SEEN_ONCE = PromptMemory("once", "few", 1, 1.0, 1.0, 3, 3, 1)
FORGOTTEN = PromptMemory("forgotten", "forgotten", 9, 1.0, 0.0, 1, 90, 2)
LEARNED = PromptMemory("learned", "learned", 9, 0.0, 1.0, 2, 91, 3)
PROMPTS = (FORGOTTEN, SEEN_ONCE, LEARNED)


@pytest.mark.parametrize("sort", ["change", "-change", "first", "-first", "last", "-last"])
def test_rates_of_a_few_visits_come_last_in_either_order(sort: str) -> None:
    assert chosen(PROMPTS, (), sort)[-1] is SEEN_ONCE


def test_they_are_sorted_like_others_by_what_is_known() -> None:
    assert chosen(PROMPTS, (), "visits")[0] is SEEN_ONCE
    assert [one.key for one in chosen(PROMPTS, (), "-change")] == ["learned", "forgotten", "once"]
