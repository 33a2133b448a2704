"""Screens for reading: lines in a dialog over the pane, or over the whole screen."""

from __future__ import annotations

from typing import Any, ClassVar

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen, Screen

from grpo_tui.core.text import shorten
from grpo_tui.ui.paint import Line, LinePane, LineScroll, Span, ruled
from grpo_tui.ui.shell import Shell
from grpo_tui.ui.textual_private import LeftOnce
from grpo_tui.ui.widgets.bars import Footer, Header

SUSPEND = Binding("ctrl+z", "app.app_suspend", "Suspend to the shell", show=False)
"""For dialogs, in which the app's own keys do nothing."""
LEAST_TITLE = 8
"""Cells of a dialog's title that are always shown, even at the expense of its keys."""


class DialogTitle(LinePane):
    """The ruled first line of a dialog."""

    def __init__(self, title: str, keys: str) -> None:
        super().__init__()
        self._title, self._keys = title, keys

    def lines(self, width: int, height: int) -> list[Line]:
        title = shorten(self._title, max(LEAST_TITLE, width - cell_len(self._keys) - 6))
        return [ruled([[Span(title, "title")]], width, [Span(self._keys, "dim")])]


class ReadingScreen(LeftOnce, ModalScreen[Any], Shell):
    """Lines to read in a dialog over the pane.

    `keys` are key hints at the right of the title, `shape` is a CSS class that sets the dialog's size.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        SUSPEND, ("escape", "close", "close"), ("q", "close", "close"),
        ("j", "scroll(1)", "down"), ("k", "scroll(-1)", "up"),
    ]  # fmt: skip

    def __init__(
        self, title: str, lines: LineScroll, keys: str = "j k scroll   esc back", shape: str = "-large"
    ) -> None:
        super().__init__()
        self._title, self._lines, self._keys, self._shape = title, lines, keys, shape

    def compose(self) -> ComposeResult:
        with Vertical(classes=f"dialog {self._shape}"):
            yield DialogTitle(self._title, self._keys)
            yield self._lines

    def on_mount(self) -> None:
        self._lines.focus()

    def action_close(self) -> None:
        self.dismiss(None)

    def action_scroll(self, by: int) -> None:
        self._lines.scroll_relative(y=by, animate=False)


class FullReadingScreen(LeftOnce, Screen[None], Shell):
    """Lines to read over the whole screen, opened from pane `over`. `PANE` is its own in the action table."""

    PANE: ClassVar[str]

    def __init__(self, over: str, lines: LineScroll) -> None:
        super().__init__()
        self._over, self._lines = over, lines

    def compose(self) -> ComposeResult:
        yield Header(self._over)
        yield self._lines
        yield Footer(self.PANE)

    def on_mount(self) -> None:
        self.query_one(Header).show(self.shell.view)
        self.query_one(Footer).show(self.shell.view)
        self._lines.focus()

    def action_close(self) -> None:
        self.dismiss(None)

    def action_scroll(self, by: int) -> None:
        self._lines.scroll_relative(y=by, animate=False)
