"""The last line: the keys that matter here and now, clickable."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpo_tui.ui.actions import Listed, for_footer
from grpo_tui.ui.paint import Line, LinePane, Span, width_of

if TYPE_CHECKING:
    from grpo_tui.present.train_view import TrainView


class Footer(LinePane):
    """One line at the bottom of every pane."""

    def __init__(self, pane: str) -> None:
        super().__init__(classes="bar")
        self._pane = pane
        self.parts: tuple[str, ...] = ()
        """The lower part of Train that shows, and `large` when it has the whole pane."""
        self.focused = ""
        """`chart` while a chart of Train has the focus."""
        self._view: TrainView | None = None
        self._listed: Listed | None = None
        self._shown: tuple[str, ...] | None = None

    def show(self, view: TrainView | None, listed: Listed | None = None) -> None:
        """Name what can be done with this view, or with what the list of runs has."""
        self._view, self._listed = view, listed
        shown = tuple(a.id for a in for_footer(self._pane, view, listed, self._parts()))
        if shown != self._shown:
            self._shown = shown
            self.changed()

    def _parts(self) -> tuple[str, ...]:
        return (self.focused,) if self.focused else self.parts

    def lines(self, width: int, height: int) -> list[Line]:
        """As many keys as fit whole, the help and the way out always."""
        actions = for_footer(self._pane, self._view, self._listed, self._parts())
        parts = [[Span(f"{a.key_shown} ", "key", a.target), Span(a.label, "dim", a.target)] for a in actions]
        gap = "   " if width >= 100 else "  "
        typing = "typing" in self._parts()  # then the keys of everywhere are letters
        always = [] if typing else parts[-2:]
        kept = parts[:-2]
        while kept and sum(width_of(p) + len(gap) for p in [*kept, *always]) + 1 > width:
            kept.pop()
        line = [Span(" ")]
        for part in [*kept, *always]:
            line += [*part, Span(gap)]
        return [line]
