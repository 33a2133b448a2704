"""One moment of a run, as the Train pane shows it: frozen values and words, nothing of widgets.

All text that came from a model, a dataset, a log or an exception is already safe to show here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from grpo_tui.core.findings import Finding
from grpo_tui.core.statistics import Signal

if TYPE_CHECKING:
    from grpo_tui.present.hardware_view import HardwareView, RankRow
    from grpo_tui.store.read_series import SeriesBucket

Span = tuple[str, str]
"""A piece of text and the role of its colour: `text dim strong accent good bad attention`."""


MARKS = {"checkpoint": "◆", "setting": "▴", "resume": "↻"}
"""How what happens along a run is marked."""


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that happened at a step, shown on a chart's axis."""

    step: int
    kind: str
    """`checkpoint` or `setting`."""


@dataclass(frozen=True, slots=True)
class ChartView:
    """One metric, ready to be drawn."""

    key: str
    title: str
    value: str
    """The newest value, spelled."""
    change: float | None = None
    """Move of the smoothed value over the last 20 steps."""
    change_text: str = ""
    moves: bool = True
    """False when the move is no more than the noise between rows."""
    note: str = ""
    note_short: str = ""
    """The note in a word or two, for a narrow title line."""
    buckets: tuple[SeriesBucket, ...] = ()
    band: tuple[tuple[float, float] | None, ...] = ()
    """Per bucket, the spread inside a group around the mean; empty when the raw values make the band."""
    raw: bool = True
    """Whether, without a band, the reach of the raw values is drawn behind the line."""
    marks: tuple[Mark, ...] = ()
    end: int = 0
    """Last step of the axis; beyond the newest value while a run goes on."""


@dataclass(frozen=True, slots=True)
class FunctionRow:
    """One reward function."""

    name: str
    weight: float
    mean: float | None
    share: float | None
    """Share of the within-group variance of the total that it carries."""
    trend: tuple[float | None, ...] = ()
    seconds: float | None = None
    """Mean seconds per call."""


@dataclass(frozen=True, slots=True)
class CompletionRow:
    """One completion of a group."""

    text: str
    """Safe text, line breaks kept."""
    total: float | None
    advantage: float
    tokens: int
    truncated: bool
    rewards: tuple[float | None, ...] = ()
    """What each reward function returned, in TRL's order."""
    masked: bool = False
    """Whether the loss leaves it out."""


@dataclass(frozen=True, slots=True)
class GroupView:
    """A prompt and what was sampled for it."""

    id: int
    step: int
    mode: str
    prompt: str
    """One safe line."""
    gold: str | None
    mean: float | None
    spread: float | None
    signal: Signal
    completions: tuple[CompletionRow, ...]


@dataclass(frozen=True, slots=True)
class EventRow:
    """Something that happened to the run, newest first in a list of them."""

    at: float
    step: int | None
    sign: str
    role: str
    text: str


@dataclass(frozen=True, slots=True)
class AnswerPair:
    """A held prompt answered before and after training."""

    prompt: str
    gold: str
    before: str
    after: str
    before_right: bool | None
    """True when the right answer stands there in a form that an answer is asked in; None without a gold."""
    after_right: bool | None
    before_reward: float | None = None
    after_reward: float | None = None


@dataclass(frozen=True, slots=True)
class BeforeAfter:
    """What training changed, on prompts that were held back."""

    pairs: tuple[AnswerPair, ...]
    gain: float | None
    """Gain in mean reward."""
    before_reward: float | None = None
    after_reward: float | None = None


@dataclass(frozen=True, slots=True)
class TrainView:
    """Everything the Train pane says, at one moment."""

    name: str
    folder: str
    now: float
    state: str = "starting"
    live: bool = False
    step: int = 0
    total_steps: int | None = None
    step_time_s: float | None = None
    tokens_per_s: float | None = None
    """Prompt and completion tokens of all ranks by second of step time, over the newest steps."""
    eta_s: float | None = None
    phase: str = "load"
    phase_since: float | None = None
    """When the phase began; None when nothing is known of it."""
    reward_function: str | None = None
    phase_shares: tuple[tuple[str, float], ...] = ()
    ranks: tuple[RankRow, ...] = ()
    hardware: HardwareView | None = None
    """The machine, None when nobody samples it."""
    reward: float | None = None
    reward_change: float | None = None
    reward_moves: bool = True
    """False when the change is no more than the noise between rows."""
    spread: float | None = None
    flat_share: float | None = None
    masked_share: float | None = None
    """Share of the newest step's completions that the loss leaves out."""
    flat_top: float | None = None
    """Share of the newest step's groups that are flat at the highest total of the run."""
    flat_bottom: float | None = None
    health: tuple[Span, ...] = ()
    charts: tuple[ChartView, ...] = ()
    functions: tuple[FunctionRow, ...] = ()
    groups: tuple[GroupView, ...] = ()
    """Newest first."""
    events: tuple[EventRow, ...] = ()
    alerts: tuple[EventRow, ...] = ()
    """What is wrong at this moment."""
    findings: tuple[Finding, ...] = ()
    """What is wrong with its training, worst first."""
    before_after: BeforeAfter | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Values in force of what a person can set, by name."""
    newest_prompt: Any = None
    """The prompt of the newest group, as the dataset gave it."""
    metric_rows: int = 0
    way_on: str = ""
    """What starts the ended run again, in a sentence; empty while it lives."""
    model_at: str = ""
    """Where the trained model is, once the run has finished and saved it there."""
    trouble: str = ""
    """Why the run cannot be read at the moment."""
    whole: bool = True
    """False while metrics or groups that are recorded already are still to be read."""

    @property
    def phase_s(self) -> float | None:
        """Seconds spent in the present phase."""
        return None if self.phase_since is None else max(0.0, self.now - self.phase_since)

    @property
    def progress(self) -> float | None:
        """Share of the planned steps that is done, None when the plan is not known."""
        return min(1.0, self.step / self.total_steps) if self.total_steps else None

    @property
    def no_groups(self) -> str:
        """What to say where no group is."""
        return "No completion was recorded." if self.ended else "Waiting for the first generation."

    @property
    def no_events(self) -> str:
        """What to say where no event is."""
        if self.ended:
            return "No command, checkpoint or changed setting was recorded."
        return "Commands, checkpoints and changed settings will show here."

    @property
    def ended(self) -> bool:
        """True when no process trains this run any more."""
        return self.state in ("finished", "stopped", "failed", "crashed")
