"""What a metric means: its key in TRL, what it measures, how it looks in a run that learns."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen

from grpo_tui.core.metrics import describe, is_computed
from grpo_tui.core.text import one_line, safe, wrapped
from grpo_tui.ui.opened import LeftOnce
from grpo_tui.ui.paint import Line, LineScroll, Span
from grpo_tui.ui.screens.dialogs import DialogTitle

DRAWN = (
    "The line is a bias-corrected exponential moving average, as f chooses: with a = 2 / (N + 1) over N "
    "values, s becomes (1 - a) s + a x, divided by 1 - (1 - a)^n after n values. The faint band holds the "
    "lowest and highest raw values; for the reward it is the mean ± the standard deviation inside a group."
)


class MeaningLines(LineScroll):
    """The words, wrapped."""

    def __init__(self, key: str) -> None:
        super().__init__()
        self._key = key

    def get_content_height(self, container: object, viewport: object, width: int) -> int:
        """As many as there are."""
        return len(self.lines(width))

    def lines(self, width: int) -> list[Line]:
        """Key, meaning, healthy shape, how it is drawn."""
        metric = describe(self._key)
        who = "Worked out here as" if is_computed(self._key) else "TRL's key"
        parts = [(who, one_line(self._key, 200)), ("means", metric.meaning), ("healthy", metric.healthy)]
        parts.append(("drawn", DRAWN))
        lines: list[Line] = []
        for word, text in parts:
            lines.append([Span(f" {word}", "dim")])
            role = "key" if text == one_line(self._key, 200) else "text"
            lines += [[Span(f"   {row}", role)] for row in wrapped(safe(text), max(10, width - 5))]
        return lines


class MeaningScreen(LeftOnce, ModalScreen[None]):
    """What a metric means, over the chart."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("escape", "close", "close"), ("enter", "close", "close"), ("q", "close", "close"),
        ("question_mark", "help", "all keys"), ("j", "down", "down"), ("k", "up", "up"),
    ]  # fmt: skip

    def __init__(self, key: str) -> None:
        super().__init__()
        self._key = key

    def compose(self) -> ComposeResult:
        """A title and the words."""
        with Vertical(classes="dialog -meaning"):
            yield DialogTitle(one_line(describe(self._key).title, 40), "? all keys   esc back")
            yield MeaningLines(self._key)

    def on_mount(self) -> None:
        """Ready to scroll."""
        self.query_one(MeaningLines).focus()

    def action_close(self) -> None:
        """Back to the chart."""
        self.dismiss(None)

    def action_help(self) -> None:
        """The general help instead."""
        from grpo_tui.ui.screens.help import HelpScreen

        self.app.switch_screen(HelpScreen())

    def action_down(self) -> None:
        """A line on."""
        self.query_one(MeaningLines).scroll_relative(y=1, animate=False)

    def action_up(self) -> None:
        """A line back."""
        self.query_one(MeaningLines).scroll_relative(y=-1, animate=False)
