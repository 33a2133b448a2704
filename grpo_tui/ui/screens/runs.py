"""Pane 1: what is running, paused, crashed, finished here.

Knows the rows it is given and the words of the filter; the folders are looked through by a worker of the app.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.screen import Screen
from textual.widgets import Input

from grpo_tui.present.formatting import plural
from grpo_tui.ui.actions import bindings
from grpo_tui.ui.paint import Line, LinePane, Span, spread
from grpo_tui.ui.shell import Shell
from grpo_tui.ui.widgets.footer import Footer
from grpo_tui.ui.widgets.header import Header
from grpo_tui.ui.widgets.runs_table import RunsTable, columns_for, heading

if TYPE_CHECKING:
    from grpo_tui.present.runs_view import RunRow
    from grpo_tui.present.train_view import TrainView


class RunsSummary(LinePane):
    """How many runs there are, and the heading of their columns."""

    rows: tuple[RunRow, ...] = ()
    shown: tuple[RunRow, ...] = ()
    words = ""
    complete = False
    places = ""

    def lines(self, width: int, height: int) -> list[Line]:
        """One line of numbers and one of headings; what to do when there is nothing."""
        if not self.rows:
            return [self._empty(), ()]
        live = sum(row.live for row in self.rows)
        left = [Span(f" {plural(len(self.rows), 'run')}", "strong")]
        left.append(Span(f"   {live} live", "good" if live else "dim"))
        if self.words:
            left.append(Span(f"   {len(self.shown)} hold “{self.words}”; esc shows all", "attention"))
        right = [Span(f"{self.places} ", "dim")] if self.complete else [Span("still looking … ", "dim")]
        return [spread(left, right, width), heading(columns_for(width - 1, self.shown), width)]

    def _empty(self) -> Line:
        if not self.complete:
            return [Span(f" Looking for runs under {self.places} …", "dim")]
        return [Span(f" No runs under {self.places} yet.", "strong")]


class EmptyRuns(LinePane):
    """What to do where there is no run."""

    def lines(self, width: int, height: int) -> list[Line]:
        """The two commands that fill the list."""
        return [
            (),
            [
                Span("   grpo-tui demo          ", "key"),
                Span("a real GRPO run of a tiny model, on the CPU", "dim"),
            ],
            [Span("   grpo-tui train CONFIG  ", "key"), Span("a run of one's own TRL config", "dim")],
            (),
            [Span("   A run that starts shows here by itself.", "dim")],
        ]


class RunsScreen(Screen[None], Shell):
    """The list of runs."""

    BINDINGS = bindings("runs")

    def compose(self) -> ComposeResult:
        """Header, numbers, filter, list, footer."""
        yield Header("runs")
        yield RunsSummary(id="runs-summary")
        yield Input(placeholder="words that must stand in the line", id="runs-filter")
        yield EmptyRuns(id="runs-empty")
        yield RunsTable(id="runs-table")
        yield Footer("runs")

    def on_mount(self) -> None:
        """Start with what is known, and follow what comes."""
        self.query_one("#runs-filter", Input).display = False
        self.query_one("#runs-summary", RunsSummary).places = self.shell.places
        self.shell.runs_signal.subscribe(self, self._on_rows)
        self.shell.view_signal.subscribe(self, self._on_view)
        self._on_rows((self.shell.rows, self.shell.rows_complete))
        self._on_view(self.shell.view)
        self.query_one(RunsTable).focus()

    def _on_rows(self, listed: tuple[tuple[RunRow, ...], bool]) -> None:
        summary = self.query_one("#runs-summary", RunsSummary)
        summary.rows, summary.complete = listed
        self._show()

    def _on_view(self, view: TrainView | None) -> None:
        self.query_one(Header).show(view)
        self.query_one(Footer).show(view)

    def _show(self) -> None:
        summary = self.query_one("#runs-summary", RunsSummary)
        words = self.query_one("#runs-filter", Input).value.strip()
        shown = tuple(row for row in summary.rows if row.matches(words))
        summary.shown, summary.words = shown, words
        summary.changed()
        self.query_one(RunsTable).show(shown, self.shell.clock())
        self.query_one("#runs-empty").display = summary.complete and not summary.rows

    def on_resize(self) -> None:
        """The headings stand over columns that depend on the width."""
        self.query_one("#runs-summary", RunsSummary).changed()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter as one types."""
        self._show()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Back to the list, the filter kept."""
        if not event.value.strip():
            event.input.display = False
        self.query_one(RunsTable).focus()

    def on_runs_table_opened(self, event: RunsTable.Opened) -> None:
        """Open by a double click."""
        self.shell.open_run(event.path)

    def action_runs_open(self) -> None:
        """Open the chosen run in Train."""
        row = self.query_one(RunsTable).selected
        if row is not None:
            self.shell.open_run(row.path)

    def action_runs_down(self) -> None:
        """Next run."""
        self.query_one(RunsTable).move(1)

    def action_runs_up(self) -> None:
        """Previous run."""
        self.query_one(RunsTable).move(-1)

    def action_runs_filter(self) -> None:
        """Ask for the words."""
        field = self.query_one("#runs-filter", Input)
        field.display = True
        field.focus()

    def action_runs_clear(self) -> None:
        """Show all runs again."""
        field = self.query_one("#runs-filter", Input)
        field.value = ""
        field.display = False
        self.query_one(RunsTable).focus()
