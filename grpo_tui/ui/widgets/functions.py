"""The table of reward functions: what each gives, what it weighs, and how much of the spread it carries."""

from __future__ import annotations

from grpo_tui.core.text import told_apart
from grpo_tui.present.formatting import digits_for, percent, within
from grpo_tui.present.glyphs import spark
from grpo_tui.present.train_view import FunctionRow
from grpo_tui.ui.paint import Line, LinePane, Span, headed, pad

CURVE = 10
COLUMNS = (("weight", 7), ("mean", 7), ("share", 7))


class FunctionTable(LinePane):
    """One line per function under a heading."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._rows: tuple[FunctionRow, ...] = ()
        self._seen = False

    def show(self, rows: tuple[FunctionRow, ...], *, seen: bool) -> None:
        """Show these functions; `seen` is False while the run has not named any."""
        if rows != self._rows or seen != self._seen:
            taller = len(rows) != len(self._rows)
            self._rows, self._seen = rows, seen
            self.changed(layout=taller)

    def get_content_height(self, container: object, viewport: object, width: int) -> int:
        """A heading and a line per function."""
        return 1 + max(1, len(self._rows))

    def lines(self, width: int, height: int) -> list[Line]:
        """Heading and rows; what does not fit is counted."""
        curve = CURVE if width >= 52 else 0
        figures = sum(cells for _, cells in COLUMNS)
        name_width = max(8, width - 1 - figures - (curve + 2 if curve else 0) - 1)
        lines: list[Line] = [self._heading(width, name_width)]
        if not self._rows:
            waits = "The run has named no reward function." if self._seen else "Waiting for the run."
            return [*lines, [Span(f"  {waits}", "dim")]]
        digits = digits_for([row.mean for row in self._rows])
        room = max(1, height - 1)
        shown = self._rows if len(self._rows) <= room else self._rows[: room - 1]
        names = told_apart([row.name for row in self._rows], name_width)
        for row, name in zip(shown, names, strict=False):
            line = [
                Span(" " + pad(name, name_width)),
                Span(pad(_weight(row.weight), 7, right=True), "dim"),
                Span(pad(within(row.mean, 6, max(2, digits)), 7, right=True), "strong"),
                Span(pad(percent(row.share), 7, right=True)),
            ]
            if curve:
                line.append(Span("  " + pad(spark(row.trend, curve), curve), "line"))
            lines.append(line)
        if len(shown) < len(self._rows):
            lines.append([Span(f"  and {len(self._rows) - len(shown)} more", "dim")])
        return lines

    def _heading(self, width: int, name_width: int) -> Line:
        """A ruled title whose column names stand over their columns."""
        title = "rewards by function" if name_width >= 21 else "rewards"
        words = [(2, title, "title")]
        edge = 1 + name_width
        for name, cells in COLUMNS:
            edge += cells
            words.append((edge - len(name), name, "dim"))
        return headed(words, width)


def _weight(weight: float) -> str:
    """Three figures that count, one decimal at least: 2.0, 0.5, 0.333, 12.8."""
    return within(weight, 6, 1) if weight % 1 == 0 or abs(weight) >= 1000 else f"{weight:.3g}"
