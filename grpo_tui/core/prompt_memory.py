"""Classify prompts by how often they were answered right over a run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

PromptClass = Literal["never", "always", "learned", "forgotten", "unstable", "few"]
CLASSES: dict[PromptClass, str] = {
    "never": "no completion was right",
    "always": "every completion was right",
    "learned": "mostly wrong early, mostly right late",
    "forgotten": "mostly right early, mostly wrong late",
    "unstable": "sometimes right, without a lasting change",
    "few": "seen too few times to say",
}
"""Each class with its meaning, in the order of lists."""
LEAST_VISITS = 3
"""Fewer have no first and last third."""
CHANGE = 0.5
"""Difference between the rates of the first and the last third of a prompt that changed."""


def prompt_hash(prompt: Any) -> str:
    """Return the hash by which filter files name a prompt, as the trainer gets it before the chat template.

    Reading messages as a dataset reorders their keys and adds absent ones as None, so neither counts.
    """
    text = json.dumps(_without_none(prompt), sort_keys=True, default=str)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_none(item) for key, item in value.items() if item is not None}
    return [_without_none(item) for item in value] if isinstance(value, list) else value


@dataclass(frozen=True, slots=True)
class PromptMemory:
    """What a run remembers of one prompt.

    Attributes:
        key: as recorded with its groups.
        first, last: share of right completions in the first and the last third of the visits.
        group: number of the newest group.
    """

    key: str
    kind: PromptClass
    visits: int
    first: float
    last: float
    first_step: int
    last_step: int
    group: int


def classify(visits: Sequence[tuple[int, int]]) -> tuple[PromptClass, float, float]:
    """Return the class of a prompt, and its rates in the first and the last third of its visits.

    - few: fewer than `LEAST_VISITS` visits.
    - never, always: no completion, or every completion, was right.
    - learned: the rate is below one half in the first third, above one half in the last third, and rises by
      at least `CHANGE`. For this test both rates are shrunk toward one half, as (right + 1) / (all + 2), so
      that a few lucky completions are no change.
    - forgotten: the reverse.
    - unstable: everything else.

    Args:
        visits: right completions and all completions of each visit, oldest first. At least one visit, and
            none without completions.
    """
    third = -(-len(visits) // 3)
    early, late = _sums(visits[:third]), _sums(visits[-third:])
    first, last = early[0] / early[1], late[0] / late[1]
    if len(visits) < LEAST_VISITS:
        return "few", first, last
    right, of = _sums(visits)
    if right in (0, of):
        return ("always" if right else "never"), first, last
    before, after = ((k + 1) / (n + 2) for k, n in (early, late))
    if abs(after - before) >= CHANGE - 1e-9 and (before < 0.5 < after or after < 0.5 < before):
        return ("learned" if after > before else "forgotten"), first, last
    return "unstable", first, last


def _sums(visits: Sequence[tuple[int, int]]) -> tuple[int, int]:
    return sum(right for right, _ in visits), sum(of for _, of in visits)
