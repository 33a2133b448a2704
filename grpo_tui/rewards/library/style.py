"""What a completion should not do: repeat itself, or use certain words.

Penalties, from 0 down. Knows text only.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from grpo_tui.core.statistics import repeated_share
from grpo_tui.rewards.library.base import TextReward, require


class Repetition(TextReward):
    """0 where no run of `ngram` words comes twice, down to `-most` where nearly all of them do.

    The share of repeated n-grams, `1 - distinct / all`, as in the repetition penalty of Yeo et al. 2025
    (arXiv:2502.03373); see `core.repetition.repeated_share`.

    Args:
        ngram: words to a run.
        most: the largest penalty.
        name: see `Reward`.

    Range: `-most` to 0.
    """

    def __init__(self, *, ngram: int = 4, most: float = 1.0, name: str | None = None) -> None:
        super().__init__(name=name)
        require(ngram >= 1, f"a run has at least one word, not {ngram}")
        require(most >= 0, "a penalty is given as a positive number")
        self.ngram, self.most = ngram, most

    def score(self, text: str) -> float:
        """See `TextReward.score`."""
        return -self.most * repeated_share(text, self.ngram)


class ForbiddenWords(TextReward):
    """0 without any of the words, else `penalty` for each kind of them, `worst` at the lowest.

    Args:
        words: what must not stand there; matched as whole words, letter case left out.
        penalty: what each of them costs.
        worst: the most that all of them cost.
        name: see `Reward`.

    Range: `-worst` to 0.
    """

    def __init__(
        self, *, words: Sequence[str], penalty: float = 0.5, worst: float = 0.5, name: str | None = None
    ) -> None:
        super().__init__(name=name)
        words = [words] if isinstance(words, str) else list(words)
        require(bool(words) and all(words), "name at least one word")
        require(penalty >= 0 and worst >= 0, "a penalty is given as a positive number")
        self.penalty, self.worst = penalty, worst
        self._patterns = [re.compile(rf"(?<!\w){re.escape(word)}(?!\w)", re.IGNORECASE) for word in words]

    def score(self, text: str) -> float:
        """See `TextReward.score`."""
        found = sum(pattern.search(text) is not None for pattern in self._patterns)
        return -min(self.worst, self.penalty * found)
