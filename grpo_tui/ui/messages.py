"""Messages from worker threads to the app and its panes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from textual.message import Message

if TYPE_CHECKING:
    from collections.abc import Callable

    from grpo_tui.core.commands import Command, Outcome
    from grpo_tui.present.config_view import OpenConfig
    from grpo_tui.present.rewards_view import RewardsView
    from grpo_tui.present.runs_view import RunRow
    from grpo_tui.present.train_view import TrainView
    from grpo_tui.rewards.baseline import Baseline
    from grpo_tui.rewards.consent import Code
    from grpo_tui.rewards.generating import Generated
    from grpo_tui.rewards.next_reward import Growth
    from grpo_tui.rewards.probes import ProbeReport
    from grpo_tui.rewards.sample_sources import Origin
    from grpo_tui.rewards.samples import Sample


class Newest(Message):
    """A message with complete state. Of several in the queue only the last is handled."""

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, type(self))


class RunAdvanced(Newest):
    """A new view of the open run."""

    def __init__(self, view: TrainView, source: object) -> None:
        super().__init__()
        self.view, self.source = view, source


class CommandEnded(Message):
    """A command sent from here has an outcome."""

    def __init__(self, command: Command, outcome: Outcome) -> None:
        super().__init__()
        self.command, self.outcome = command, outcome


class CommandLost(Message):
    """A command could not be written to the run folder."""

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__()
        self.kind, self.reason = kind, reason


class RunsListed(Newest):
    """The runs found so far; `complete` once all folders were read."""

    def __init__(self, rows: tuple[RunRow, ...], complete: bool) -> None:
        super().__init__()
        self.rows, self.complete = rows, complete


class ConsentAsked(Message):
    """Code that is not the user's own is about to run. The app asks once.

    In the app's thread, `again` is called after a yes to retry, and `otherwise` after a no.
    """

    def __init__(
        self,
        codes: tuple[Code, ...],
        again: Callable[[], object],
        otherwise: Callable[[], object] = lambda: None,
    ) -> None:
        super().__init__()
        self.codes, self.again, self.otherwise = codes, again, otherwise


class LabBusy(Message):
    """The lab is working. `function` is the running reward, if any; `since` is monotonic time."""

    def __init__(self, what: str, function: str, since: float) -> None:
        super().__init__()
        self.what, self.function, self.since = what, function, since


class LabIdle(Message):
    """The lab has finished or failed its last job."""


class LabScored(Newest):
    """A report on the scored samples."""

    def __init__(self, view: RewardsView, samples: tuple[Sample, ...], origin: Origin) -> None:
        super().__init__()
        self.view, self.samples, self.origin = view, samples, origin


class LabTrouble(Message):
    """The lab failed. The text is shown to the user."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text


class ProbesDone(Message):
    """The reward probes were scored."""

    def __init__(self, report: ProbeReport) -> None:
        super().__init__()
        self.report = report


class GrowthSeen(Message):
    """The next reward to add, from a test of the current ones. `section` is the config section with it."""

    def __init__(self, seen: Growth, section: str) -> None:
        super().__init__()
        self.seen, self.section = seen, section


class RewardAdded(Message):
    """A reward was added to its file, and to `config` if that is not None."""

    def __init__(self, file: Path, name: str, config: Path | None) -> None:
        super().__init__()
        self.file, self.name, self.config = file, name, config


class BaselineDone(Message):
    """The baseline is measured."""

    def __init__(self, found: Baseline, generated: Generated) -> None:
        super().__init__()
        self.found, self.generated = found, generated


class CaseKept(Message):
    """A sample was saved as a case, unless `trouble` says why not."""

    def __init__(self, path: Path, name: str, trouble: str = "") -> None:
        super().__init__()
        self.path, self.name, self.trouble = path, name, trouble


class ConfigEvaluated(Newest):
    """An evaluated config."""

    def __init__(self, state: OpenConfig) -> None:
        super().__init__()
        self.state = state


class DiskChanged(Message):
    """Another program wrote or deleted the file of the open config."""

    def __init__(self, file: Path, *, gone: bool) -> None:
        super().__init__()
        self.file, self.gone = file, gone
