"""A text in full, wrapped and scrollable, over the pane: a long log line, a completion."""

from __future__ import annotations

from typing import ClassVar

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen

from grpo_tui.core.text import safe
from grpo_tui.core.text import wrapped as words_wrapped
from grpo_tui.ui.opened import LeftOnce
from grpo_tui.ui.paint import Line, LineScroll, Span, wrapped
from grpo_tui.ui.screens.dialogs import DialogTitle
from grpo_tui.ui.shell import Shell


class WholeText(LineScroll):
    """The rows of a text."""

    def __init__(self, text: str, *, prose: bool) -> None:
        super().__init__()
        self._text, self._prose = text, prose

    def lines(self, width: int) -> list[Line]:
        """Wrapped at the width, prose between words, all else at any character: it stays as it is."""
        room = max(2, width - 2)
        if not self._prose:
            return [[Span(" " + row)] for row in wrapped(self._text, room)]
        return [[Span(" " + row)] for line in safe(self._text).split("\n") for row in _by_words(line, room)]


def _by_words(line: str, room: int) -> list[str]:
    """A line that fits as it is; a longer one between its words, all rows as far in as the first."""
    if cell_len(line) <= room:
        return [line]
    indent = line[: min(len(line) - len(line.lstrip(" ")), room // 2)]
    return [indent + row for row in words_wrapped(line, room - len(indent))]


class TextScreen(LeftOnce, ModalScreen[None], Shell):
    """One text, to be read and copied."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("escape", "close", "close"), ("q", "close", "close"), ("enter", "close", "close"),
        ("j", "down", "down"), ("k", "up", "up"), ("y", "copy", "copy"),
    ]  # fmt: skip

    def __init__(self, title: str, text: str, *, prose: bool = False) -> None:
        super().__init__()
        self._title, self._text, self._prose = title, text, prose

    def compose(self) -> ComposeResult:
        """Title and rows."""
        with Vertical(classes="dialog -large"):
            yield DialogTitle(self._title, "y copy   esc back")
            yield WholeText(self._text, prose=self._prose)

    def on_mount(self) -> None:
        """Ready to scroll."""
        self.query_one(WholeText).focus()

    def action_close(self) -> None:
        """Back to the pane."""
        self.dismiss(None)

    def action_down(self) -> None:
        """A row on."""
        self.query_one(WholeText).scroll_relative(y=1, animate=False)

    def action_up(self) -> None:
        """A row back."""
        self.query_one(WholeText).scroll_relative(y=-1, animate=False)

    def action_copy(self) -> None:
        """Copy the whole text."""
        self.shell.copy(self._title, self._text)
