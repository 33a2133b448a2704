"""What the lab's thread tells the pane Rewards."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from textual.message import Message

if TYPE_CHECKING:
    from grpo_tui.present.rewards_view import RewardsView
    from grpo_tui.rewards.baseline import Baseline
    from grpo_tui.rewards.generating import Generated
    from grpo_tui.rewards.next_reward import Growth
    from grpo_tui.rewards.probes import ProbeReport
    from grpo_tui.rewards.samples import Sample
    from grpo_tui.rewards.scoring import Report
    from grpo_tui.rewards.sources import Origin


class LabBusy(Message):
    """The lab does something; `function` is the one that runs, empty for none; `since` is monotonic."""

    def __init__(self, what: str, function: str, since: float) -> None:
        super().__init__()
        self.what, self.function, self.since = what, function, since


class LabIdle(Message):
    """What was asked is done, or has failed."""


class LabScored(Message):
    """Samples were scored; whole, so a newer one replaces it."""

    def __init__(
        self, view: RewardsView, report: Report, samples: tuple[Sample, ...], origin: Origin
    ) -> None:
        super().__init__()
        self.view, self.report, self.samples, self.origin = view, report, samples, origin

    def can_replace(self, message: Message) -> bool:
        """Only the newest is worth painting."""
        return isinstance(message, LabScored)


class LabTrouble(Message):
    """The lab could not do what was asked; the text is for the user."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text


class ProbesDone(Message):
    """The probes were scored."""

    def __init__(self, report: ProbeReport) -> None:
        super().__init__()
        self.report = report


class GrowthSeen(Message):
    """The rewards were tried, to see which comes next; `section` is a config's with that one."""

    def __init__(self, seen: Growth, section: str) -> None:
        super().__init__()
        self.seen, self.section = seen, section


class RewardAdded(Message):
    """A reward stands in its file, and in the config's where one is named."""

    def __init__(self, file: Path, name: str, config: Path | None) -> None:
        super().__init__()
        self.file, self.name, self.config = file, name, config


class BaselineDone(Message):
    """The model has answered some rows."""

    def __init__(self, found: Baseline, generated: Generated) -> None:
        super().__init__()
        self.found, self.generated = found, generated


class CaseKept(Message):
    """A sample was kept as a case, or could not be for a reason."""

    def __init__(self, path: Path, name: str, trouble: str = "") -> None:
        super().__init__()
        self.path, self.name, self.trouble = path, name, trouble
