"""Everything a worker tells the app or a pane, in one place."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from textual.message import Message

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from grpo_tui.core.commands import Command, Outcome
    from grpo_tui.preflight.checker import Checked
    from grpo_tui.preflight.facts import RowView
    from grpo_tui.preflight.gold_rewards import GoldReward
    from grpo_tui.preflight.report import Preflight
    from grpo_tui.present.big_chart import BigChartView
    from grpo_tui.present.config_evaluate import Evaluation, Snapshot
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
    from grpo_tui.rewards.scoring import Report


class Newest(Message):
    """A message that is whole: of a burst only the last is worth painting."""

    def can_replace(self, message: Message) -> bool:
        """Whether the one before is of the same kind."""
        return isinstance(message, type(self))


class RunAdvanced(Newest):
    """The open run was looked at; the view is whole, so a newer one replaces it."""

    def __init__(self, view: TrainView, source: object) -> None:
        super().__init__()
        self.view, self.source = view, source


class CommandEnded(Message):
    """A command that was sent from here got its outcome."""

    def __init__(self, command: Command, outcome: Outcome) -> None:
        super().__init__()
        self.command, self.outcome = command, outcome


class CommandLost(Message):
    """A command could not be written into the run folder."""

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__()
        self.kind, self.reason = kind, reason


class RunsListed(Newest):
    """The folders were looked through; the rows are whole, so a newer list replaces them."""

    def __init__(self, rows: tuple[RunRow, ...], complete: bool) -> None:
        super().__init__()
        self.rows, self.complete = rows, complete


class ConsentAsked(Message):
    """Code that is not the user's own would run; the app asks once.

    Args:
        codes: what would run.
        again: does what waits for the yes, in the app's thread.
        otherwise: does what is left after a no.
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
    """The checkpoints of an ended run were looked at."""

    def __init__(self, offer: ResumeOffer) -> None:
        super().__init__()
        self.offer = offer


class ResumeEnded(Message):
    """The command that resumes a run has answered."""

    def __init__(self, offer: ResumeOffer, started: bool, said: str) -> None:
        super().__init__()
        self.offer, self.started, self.said = offer, started, said


class WindowLoaded(Newest):
    """A part of a run, or of several, was read for a full-screen chart; None before anything was logged."""

    def __init__(self, view: BigChartView | None, options: object, trouble: str = "") -> None:
        super().__init__()
        self.view, self.options, self.trouble = view, options, trouble


class LabBusy(Message):
    """The lab does something; `function` is the one that runs, empty for none; `since` is monotonic."""

    def __init__(self, what: str, function: str, since: float) -> None:
        super().__init__()
        self.what, self.function, self.since = what, function, since


class LabIdle(Message):
    """What was asked is done, or has failed."""


class LabScored(Newest):
    """Samples were scored; whole, so a newer one replaces it."""

    def __init__(
        self, view: RewardsView, report: Report, samples: tuple[Sample, ...], origin: Origin
    ) -> None:
        super().__init__()
        self.view, self.report, self.samples, self.origin = view, report, samples, origin


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


class ConfigEvaluated(Newest):
    """A config was looked at; whole, so a newer one replaces it."""

    def __init__(self, evaluation: Evaluation) -> None:
        super().__init__()
        self.evaluation = evaluation


class CheckAt(Newest):
    """What the full check does now, in a line."""

    def __init__(self, line: str) -> None:
        super().__init__()
        self.line = line


class ConfigChecked(Message):
    """What the full check knows by now; `whole` when nothing more comes."""

    def __init__(self, snapshot: Snapshot, found: Preflight, *, whole: bool) -> None:
        super().__init__()
        self.snapshot, self.found, self.whole = snapshot, found, whole


class CheckFailed(Message):
    """The full check itself could not go on; the text is for the user."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text


class DiskChanged(Message):
    """The file of the open config was written by somebody else, or is gone."""

    def __init__(self, file: Path, *, gone: bool) -> None:
        super().__init__()
        self.file, self.gone = file, gone


class StartEnded(Message):
    """A run was started, or could not be; `said` is what the command said."""

    def __init__(self, folder: Path, started: bool, said: str) -> None:
        super().__init__()
        self.folder, self.started, self.said = folder, started, said


class TrialStage(Message):
    """A trial has come to another stage."""

    def __init__(self, stage: str) -> None:
        super().__init__()
        self.stage = stage


class TrialEnded(Message):
    """A trial trained, saved and came back, or did not; `said` is what the command said."""

    def __init__(self, came_back: bool, said: str) -> None:
        super().__init__()
        self.came_back, self.said = came_back, said


class DataBusy(Message):
    """Something is done that takes a moment; empty when nothing is."""

    def __init__(self, what: str) -> None:
        super().__init__()
        self.what = what


class DataKnown(Message):
    """Facts and findings as far as they are known."""

    def __init__(self, checked: Checked) -> None:
        super().__init__()
        self.checked = checked


class DataRow(Message):
    """A row."""

    def __init__(self, view: RowView) -> None:
        super().__init__()
        self.view = view


class DataMatches(Message):
    """The rows that hold some words."""

    def __init__(self, words: str, rows: tuple[int, ...]) -> None:
        super().__init__()
        self.words, self.rows = words, rows


class DataGold(Message):
    """What the rewards give for a row's right answer, or why that is not known; `codes` waits for a yes."""

    def __init__(
        self, number: int, golds: Sequence[GoldReward] | None, why: str, codes: tuple[Code, ...] = ()
    ) -> None:
        super().__init__()
        self.number, self.golds, self.why, self.codes = number, golds, why, codes


class DataTrouble(Message):
    """What was asked could not be done; the text is for the user, `codes` waits for a yes."""

    def __init__(self, text: str, codes: tuple[Code, ...] = ()) -> None:
        super().__init__()
        self.text, self.codes = text, codes


class ComparisonAt(Newest):
    """The comparison that runs does something else now."""


class ComparisonEnded(Message):
    """A comparison came to a result, or did not; `said` is the verdict or what was wrong."""

    def __init__(self, done: bool, said: str) -> None:
        super().__init__()
        self.done, self.said = done, said


class Forked(Message):
    """A run was forked into a folder, or was not; `said` is what the command said."""

    def __init__(self, folder: Path, started: bool, said: str) -> None:
        super().__init__()
        self.folder, self.started, self.said = folder, started, said


class ResultsRead(Newest):
    """What is kept of a run was read, or why it was not; `mark` is what it was read at."""

    def __init__(self, root: Path, results: Results | None, trouble: str, mark: object) -> None:
        super().__init__()
        self.root, self.results, self.trouble, self.mark = root, results, trouble, mark
