"""Base classes of the library's rewards: the name in TRL's metrics, and access to dataset columns.

Parameters are passed when a reward is created and columns when it is called, so the two cannot be confused.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from grpo_tui.core.text import completion_text

RESERVED = frozenset({"prompts", "completions", "completion_ids", "trainer_state", "log_extra", "log_metric"})
"""TRL's keyword arguments that are not dataset columns."""


class MissingColumnError(ValueError):
    """The batch lacks a dataset column that a reward reads. The message names both."""


def column(name: str, columns: Mapping[str, Any], reward: str) -> Sequence[Any]:
    """Return the values of a dataset column, one per completion.

    Raises:
        MissingColumnError: the batch has no such column.
    """
    if name in columns and name not in RESERVED:
        values: Sequence[Any] = columns[name]
        return values
    known = ", ".join(sorted(key for key in columns if key not in RESERVED)) or "none"
    raise MissingColumnError(
        f"the reward {reward} reads the column '{name}', and the dataset has: {known}. "
        f"Give it the right one with column=, or rename the dataset's."
    )


class Reward(ABC):
    """Reward function with parameters.

    Args:
        name: used in TRL's metrics as `rewards/<name>/mean`. The class name in snake case by default.
    """

    def __init__(self, *, name: str | None = None) -> None:
        self.__name__ = name or re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", type(self).__name__).lower()

    @abstractmethod
    def __call__(self, completions: Sequence[Any], **kwargs: Any) -> list[float | None]:
        """Return one value per completion, None to abstain.

        Args:
            completions: (B*G,) texts, or lists of messages for chat prompts.
            **kwargs: everything else that TRL passes: `prompts`, `completion_ids`, every dataset column,
                `trainer_state`, `log_extra`, `log_metric`.
        """

    def __repr__(self) -> str:
        return f"{type(self).__name__}(name={self.__name__!r})"


class TextReward(Reward):
    """Reward that depends only on the text of one completion."""

    @abstractmethod
    def score(self, text: str) -> float | None:
        """Return the value of one completion, None to abstain."""

    def __call__(self, completions: Sequence[Any], **kwargs: Any) -> list[float | None]:
        """See `Reward.__call__`."""
        return [self.score(completion_text(completion)) for completion in completions]


def require(condition: bool, sentence: str) -> None:
    """Check a parameter.

    Raises:
        ValueError: the condition does not hold. `sentence` is the message.
    """
    if not condition:
        raise ValueError(sentence)
