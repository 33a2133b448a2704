"""Rewards and rows of the labelled runs in `verdicts.py`: some misbehave, others are only unusual."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from grpo_tui.demo.rewards import completion_text, correctness, incremental_format
from grpo_tui.demo.task import all_rows

if TYPE_CHECKING:
    from datasets import Dataset

ABSTAINS_FROM = 30
SAME_SUM = "22"
_dice = random.Random(0)


def constant(completions: Sequence[Any], **kwargs: Any) -> list[float]:
    """Give 0.5 to everything."""
    return [0.5] * len(completions)


def always_nan(completions: Sequence[Any], **kwargs: Any) -> list[float]:
    """Give NaN to everything."""
    return [math.nan] * len(completions)


def some_infinite(completions: Sequence[Any], **kwargs: Any) -> list[float]:
    """Score as `correctness` does, but every eighth completion is infinite."""
    scores = correctness(completions=completions, **kwargs)
    return [math.inf if n % 8 == 0 else score for n, score in enumerate(scores)]


def loud_noise(completions: Sequence[Any], **kwargs: Any) -> list[float]:
    """Give a random number from 0 to 20."""
    return [_dice.uniform(0, 20) for _ in completions]


def never_earned(completions: Sequence[Any], **kwargs: Any) -> list[float]:
    """Ask for a form that the policy never writes."""
    return [float("\\boxed{" in completion_text(completion)) for completion in completions]


def hardly_ever_earned(completions: Sequence[Any], answer: Sequence[str], **kwargs: Any) -> list[float]:
    """Ask for a correct answer in the whole format to the few questions whose sum is 40 or 2."""
    right = correctness(completions=completions, answer=answer)
    return [score if int(gold) in (2, 40) else 0.0 for score, gold in zip(right, answer, strict=True)]


def nearly_always_earned(completions: Sequence[Any], **kwargs: Any) -> list[float]:
    """Accept any text with two digits in it."""
    return [float(len(re.findall(r"\d", completion_text(c))) >= 2) for c in completions]


def abstains_later(
    completions: Sequence[Any], trainer_state: Any = None, **kwargs: Any
) -> list[float | None]:
    """Score as `correctness` does; from step 30 on abstain on four of five completions."""
    scores = correctness(completions=completions, **kwargs)
    if trainer_state is None or trainer_state.global_step + 1 < ABSTAINS_FROM:
        return [*scores]
    return [score if n % 5 == 0 else None for n, score in enumerate(scores)]


def repeats(completions: Sequence[Any], **kwargs: Any) -> list[float]:
    """Pay for each plus sign, up to 20 of them."""
    return [min(20, completion_text(completion).count("+")) / 20 for completion in completions]


def only_odd(completions: Sequence[Any], answer: Sequence[str], **kwargs: Any) -> list[float | None]:
    """Score as `correctness` does, and abstain on questions with an even sum."""
    scores = correctness(completions=completions, answer=answer)
    return [score if int(gold) % 2 else None for score, gold in zip(scores, answer, strict=True)]


def sometimes_abstains(completions: Sequence[Any], **kwargs: Any) -> list[float | None]:
    """Score as `correctness` does, and abstain on a random third of the completions."""
    scores = correctness(completions=completions, **kwargs)
    return [None if _dice.random() < 1 / 3 else score for score in scores]


def full_length(completions: Sequence[Any], **kwargs: Any) -> list[float]:
    """Pay for length up to 60 characters, which is that of a whole answer."""
    return [min(60, len(completion_text(completion))) / 60 for completion in completions]


def paid_by_length(completions: Sequence[Any], **kwargs: Any) -> list[float]:
    """Pay for each character, up to 300 of them, as a judge that likes long answers."""
    return [min(300, len(completion_text(completion))) / 100 for completion in completions]


def penalty(completions: Sequence[Any], **kwargs: Any) -> list[float]:
    """Take 1 off for each missing tag of four."""
    return [4 * (share - 1) for share in incremental_format(completions=completions)]


def outlier(completions: Sequence[Any], trainer_state: Any = None, **kwargs: Any) -> list[float]:
    """Score as `correctness` does; at every tenth step a thousand times as much."""
    step = 0 if trainer_state is None else trainer_state.global_step + 1
    return [(1000.0 if step % 10 == 0 else 1.0) * s for s in correctness(completions=completions, **kwargs)]


def fails_often(completions: Sequence[Any], trainer_state: Any = None, **kwargs: Any) -> list[float]:
    """Score as `correctness` does until step 15, then raise.

    Raises:
        ConnectionError: from step 15 on.
    """
    if trainer_state is not None and trainer_state.global_step + 1 >= 15:
        raise ConnectionError("the judge does not answer")
    return correctness(completions=completions, **kwargs)


def same_sum_rows() -> Dataset:
    """Return the questions whose sum is 22, of which one answer solves all."""
    from datasets import Dataset

    return Dataset.from_list([row for row in all_rows() if row["answer"] == SAME_SUM][:8])


def other_rows() -> Dataset:
    """Return questions with other sums."""
    from datasets import Dataset

    return Dataset.from_list([row for row in all_rows() if row["answer"] != SAME_SUM][:32])


def eight_rows() -> Dataset:
    """Return eight questions."""
    from datasets import Dataset

    return Dataset.from_list(all_rows()[:8])
