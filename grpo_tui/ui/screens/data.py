"""The data view: the rows of a config as training will see them, one at a time or as statistics."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from textual.app import ComposeResult
from textual.screen import Screen
from textual.widgets import Input

from grpo_tui.config.run_config import RunConfig
from grpo_tui.core.exchange import finite_json
from grpo_tui.core.text import one_line
from grpo_tui.preflight.checker import Checked, Checker
from grpo_tui.preflight.facts import RowView
from grpo_tui.preflight.rewards import GoldReward
from grpo_tui.present.data_view import DataBlock, row_blocks, statistics_blocks, summary
from grpo_tui.present.formatting import plural
from grpo_tui.present.reading import laid_out
from grpo_tui.rewards.consent import Code
from grpo_tui.ui.actions import bindings
from grpo_tui.ui.kit.jobs import Jobs, job
from grpo_tui.ui.paint import Line, LinePane, LineScroll, Span, fitting, pad, ruled, spread
from grpo_tui.ui.shell import Shell
from grpo_tui.ui.textual_private import LeftOnce
from grpo_tui.ui.widgets.bars import Footer, Header


class DataWorker:
    """Queries the checker and the lab for a screen. Call `run`, `find_out` and `score` in three threads.

    Loading the tokenizer takes long. Until then rows come from a separate child process, which is ended
    afterwards.
    """

    def __init__(self, screen: DataScreen, config: RunConfig) -> None:
        self._screen, self._config = screen, config
        self._cancel = threading.Event()
        self._read = threading.Event()
        self.jobs: Jobs[Callable[[], None]] = Jobs()
        self._golden: Jobs[RowView] = Jobs()
        """The newest row with a reference answer, to be scored."""
        self._rows: Checker | None = None
        self._full: Checker | None = None
        self._number: int | None = 1
        self._interrupt: Callable[[], None] | None = None

    def stop(self) -> None:
        """Ask the threads to end, and end their processes."""
        self.jobs.stop()
        self._golden.stop()
        self._cancel.set()
        self._read.set()
        if self._interrupt is not None:
            self._interrupt()

    # -- rows ------------------------------------------------------------------------------------

    def run(self) -> None:
        """Show the first row, then run jobs until stopped."""
        from grpo_tui.preflight.checker import CheckCancelledError, Checker, CheckerError
        from grpo_tui.rewards.consent import ConsentError

        self._rows = Checker(cancel=self._cancel)
        self.row(1)
        try:
            while (doing := self.jobs.next()) is not None:
                try:
                    doing()
                except CheckCancelledError:
                    return
                except ConsentError as error:
                    self._tell(self._screen.refuse, str(error), error.codes)
                except (CheckerError, OSError) as error:
                    self._tell(self._screen.refuse, str(error))
                self._read.set()  # slow work starts after the first row
        finally:
            self._read.set()
            for checker in (self._rows, self._full):  # the second may not be in use yet
                if checker is not None:
                    checker.close()

    def row(self, number: int | None) -> None:
        """Show a row; None for a random one. Returns at once."""
        self.jobs.ask("row", partial(self._show, number))

    def _show(self, number: int | None) -> None:
        if self._rows is None:
            return
        rendered = self._rows is self._full
        if number is None:
            view = self._rows.any_row(self._config, rendered=rendered)
        else:
            view = self._rows.row(self._config, number, rendered=rendered)
        self._number = view.number
        self._tell(self._screen.take_row, view)
        if view.answer_column:
            self._golden.ask("row", view)

    @job("search")
    def search(self, words: str) -> None:
        """Look for rows with these words. Returns at once."""
        if self._rows is not None:
            self._tell(self._screen.take_matches, words, self._rows.holding(self._config, words))

    def _change_over(self) -> None:
        """Switch to the checker that has the tokenizer, and show the current row again."""
        quick, self._rows = self._rows, self._full
        if quick is not None:
            quick.close()
        self._show(self._number)

    # -- facts -----------------------------------------------------------------------------------

    def find_out(self) -> None:
        """Post all facts as they become known, then hand the checker over to `run`."""
        from grpo_tui.config.settings import Settings
        from grpo_tui.preflight.checker import CheckCancelledError, Checker

        self._read.wait()
        if self.jobs.stopped.is_set():
            return
        know = partial(self._tell, self._screen.take_facts)
        full = Checker(progress=partial(self._tell, self._screen.show_busy), cancel=self._cancel)
        try:
            settings = Settings.of_config(self._config, lines=True)
            checked = full.check(self._config, settings=settings, tell=know)
        except CheckCancelledError:
            full.close()
            return
        know(checked)
        self._tell(self._screen.show_busy, "")
        if checked.facts.tokenizer is not None:
            self._full = full  # `run` closes it if the screen is closed meanwhile
            if self.jobs.ask("change over", self._change_over):
                return
        full.close()

    # -- rewards ---------------------------------------------------------------------------------

    def score(self) -> None:
        """Score the reference answer of the newest row until stopped. The lab starts with the first one."""
        from grpo_tui.preflight.rewards import gold_rewards
        from grpo_tui.rewards.consent import ConsentError
        from grpo_tui.rewards.lab import Lab, LabError

        loaded = False
        with Lab() as lab:
            while (row := self._golden.next()) is not None:
                try:
                    if not loaded:
                        self._interrupt = lab.interrupt
                        lab.load(self._config)
                        loaded = True
                    self._tell(self._screen.take_golds, row.number, gold_rewards(lab, row))
                except ConsentError as error:
                    self._tell(self._screen.take_golds, row.number, None, str(error), error.codes)
                except (LabError, ValueError, OSError) as error:
                    self._tell(self._screen.take_golds, row.number, None, str(error))

    # -- all threads -----------------------------------------------------------------------------

    def _tell(self, take: Callable[..., None], *what: Any) -> None:
        if not self.jobs.stopped.is_set():
            self._screen.call_later(take, *what)


LABEL_W = 16
MOST_TEXT = 20_000
"""Characters of a text that are shown. A copy has all of them."""
GO, SEARCH = "row number", "words in a row"


class DataSummary(LinePane):
    """The data in one line, and what is running."""

    parts: Sequence[tuple[int, str, str]] = ()
    busy = ""
    trouble = ""

    def lines(self, width: int, height: int) -> list[Line]:
        if self.trouble:
            return [[Span(f" ✗ {one_line(self.trouble, max(10, width - 4))}", "bad")]]
        right: Line = [Span(f"{self.busy} … ", "dim")] if self.busy else []
        room = width - 1 - (len(self.busy) + 6 if self.busy else 0)
        parts = [(rank, [Span(text, role)]) for rank, text, role in self.parts]
        return [spread([Span(" "), *fitting(parts, max(20, room))], right, width)]


class DataLines(LineScroll):
    """The blocks of a row or of the statistics."""

    blocks: Sequence[DataBlock] = ()

    def lines(self, width: int) -> list[Line]:
        lines: list[Line] = []
        for block in self.blocks:
            titles = [[Span(block.title, "title")], *([Span(note, "dim")] for note in block.notes)]
            lines.append(ruled(titles, width))
            wide = min(LABEL_W, max((len(one_line(row.label)) for row in block.rows), default=0))
            for row in block.rows:
                lines += _rows(row.label, row.text, row.role, row.marks, wide, width)
        return lines


def _rows(
    label: str, text: str, role: str, marks: tuple[str, ...], label_width: int, width: int
) -> list[Line]:
    start = f" {pad(one_line(label), label_width)}  " if label_width else " "
    cut = len(text) - MOST_TEXT
    spans = _marked(text[:MOST_TEXT], role, marks)
    if cut > 0:
        spans.append((f"\n… and {cut:,} more characters. Press y to copy all", "dim"))
    lead = Span(start, "dim")
    lines: list[Line] = []
    for line in laid_out(spans, max(10, width - len(start) - 1)):
        lines.append([lead, *(Span(part, part_role) for part, part_role in line)])
        lead = Span(" " * len(start))
    return lines


def _marked(text: str, role: str, marks: tuple[str, ...]) -> list[tuple[str, str]]:
    if not marks:
        return [(text, role)]
    pattern = "(" + "|".join(re.escape(mark) for mark in sorted(marks, key=len, reverse=True)) + ")"
    parts = re.split(pattern, text)
    return [(part, "accent" if index % 2 else role) for index, part in enumerate(parts) if part]


class DataScreen(LeftOnce, Screen[None], Shell):
    """The rows of a config."""

    AUTO_FOCUS = "#data-lines"
    BINDINGS = bindings("data")
    PANE = "data"

    def __init__(self, config: RunConfig) -> None:
        super().__init__()
        self._config = config
        self._worker: DataWorker
        self._checked: Checked | None = None
        self._row: RowView | None = None
        self._golds: dict[int, tuple[Sequence[GoldReward] | None, str]] = {}
        self._words = ""
        self._matches: tuple[int, ...] = ()
        self._figures = False
        self._asked = SEARCH
        self._asked_about: set[Code] = set()

    def compose(self) -> ComposeResult:
        yield Header("config")
        yield DataSummary(id="data-summary")
        yield DataLines(id="data-lines")
        yield Input(id="data-input")
        yield Footer(self.PANE)

    def on_mount(self) -> None:
        self.query_one(Header).show(self.shell.view)
        self.query_one("#data-input", Input).display = False
        self._begin()
        self.show()

    def on_unmount(self) -> None:
        self._worker.stop()

    def _begin(self) -> None:
        self._worker = DataWorker(self, self._config)
        self.in_thread("data", self._worker.run)
        self.in_thread("data facts", self._worker.find_out)
        self.in_thread("data rewards", self._worker.score)
        self.query_one(DataSummary).busy = "reading the config"

    # -- called by the worker --------------------------------------------------------------------

    def show_busy(self, what: str) -> None:
        """Say what slow work is going on; "" when it is done."""
        summary_line = self.query_one(DataSummary)
        summary_line.busy = what
        summary_line.changed()

    def take_facts(self, checked: Checked) -> None:
        self._checked = checked
        self.show()

    def take_row(self, row: RowView) -> None:
        """Show the row, scrolled to the top if it is a different one."""
        other = self._row is None or self._row.number != row.number
        self._row = row
        self.query_one(DataSummary).trouble = ""
        self.show()
        if other and not self._figures:
            self.query_one(DataLines).scroll_to(y=0, animate=False)

    def take_golds(
        self, number: int, golds: Sequence[GoldReward] | None, why: str = "", codes: tuple[Code, ...] = ()
    ) -> None:
        """Show the rewards of a row's reference answer, or why there are none."""
        self._golds[number] = (golds, why)
        self.show()
        self._ask_consent(codes)

    def take_matches(self, words: str, rows: tuple[int, ...]) -> None:
        """Go to the first row that contains the words, starting at the current one."""
        self._words, self._matches = words, rows
        if not rows:
            self.refuse(f"no row contains “{one_line(words, 40)}”")
        else:
            here = self._row.number if self._row is not None else 0
            self.go_to(next((n for n in rows if n >= here), rows[0]))

    def refuse(self, why: str, codes: tuple[Code, ...] = ()) -> None:
        """Say why something failed. `codes` need the user's consent first."""
        self.query_one(DataSummary).trouble = why
        self.show()
        self._ask_consent(codes)

    def _ask_consent(self, codes: tuple[Code, ...]) -> None:
        """Ask about each code once while this view is open."""
        if set(codes) - self._asked_about:
            self._asked_about |= set(codes)
            self.asks_consent(codes, self._again)

    def _again(self) -> None:
        self._worker.stop()
        self._checked, self._row, self._golds = None, None, {}
        self._begin()
        self.show()

    # -- showing ---------------------------------------------------------------------------------

    def show(self) -> None:
        facts = self._checked.facts.data if self._checked is not None else None
        findings = self._checked.findings if self._checked is not None else ()
        parts = summary(facts, findings)
        if self._words:
            here = self._row.number if self._row is not None else 0
            at = f"match {self._matches.index(here) + 1} of " if here in self._matches else ""
            held = f"{plural(len(self._matches), 'row')} with “{one_line(self._words, 20)}”"
            parts.insert(0, (0, at + held, "accent"))
        line = self.query_one(DataSummary)
        line.parts = parts
        line.changed()
        lines = self.query_one(DataLines)
        if self._figures and facts is not None:
            lines.blocks = statistics_blocks(facts, findings)
        elif self._row is not None:
            golds, why = self._golds.get(self._row.number, (None, ""))
            lines.blocks = row_blocks(self._row, golds, why)
        elif facts is not None and facts.problem:
            lines.blocks = statistics_blocks(facts, findings)
        lines.changed()
        lines.refresh()
        footer = self.query_one(Footer)
        footer.parts = ("matches",) if self._matches else ()
        footer.show(self.shell.view)

    # -- moving ----------------------------------------------------------------------------------

    def go_to(self, number: int | None) -> None:
        """Show a row; None for a random one."""
        self._figures = False
        self._worker.row(number)

    def action_data_next(self) -> None:
        if self._row is not None:
            self.go_to(self._row.number + 1)

    def action_data_previous(self) -> None:
        if self._row is not None:
            self.go_to(max(1, self._row.number - 1))

    def action_data_random(self) -> None:
        self.go_to(None)

    def action_match(self, by: int) -> None:
        here = self._row.number if self._row is not None else 0
        if self._matches:
            matches = self._matches[::by]
            self.go_to(next((n for n in matches if (n - here) * by > 0), matches[0]))

    def action_data_figures(self) -> None:
        self._figures = not self._figures
        if self._figures and (self._checked is None or self._checked.facts.data is None):
            self.app.notify("The rows are still being checked; the figures follow.")
        self.show()
        self.query_one(DataLines).scroll_to(y=0, animate=False)

    def action_scroll(self, by: int) -> None:
        self.query_one(DataLines).scroll_relative(y=by, animate=False)

    # -- typing ----------------------------------------------------------------------------------

    def action_data_search(self) -> None:
        self._type(SEARCH)

    def action_data_go(self) -> None:
        self._type(GO)

    def _type(self, what: str) -> None:
        typed = self.query_one("#data-input", Input)
        self._asked = what
        typed.value, typed.placeholder, typed.display = "", what, True
        typed.focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        words = event.value.strip()
        self._stop_typing()
        if not words:
            return
        if self._asked == SEARCH:
            self._worker.search(words)
        elif words.replace(",", "").isdigit():
            self.go_to(max(1, int(words.replace(",", ""))))
        else:
            self.refuse(f"{one_line(words, 20)} is not a row number")

    def _stop_typing(self) -> None:
        self.query_one("#data-input", Input).display = False
        self.query_one(DataLines).focus()

    # -- other actions ---------------------------------------------------------------------------

    def action_data_back(self) -> None:
        if self.query_one("#data-input", Input).display:
            self._stop_typing()
        elif self._words:
            self._words, self._matches = "", ()
            self.show()
        else:
            self.dismiss(None)

    def action_data_copy(self) -> None:
        if self._row is not None:
            row = self._row
            body = {"row": row.number, "source": dict(row.source), "prompt": row.prompt}
            body["rendered"] = row.rendered
            text = json.dumps(finite_json(body), ensure_ascii=False, default=str)
            self.shell.copy(f"row {row.number:,}", text)

    def action_data_again(self) -> None:
        self._matches, self._words = (), ""
        self._again()
