"""How long should a completion be? Near a target, or under a limit that is felt before it is reached.

Lengths are in tokens when TRL passes `completion_ids`, else in words or characters as asked. A length reward
alone teaches length: it belongs beside a correctness reward, with a small weight.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from grpo_tui.core.text import completion_text
from grpo_tui.rewards.library.base import Reward, require

UNITS = ("tokens", "words", "characters")


class _Length(Reward):
    def __init__(self, *, unit: str, name: str | None) -> None:
        super().__init__(name=name)
        require(unit in UNITS, f"unit is one of {', '.join(UNITS)}, not {unit!r}")
        self.unit = unit

    def of_length(self, length: int) -> float:
        """The value of a length."""
        raise NotImplementedError

    def __call__(self, completions: Sequence[Any], **kwargs: Any) -> list[float | None]:
        """See `Reward.__call__`.

        Raises:
            ValueError: tokens are to be counted and `completion_ids` was not passed.
        """
        if self.unit == "tokens":
            ids = kwargs.get("completion_ids")
            if ids is None:
                raise ValueError(
                    f"the reward {self.__name__} counts tokens and was called without completion_ids; "
                    "TRL passes them, elsewhere choose unit='words'"
                )
            return [self.of_length(len(tokens)) for tokens in ids]
        texts = [completion_text(completion) for completion in completions]
        return [self.of_length(len(text.split() if self.unit == "words" else text)) for text in texts]


class TargetLength(_Length):
    """1 within `slack` of the target, falling in a straight line to 0 at `reach` from it.

    Args:
        target: the length wished for.
        slack: distance that costs nothing.
        reach: distance at which nothing is left; the target itself by default.
        unit: `tokens`, `words` or `characters`.
        name: see `Reward`.

    Range: 0 to 1.
    """

    def __init__(
        self,
        *,
        target: int,
        slack: int = 0,
        reach: int | None = None,
        unit: str = "tokens",
        name: str | None = None,
    ) -> None:
        super().__init__(unit=unit, name=name)
        self.target, self.slack, self.reach = target, slack, target if reach is None else reach
        require(target > 0 and slack >= 0, "a target is above 0 and a slack not below it")
        require(self.reach > slack, f"reach ({self.reach}) lies beyond slack ({slack})")

    def of_length(self, length: int) -> float:
        """See `_Length.of_length`."""
        beyond = max(0, abs(length - self.target) - self.slack)
        return max(0.0, 1.0 - beyond / (self.reach - self.slack))


class SoftLengthLimit(_Length):
    """0 up to `start`, falling in a straight line to -1 at `limit` and beyond.

    The soft overlong punishment of DAPO (Yu et al. 2025, arXiv:2503.14476, equation 13), with both ends as
    parameters.

    Args:
        limit: length from which the whole penalty holds; `max_completion_length` for a reward of tokens.
        start: length up to which nothing is taken; four fifths of the limit by default.
        unit: `tokens`, `words` or `characters`.
        name: see `Reward`.

    Range: -1 to 0.
    """

    def __init__(
        self, *, limit: int, start: int | None = None, unit: str = "tokens", name: str | None = None
    ) -> None:
        super().__init__(unit=unit, name=name)
        self.limit, self.start = limit, limit * 4 // 5 if start is None else start
        require(0 <= self.start < limit, f"start ({self.start}) lies below limit ({limit})")

    def of_length(self, length: int) -> float:
        """See `_Length.of_length`."""
        return -min(1.0, max(0, length - self.start) / (self.limit - self.start))
