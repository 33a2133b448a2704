"""Messages from worker threads to the app and its panes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from textual.message import Message

if TYPE_CHECKING:
    from collections.abc import Callable

    from grpo_tui.core.commands import Command, Outcome
    from grpo_tui.present.config_view import OpenConfig
    from grpo_tui.present.runs_view import RunRow
    from grpo_tui.present.train_view import TrainView
    from grpo_tui.rewards.consent import Code


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
