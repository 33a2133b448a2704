"""What every reward of the library has in common: a name for TRL's metrics, and how it reads a batch.

A reward of the library is an object made with its parameters and called with the batch, so that a dataset
column can never be taken for a parameter.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from grpo_tui.core.text import completion_text

RESERVED = frozenset({"prompts", "completions", "completion_ids", "trainer_state", "log_extra", "log_metric"})
"""Keyword arguments of TRL that are no columns of the dataset."""


class MissingColumnError(ValueError):
    """A reward reads a dataset column that the batch does not have; the message names both."""


def column(name: str, columns: Mapping[str, Any], reward: str) -> Sequence[Any]:
    """The values of a dataset column, one per completion.

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
    """A reward function with parameters.

    Args:
        name: TRL's metrics say `rewards/<name>/mean`; the class's name in snake case by default.
    """

    def __init__(self, *, name: str | None = None) -> None:
        self.__name__ = name or re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", type(self).__name__).lower()

    @abstractmethod
    def __call__(self, completions: Sequence[Any], **kwargs: Any) -> list[float | None]:
        """One value per completion; None where this reward has nothing to say.

        Args:
            completions: (B*G,) texts, or message lists for chat prompts.
            **kwargs: what else TRL passes: `prompts`, `completion_ids`, every dataset column,
                `trainer_state`, `log_extra`, `log_metric`.
        """

    def __repr__(self) -> str:
        """The class and the name it is logged under."""
        return f"{type(self).__name__}(name={self.__name__!r})"


class TextReward(Reward):
    """A reward that looks at one completion's text and at nothing else."""

    @abstractmethod
    def score(self, text: str) -> float | None:
        """The value of one completion."""

    def __call__(self, completions: Sequence[Any], **kwargs: Any) -> list[float | None]:
        """See `Reward.__call__`."""
        return [self.score(completion_text(completion)) for completion in completions]


def require(condition: bool, sentence: str) -> None:
    """Refuse a parameter that makes no sense.

    Raises:
        ValueError: with the sentence, when the condition does not hold.
    """
    if not condition:
        raise ValueError(sentence)
