"""What differs between a config and something else, line by line, over the pane."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen

from grpo_tui.core.text import one_line
from grpo_tui.present.formatting import plural
from grpo_tui.ui.opened import LeftOnce
from grpo_tui.ui.paint import Line, LineScroll, Span, ruled, wrapped
from grpo_tui.ui.screens.dialogs import DialogTitle

if TYPE_CHECKING:
    from grpo_tui.present.config_compare import Compared

ROLES = {"+": "good", "-": "bad", " ": "dim", "@": "rule"}


class DiffLines(LineScroll):
    """The lines, wrapped."""

    def __init__(self, compared: Compared) -> None:
        super().__init__()
        self._compared = compared

    def lines(self, width: int) -> list[Line]:
        """A sign and a line each."""
        compared = self._compared
        count = sum(sign in "+-" for sign, _ in compared.lines)
        if not count:
            return [[Span(" Nothing differs.", "strong")]]
        lines: list[Line] = [
            [Span(" - ", "bad"), Span(one_line(compared.theirs, 40), "text"),
             Span("   + ", "good"), Span(one_line(compared.mine, 30), "text"),
             Span(f"   {plural(count, 'line')}", "dim")]
        ]  # fmt: skip
        for sign, text in compared.lines:
            if sign == "@":
                lines.append(ruled([[Span(text, "dim")]], width))
                continue
            for number, row in enumerate(wrapped(text, max(8, width - 4))):
                lines.append([Span(f" {sign if number == 0 else ' '} ", ROLES[sign]), Span(row, ROLES[sign])])
        return lines


class DiffScreen(LeftOnce, ModalScreen[None]):
    """Two configs compared."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("escape", "close", "close"), ("q", "close", "close"), ("enter", "close", "close"),
        ("D", "close", "close"), ("j", "down", "down"), ("k", "up", "up"),
    ]  # fmt: skip

    def __init__(self, compared: Compared) -> None:
        super().__init__()
        self._compared = compared

    def compose(self) -> ComposeResult:
        """A title and the lines."""
        with Vertical(classes="dialog -large"):
            yield DialogTitle("differences", "j k scroll   esc back")
            yield DiffLines(self._compared)

    def on_mount(self) -> None:
        """Ready to scroll."""
        self.query_one(DiffLines).focus()

    def action_close(self) -> None:
        """Back to the form."""
        self.dismiss(None)

    def action_down(self) -> None:
        """A line on."""
        self.query_one(DiffLines).scroll_relative(y=1, animate=False)

    def action_up(self) -> None:
        """A line back."""
        self.query_one(DiffLines).scroll_relative(y=-1, animate=False)
