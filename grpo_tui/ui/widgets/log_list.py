"""The output of the training process, newest line at the bottom."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.events import Show

from grpo_tui.present.formatting import clock
from grpo_tui.present.train_view import LogRow
from grpo_tui.ui.paint import Line, LinePane, LineScroll, Span, ruled

_ROLES = {"error": "bad", "warning": "attention", "debug": "dim"}


class LogTitle(LinePane):
    """The ruled line over the log."""

    DEFAULT_CSS = "LogTitle { height: 1; }"

    def lines(self, width: int, height: int) -> list[Line]:
        """What the lines below are."""
        return [ruled([[Span("log", "title")], [Span("train.log, its last lines", "dim")]], width)]


class LogList(LineScroll):
    """Stays at the end unless a person scrolled up."""

    def __init__(self) -> None:
        super().__init__()
        self._rows: tuple[LogRow, ...] = ()
        self._follows = True

    def show(self, rows: tuple[LogRow, ...]) -> None:
        """Show these lines."""
        if rows == self._rows:
            return
        if self.size.height:
            self._follows = self.scroll_offset.y >= self.max_scroll_y - 1
        self._rows = rows
        self.changed()
        self._to_end()

    def on_show(self, event: Show) -> None:
        """A log that was hidden begins at its end."""
        self.changed()
        self._to_end()

    def _to_end(self) -> None:
        if self._follows:
            self.call_after_refresh(self.scroll_end, animate=False)

    def lines(self, width: int) -> list[Line]:
        """A time and a text per line."""
        if not self._rows:
            return [[Span("  The process has printed nothing yet.", "dim")]]
        return [
            [Span(f" {clock(row.at)}  ", "dim"), Span(row.text, _ROLES.get(row.level, "text"))]
            for row in self._rows
        ]


class LogSection(Vertical):
    """The log under its title."""

    def compose(self) -> ComposeResult:
        """Title and lines."""
        yield LogTitle()
        yield LogList()
