"""Events and data of a training process, as frozen values.

The callback and hooks build them from data that TRL has already moved to the host. The store writes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from grpo_tui.core.findings import Finding

Mode = Literal["train", "eval", "probe"]
Prompt = str | list[dict[str, Any]]
"""A prompt as in the dataset: a string, or a list of chat messages."""


@dataclass(frozen=True, slots=True)
class AttemptStarted:
    """One start of the run. A resume is a new attempt."""

    attempt: int
    started_at: float
    host: str
    pid: int
    resumed_from: int | None = None
    """Step of the checkpoint that this attempt resumed, None for a fresh start."""
    total_steps: int | None = None


@dataclass(frozen=True, slots=True)
class AttemptEnded:
    """The end of an attempt. Its state is `finished`, `stopped`, `failed` or `crashed`."""

    attempt: int
    ended_at: float
    state: str
    step: int | None = None
    exit_code: int | None = None
    error: Mapping[str, Any] | None = None
    """`{"type", "message", "cause"}`. The cause is the sentence to show first."""


@dataclass(frozen=True, slots=True)
class TotalSteps:
    """The planned number of optimizer steps. TRL knows it once its data loader exists."""

    attempt: int
    total_steps: int


@dataclass(frozen=True, slots=True)
class Fact:
    """A named JSON value about the run, such as its config or reproduction record."""

    key: str
    value: Any


SKIPPED = "grpo_tui/step_skipped"
"""Metric of a step that was skipped because its gradient was NaN or infinite."""
LEFT_OUT = "grpo_tui/importance_left_out"
"""Metric: fraction of the importance weights for vLLM that are 0, by TRL's mode of completions or tokens."""
EFFECTIVE = "grpo_tui/importance_effective"
"""Metric: Kish's effective sample size of these weights, as a fraction of their number."""
TOOLS = "grpo_tui/tools/"
"""Prefix of metrics of a tool: `NAME/calls`, `NAME/failed` and `NAME/seconds`, sums since the row before."""
ALONE = "alone"
"""Phase of a rank while it generates its own completions, before it waits for others. Within `generate`."""


@dataclass(frozen=True, slots=True)
class MetricRow:
    """One row of `log_history`, exactly as TRL logged it. Keys in `grpo_tui/` are added."""

    attempt: int
    step: int
    at: float
    values: Mapping[str, Any]
    """Distinguishes None, infinities, NaN and absent keys."""


@dataclass(frozen=True, slots=True)
class Completion:
    """One sampled completion and its rewards."""

    index: int
    """Position within its group, from 0."""
    text: str
    rewards: tuple[float | None, ...]
    """One per reward function, in TRL's order. None means that the function abstained."""
    total: float | None
    """Weighted sum as TRL computes it, None when no function scored the completion."""
    advantage: float
    tokens: int
    truncated: bool
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Values that reward functions logged with `log_extra`."""
    messages: list[dict[str, Any]] | None = None
    """The chat messages, if they are more than one plain assistant text, for example with tool calls."""
    masked: bool = False
    """Whether the loss ignores it (`mask_truncated_completions`). Its advantage then has no effect."""


@dataclass(frozen=True, slots=True)
class Group:
    """All completions of one prompt within one generation batch."""

    index: int
    """Position within the batch over all ranks, from 0."""
    prompt: Prompt
    columns: Mapping[str, Any]
    """The other dataset columns of the row."""
    completions: tuple[Completion, ...]


@dataclass(frozen=True, slots=True)
class GenerationBatch:
    """One call of TRL's generate-and-score, keyed by (attempt, batch, rank)."""

    attempt: int
    batch: int
    rank: int
    mode: Mode
    step: int
    """`global_step + 1` in training, the step it is for. `global_step` in evaluation."""
    last_step: int
    """Last optimizer step that trains on it."""
    at: float
    groups: tuple[Group, ...]
    first_function: int = 0
    """`index` of the first of the functions that scored it, in `RewardFunctionInfo`."""


@dataclass(frozen=True, slots=True)
class RewardFunctionInfo:
    """A reward function of the run, keyed by index because names may repeat."""

    attempt: int
    index: int
    """Its number within the attempt. Another list of functions, loaded while training, has higher numbers."""
    name: str
    weight: float
    source: str = ""
    """Origin, such as `rewards.py:12` or a model id."""
    sha256: str = ""
    text: str = ""
    since_step: int = 0
    """First step whose completions it scored; 0 for the functions that the attempt began with."""
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class RewardCall:
    """One call of one reward function."""

    attempt: int
    batch: int
    function: int
    started_at: float
    duration_s: float
    outcome: Literal["ok", "error", "aborted"]
    error: str = ""
    rank: int = 0


@dataclass(frozen=True, slots=True)
class PhaseSpan:
    """A period that a rank spent in one phase."""

    attempt: int
    rank: int
    phase: str
    step: int
    started_at: float
    duration_s: float


@dataclass(frozen=True, slots=True)
class CheckpointSaved:
    """A checkpoint folder, complete or not."""

    attempt: int
    step: int
    path: str
    at: float
    complete: bool
    requested: bool
    """Whether the user asked for it. Rotation never deletes such a checkpoint."""
    size_bytes: int = 0


@dataclass(frozen=True, slots=True)
class SettingChanged:
    """A setting changed while training."""

    attempt: int
    step: int
    at: float
    name: str
    old: Any
    new: Any
    by: str = "you"
    because: str = ""
    undoes: int = 0
    """Number of changes that this one undoes, 0 for an ordinary change."""


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line of output. `replaces` marks an update of the previous line, as in progress bars."""

    at: float
    text: str
    level: str = "info"
    replaces: bool = False


@dataclass(frozen=True, slots=True)
class Dropped:
    """A count of records that could not be stored."""

    attempt: int
    kind: str
    count: int


@dataclass(frozen=True, slots=True)
class OpenFindings:
    """All findings about the run that are open now. An earlier finding that is missing here has ended."""

    at: float
    findings: tuple[Finding, ...]


Record = (
    AttemptStarted
    | AttemptEnded
    | TotalSteps
    | Fact
    | MetricRow
    | GenerationBatch
    | RewardFunctionInfo
    | RewardCall
    | PhaseSpan
    | CheckpointSaved
    | SettingChanged
    | LogLine
    | Dropped
    | OpenFindings
)
