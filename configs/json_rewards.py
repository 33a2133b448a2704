"""Rewards for `json_task.yaml`: does the JSON have the wanted keys, and the right values?

A completion that is not a JSON object scores 0 in both. The wanted keys are in the config. The wanted values
are in the row's answer, a JSON object as text. So another task needs no change here.
"""

from __future__ import annotations

import json
from typing import Any


def text_of(completion: str | list[dict[str, str]]) -> str:
    """Return the text of a completion in either of TRL's two forms."""
    return completion if isinstance(completion, str) else completion[-1]["content"]


def json_object(text: str) -> dict[str, Any]:
    """Return the JSON object of a text with nothing before or after it, or else an empty one."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def keys(completions: list[Any], wanted: list[str], **kwargs: Any) -> list[float]:
    """Fraction of the wanted keys (params in the config) that are there. Each extra key takes one away."""
    scores = []
    for completion in completions:
        given = json_object(text_of(completion)).keys()
        scores.append(max(len(given & set(wanted)) - len(given - set(wanted)), 0) / len(wanted))
    return scores


def values(completions: list[Any], answer: list[str], **kwargs: Any) -> list[float]:
    """Fraction of the wanted values that are right. Texts are compared without case, numbers as numbers."""
    scores = []
    for completion, gold in zip(completions, answer, strict=True):
        given, wanted = json_object(text_of(completion)), json_object(gold)
        right = sum(key in given and same(given[key], value) for key, value in wanted.items())
        scores.append(right / max(len(wanted), 1))
    return scores


def same(given: Any, wanted: Any) -> bool:
    """Return whether two values are equal. `3` equals 3, but `"3"` is a text and `true` is not a number."""
    if isinstance(given, str) and isinstance(wanted, str):
        return given.strip().casefold() == wanted.strip().casefold()
    return given == wanted and isinstance(given, bool) == isinstance(wanted, bool)
