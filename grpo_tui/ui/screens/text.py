"""A text in full, wrapped and scrollable, over the pane: a long log line, a completion.

Knows a title and a text; the text may hold anything, control characters become visible.
"""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen

from grpo_tui.ui.opened import LeftOnce
from grpo_tui.ui.paint import Line, LineScroll, Span, wrapped
from grpo_tui.ui.screens.dialogs import DialogTitle
from grpo_tui.ui.shell import Shell


class WholeText(LineScroll):
    """The rows of a text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def lines(self, width: int) -> list[Line]:
        """Wrapped at the width."""
        return [[Span(" " + row)] for row in wrapped(self._text, max(2, width - 2))]


class TextScreen(LeftOnce, ModalScreen[None], Shell):
    """One text, to be read and copied."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("escape", "close", "close"), ("q", "close", "close"), ("enter", "close", "close"),
        ("j", "down", "down"), ("k", "up", "up"), ("y", "copy", "copy"),
    ]  # fmt: skip

    def __init__(self, title: str, text: str) -> None:
        super().__init__()
        self._title, self._text = title, text

    def compose(self) -> ComposeResult:
        """Title and rows."""
        with Vertical(classes="dialog -large"):
            yield DialogTitle(self._title, "y copy   esc back")
            yield WholeText(self._text)

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
