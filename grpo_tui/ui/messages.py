"""Everything a worker tells the app, in one place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.message import Message

if TYPE_CHECKING:
    from collections.abc import Callable

    from grpo_tui.core.commands import Command, Outcome
    from grpo_tui.present.big_chart import BigChartView
    from grpo_tui.present.resume_offer import ResumeOffer
    from grpo_tui.present.runs_view import RunRow
    from grpo_tui.present.train_view import TrainView
    from grpo_tui.rewards.consent import Code


class RunAdvanced(Message):
    """The open run was looked at; the view is whole, so a newer one replaces it."""

    def __init__(self, view: TrainView, source: object) -> None:
        super().__init__()
        self.view, self.source = view, source

    def can_replace(self, message: Message) -> bool:
        """A burst of looks collapses to the last one."""
        return isinstance(message, RunAdvanced)


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


class RunsListed(Message):
    """The folders were looked through; the rows are whole, so a newer list replaces them."""

    def __init__(self, rows: tuple[RunRow, ...], complete: bool) -> None:
        super().__init__()
        self.rows, self.complete = rows, complete

    def can_replace(self, message: Message) -> bool:
        """A burst of lists collapses to the last one."""
        return isinstance(message, RunsListed)


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


class WindowLoaded(Message):
    """A part of a run, or of several, was read for a full-screen chart; None before anything was logged."""

    def __init__(self, view: BigChartView | None, wish: object, trouble: str = "") -> None:
        super().__init__()
        self.view, self.wish, self.trouble = view, wish, trouble

    def can_replace(self, message: Message) -> bool:
        """Only the newest is worth painting."""
        return isinstance(message, WindowLoaded)
