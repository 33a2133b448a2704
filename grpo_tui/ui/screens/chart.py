"""One metric of one run over the whole screen."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from textual.app import ComposeResult

from grpo_tui.core.text import one_line
from grpo_tui.present.window_load import RunSource
from grpo_tui.ui.actions import bindings
from grpo_tui.ui.screens.zooming import ZoomScreen
from grpo_tui.ui.widgets.big_chart import BigChart
from grpo_tui.ui.widgets.footer import Footer
from grpo_tui.ui.widgets.header import Header
from grpo_tui.ui.window_loader import EVAL

if TYPE_CHECKING:
    from grpo_tui.present.train_view import TrainView


class ChartScreen(ZoomScreen):
    """A full-screen chart.

    Args:
        folder: The run.
        key: TRL's key of the metric.
    """

    BINDINGS = bindings("chart")
    PANE = "chart"

    def __init__(self, folder: Path, key: str) -> None:
        super().__init__([RunSource(folder)], key)

    def compose(self) -> ComposeResult:
        """Header, chart, footer."""
        yield Header("train")
        yield BigChart(id="big-chart")
        yield Footer(self.PANE)

    def on_mount(self) -> None:
        """Follow the open run's header too."""
        self.shell.view_signal.subscribe(self, self._on_view)
        self._on_view(self.shell.view)

    def _on_view(self, view: TrainView | None) -> None:
        self.query_one(Header).show(view)
        self.query_one(Footer).show(view)

    @property
    def keys(self) -> list[str]:
        """The charts of Train, in their order."""
        view = self.shell.view
        return [chart.key for chart in view.charts] if view is not None else [self.wish.key]

    def show_metric(self, key: str) -> None:
        """Show another metric; train and evaluation stay together where there are both."""
        together = self.wish.together and self._pair(key) is not None
        self.change(replace(self.wish, key=key, together=together))

    def _pair(self, key: str) -> str | None:
        """The same metric in evaluation, or in training; None when it was not logged."""
        other = key.removeprefix(EVAL) if key.startswith(EVAL) else EVAL + key
        return other if other in self.keys else None

    def action_chart_completions(self) -> None:
        """The completions of the step under the cursor, else of the newest one."""
        step = self.step_here()
        if step is None:
            self.app.notify("Nothing is logged yet.", severity="warning", markup=False)
            return
        mode = "eval" if self._shown_key().startswith(EVAL) else "train"
        self.shell.show_generations(f"step=={step} and mode=={mode}")

    def action_chart_together(self) -> None:
        """Train and evaluation together, or one alone."""
        key = self.wish.key
        if not self.wish.together and self._pair(key) is None:
            plain = one_line(key.removeprefix(EVAL), 60)
            word = f"No {EVAL}{plain} is logged in this run; eval_strategy in the config starts evaluation."
            if key.startswith(EVAL):
                word = f"{plain} is not logged in training."
            self.app.notify(word, severity="warning", markup=False)
            return
        self.change(replace(self.wish, together=not self.wish.together))
