"""The demonstration's dataset: all sums of two numbers from 1 to 20.

A row has the columns TRL hands to rewards: `prompt` (a list of chat messages) and `answer` (the right sum, as
text). This file stands alone, so that it can be copied beside a config of one's own. It knows neither the
model nor the rewards, and imports `datasets` only when a dataset is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datasets import Dataset

LARGEST = 20
"""Both numbers of a sum run from 1 to this, inclusive."""


def question(a: int, b: int) -> str:
    """Return the text a person would send to ask for `a + b`."""
    return f"What is {a} + {b}?"


def all_rows() -> list[dict[str, Any]]:
    """Return the 400 rows as plain dictionaries, ordered by the first number, then the second."""
    numbers = range(1, LARGEST + 1)
    return [
        {"prompt": [{"role": "user", "content": question(a, b)}], "answer": str(a + b)}
        for a in numbers
        for b in numbers
    ]


def train_rows() -> Dataset:
    """Return the rows as a `datasets.Dataset`, as `grpo_tui.dataset: task.py:train_rows` asks for."""
    from datasets import Dataset

    return Dataset.from_list(all_rows())
