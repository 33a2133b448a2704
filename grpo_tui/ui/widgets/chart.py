"""One metric over the steps.

Drawn with `present.plot` instead of a plotting widget. Existing widgets cannot draw a faint band under a line
or marks on the axis, bind `r`, `+` and the arrows to zooming, have no ASCII mode, and import numpy before the
first paint.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from grpo_tui.present.plot import Cell, Sketch, above_zero, plot
from grpo_tui.present.train_view import ChartView
from grpo_tui.ui.paint import Line, LinePane, Span, ruled

EDGE = 1
"""Cells left free at the right, where the label of the last step may extend."""


def plot_lines(rows: Sequence[Sequence[Cell]]) -> list[Line]:
    """Return one line per row, merging neighboring cells of the same role into one span."""
    return [
        [Span("".join(char for char, _ in run), role) for role, run in groupby(row, key=lambda c: c[1])]
        for row in rows
    ]


class Chart(LinePane, can_focus=True):
    """A title line with the newest value and the plot below. Clicking the title enlarges it."""

    DEFAULT_CSS = "Chart { height: 1fr; }"

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._chart: ChartView | None = None
        self._title, self._waits = "", ""
        self._logarithmic = False
        self._sketch = Sketch()

    def show(
        self, chart: ChartView | None, *, logarithmic: bool = False, title: str = "", waits: str = ""
    ) -> None:
        """Show a metric. Without one, show its future title and what it is waiting for."""
        shown = (self._chart, self._logarithmic, self._title, self._waits)
        if (chart, logarithmic, title, waits) != shown:
            self._chart, self._logarithmic, self._title, self._waits = chart, logarithmic, title, waits
            self.changed()

    @property
    def key(self) -> str | None:
        """TRL's key of the metric; None before there is one."""
        return self._chart.key if self._chart is not None else None

    @property
    def newest(self) -> str:
        """The newest value as text; empty before there is one."""
        return self._chart.value if self._chart is not None else ""

    def watch_has_focus(self, focused: bool) -> None:
        super().watch_has_focus(focused)
        self.changed()

    def lines(self, width: int, height: int) -> list[Line]:
        chart = self._chart
        if chart is None:
            title = ruled([[Span(self._title, "title")]], width) if self._title else ()
            return [title, [Span(f"  {self._waits}", "dim")]]
        return [self._heading(chart, width), *self._plot(chart, width, height - 1)]

    def _heading(self, chart: ChartView, width: int) -> Line:
        right = [Span(chart.value, "strong")]
        if chart.change is not None and chart.change_text.strip("0.") and not chart.note_short:
            sign = "▲" if chart.change > 0 else "▼"
            # Only for the reward is up known to be good.
            good = "good" if chart.change > 0 else "bad"
            told = chart.key == "reward" and chart.moves
            right.append(Span(f" {sign} {chart.change_text}", good if told else "dim"))
        if self._logarithmic:
            right.append(Span("   log" if above_zero(chart) else "   linear: not all above 0", "dim"))
        elif chart.note:
            note = chart.note if len(chart.title) + len(chart.note) + 20 < width else chart.note_short
            right.append(Span(f"   {note}", "dim"))
        place = (self.id or "").rpartition("-")[2]
        enlarge = f"screen.chart_enlarge({place})" if place.isdigit() else ""
        title = [Span(chart.title, "title", enlarge)]
        if self.has_focus:
            title = [Span("▸ ", "key"), Span(chart.title, "key", enlarge)]
        return ruled([title], width, right)

    def _plot(self, chart: ChartView, width: int, height: int) -> list[Line]:
        if not any(bucket.smooth is not None for bucket in chart.buckets):
            return [[Span(f"  {self._waits or 'only missing values so far'}", "dim")]]
        braille = not getattr(self.app, "ascii_only", False)
        rows = plot(
            chart,
            width - EDGE,
            height,
            braille=braille,
            logarithmic=self._logarithmic,
            sketch=self._sketch,
        )
        return plot_lines(rows)
