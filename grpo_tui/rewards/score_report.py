"""Results of scoring as plain frozen values, sent as JSON by the scoring process."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from grpo_tui.config.run_config import RunConfig
from grpo_tui.core.exchange import rebuilt
from grpo_tui.rewards.samples import Sample

BLANK = ""
"""Default of a parameter whose default is an empty text, list or mapping."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Reason why a function has no scores.

    Attributes:
        kind: `load` (cannot be loaded), `raised`, `returned` (unusable return value), `hung` (killed at the
            time limit), `died` (ended the process) or `skipped` (not called).
        file, line: where it was raised in the user's code, None when unknown. Lines count from 1.
        sample: index of the sample that made it raise, None when it is not one.
    """

    kind: str
    type: str
    message: str
    file: str | None = None
    line: int | None = None
    sample: int | None = None

    @property
    def text(self) -> str:
        """Type, message and place on one line."""
        what = f"{self.type}: {self.message}" if self.type and self.kind == "raised" else self.message
        if self.message == self.type:
            what = f"{self.type}, without a message"
        place = f" ({self.file.rpartition('/')[2]}:{self.line})" if self.file and self.line else ""
        return what + place


@dataclass(frozen=True, slots=True)
class FunctionInfo:
    """Reward function as loaded.

    Attributes:
        kind: `function`, `async`, `model`, or empty when it could not be loaded.
        file, line: place of the definition, None for a reward model. Lines count from 1.
        sha256: hash of the file's text.
        saves_state: whether its state survives a resume (`state_dict`).
        parameters: None when the function does not reveal them.
    """

    index: int
    name: str
    weight: float
    kind: str
    source: str
    file: str | None = None
    line: int | None = None
    sha256: str = ""
    file_text: str = ""
    params: tuple[str, ...] = ()
    saves_state: bool = False
    parameters: tuple[inspect.Parameter, ...] | None = None
    failure: Failure | None = None

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> FunctionInfo:
        """Rebuild it from JSON."""
        parameters = data.get("parameters")
        known = None if parameters is None else tuple(_parameter(*p) for p in parameters)
        return rebuilt(cls, data, parameters=known)


def _parameter(name: str, kind: int, default: str) -> inspect.Parameter:
    values = {"empty": inspect.Parameter.empty, "none": None, "blank": BLANK, "other": ...}
    return inspect.Parameter(name, list(inspect._ParameterKind)[kind], default=values[default])


@dataclass(frozen=True, slots=True)
class Repeat:
    """Result of calling a function again with the same samples.

    Attributes:
        differs: indices of samples with a different score in the second call.
        fresh_repeats: whether a freshly loaded copy repeats both results, so that the difference comes from
            state between calls and not from chance. None when not tried.
    """

    differs: tuple[int, ...]
    fresh_repeats: bool | None = None


@dataclass(frozen=True, slots=True)
class OtherShape:
    """Result of passing completions in TRL's other form, text instead of messages or the reverse.

    Attributes:
        given: form of the samples, `texts` or `messages`.
        works: whether the scores are usable.
        varies: whether the scores vary in the other form, but not in the given one.
        tried: number of completions with equal scores in the given form, including ones derived from the
            samples. 0 when the function raised.
        constant: score of all of them. None when it differs between prompts.
    """

    given: str
    works: bool
    varies: bool
    tried: int = 0
    constant: float | None = None


@dataclass(frozen=True, slots=True)
class Swallowed:
    """Exception that the user's code raised and caught while scoring, at its innermost place."""

    type: str
    message: str
    file: str
    line: int
    count: int


@dataclass(frozen=True, slots=True)
class FunctionScore:
    """Scores of one function for a batch of samples.

    Attributes:
        log_extra: columns it attached to the samples.
        swallowed: exceptions it caught itself. Only checked where its source has a broad `except`.
        changed: arguments whose lists it modified. Later functions saw the change, as in training.
        left: changes it made to its process, phrased to follow its name.
    """

    info: FunctionInfo
    scores: tuple[float | None, ...]
    seconds: float = 0.0
    output: str = ""
    failure: Failure | None = None
    log_extra: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    metrics: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    repeat: Repeat | None = None
    other_shape: OtherShape | None = None
    swallowed: tuple[Swallowed, ...] = ()
    changed: tuple[str, ...] = ()
    left: tuple[str, ...] = ()

    @property
    def coverage(self) -> float:
        """Fraction of the samples with a score other than None."""
        return sum(s is not None for s in self.scores) / len(self.scores) if self.scores else 0.0

    @classmethod
    def failed(cls, info: FunctionInfo, count: int, failure: Failure, output: str = "") -> FunctionScore:
        """Return the result of a function without scores for `count` samples."""
        return cls(info, (None,) * count, failure=failure, output=output)


@dataclass(frozen=True, slots=True)
class GroupScore:
    """One group of samples, in the terms of GRPO.

    Attributes:
        mean: mean total, None when no sample was scored.
        std: standard deviation of the totals (divisor n - 1), 0 for one scored sample, None for none.
    """

    indices: tuple[int, ...]
    mean: float | None
    std: float | None
    advantages: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Aggregate:
    """Totals, groups and the batch's metrics for one set of weights.

    Attributes:
        totals: weighted total per sample, None where no function scored it.
        reward: mean total of the batch, as TRL logs it.
        reward_std: standard deviation over the batch.
        frac_reward_zero_std: fraction of zero-std groups, as TRL computes it.
    """

    totals: tuple[float | None, ...]
    groups: tuple[GroupScore, ...]
    reward: float | None
    reward_std: float | None
    frac_reward_zero_std: float | None

    def advantages(self) -> list[float]:
        """Return one advantage per sample, in the order of the samples."""
        by_index = {
            i: a for group in self.groups for i, a in zip(group.indices, group.advantages, strict=True)
        }
        return [by_index[i] for i in range(len(self.totals))]


@dataclass(frozen=True, slots=True)
class Aggregation:
    """How totals become advantages.

    Attributes:
        scale_rewards: `group`, `batch` or `none`. TRL's true and false mean group and none.
        multi_objective_aggregation: `sum_then_normalize` or `normalize_then_sum`.
    """

    scale_rewards: str = "group"
    multi_objective_aggregation: str = "sum_then_normalize"

    @property
    def normalized(self) -> bool:
        """Whether each function is divided by its own standard deviation before the sum."""
        return self.multi_objective_aggregation == "normalize_then_sum"

    @classmethod
    def of(cls, config: RunConfig) -> Aggregation:
        """Return the config's modes, with TRL's defaults."""
        scale = config.grpo.get("scale_rewards", "group")
        mode = config.grpo.get("multi_objective_aggregation", "sum_then_normalize")
        return cls({"True": "group", "False": "none"}.get(str(scale), str(scale)), str(mode))


@dataclass(frozen=True, slots=True)
class Scored:
    """Scores of all functions for some samples.

    Attributes:
        chat: whether the functions saw messages instead of text.
        prompt_tail: end of the first prompt as the chat template writes it, empty when unknown.
    """

    samples: tuple[Sample, ...]
    functions: tuple[FunctionScore, ...]
    chat: bool = False
    prompt_tail: str = ""
