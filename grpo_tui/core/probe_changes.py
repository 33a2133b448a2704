"""Probe prompts that are added to a run or removed from it while it trains.

The setting `probe_prompts` is the difference from the config: `+TEXT` for each added prompt, `-TEXT` for each
removed one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeGuard

NAME = "probe_prompts"
ADDED, REMOVED = "+", "-"
HOW = "write probe_prompts+=TEXT or probe_prompts-=TEXT"


def is_value(value: object) -> TypeGuard[list[str]]:
    """Return whether a recorded value is one of this setting: a run of another user may hold anything."""
    return isinstance(value, list) and all(isinstance(entry, str) for entry in value)


def typed(word: str) -> tuple[str, str] | None:
    """Return `add` or `remove`, and the text, of `probe_prompts+=TEXT` or `probe_prompts-=TEXT`."""
    found = re.fullmatch(r"probe_prompts([+-])=(.*)", word, re.DOTALL)
    return ("add" if found[1] == ADDED else "remove", found[2]) if found else None


def texts(value: Sequence[str], sign: str) -> list[str]:
    """Return the texts with this sign."""
    return [entry[1:] for entry in value if entry[:1] == sign]


def with_prompt(value: Sequence[str], text: str) -> list[str]:
    """Return the value with this prompt added. One that was removed comes back as it was."""
    if REMOVED + text in value:
        return [entry for entry in value if entry != REMOVED + text]
    return [*value, *([ADDED + text] if ADDED + text not in value else ())]


def without_prompt(value: Sequence[str], text: str) -> list[str]:
    """Return the value with this prompt removed."""
    if ADDED + text in value:
        return [entry for entry in value if entry != ADDED + text]
    return [*value, REMOVED + text]


def difference(old: Sequence[str], new: Sequence[str]) -> list[str]:
    """Return what turns one value into the other, as `+TEXT` and `-TEXT`."""
    undone = [(REMOVED if entry[:1] == ADDED else ADDED) + entry[1:] for entry in old if entry not in new]
    return undone + [entry for entry in new if entry not in old]
