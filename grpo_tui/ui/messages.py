"""Messages from worker threads to the app and its panes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from textual.message import Message

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from grpo_tui.core.commands import Command, Outcome
    from grpo_tui.preflight.checker import Checked
    from grpo_tui.preflight.facts import RowView
    from grpo_tui.preflight.report import Preflight
    from grpo_tui.preflight.rewards import GoldReward
    from grpo_tui.present.big_chart import BigChartView
    from grpo_tui.present.config_view import OpenConfig, Snapshot
    from grpo_tui.present.results_view import Results
    from grpo_tui.present.rewards_view import RewardsView
    from grpo_tui.present.runs_view import ResumeOffer, RunRow
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


class ResumeOffered(Message):
    """The checkpoints an ended run can be resumed from."""

    def __init__(self, offer: ResumeOffer) -> None:
        super().__init__()
        self.offer = offer


class ResumeEnded(Message):
    """The command that resumes a run has returned."""

    def __init__(self, offer: ResumeOffer, started: bool, said: str) -> None:
        super().__init__()
        self.offer, self.started, self.said = offer, started, said


class WindowLoaded(Newest):
    """Data for a full-screen chart. `view` is None before anything is logged."""

    def __init__(self, view: BigChartView | None, options: object, trouble: str = "") -> None:
        super().__init__()
        self.view, self.options, self.trouble = view, options, trouble


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


class CheckAt(Newest):
    """Progress of the full check, as one line."""

    def __init__(self, line: str) -> None:
        super().__init__()
        self.line = line


class ConfigChecked(Message):
    """Results of the full check so far; `whole` when it is complete."""

    def __init__(self, snapshot: Snapshot, found: Preflight, *, whole: bool) -> None:
        super().__init__()
        self.snapshot, self.found, self.whole = snapshot, found, whole


class CheckFailed(Message):
    """The full check itself failed. The text is shown to the user."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text


class DiskChanged(Message):
    """Another program wrote or deleted the file of the open config."""

    def __init__(self, file: Path, *, gone: bool) -> None:
        super().__init__()
        self.file, self.gone = file, gone


class StartEnded(Message):
    """A run was started or failed to start. `said` is the command's output."""

    def __init__(self, folder: Path, started: bool, said: str) -> None:
        super().__init__()
        self.folder, self.started, self.said = folder, started, said


class TrialStage(Message):
    """A trial has reached another stage."""

    def __init__(self, stage: str) -> None:
        super().__init__()
        self.stage = stage


class TrialEnded(Message):
    """A trial has ended. `came_back`: it ran to its end. `said` is the command's output."""

    def __init__(self, came_back: bool, said: str) -> None:
        super().__init__()
        self.came_back, self.said = came_back, said


class DataBusy(Message):
    """The data view is doing something slow; empty when it is done."""

    def __init__(self, what: str) -> None:
        super().__init__()
        self.what = what


class DataKnown(Message):
    """Facts and findings about the data so far."""

    def __init__(self, checked: Checked) -> None:
        super().__init__()
        self.checked = checked


class DataRow(Message):
    """A row of the dataset."""

    def __init__(self, view: RowView) -> None:
        super().__init__()
        self.view = view


class DataMatches(Message):
    """The rows that contain the words."""

    def __init__(self, words: str, rows: tuple[int, ...]) -> None:
        super().__init__()
        self.words, self.rows = words, rows


class DataGold(Message):
    """Rewards for a row's reference answer, or why there are none. `codes` needs the user's consent first."""

    def __init__(
        self, number: int, golds: Sequence[GoldReward] | None, why: str, codes: tuple[Code, ...] = ()
    ) -> None:
        super().__init__()
        self.number, self.golds, self.why, self.codes = number, golds, why, codes


class DataTrouble(Message):
    """A request failed. The text is shown to the user; `codes` needs the user's consent first."""

    def __init__(self, text: str, codes: tuple[Code, ...] = ()) -> None:
        super().__init__()
        self.text, self.codes = text, codes


class ComparisonAt(Newest):
    """The running comparison has reached another stage."""


class ComparisonEnded(Message):
    """A comparison has ended. `said` is the verdict, or what went wrong."""

    def __init__(self, done: bool, said: str) -> None:
        super().__init__()
        self.done, self.said = done, said


class Forked(Message):
    """A fork was started or failed to start. `said` is the command's output."""

    def __init__(self, folder: Path, started: bool, said: str) -> None:
        super().__init__()
        self.folder, self.started, self.said = folder, started, said


class ResultsRead(Newest):
    """Stored results of a run, or why they cannot be read. `mark` is the state they were read at."""

    def __init__(self, root: Path, results: Results | None, trouble: str, mark: object) -> None:
        super().__init__()
        self.root, self.results, self.trouble, self.mark = root, results, trouble, mark
