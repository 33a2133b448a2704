"""Prompts that training takes and that are hardly meant so: messages in a text, unknown roles, blank turns.

Also what a chat template makes of messages that is not what they say. Pure functions on mapped prompts. What
training refuses is `data.mapping`'s business.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Sequence
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


def written_wrongly(
    prompts: Sequence[Any], numbers: Sequence[int], write: Callable[[Any], str], *, sees_images: bool
) -> tuple[BadRows, ...]:
    """Return what the chat template makes of messages that is not what they say, each kind with its rows.

    Each form of conversation (its roles, and how their content is built) is written once, with marks in place
    of the texts, so that every text can be told from the template's own.

    Args:
        prompts: as training gets them, (N,); texts are passed over.
        numbers: their rows, (N,).
        write: writes one prompt as the model gets it; raises ValueError when the template refuses it.
        sees_images: whether the model takes images.
    """
    forms: defaultdict[str, list[int]] = defaultdict(list)
    for place, prompt in enumerate(prompts):
        if not isinstance(prompt, str):
            forms[json.dumps(_marked(prompt), sort_keys=True, default=str)].append(place)
    found: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for places in forms.values():
        for fault in _faults_of_form(prompts[places[0]], write, sees_images=sees_images):
            found[fault] += [numbers[place] for place in places]
    return tuple(
        BadRows(what, detail, len(rows), tuple(sorted(rows)[:MOST_ROWS_NAMED]))
        for (what, detail), rows in found.items()
    )


def _faults_of_form(
    prompt: list[dict[str, Any]], write: Callable[[Any], str], *, sees_images: bool
) -> set[tuple[str, str]]:
    """Kind and detail of what is wrong with how one form of conversation is written."""
    marked = _marked(prompt)
    contents = [message.get("content") for message in marked]
    parts = [part for content in contents if isinstance(content, list) for part in content]
    if not sees_images and any(isinstance(part, dict) and part.get("type") == "image" for part in parts):
        return {("image", "")}
    try:
        text, real = write(marked), write(prompt)
    except ValueError as error:
        return {("refused", one_line(str(error), 200))}
    built = [value for value in (*contents, *parts) if value and not isinstance(value, str)]
    if any(str(value) in text or json.dumps(value) in text for value in built):
        return {("repr", "")}
    found = set()
    for place, message in enumerate(marked):
        role = one_line(str(message.get("role")), 20)
        for mark in _texts(message.get("content")):
            times = text.count(mark)
            if times != 1:
                found.add(("doubled" if times else "lost", role))
        whole = all(_plain(each) in _plain(real) for each in _texts(prompt[place].get("content")))
        if not whole and ("lost", role) not in found and role != "tool":
            found.add(("cut", role))
    last = _texts(contents[-1]) if marked[-1].get("role") == "assistant" else []
    if last and (behind := text.rpartition(last[-1])[2].strip()) and behind != text.strip():
        found.add(("closed", one_line(behind, 60)))
    return found


def _marked(prompt: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A conversation with a mark in place of each text; the rest as it is."""

    def mark(value: Any, name: str) -> Any:
        if isinstance(value, str):
            return name if value.strip() else value
        if isinstance(value, list):
            return [mark(part, f"{name}p{number}q") for number, part in enumerate(value)]
        if isinstance(value, dict) and value.get("text"):
            return {**value, "text": mark(value["text"], name)}
        return value

    return [
        {**message, "content": mark(message.get("content"), f"message{number}q")}
        for number, message in enumerate(prompt)
    ]


def _texts(content: Any) -> list[str]:
    """The texts of a message's content."""
    if isinstance(content, list):
        return [text for part in content for text in _texts(part)]
    text = content.get("text") if isinstance(content, dict) else content
    return [text] if isinstance(text, str) and text.strip() else []


def _plain(text: str) -> str:
    return " ".join(text.split())


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
