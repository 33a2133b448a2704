"""The demonstration's dataset: all sums of two numbers from 1 to 20.

A row has the columns that TRL passes to rewards: `prompt` (a list of chat messages) and `answer` (the right
sum, as text). This file has no dependencies on the rest, so that you can copy it beside your own config.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datasets import Dataset

LARGEST = 20
"""Both numbers of a sum run from 1 to this, inclusive."""

_ORDER = 0


def question(a: int, b: int) -> str:
    """Return the question a user would ask for `a + b`."""
    return f"What is {a} + {b}?"


def all_rows() -> list[dict[str, Any]]:
    """Return the 400 rows as plain dictionaries, always in the same shuffled order.

    They are shuffled so that no part of them, such as the held-out rows, starts with 1 + 1, 1 + 2, 1 + 3.
    """
    numbers = range(1, LARGEST + 1)
    rows = [
        {"prompt": [{"role": "user", "content": question(a, b)}], "answer": str(a + b)}
        for a in numbers
        for b in numbers
    ]
    random.Random(_ORDER).shuffle(rows)
    return rows


def train_rows() -> Dataset:
    """Return the rows as a `datasets.Dataset`, for `grpo_tui.dataset: task.py:train_rows`."""
    from datasets import Dataset

    return Dataset.from_list(all_rows())
