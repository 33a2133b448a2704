"""Prompts that training takes and that are hardly meant so: messages in a text, unknown roles, blank turns.

Pure functions on mapped prompts. What training refuses is `data.mapping`'s business.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import yaml

from grpo_tui.core.text import one_line
from grpo_tui.preflight.facts import BadRows
from grpo_tui.preflight.statistics import MOST_ROWS_NAMED, is_messages

_FOREIGN_ROLES = ("ai", "bot", "chatgpt", "gpt", "human", "bard", "prompter")
"""Roles of other formats, which a chat template passes over without a word."""
_LONGEST_QUOTED = 4_000
"""Characters of a text that is read as messages."""


def odd_prompts(prompts: Sequence[Any], numbers: Sequence[int]) -> tuple[BadRows, ...]:
    """Return what is odd about prompts, each kind with its rows.

    Args:
        prompts: as training gets them, (N,).
        numbers: their rows, (N,).
    """
    rows: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    endings: dict[int, str] = {}
    for number, prompt in zip(numbers, prompts, strict=True):
        if isinstance(prompt, str):
            if _quoted(prompt):
                rows["quoted", ""].append(number)
            continue
        for message in prompt:
            role, content = str(message.get("role")), message.get("content")
            if role.lower() in _FOREIGN_ROLES:
                rows["role", one_line(role, 20)].append(number)
            if role == "user" and isinstance(content, str) and not content.strip():
                rows["blank", ""].append(number)
        if prompt[-1].get("role") == "assistant":
            endings[number] = json.dumps(prompt[-1].get("content"), default=str)
    if len(set(endings.values())) > 1:  # one and the same beginning of each answer is meant so
        rows["answered", ""] = list(endings)
    return tuple(
        BadRows(what, detail, len(set(found)), tuple(dict.fromkeys(found))[:MOST_ROWS_NAMED])
        for (what, detail), found in rows.items()
    )


def _quoted(text: str) -> bool:
    """Whether a text is a list of messages, as a CSV file holds one: JSON, or Python's own spelling."""
    text = text.strip()
    if not (text.startswith("[") and text.endswith("]") and "role" in text and len(text) < _LONGEST_QUOTED):
        return False
    try:
        return is_messages(json.loads(text))
    except ValueError:
        pass
    try:
        return is_messages(yaml.safe_load(text))
    except (yaml.YAMLError, ValueError, RecursionError):
        return False
