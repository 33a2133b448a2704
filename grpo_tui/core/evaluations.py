"""The evaluations that a run made of itself while it trained: what each came to, and what they show.

The same prompts are asked each time, so two evaluations are paired by prompt. The training process keeps them
as one fact of the run, `evaluations`; everything that shows them reads it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from grpo_tui.core.exchange import rebuilt
from grpo_tui.core.paired import Difference, difference
from grpo_tui.core.statistics import is_number

FACT = "evaluations"
PREFIX = "evaluate/"
"""Of the metrics of an evaluation."""
WITHOUT_GAIN = f"{PREFIX}without_gain"
"""Metric: evaluations since one was shown to be better than every one before."""
GAIN, LOW, HIGH = "/gain", "/gain_low", "/gain_high"
"""Endings of the metrics that say how far a measure lies above that of the first evaluation."""


@dataclass(frozen=True, slots=True)
class Means:
    """One measure of one evaluation.

    Attributes:
        name: `pass@1`, `total`, `reward/NAME`, `length`, `truncated`.
        by_prompt: one mean for each prompt, None where nothing was scored.
    """

    name: str
    by_prompt: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """One evaluation.

    Attributes:
        step: optimizer steps before it.
        value: mean of the deciding measure over the prompts, None when nothing was scored.
        by_prompt: its means by prompt.
    """

    step: int
    value: float | None
    by_prompt: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class Evaluations:
    """All evaluations of a run, by step.

    Attributes:
        key: stands for what is asked and how; evaluations with another one cannot be compared.
        deciding: the measure that says which policy is better.
        judge: index of the reward that says what is right, None where the total decides.
        judge_name: its name.
        least: the score from which on it takes a completion for right.
        weights: of the rewards, as they were when the first evaluation was made.
        samples: completions of each prompt.
        first: every measure of the first evaluation.
    """

    key: str
    deciding: str
    judge: int | None
    judge_name: str
    least: float
    weights: tuple[float, ...]
    samples: int
    first: tuple[Means, ...]
    done: tuple[Evaluation, ...] = field(default=())

    @classmethod
    def from_json(cls, value: Any) -> Evaluations | None:
        """Rebuild them from the fact; None when there is none, or it is something else."""
        try:
            found: Evaluations = rebuilt(cls, value)
        except ValueError:
            return None
        means = [one.by_prompt for one in found.done] + [[one.value] for one in found.done]
        known = all(value is None or is_number(value) for each in means for value in each)
        return found if found.done and known else None

    def to_json(self) -> dict[str, Any]:
        """Return plain data that `from_json` reads."""
        return asdict(self)

    @property
    def best(self) -> Evaluation | None:
        """The evaluation with the highest value, the earliest of several; None when none was scored."""
        scored = [one for one in self.done if one.value is not None]
        return max(scored, key=lambda one: one.value or 0.0, default=None)

    @property
    def without_gain(self) -> int:
        """Evaluations since the last one that was shown to be better than every one before.

        A gain counts only when its 95 % interval, paired by prompt, lies above 0.
        """
        count, best = 0, self.done[0]
        for one in self.done[1:]:
            found = _difference(best, one)
            gained = found is not None and found.word == "better"
            best, count = (one, 0) if gained else (best, count + 1)
        return count

    def gain(self, one: Evaluation) -> Difference | None:
        """By how much an evaluation lies above the first; None for that one, or without shared scores."""
        return None if one is self.done[0] else _difference(self.done[0], one)

    def at(self, step: int) -> Evaluation | None:
        """The evaluation at a step, None when there was none."""
        return next((one for one in self.done if one.step == step), None)


def _difference(earlier: Evaluation, later: Evaluation) -> Difference | None:
    if len(earlier.by_prompt) != len(later.by_prompt):
        return None
    return difference(earlier.by_prompt, later.by_prompt)
