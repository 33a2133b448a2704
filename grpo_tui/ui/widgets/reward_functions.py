"""The functions of the pane Rewards: weight, share, scores in small; their weights are moved here."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import BindingType
from textual.events import Blur, Focus
from textual.message import Message

from grpo_tui.core.text import one_line
from grpo_tui.present.formatting import compact, percent
from grpo_tui.ui.paint import Line, Span, headed, pad, width_of
from grpo_tui.ui.rows import MOVES, CursorList

if TYPE_CHECKING:
    from grpo_tui.present.rewards_view import FunctionColumn, RewardsView

NAME_W = 22


class FunctionRows(CursorList, inherit_bindings=False):
    """A row for each function under a heading."""

    BINDINGS: ClassVar[list[BindingType]] = MOVES

    class Chosen(Message):
        """Another function is chosen."""

    class Turned(Message):
        """The focus came or went: the keys mean other things."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._view: RewardsView | None = None

    @property
    def count(self) -> int:
        """The heading and the functions; the cursor stays below the heading."""
        return 1 + len(self._view.columns) if self._view is not None else 0

    @property
    def chosen(self) -> int:
        """The function under the cursor."""
        return max(0, self.cursor - 1)

    def show(self, view: RewardsView | None) -> None:
        """Show these functions."""
        self._view = view
        self.cursor = min(max(1, self.cursor), max(1, self.count - 1))
        self.styles.height = max(1, min(self.count, 7))
        self.changed()

    def choose(self, k: int) -> None:
        """Choose a function."""
        self.put(k + 1)

    def put(self, place: int) -> None:
        """Never onto the heading."""
        super().put(max(1, place))

    def moved(self) -> None:
        """Say so."""
        self.post_message(self.Chosen())

    def action_open(self) -> None:
        """A second click opens the source."""
        self.screen.run_worker(self.run_action("screen.rewards_source"))

    def on_focus(self, event: Focus) -> None:
        """The keys move weights now."""
        self.post_message(self.Turned())

    def on_blur(self, event: Blur) -> None:
        """The keys are those of the samples again."""
        self.post_message(self.Turned())

    def lines(self, width: int) -> list[Line]:
        """The heading, then one line a function."""
        view = self._view
        if view is None:
            return []
        return [self._heading(width), *(self._row(k, c, width) for k, c in enumerate(view.columns))]

    def _heading(self, width: int) -> Line:
        title = "weights" if self.has_focus else "functions"
        words = [(2, title, "title"), (NAME_W + 4, "weight", "dim"), (NAME_W + 13, "share", "dim")]
        words += [(NAME_W + 21, "scored", "dim"), (NAME_W + 30, "scores", "dim")]
        if width >= 100:
            words += [(NAME_W + 54, "time", "dim"), (NAME_W + 62, "goes with", "dim")]
        return headed(words, width)

    def _row(self, k: int, column: FunctionColumn, width: int) -> Line:
        here = k == self.chosen
        tail = " selected" if here and self.has_focus else ""
        weight = "off" if column.muted else f"{column.weight:g}"
        line = [
            Span("❙ " if here else "  ", "accent" + tail),
            Span(pad(column.name, NAME_W), ("dim" if column.muted else "strong") + tail),
            Span(pad(weight, 8, right=True), ("attention" if column.muted else "text") + tail),
        ]
        if column.failure:
            room = max(8, width - NAME_W - 16)
            return [*line, Span("   ✗ " + pad(one_line(column.failure, room), room), "bad" + tail)]
        share = "–" if column.muted or column.share is None else percent(column.share)
        line += [
            Span(pad(share, 9, right=True), "text" + tail),
            Span(pad(percent(column.coverage), 9, right=True),
                 ("text" if column.coverage == 1 else "attention") + tail),
            Span("   " + pad(_range(column), 24), "text" + tail),
        ]  # fmt: skip
        if width >= 100:
            like = f"{one_line(column.like[0], 20)} {column.like[1]:+.2f}" if column.like else ""
            line += [
                Span(pad(_time(column.seconds), 6, right=True), "dim" + tail),
                Span("   " + pad(like, max(1, width - NAME_W - 64)), "dim" + tail),
            ]
        return [*line, Span(" " * max(0, width - width_of(line)), "text" + tail)]


def _range(column: FunctionColumn) -> str:
    """Lowest score, histogram, highest score."""
    if column.low is None:
        return "none"
    if column.low == column.high:
        return f"{compact(column.low)} always"
    return f"{compact(column.low)} {column.histogram} {compact(column.high)}"


def _time(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"
