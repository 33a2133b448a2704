"""The output of the training process, newest line at the bottom."""

from __future__ import annotations

from grpo_tui.present.formatting import clock
from grpo_tui.present.train_view import LogRow
from grpo_tui.ui.paint import Line, LineScroll, Span

_ROLES = {"error": "bad", "warning": "attention", "debug": "dim"}


class LogList(LineScroll):
    """Stays at the end unless a person scrolled up."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._rows: tuple[LogRow, ...] = ()

    def show(self, rows: tuple[LogRow, ...]) -> None:
        """Show these lines."""
        if rows == self._rows:
            return
        at_end = self.scroll_offset.y >= self.max_scroll_y - 1
        self._rows = rows
        self.changed()
        if at_end:
            self.scroll_end(animate=False)

    def lines(self, width: int) -> list[Line]:
        """A time and a text per line."""
        if not self._rows:
            return [[Span("  The process has printed nothing yet.", "dim")]]
        return [
            [Span(f" {clock(row.at)}  ", "dim"), Span(row.text, _ROLES.get(row.level, "text"))]
            for row in self._rows
        ]
