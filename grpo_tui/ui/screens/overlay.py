"""The same metric of several runs on one chart, and the settings in which they differ."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from textual.app import ComposeResult

from grpo_tui.core.text import one_line
from grpo_tui.present.plot import LINE_ROLES, MOST_LINES, line_sign
from grpo_tui.present.window_load import OverlayFacts, RunSource, read_overlay
from grpo_tui.ui.actions import bindings
from grpo_tui.ui.paint import Line, LinePane, Span, pad, ruled
from grpo_tui.ui.screens.zooming import ZoomScreen
from grpo_tui.ui.widgets.big_chart import BigChart
from grpo_tui.ui.widgets.footer import Footer
from grpo_tui.ui.widgets.header import Header

FIRST_KEY = "reward"
NAME_WIDTH = 30


class SettingsTable(LinePane):
    """The settings that differ, a column per run."""

    DEFAULT_CSS = "SettingsTable { height: auto; max-height: 30%; }"

    def __init__(self, names: list[str]) -> None:
        super().__init__(id="overlay-settings")
        self._names = names
        self._facts: OverlayFacts | None = None

    def show(self, facts: OverlayFacts) -> None:
        """Show what was read."""
        self._facts = facts
        self.changed(layout=True)

    def get_content_height(self, container: object, viewport: object, width: int) -> int:
        """Title, names, and a line per setting."""
        return 1 if self._facts is None or not self._facts.settings else 2 + len(self._facts.settings)

    def lines(self, width: int, height: int) -> list[Line]:
        """The table; what does not fit is counted in the title."""
        facts = self._facts
        if facts is None:
            return [[Span(" Reading the settings …", "dim")]]
        if not facts.settings:
            return [ruled([[Span("settings", "title")], [Span("none differs as recorded", "dim")]], width)]
        room = max(1, height - 2)
        hidden = len(facts.settings) - room
        parts: list[Line] = [[Span("settings that differ", "title")], [Span(f"{facts.same} the same", "dim")]]
        if hidden > 0:
            parts.append([Span(f"{hidden} more: d shows them", "dim", "screen.overlay_table")])
        column = min(34, max(8, (width - NAME_WIDTH - 2) // len(self._names)))
        plain = bool(getattr(self.app, "ascii_only", False))
        names: list[Span] = [Span(" " * (NAME_WIDTH + 1))]
        for i, name in enumerate(self._names):
            names.append(
                Span(pad(f"{line_sign(i, ascii_only=plain)} {name}", column - 1) + " ", LINE_ROLES[i])
            )
        rows: list[Line] = [
            [
                Span(" " + pad(row.name, NAME_WIDTH), "dim"),
                *[Span(pad(value, column - 1) + " ") for value in row.values[: len(self._names)]],
            ]
            for row in facts.settings[:room]
        ]
        return [ruled(parts, width), names, *rows]


class OverlayScreen(ZoomScreen):
    """Two or more runs on one chart.

    Args:
        folders: The runs; at most six are shown.
        key: The metric to begin with.
    """

    BINDINGS = bindings("overlay")
    PANE = "overlay"

    def __init__(self, folders: tuple[Path, ...], key: str = FIRST_KEY) -> None:
        shown = folders[:MOST_LINES]
        self._names = distinct_names(shown)
        super().__init__([RunSource(f, name) for f, name in zip(shown, self._names, strict=True)], key)
        self._left_out = len(folders) - len(shown)
        self._facts: OverlayFacts | None = None

    def compose(self) -> ComposeResult:
        """Header, chart, settings, footer."""
        yield Header("runs")
        yield BigChart(id="big-chart")
        yield SettingsTable(self._names)
        yield Footer(self.PANE)

    def on_mount(self) -> None:
        """Read the settings once, beside the chart."""
        self.query_one(Header).show(self.shell.view)
        self.query_one(Footer).show(None)
        self.app.run_worker(self._read, thread=True, group="settings", exit_on_error=False)
        if self._left_out:
            word = f"The first {MOST_LINES} runs are shown; {self._left_out} more are marked."
            self.app.notify(word, severity="warning", markup=False)

    def _read(self) -> None:
        facts = read_overlay(self._folders)
        self.app.call_from_thread(self._take, facts)

    def _take(self, facts: OverlayFacts) -> None:
        if not self.is_mounted:
            return
        self._facts = facts
        self.query_one(SettingsTable).show(facts)
        if facts.keys and self.wish.key not in facts.keys:
            self.change(replace(self.wish, key=facts.keys[0]))

    @property
    def keys(self) -> list[str]:
        """Metrics of the runs, those of all of them first."""
        return list(self._facts.keys) if self._facts is not None else [self.wish.key]

    def action_overlay_table(self) -> None:
        """More of the settings that differ, or a few."""
        self.query_one(SettingsTable).toggle_class("-whole")


def distinct_names(folders: tuple[Path, ...]) -> list[str]:
    """The folders' names, with as many of the folders above as tell them apart."""
    for depth in range(1, 6):
        names = [os.sep.join(folder.absolute().parts[-depth:]) for folder in folders]
        if len(set(names)) == len(names):
            break
    return [one_line(name, 40) for name in names]
