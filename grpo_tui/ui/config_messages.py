"""What the threads of the pane Config tell it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from textual.message import Message

if TYPE_CHECKING:
    from grpo_tui.preflight.report import Preflight
    from grpo_tui.present.config_evaluate import Evaluation, Snapshot


class ConfigEvaluated(Message):
    """A config was looked at; whole, so a newer one replaces it."""

    def __init__(self, evaluation: Evaluation) -> None:
        super().__init__()
        self.evaluation = evaluation

    def can_replace(self, message: Message) -> bool:
        """Only the newest is worth painting."""
        return isinstance(message, ConfigEvaluated)


class CheckAt(Message):
    """What the full check does now, in a line."""

    def __init__(self, line: str) -> None:
        super().__init__()
        self.line = line

    def can_replace(self, message: Message) -> bool:
        """Only the newest is worth painting."""
        return isinstance(message, CheckAt)


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
