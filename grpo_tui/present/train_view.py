"""One moment of a run as the Train pane shows it: frozen values and texts, without widgets.

Text from a model, a dataset, a log or an exception is already safe to show here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from grpo_tui.core.findings import Finding

if TYPE_CHECKING:
    from grpo_tui.present.before_after import BeforeAfter
    from grpo_tui.present.hardware_view import HardwareView, RankRow
    from grpo_tui.store.read_series import SeriesBucket
    from grpo_tui.store.reader import StoredGroup

Span = tuple[str, str]
"""Text and its color role: `text dim strong accent good bad attention`."""


UNREAD = "Nothing to show: the run cannot be read."
MARKS = {"checkpoint": "◆", "setting": "▴", "resume": "↻"}


@dataclass(frozen=True, slots=True)
class ChartView:
    """One metric, ready to draw."""

    key: str
    title: str
    value: str
    change: float | None = None
    change_text: str = ""
    moves: bool = True
    """Whether the change exceeds the noise between steps."""
    note: str = ""
    note_short: str = ""
    buckets: tuple[SeriesBucket, ...] = ()
    band: tuple[tuple[float, float] | None, ...] = ()
    """By bucket, mean ± group std; empty when the raw values form the band."""
    raw: bool = True
    """Whether, without a band, the range of raw values is drawn behind the line."""
    marks: tuple[tuple[int, str], ...] = ()
    """Step and kind of the events on the axis."""
    end: int = 0
    """Last step of the axis, beyond the newest value in a live run."""


@dataclass(frozen=True, slots=True)
class FunctionRow:
    """One reward function."""

    name: str
    weight: float
    mean: float | None
    share: float | None
    """Contribution to the total's variance within groups."""
    trend: tuple[float | None, ...] = ()
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class EventRow:
    """An event of the run. Lists of them have the newest first."""

    at: float
    step: int | None
    sign: str
    role: str
    text: str


@dataclass(frozen=True, slots=True)
class ReplayView:
    """The replay that shows the run: its last step, its speed, and whether it plays."""

    last_step: int
    speed: float
    playing: bool


@dataclass(frozen=True, slots=True)
class TrainView:
    """Everything the Train pane shows at one moment."""

    name: str
    folder: str
    now: float
    state: str = "starting"
    live: bool = False
    step: int = 0
    total_steps: int | None = None
    stage: str = ""
    """The stage that trains, such as `stage 1 of 2: format`; empty for a run without stages."""
    stage_start: int = 0
    """Step after which the newest stage with a reward began."""
    step_time_s: float | None = None
    tokens_per_s: float | None = None
    """Prompt and completion tokens of all ranks per second of step time, over the newest steps."""
    eta_s: float | None = None
    phase: str = "load"
    phase_since: float | None = None
    reward_function: str | None = None
    phase_shares: tuple[tuple[str, float], ...] = ()
    ranks: tuple[RankRow, ...] = ()
    hardware: HardwareView | None = None
    """The machine; None when it is not sampled."""
    reward: float | None = None
    reward_change: float | None = None
    reward_moves: bool = True
    """Whether the change exceeds the noise between steps."""
    spread: float | None = None
    flat_share: float | None = None
    masked_share: float | None = None
    """Fraction of the newest step's completions that the loss leaves out."""
    flat_top: float | None = None
    """Fraction of the newest step's groups that are flat at the run's highest total."""
    flat_bottom: float | None = None
    health: tuple[Span, ...] = ()
    charts: tuple[ChartView, ...] = ()
    functions: tuple[FunctionRow, ...] = ()
    groups: tuple[StoredGroup, ...] = ()
    events: tuple[EventRow, ...] = ()
    alerts: tuple[EventRow, ...] = ()
    findings: tuple[Finding, ...] = ()
    before_after: BeforeAfter | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Current values of the settings that the user can change, by name."""
    config: Mapping[str, Any] = field(default_factory=dict)
    """TRL's keys of the recorded config."""
    newest_prompt: Any = None
    metric_rows: int = 0
    way_on: str = ""
    """How to start the ended run again, as a sentence; empty while it is live."""
    model_at: str = ""
    """Folder of the trained model, once the run has finished and saved it."""
    trouble: str = ""
    whole: bool = True
    """False while recorded metrics or groups are still to be read."""
    replay: ReplayView | None = None
    """The replay that shows the run as it was; None for the present."""

    @property
    def phase_s(self) -> float | None:
        """Seconds spent in the current phase."""
        return None if self.phase_since is None else max(0.0, self.now - self.phase_since)

    @property
    def settable(self) -> Mapping[str, Any]:
        """Current values of all settings that can change during the run, by name.

        The first call takes a tenth of a second, because TRL's defaults are read from its source.
        """
        from grpo_tui.config.live_settings import initial_values

        return initial_values(self.config) | dict(self.settings)

    @property
    def progress(self) -> float | None:
        """Fraction of the planned steps that is done; None when unknown."""
        return min(1.0, self.step / self.total_steps) if self.total_steps else None

    @property
    def no_groups(self) -> str:
        """Text to show when there is no group."""
        if self.trouble:
            return UNREAD
        return "No completion was recorded." if self.ended else "Waiting for the first generation."

    @property
    def no_functions(self) -> str:
        """Text to show when there is no reward function."""
        if self.trouble:
            return UNREAD
        known = self.ended or self.metric_rows > 0
        return "No reward function was recorded." if known else "Reward functions appear with the first step."

    @property
    def no_events(self) -> str:
        """Text to show when there is no event."""
        if self.trouble:
            return UNREAD
        if self.ended:
            return "No command, checkpoint or changed setting was recorded."
        return "Commands, checkpoints and changed settings will show here."

    @property
    def ended(self) -> bool:
        """Whether the run is over."""
        return self.state in ("finished", "stopped", "failed", "crashed")
