"""Search fields by words in their name, TRL's help and our advice, best match first.

A word may be part of another (`grad` finds gradient_checkpointing). Every word must match.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from grpo_tui.config.advice import ADVICE
from grpo_tui.config.fields import all_fields, form_order, group_of, matters
from grpo_tui.config.meant import OTHER_NAMES, REMOVED

WHOLE, PREFIX, PART_PREFIX, INSIDE, OTHER_NAME, CHOICE, HELP, ADVISED = range(8)
"""Where a word matched, best first."""


@dataclass(frozen=True, slots=True)
class FoundField:
    """One field found by a search.

    Attributes:
        place: The worst match of its words (`WHOLE` … `ADVISED`).
        because: The alternative name that matched (`lr`, `warmup_ratio`), empty if none did.
    """

    name: str
    group: str
    place: int
    because: str = ""


@dataclass(frozen=True, slots=True)
class _Entry:
    name: str
    parts: tuple[str, ...]
    others: tuple[str, ...]
    choices: tuple[str, ...]
    help: str
    advice: str
    order: tuple[bool, int]


def search_fields(words: str) -> tuple[FoundField, ...]:
    """Return the fields that match all words, best match first, then in form order.

    Args:
        words: The typed text. Empty finds every field.
    """
    wanted = [word.lower().replace("-", "_") for word in words.split()]
    found: list[tuple[int, tuple[bool, int], FoundField]] = []
    for entry in _entries():
        places = [_place(entry, word) for word in wanted]
        if any(place is None for place in places):
            continue
        worst = max((place for place in places if place is not None), default=WHOLE)
        because = next((o for word in wanted for o in entry.others if o.startswith(word)), "")
        shown = because if worst == OTHER_NAME else ""
        group = group_of(entry.name, all_fields()[entry.name])
        found.append((worst, entry.order, FoundField(entry.name, group, worst, shown)))
    return tuple(each for _, _, each in sorted(found, key=lambda item: item[:2]))


def _place(entry: _Entry, word: str) -> int | None:
    """Return the best match of one word in a field, None if it does not match."""
    bare = entry.name.removeprefix("grpo_tui.")
    if word in (bare, entry.name):
        return WHOLE
    if bare.startswith(word) or entry.name.startswith(word):
        return PREFIX
    if any(part.startswith(word) for part in entry.parts):
        return PART_PREFIX
    if word in entry.name:
        return INSIDE
    if any(other.startswith(word) for other in entry.others):
        return OTHER_NAME
    if any(choice.startswith(word) for choice in entry.choices):
        return CHOICE
    if f" {word}" in entry.help:
        return HELP
    return ADVISED if f" {word}" in entry.advice else None


@lru_cache(maxsize=1)
def _entries() -> tuple[_Entry, ...]:
    order = form_order()
    others = _other_names()
    return tuple(
        _Entry(
            name=name,
            parts=tuple(re.split(r"[._]", name)),
            others=others.get(name, ()),
            choices=tuple(choice.lower() for choice in info.choices or ()),
            help=_prose(info.help),
            advice=_prose(ADVICE[name].words()) if name in ADVICE else "",
            order=(not matters(name), order.get(name, len(order))),
        )
        for name, info in all_fields().items()
    )


def _other_names() -> Mapping[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    for other, name in OTHER_NAMES.items():
        found.setdefault(name, []).append(other)
    for other, gone in REMOVED.items():
        if gone.renamed_to is not None:
            found.setdefault(gone.renamed_to, []).append(other)
    return {name: tuple(each) for name, each in found.items()}


def _prose(text: str) -> str:
    """Return a text with a space before each word, so that ` word` finds the start of one."""
    return " " + re.sub(r"[^\w.%/]+", " ", text.lower().replace("-", "_"))
