"""The demonstration's three rewards: a correct answer, the complete format, partial credit for the format.

Each returns one value from 0 to 1 per completion; the config sets their weights. Like every reward in TRL,
they take the batch as keyword arguments, including dataset columns.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

TAGS = ("<think>", "</think>", "<answer>", "</answer>")
"""The tags of a complete answer, in their required order."""

_ANSWER = re.compile(r"<answer>\s*(-?\d+)\s*</answer>")
_WHOLE = re.compile(
    r"<think>(?:(?!</?(?:think|answer)>).)+</think>\s*<answer>\s*-?\d+\s*</answer>\s*", re.DOTALL
)


def completion_text(completion: str | Sequence[dict[str, Any]]) -> str:
    """Return a completion's text: a plain string, or the last message of a chat."""
    if isinstance(completion, str):
        return completion
    return str(completion[-1]["content"]) if completion else ""


def extracted_answer(text: str) -> str | None:
    """Return the number between the answer tags; None unless there is exactly one such pair."""
    found = _ANSWER.findall(text)
    return found[0] if len(found) == 1 else None


def correctness(
    completions: Sequence[Any],
    answer: Sequence[str],
    log_extra: Callable[[str, list[Any]], None] | None = None,
    **kwargs: Any,
) -> list[float]:
    """Return 1.0 where the number between the answer tags is the right sum, else 0.0.

    The compared values are stored with the completions, in the columns `extracted` and `gold`.

    Args:
        answer: The right sum for each completion (a dataset column).
        log_extra: TRL's function that stores a column of values with the completions.
    """
    found = [extracted_answer(completion_text(completion)) for completion in completions]
    if log_extra is not None:
        log_extra("extracted", ["none" if number is None else number for number in found])
        log_extra("gold", list(answer))
    return [
        1.0 if number is not None and int(number) == int(gold) else 0.0
        for number, gold in zip(found, answer, strict=True)
    ]


def format_reward(completions: Sequence[Any], **kwargs: Any) -> list[float]:
    """Return 1.0 where the completion is exactly one thought and one numeric answer, else 0.0."""
    return [1.0 if _WHOLE.fullmatch(completion_text(completion)) else 0.0 for completion in completions]


def incremental_format(completions: Sequence[Any], **kwargs: Any) -> list[float]:
    """Return the fraction of the four tags that appear exactly once and in order: 0, ¼, ½, ¾ or 1.

    A model that never writes the complete format learns nothing from `format_reward`. Here every tag counts.
    """
    return [_tag_share(completion_text(completion)) for completion in completions]


def _tag_share(text: str) -> float:
    counted, reached = 0, -1
    for tag in TAGS:
        place = text.find(tag)
        if text.count(tag) == 1 and place > reached:
            counted, reached = counted + 1, place
    return counted / len(TAGS)
