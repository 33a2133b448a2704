"""Asks once before a run is resumed: from which checkpoint, and what is done again."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen

from grpo_tui.core.text import wrapped
from grpo_tui.present.formatting import from_here
from grpo_tui.present.runs_view import ResumeOffer, resume_command
from grpo_tui.ui.opened import LeftOnce
from grpo_tui.ui.paint import Line, LinePane, Span
from grpo_tui.ui.screens.dialogs import CLOSE, DialogText, DialogTitle


class OfferText(LinePane):
    """The sentences of the offer, wrapped at the dialog's width."""

    def __init__(self, offer: ResumeOffer) -> None:
        super().__init__()
        self._offer = offer

    def get_content_height(self, container: object, viewport: object, width: int) -> int:
        """As many lines as the sentences take."""
        return len(self.lines(width, 0))

    def lines(self, width: int, height: int) -> list[Line]:
        """The first sentence strong, the others quiet, and the command that does the same."""
        lines: list[Line] = []
        for number, sentence in enumerate(self._offer.lines):
            role = "dim" if number else "strong"
            lines += [[Span(f" {row}", role)] for row in wrapped(sentence, width - 2)]
        return [*lines, (), [Span(f" {resume_command(from_here(self._offer.path))}", "dim")], ()]


class ResumeDialog(LeftOnce, ModalScreen[bool]):
    """Resume this run?"""

    BINDINGS: ClassVar[list[BindingType]] = [*CLOSE, ("n", "close", "no"), ("y", "yes", "yes")]

    def __init__(self, offer: ResumeOffer) -> None:
        super().__init__()
        self._offer = offer

    def compose(self) -> ComposeResult:
        """The question and its two answers."""
        with Vertical(classes="dialog"):
            yield DialogTitle(f"resume {self._offer.name}?", "y yes   n no")
            yield OfferText(self._offer)
            yield DialogText(
                [
                    [
                        Span(" y", "key", "screen.yes"), Span(" resume", "attention", "screen.yes"),
                        Span("    n", "key", "screen.close"), Span(" leave it", "text", "screen.close"),
                    ]
                ]
            )  # fmt: skip

    def action_close(self) -> None:
        """No."""
        self.dismiss(False)

    def action_yes(self) -> None:
        """Yes."""
        self.dismiss(True)
