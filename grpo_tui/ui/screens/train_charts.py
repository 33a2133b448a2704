"""The charts of Train: which metric stands in which place, turning them, choosing them, enlarging one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from textual.events import DescendantFocus

from grpo_tui.present.train_view import ChartView, TrainView
from grpo_tui.ui.shell import Shell
from grpo_tui.ui.widgets.chart import Chart
from grpo_tui.ui.widgets.footer import Footer

if TYPE_CHECKING:
    from textual.screen import Screen

CHARTS = 5
"""Most charts that any size shows; the stylesheet hides those without room."""
FIRST_KEYS = ("reward", "completions/mean_length", "entropy")
"""Charts that every run will have, before its first step."""


class ChartSlots(Shell):
    """What a screen with small charts can do; mixed into it."""

    _offset = 0

    @property
    def _owner(self) -> Screen[Any]:
        return cast("Screen[Any]", self)

    def charts_shown(self) -> TrainView | None:
        """The view that the charts show now."""
        return self.shell.view

    def show_charts(self, view: TrainView, waits: str) -> None:
        """Show the charts of a view; before the first step, their titles and what is waited for."""
        visible = self._visible_charts()
        if not view.charts:
            from grpo_tui.present.big_chart import title_of

            for place, widget in enumerate(visible):
                title = title_of(FIRST_KEYS[place]) if place < len(FIRST_KEYS) else ""
                widget.show(None, title=title, waits=waits if place == 0 else "")
            return
        charts = arranged(view.charts, self.shell.preferences.charts)
        # With room for several the first keeps its place: the reward is the signal of progress.
        fixed = 1 if len(visible) > 1 else 0
        turning = charts[fixed:]
        for place, widget in enumerate(visible):
            if place < fixed:
                widget.show(charts[0])
            elif turning:
                at = self._offset + place - fixed
                fits = place - fixed < len(turning)
                widget.show(turning[at % len(turning)] if fits else None)
            else:
                widget.show(None)

    def _visible_charts(self) -> list[Chart]:
        """The charts for which this size has room."""
        charts = (self._owner.query_one(f"#chart-{i}", Chart) for i in range(CHARTS))
        return [c for c in charts if c.display and all(a.display for a in c.ancestors)]

    def _focused_chart(self) -> Chart | None:
        focused = self._owner.focused
        return focused if isinstance(focused, Chart) and focused.key is not None else None

    def on_descendant_focus(self, event: DescendantFocus) -> None:
        """Name the keys of a chart while it has the focus."""
        footer = self._owner.query_one(Footer)
        footer.focused = "chart" if isinstance(event.widget, Chart) else ""
        footer.show(self.shell.view)

    # -- keys ------------------------------------------------------------------------------------

    def action_chart_next(self) -> None:
        """Turn to the next charts."""
        self._turn(1)

    def action_chart_previous(self) -> None:
        """Turn to the charts before."""
        self._turn(-1)

    def _turn(self, direction: int) -> None:
        view = self.charts_shown()
        if view is None or not view.charts:
            return
        visible = len(self._visible_charts())
        by = max(1, visible - 1)
        turning = len(view.charts) - (1 if visible > 1 else 0)
        if turning > 0:
            self._offset = (self._offset + direction * by) % turning
        self.show_charts(view, "")

    def action_chart_open(self) -> None:
        """Enlarge the focused chart, else the first one."""
        chart = self._focused_chart() or next((c for c in self._visible_charts() if c.key is not None), None)
        if chart is not None and chart.key is not None:
            self._enlarge(chart.key)

    def action_chart_enlarge(self, place: int) -> None:
        """Enlarge the chart in a place, whose title was clicked."""
        key = self._owner.query_one(f"#chart-{place}", Chart).key
        if key is not None:
            self._enlarge(key)

    def _enlarge(self, key: str) -> None:
        from grpo_tui.ui.screens.chart import ChartScreen

        folder = self.shell.run_folder
        if folder is not None:
            self._owner.app.push_screen(ChartScreen(folder.root, key))

    def action_chart_pick(self) -> None:
        """Choose a metric: into the focused chart, or to look at over the whole screen."""
        from grpo_tui.ui.screens.metrics import MetricPicker

        folder, chart = self.shell.run_folder, self._focused_chart()
        if folder is None:
            return
        key = chart.key if chart is not None and chart.key is not None else ""
        purpose = "enter into this chart" if chart is not None else "enter enlarge"

        def chosen(key: str | None) -> None:
            if key is not None:
                self._take(key, chart)

        self._owner.app.push_screen(MetricPicker([folder.root], key, purpose), chosen)

    def _take(self, key: str, chart: Chart | None) -> None:
        view = self.charts_shown()
        if chart is None or view is None or key not in {c.key for c in view.charts}:
            self._enlarge(key)
            return
        visible = self._visible_charts()
        shown = [c.key for c in visible if c.key is not None]
        place = visible.index(chart) if chart in visible else 0
        self.shell.prefer(charts=chosen_charts(shown, place, key, self.shell.preferences.charts))
        self._offset = 0
        self.show_charts(view, "")
        chart.focus()

    def help_here(self) -> bool:
        """Say what the focused chart's metric means; False when no chart has the focus."""
        chart = self._focused_chart()
        if chart is None or chart.key is None:
            return False
        from grpo_tui.ui.screens.meaning import MeaningScreen

        self._owner.app.push_screen(MeaningScreen(chart.key))
        return True


def arranged(charts: Sequence[ChartView], chosen: Sequence[str]) -> list[ChartView]:
    """The charts with the chosen ones first, in their order; those this run does not log are passed over."""
    by_key = {chart.key: chart for chart in charts}
    first = [by_key[key] for key in dict.fromkeys(chosen) if key in by_key]
    kept = {chart.key for chart in first}
    return [*first, *(chart for chart in charts if chart.key not in kept)]


def chosen_charts(shown: Sequence[str], place: int, key: str, before: Sequence[str]) -> tuple[str, ...]:
    """The choice after `key` was put into a place; what is shown stays, one shown already changes places."""
    after = list(shown)
    if key in after:
        after[after.index(key)] = after[place]
    after[place] = key
    return tuple(dict.fromkeys([*after, *before]))
