"""Stages of a run: which of them trains, and where each began."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from grpo_tui.core.exchange import rebuilt
from grpo_tui.core.records import SettingChanged
from grpo_tui.core.schedule import BY_RESUME

BY = "grpo_tui.stages"
FACT = "stage"
"""Key of a fact: the stage that trains, without its base config."""
SETTING = "stage"
"""Name under which the history records that a stage began."""
START = "lr_scheduler_start"
"""Setting that no config has: the step after which the schedule restarts. It ends with its stage."""
DONE = "stage done"
"""State of an attempt that completed its stage, so that the next stage follows."""


@dataclass(frozen=True, slots=True)
class StageNow:
    """The stage that trains, and the stages before it.

    Attributes:
        starts: Step after which each stage so far began. The last one trains.
        limit: Most steps of this stage.
        later: Most steps of all later stages.
        base: The run's config without the settings of a stage, as JSON.
        because: Why the stage before ended.
        references: Of each stage so far, the step of the checkpoint that its KL is measured from; 0 for the
            base model.
    """

    names: tuple[str, ...]
    starts: tuple[int, ...]
    limit: int
    later: int = 0
    base: dict[str, Any] = field(default_factory=dict)
    because: str = ""
    references: tuple[int, ...] = ()
    new_optimizer: bool = False

    @property
    def reference(self) -> int:
        """Step of the checkpoint that the KL is measured from; 0 for the base model."""
        return self.references[-1] if self.references else 0

    @property
    def place(self) -> int:
        """Position of the stage, from 0."""
        return len(self.starts) - 1

    @property
    def name(self) -> str:
        """Name of the stage."""
        return self.names[self.place]

    @property
    def start(self) -> int:
        """Step after which the stage began."""
        return self.starts[-1]

    @property
    def is_last(self) -> bool:
        """Whether no stage follows."""
        return self.place + 1 >= len(self.names)

    def to_fact(self) -> dict[str, Any]:
        """Return JSON data without the base config, which can contain tokens."""
        body = asdict(self)
        del body["base"]
        return body


def stage_start(changes: Sequence[SettingChanged]) -> int:
    """Return the step after which the newest stage began. Earlier rewards can have another meaning."""
    return next((change.step for change in reversed(changes) if change.name == SETTING), 0)


def one_per_stage(changes: Sequence[SettingChanged]) -> list[SettingChanged]:
    """Return changes without what a stage changed as it began, which the line of the stage names."""
    began = {(change.attempt, change.step) for change in changes if change.name == SETTING}
    return [
        change
        for change in changes
        if change.name == SETTING
        or change.by not in ("config", BY_RESUME)
        or (change.attempt, change.step) not in began
    ]


def stage_from(body: Any) -> StageNow | None:
    """Return a stage from JSON data, None if it is none."""
    if not isinstance(body, Mapping):
        return None
    try:
        now = rebuilt(StageNow, body)
    except ValueError:
        return None
    return now if 0 < len(now.starts) <= len(now.names) else None
