"""What the threads of the pane Config tell it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from textual.message import Message

if TYPE_CHECKING:
    from grpo_tui.present.config_evaluate import Evaluation


class ConfigEvaluated(Message):
    """A config was looked at; whole, so a newer one replaces it."""

    def __init__(self, evaluation: Evaluation) -> None:
        super().__init__()
        self.evaluation = evaluation

    def can_replace(self, message: Message) -> bool:
        """Only the newest is worth painting."""
        return isinstance(message, ConfigEvaluated)


class ConfigDone(Message):
    """Something that was asked is done; `kind` says what."""

    def __init__(self, kind: str, result: object) -> None:
        super().__init__()
        self.kind, self.result = kind, result


class ConfigFailed(Message):
    """Something that was asked could not be done; the text is for a person."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__()
        self.kind, self.text = kind, text


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
