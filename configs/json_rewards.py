"""Rewards for `json_task.yaml`: does the JSON hold the wanted keys, and the right values in them?

A completion that is no JSON object scores 0 in both. The wanted keys stand in the config, the wanted values
in the row's answer, a JSON object as text, so that another task needs no change here.
"""

from __future__ import annotations

import json
from typing import Any


def text_of(completion: str | list[dict[str, str]]) -> str:
    """Return the text of a completion in either of TRL's two forms."""
    return completion if isinstance(completion, str) else completion[-1]["content"]


def json_object(text: str) -> dict[str, Any]:
    """Return the JSON object that a text is, with nothing before or after it; an empty one if it is none."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def keys(completions: list[Any], wanted: list[str], **kwargs: Any) -> list[float]:
    """The share of the wanted keys (params in the config) that are there; one too many takes one away."""
    scores = []
    for completion in completions:
        given = json_object(text_of(completion)).keys()
        scores.append(max(len(given & set(wanted)) - len(given - set(wanted)), 0) / len(wanted))
    return scores


def values(completions: list[Any], answer: list[str], **kwargs: Any) -> list[float]:
    """The share of the wanted values that are right: texts without regard to capitals, numbers as numbers."""
    scores = []
    for completion, gold in zip(completions, answer, strict=True):
        given, wanted = json_object(text_of(completion)), json_object(gold)
        right = sum(key in given and same(given[key], value) for key, value in wanted.items())
        scores.append(right / max(len(wanted), 1))
    return scores


def same(given: Any, wanted: Any) -> bool:
    """Return whether two values are equal; `3` is 3, but `"3"` is a text and `true` no number."""
    if isinstance(given, str) and isinstance(wanted, str):
        return given.strip().casefold() == wanted.strip().casefold()
    return given == wanted and isinstance(given, bool) == isinstance(wanted, bool)
