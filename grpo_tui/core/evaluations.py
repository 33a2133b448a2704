"""Results of the evaluations that a run makes while training.

Each evaluation uses the same prompts, so two of them are paired by prompt. The run stores them as one fact,
`evaluations`.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from grpo_tui.core.exchange import rebuilt
from grpo_tui.core.paired import Difference, difference
from grpo_tui.core.statistics import is_number

FACT = "evaluations"
PREFIX = "evaluate/"
"""Prefix of an evaluation's metrics."""
WITHOUT_GAIN = f"{PREFIX}without_gain"
GAIN, LOW, HIGH = "/gain", "/gain_low", "/gain_high"
"""Suffixes of the metrics for the gain of a measure over the first evaluation."""


@dataclass(frozen=True, slots=True)
class Means:
    """One measure of one evaluation.

    Attributes:
        name: `pass@1`, `total`, `reward/NAME`, `length` or `truncated`.
        by_prompt: One mean per prompt, None where nothing was scored.
    """

    name: str
    by_prompt: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """One evaluation.

    Attributes:
        step: Number of optimizer steps before it.
        value: Mean of the deciding measure over the prompts, None when nothing was scored.
        by_prompt: Its mean per prompt.
        batch: Number of the generation batch with its answers; None in a record of an older version.
    """

    step: int
    value: float | None
    by_prompt: tuple[float | None, ...]
    batch: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Evaluations:
    """All evaluations of a run, by step.

    Attributes:
        key: Identifies prompts and settings. Evaluations with different keys cannot be compared.
        deciding: The measure that decides which policy is better.
        judge: Index of the reward that decides whether a completion is right, None if the total decides.
        least: Minimum score of that reward for a right completion.
        weights: Weights of the rewards at the first evaluation.
        samples: Completions per prompt.
        first: All measures of the first evaluation.
        sampling: The sampling settings of every evaluation; empty in a record of an older version.
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
    sampling: dict[str, float | None] = field(default_factory=dict)

    @classmethod
    def from_json(cls, value: Any) -> Evaluations | None:
        """Rebuild the evaluations from the fact, None when it is missing or invalid."""
        try:
            found: Evaluations = rebuilt(cls, value)
        except ValueError:
            return None
        means = [one.by_prompt for one in found.done] + [[one.value] for one in found.done]
        known = all(value is None or is_number(value) for each in means for value in each)
        return found if found.done and known else None

    def to_json(self) -> dict[str, Any]:
        """Return JSON data for `from_json`."""
        return asdict(self)

    @property
    def best(self) -> Evaluation | None:
        """The evaluation with the highest value, the earliest of equal ones. None when nothing was scored."""
        scored = [one for one in self.done if one.value is not None]
        return max(scored, key=lambda one: one.value or 0.0, default=None)

    @property
    def without_gain(self) -> int:
        """Number of evaluations since the last gain.

        An evaluation is a gain when the 95 % interval of its difference from the last gain, or from the first
        evaluation, is above 0. The difference is paired by prompt.
        """
        count, best = 0, self.done[0]
        for one in self.done[1:]:
            found = _difference(best, one)
            gained = found is not None and found.word == "better"
            best, count = (one, 0) if gained else (best, count + 1)
        return count

    def gain(self, one: Evaluation) -> Difference | None:
        """Return the gain of an evaluation over the first. None for the first, or without shared scores."""
        return None if one is self.done[0] else _difference(self.done[0], one)

    def at(self, step: int) -> Evaluation | None:
        """Return the evaluation at a step, or None."""
        return next((one for one in self.done if one.step == step), None)


def _difference(earlier: Evaluation, later: Evaluation) -> Difference | None:
    if len(earlier.by_prompt) != len(later.by_prompt):
        return None
    return difference(earlier.by_prompt, later.by_prompt)
