"""What only a group can tell: whether its completions differ from each other.

A group is a run of completions of the same prompt, as TRL orders a batch. Where a group is spread over
several ranks, each rank sees its part.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from grpo_tui.core.text import completion_text
from grpo_tui.rewards.library.base import Reward, require


class GroupDiversity(Reward):
    """How little a completion's words overlap with those of the others in its group.

    0 for a copy, 1 where nothing is shared: one less the mean Jaccard similarity of its word n-grams
    with those of each other completion.

    Args:
        ngram: words to a run.
        name: see `Reward`.

    Range: 0 to 1; None for a completion that is alone in its group.
    """

    def __init__(self, *, ngram: int = 2, name: str | None = None) -> None:
        super().__init__(name=name)
        require(ngram >= 1, f"a run has at least one word, not {ngram}")
        self.ngram = ngram

    def __call__(self, completions: Sequence[Any], **kwargs: Any) -> list[float | None]:
        """See `Reward.__call__`."""
        texts = [completion_text(completion) for completion in completions]
        found: list[float | None] = []
        for first, last in groups(kwargs["prompts"]):
            found += self._of_group([self._runs(text) for text in texts[first:last]])
        return found

    def _of_group(self, members: list[frozenset[tuple[str, ...]]]) -> list[float | None]:
        if len(members) < 2:
            return [None] * len(members)
        total = [0.0] * len(members)
        for i, one in enumerate(members):
            for j in range(i):
                alike = _jaccard(one, members[j])
                total[i] += alike
                total[j] += alike
        return [1.0 - alike / (len(members) - 1) for alike in total]

    def _runs(self, text: str) -> frozenset[tuple[str, ...]]:
        words = text.lower().split()
        size = min(self.ngram, len(words))
        return frozenset(tuple(words[i : i + size]) for i in range(len(words) - size + 1))


def groups(prompts: Sequence[Any]) -> Iterator[tuple[int, int]]:
    """First place and the place after the last of each run of equal prompts."""
    first = 0
    for place in range(1, len(prompts) + 1):
        if place == len(prompts) or prompts[place] != prompts[first]:
            yield first, place
            first = place


def _jaccard(a: frozenset[Any], b: frozenset[Any]) -> float:
    both = len(a | b)
    return len(a & b) / both if both else 1.0
