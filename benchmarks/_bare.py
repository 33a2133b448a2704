"""A bare Textual app with as many tabs as grpo-tui has panes: what the toolkit itself costs."""

from __future__ import annotations

import sys

from _terminal import Key

from grpo_tui.ui.widgets.bars import PANES

PROGRAM = """
import sys
from time import strftime
from textual.app import App
from textual.widgets import Footer, Header, Static, TabbedContent, TabPane

clock, *panes = sys.argv[1:]

class Bare(App):
    BINDINGS = [(str(number), f"show('{pane}')", pane) for number, pane in enumerate(panes)]

    def compose(self):
        yield Header()
        if clock:
            yield Static(id="clock")
        with TabbedContent(id="tabs"):
            for pane in panes:
                with TabPane(pane, id=pane):
                    yield Static(f"what is in {pane}")
        yield Footer()

    def on_mount(self):
        if clock:
            self.set_interval(1, self.tick)

    def tick(self):
        self.query_one("#clock").update(strftime("%H:%M:%S"))

    def action_show(self, pane):
        self.query_one("#tabs").active = pane

Bare().run()
"""
TABS = tuple(pane.name for pane in PANES)
FIRST = TABS[0]
KEYS = tuple(Key(str(number), f"what is in {tab}") for number, tab in reversed(list(enumerate(TABS))))
"""From the last tab back to the first; the first is shown when it starts."""


def words(*, clock: bool) -> list[str]:
    """The command that starts it; with a clock it paints once a second."""
    return [sys.executable, "-c", PROGRAM, "clock" if clock else "", *TABS]
