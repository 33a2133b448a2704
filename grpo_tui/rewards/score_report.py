"""What the lab says of rewards and samples, as plain frozen values that travel as JSON.

The lab's child builds the JSON, commands and panes read the values.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from grpo_tui.config.run_config import RunConfig
from grpo_tui.core.exchange import rebuilt
from grpo_tui.rewards.samples import Sample

BLANK = ""
"""Stands for the default of a parameter that holds nothing: an empty text, list or mapping."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a function gave no scores.

    Attributes:
        kind: `load` (it cannot be loaded), `raised`, `returned` (what it returned cannot be used), `hung`
            (over its time limit, killed) or `died` (it ended the process).
        type: class of the exception, empty where there is none.
        file: file of the user's own code where it was raised, None when unknown.
        line: line there, from 1.
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
        """One line for the user: type, message, place."""
        what = f"{self.type}: {self.message}" if self.type and self.kind == "raised" else self.message
        if self.message == self.type:
            what = f"{self.type}, without a message"
        place = f" ({self.file.rpartition('/')[2]}:{self.line})" if self.file and self.line else ""
        return what + place


@dataclass(frozen=True, slots=True)
class FunctionInfo:
    """One reward function as it was loaded.

    Attributes:
        index: position in TRL's order.
        name: the name TRL logs it under.
        kind: `function`, `async`, `model`, or `` when it could not be loaded.
        source: what the config says it is.
        file: the file that defines it; None for a reward model.
        line: the line of its definition, from 1.
        sha256: hash of the file's text.
        params: names of the arguments it was made with.
        saves_state: whether it can give its state and take it back (`state_dict`), as for a resume.
        parameters: what it takes, None when it says nothing of that.
        failure: why it could not be loaded.
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
        """Rebuild it from the child's JSON."""
        parameters = data.get("parameters")
        known = None if parameters is None else tuple(_parameter(*p) for p in parameters)
        return rebuilt(cls, data, parameters=known)


def _parameter(name: str, kind: int, default: str) -> inspect.Parameter:
    values = {"empty": inspect.Parameter.empty, "none": None, "blank": BLANK, "other": ...}
    return inspect.Parameter(name, list(inspect._ParameterKind)[kind], default=values[default])


@dataclass(frozen=True, slots=True)
class Repeat:
    """What the same function said when it was called again with the same samples.

    Attributes:
        differs: indices of samples that scored otherwise in the second call.
        fresh_repeats: whether a freshly loaded copy went through the same two results, so that it is not
            chance but state kept between calls; None when that was not tried.
    """

    differs: tuple[int, ...]
    fresh_repeats: bool | None = None


@dataclass(frozen=True, slots=True)
class OtherShape:
    """How the function took the completions in TRL's other form (texts for messages, or the reverse).

    Attributes:
        given: the form that the samples have, `texts` or `messages`.
        works: whether it returned usable scores.
        varies: whether it tells completions apart in that form, which it does not in the form given.
        tried: completions in the form given that it scored alike, made of the samples; 0 when it raised.
        constant: the score of all of them; None when it differs between prompts.
    """

    given: str
    works: bool
    varies: bool
    tried: int = 0
    constant: float | None = None


@dataclass(frozen=True, slots=True)
class Swallowed:
    """An exception that was raised and caught within the user's own code while it scored.

    Attributes:
        type: class of the exception.
        file: where it was raised or passed through, innermost place in the user's code.
        line: line there, from 1.
    """

    type: str
    message: str
    file: str
    line: int
    count: int


@dataclass(frozen=True, slots=True)
class FunctionScore:
    """What one function gave for a batch of samples.

    Attributes:
        scores: one per sample; None where it abstained or failed, NaN and infinities as they are.
        output: what it printed, from Python or from C.
        log_extra: columns it attached to the samples.
        metrics: values it logged with `log_metric`.
        repeat: the same call once more; None when it was not made.
        other_shape: the call with the other form of completions; None when it was not made.
        swallowed: exceptions it caught itself; only looked for where its source has a broad `except`.
        changed: arguments whose lists it changed; the functions after it saw them so, as in training.
        left: what it left changed in its process, each to be read after its name.
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
        """Share of the samples it scored (not None)."""
        return sum(s is not None for s in self.scores) / len(self.scores) if self.scores else 0.0

    @classmethod
    def failed(cls, info: FunctionInfo, count: int, failure: Failure, output: str = "") -> FunctionScore:
        """What stands for a function that gave nothing for `count` samples."""
        return cls(info, (None,) * count, failure=failure, output=output)

    def with_failure(self, failure: Failure) -> FunctionScore:
        """The same with a reason why it cannot be used."""
        return replace(self, failure=failure)


@dataclass(frozen=True, slots=True)
class GroupScore:
    """One group of samples, in the terms of GRPO.

    Attributes:
        mean: mean of their totals, None when none was scored.
        std: standard deviation of their totals (divisor n - 1), 0 for one sample, None for none scored.
        advantages: one per sample, as TRL computes them in float32.
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
        groups: in the order of their first samples.
        reward: the batch's mean total, as TRL logs it.
        reward_std: its standard deviation over the batch.
        frac_reward_zero_std: the share of flat groups, as TRL computes it.
    """

    totals: tuple[float | None, ...]
    groups: tuple[GroupScore, ...]
    reward: float | None
    reward_std: float | None
    frac_reward_zero_std: float | None

    def advantages(self) -> list[float]:
        """One per sample, in the order of the samples."""
        by_index = {
            i: a for group in self.groups for i, a in zip(group.indices, group.advantages, strict=True)
        }
        return [by_index[i] for i in range(len(self.totals))]


@dataclass(frozen=True, slots=True)
class Aggregation:
    """How totals become advantages.

    Attributes:
        scale_rewards: `group`, `batch` or `none`; TRL's true and false are group and none.
        multi_objective_aggregation: `sum_then_normalize` or `normalize_then_sum`.
    """

    scale_rewards: str = "group"
    multi_objective_aggregation: str = "sum_then_normalize"

    @property
    def normalized(self) -> bool:
        """Whether each function is divided by its own deviation before the sum."""
        return self.multi_objective_aggregation == "normalize_then_sum"

    @classmethod
    def of(cls, config: RunConfig) -> Aggregation:
        """Return what a config says, TRL's defaults where it says nothing."""
        scale = config.grpo.get("scale_rewards", "group")
        mode = config.grpo.get("multi_objective_aggregation", "sum_then_normalize")
        return cls({"True": "group", "False": "none"}.get(str(scale), str(scale)), str(mode))


@dataclass(frozen=True, slots=True)
class Scored:
    """What all functions gave for some samples.

    Attributes:
        samples: what was scored, in the order of every list here.
        functions: one result per function, in TRL's order.
        chat: whether the functions saw messages (else texts).
        prompt_tail: the end of the first prompt as the chat template writes it, empty when not known.
    """

    samples: tuple[Sample, ...]
    functions: tuple[FunctionScore, ...]
    chat: bool = False
    prompt_tail: str = ""
