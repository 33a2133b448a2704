"""What a list of groups says in one line. Knows cards and words; knows nothing of cells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from grpo_tui.core.statistics import GroupKind, scored
from grpo_tui.present.glyphs import spark
from grpo_tui.present.group_card import GroupCard

KINDS: Mapping[GroupKind, tuple[str, str]] = {
    "mixed": ("mixed", "text"),
    "all right": ("✓ all right", "good"),
    "all wrong": ("✗ all wrong", "bad"),
    "flat": ("● flat", "attention"),
    "unscored": ("⚠ unscored", "attention"),
    "masked": ("✂ masked", "attention"),
}
"""A group's kind in words and the role of its colour."""
SHORT: Mapping[GroupKind, str] = {
    "mixed": "mixed",
    "all right": "✓ all",
    "all wrong": "✗ none",
    "flat": "● flat",
    "unscored": "⚠ no score",
    "masked": "✂ mask",
}
"""The same where there is little room."""
MEANINGS: Mapping[GroupKind, str] = {
    "mixed": "its advantages differ, so it teaches",
    "all right": "every completion has the highest total of the run: it teaches nothing",
    "all wrong": "every completion has the lowest total of the run: it teaches nothing",
    "flat": "every advantage is 0: it teaches nothing",
    "unscored": "no completion has a finite total: it teaches nothing",
    "masked": "every completion was truncated and is masked, so the loss leaves it out: it teaches nothing",
}
MOST_BARS = 16
LEAST_SHARED = 24
"""Characters from which on what all prompts begin with is left out of a line."""


@dataclass(frozen=True, slots=True)
class SharedBeginning:
    """What every prompt seen so far begins with: instructions, which do not tell one prompt from another."""

    words: str | None = None
    several: bool = False
    """Whether two prompts that differ were seen."""

    def seen(self, prompt: str) -> SharedBeginning:
        """With one prompt more; what is shared only grows shorter, so that lines keep what they say."""
        if self.words is None:
            return SharedBeginning(prompt)
        if prompt == self.words or (self.several and prompt.startswith(self.words)):
            return self
        pairs = enumerate(zip(self.words, prompt, strict=False))
        differ = next((at for at, (a, b) in pairs if a != b), min(len(self.words), len(prompt)))
        return SharedBeginning(prompt[:differ], several=True)

    def left_out(self, prompt: str) -> str:
        """The prompt from the word on in which prompts differ; whole where they share little."""
        words = self.words
        if words is None or not self.several or len(words) < LEAST_SHARED or not prompt.startswith(words):
            return prompt
        cut = max(words.rfind(" "), words.rfind("\n")) + 1
        return f"…{prompt[cut:]}" if cut and prompt[cut:].strip() else prompt


def bars(card: GroupCard, totals: tuple[float, float] | None, width: int = MOST_BARS) -> str:
    """The totals as blocks, best first, on the scale of the run; where there are many, some share one."""
    values = sorted(scored(row.total for row in card.rows), reverse=True)
    if totals is None:
        return "▄" * min(len(values), width)
    return spark(values, width, *totals)
