"""What the training process says happened, as plain frozen values.

The callback and the hooks build these from data TRL has already brought to the host, the queue carries them,
the store writes them down.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from grpo_tui.core.findings import Finding

Mode = Literal["train", "eval", "probe"]
Prompt = str | list[dict[str, Any]]
"""A prompt as the dataset gives it: a string, or a list of chat messages."""


@dataclass(frozen=True, slots=True)
class AttemptStarted:
    """One start of the run; a resume is a new attempt."""

    attempt: int
    started_at: float
    host: str
    pid: int
    resumed_from: int | None = None
    """Step of the checkpoint this attempt continues, None for a fresh start."""
    total_steps: int | None = None


@dataclass(frozen=True, slots=True)
class AttemptEnded:
    """How an attempt ended: `finished`, `stopped`, `failed` or `crashed`."""

    attempt: int
    ended_at: float
    state: str
    step: int | None = None
    exit_code: int | None = None
    error: Mapping[str, Any] | None = None
    """`{"type", "message", "cause"}`; the cause is the sentence a person should read first."""


@dataclass(frozen=True, slots=True)
class TotalSteps:
    """The number of optimizer steps TRL plans, known once its data loader exists."""

    attempt: int
    total_steps: int


@dataclass(frozen=True, slots=True)
class Fact:
    """One named JSON value about the run: config, reproduction record, before and after answers."""

    key: str
    value: Any


SKIPPED = "grpo_tui/step_skipped"
"""Metric of a step that was not applied, because its gradient was NaN or infinite."""


@dataclass(frozen=True, slots=True)
class MetricRow:
    """One row of `log_history`, exactly as TRL logged it."""

    attempt: int
    step: int
    at: float
    values: Mapping[str, Any]
    """Metric key to value. None, infinities and NaN are kept apart; absent keys stay absent."""


@dataclass(frozen=True, slots=True)
class Completion:
    """One sampled completion and what every reward function said of it."""

    index: int
    """Position within its group, from 0."""
    text: str
    rewards: tuple[float | None, ...]
    """One entry per reward function, in TRL's order; None means the function abstained."""
    total: float | None
    """Weighted sum as TRL computes it, None when no function scored the completion."""
    advantage: float
    tokens: int
    truncated: bool
    extra: Mapping[str, Any] = field(default_factory=dict)
    """What reward functions attached with `log_extra`."""
    messages: list[dict[str, Any]] | None = None
    """The chat messages, when they hold more than one plain assistant text (tool calls, say)."""
    masked: bool = False
    """Whether the loss leaves it out (`mask_truncated_completions`); its advantage then does nothing."""


@dataclass(frozen=True, slots=True)
class Group:
    """All completions of one prompt within one generation batch."""

    index: int
    """Position within the batch over all ranks, from 0."""
    prompt: Prompt
    columns: Mapping[str, Any]
    """Every other dataset column of the row."""
    completions: tuple[Completion, ...]


@dataclass(frozen=True, slots=True)
class GenerationBatch:
    """One call of TRL's generate-and-score, keyed by (attempt, batch, rank)."""

    attempt: int
    batch: int
    rank: int
    mode: Mode
    step: int
    """`global_step + 1` in training (the step it is for), `global_step` in evaluation."""
    last_step: int
    """The last optimizer step that uses it."""
    at: float
    groups: tuple[Group, ...]


@dataclass(frozen=True, slots=True)
class RewardFunctionInfo:
    """A reward function of the run, keyed by its index because names may repeat."""

    attempt: int
    index: int
    name: str
    weight: float
    source: str = ""
    """Where it came from, such as `rewards.py:12` or a model id."""
    sha256: str = ""
    text: str = ""


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
    """A stretch of time a rank spent in one phase."""

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
    """True when a person asked for it; such a checkpoint is never rotated away."""
    size_bytes: int = 0


@dataclass(frozen=True, slots=True)
class SettingChanged:
    """A setting changed in mid-run."""

    attempt: int
    step: int
    at: float
    name: str
    old: Any
    new: Any
    by: str = "you"


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line of output; `replaces` updates the previous line, as progress bars do."""

    at: float
    text: str
    level: str = "info"
    replaces: bool = False


@dataclass(frozen=True, slots=True)
class Dropped:
    """Something that could not be kept, counted."""

    attempt: int
    kind: str
    count: int


@dataclass(frozen=True, slots=True)
class OpenFindings:
    """Every finding about the run that is open now. One that was and is not among them has ended."""

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
