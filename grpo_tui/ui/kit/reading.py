"""Screens for reading: lines in a dialog over the pane, or over the whole screen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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


class ReadingLines(LineScroll):
    """The lines of a screen."""

    def __init__(self, make: Callable[[int], Sequence[Line]], *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._make = make

    def get_content_height(self, container: object, viewport: object, width: int) -> int:
        return len(self.lines(width))

    def lines(self, width: int) -> Sequence[Line]:
        return self._make(width)


class Reads(LeftOnce, Shell):
    """Mixin of a screen that shows `lines`."""

    body: ReadingLines

    def lines(self, width: int) -> Sequence[Line]:
        """Return all lines. `body.changed` shows those that differ from the last ones."""
        raise NotImplementedError

    def on_mount(self) -> None:
        self.body.focus()

    def action_close(self) -> None:
        self.dismiss(None)

    def action_scroll(self, by: int) -> None:
        self.body.scroll_relative(y=by, animate=False)


class ReadingScreen(Reads, ModalScreen[Any]):
    """Lines to read in a dialog over the pane. `keys` are key hints at the right of the title."""

    BINDINGS: ClassVar[list[BindingType]] = [
        SUSPEND, ("escape", "close", "close"), ("q", "close", "close"),
        ("j", "scroll(1)", "down"), ("k", "scroll(-1)", "up"),
    ]  # fmt: skip
    SHAPE: ClassVar[str] = "dialog -large"
    """CSS classes that set the size of the dialog."""

    def __init__(self, title: str, keys: str = "j k scroll   esc back") -> None:
        super().__init__()
        self._title, self._keys, self.body = title, keys, ReadingLines(self.lines)

    def compose(self) -> ComposeResult:
        with Vertical(classes=self.SHAPE):
            yield DialogTitle(self._title, self._keys)
            yield self.body


class FullReadingScreen(Reads, Screen[None]):
    """Lines to read over the whole screen, opened from pane `OVER`. `PANE` is its own in the action table."""

    PANE: ClassVar[str]
    OVER: ClassVar[str]

    def __init__(self) -> None:
        super().__init__()
        self.body = ReadingLines(self.lines, id=f"{self.PANE}-lines")

    def compose(self) -> ComposeResult:
        yield Header(self.OVER)
        yield self.body
        yield Footer(self.PANE)

    def on_mount(self) -> None:
        self.query_one(Header).show(self.shell.view)
        self.query_one(Footer).show(self.shell.view)
