"""The demonstration's three rewards: is the answer right, is the format whole, how much of it is there?

Each returns one value from 0 to 1 for each completion; the config says what each is worth. Like every reward
of TRL they take the batch as keyword arguments, dataset columns among them. They do not know the model, the
trainer or each other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

TAGS = ("<think>", "</think>", "<answer>", "</answer>")
"""The marks of a whole completion, in the order in which they must stand."""

_ANSWER = re.compile(r"<answer>\s*(-?\d+)\s*</answer>")
_WHOLE = re.compile(
    r"<think>(?:(?!</?(?:think|answer)>).)+</think>\s*<answer>\s*-?\d+\s*</answer>\s*", re.DOTALL
)


def completion_text(completion: str | Sequence[dict[str, Any]]) -> str:
    """Return a completion's text: itself for a string prompt, its last message for a chat prompt."""
    if isinstance(completion, str):
        return completion
    return str(completion[-1]["content"]) if completion else ""


def extracted_answer(text: str) -> str | None:
    """Return the number between the answer tags, or None when there is no such pair or more than one."""
    found = _ANSWER.findall(text)
    return found[0] if len(found) == 1 else None


def correctness(
    completions: Sequence[Any],
    answer: Sequence[str],
    log_extra: Callable[[str, list[Any]], None] | None = None,
    **kwargs: Any,
) -> list[float]:
    """Return 1.0 where the number between the answer tags is the right sum, else 0.0.

    What was compared is kept beside the completions, in the columns `extracted` and `gold`.

    Args:
        completions: The batch's completions, as messages or text.
        answer: The right sum of each completion's prompt (a column of the dataset).
        log_extra: TRL's way of keeping a column of values with the completions.
        **kwargs: What else TRL hands to every reward; unused.
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
    """Return 1.0 where the completion is one thought and one numeric answer and nothing else, else 0.0.

    Args:
        completions: The batch's completions, as messages or text.
        **kwargs: What else TRL hands to every reward; unused.
    """
    return [1.0 if _WHOLE.fullmatch(completion_text(completion)) else 0.0 for completion in completions]


def incremental_format(completions: Sequence[Any], **kwargs: Any) -> list[float]:
    """Return the share of the four tags that stand exactly once and in their order: 0, ¼, ½, ¾ or 1.

    A model that never writes the whole format learns nothing from `format_reward`; here every tag counts.

    Args:
        completions: The batch's completions, as messages or text.
        **kwargs: What else TRL hands to every reward; unused.
    """
    return [_tag_share(completion_text(completion)) for completion in completions]


def _tag_share(text: str) -> float:
    """Return the share of `TAGS` that stand once in `text`, each after the counted ones before it."""
    counted, reached = 0, -1
    for tag in TAGS:
        place = text.find(tag)
        if text.count(tag) == 1 and place > reached:
            counted, reached = counted + 1, place
    return counted / len(TAGS)
