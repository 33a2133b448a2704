"""The log with its title and its search field; carries the list's questions to the store."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import Input

from grpo_tui.core.text import one_line
from grpo_tui.present.formatting import clock, plural
from grpo_tui.present.log_window import LEVEL_WORDS, LEVELS, Hit, find, load
from grpo_tui.ui.paint import Line, LinePane, Span, ruled
from grpo_tui.ui.rows import CursorList
from grpo_tui.ui.screens.text import TextScreen
from grpo_tui.ui.shell import Shell
from grpo_tui.ui.widgets.log_list import LogList

if TYPE_CHECKING:
    from grpo_tui.ui.pages import Pages


class LogTitle(LinePane):
    """The ruled line over the log: levels, hits, and what came meanwhile."""

    DEFAULT_CSS = "LogTitle { height: 1; }"

    shown: LogList
    hit: Hit | None = None

    def lines(self, width: int, height: int) -> list[Line]:
        """What the lines below are."""
        log = self.shown
        parts: list[Line] = [[Span("log", "title")]]
        parts.append([Span(LEVEL_WORDS[log.level], "dim" if log.level == "all" else "attention")])
        if log.words:
            parts.append(self._search(log.words))
        right: Line = ()
        if not log.follows:
            new = f"{plural(log.unseen, 'new line')}, " if log.unseen else ""
            right = [Span(f"{new}end follows", "attention" if log.unseen else "dim", "screen.part_end")]
        return [ruled(parts, width, right)]

    def _search(self, words: str) -> Line:
        quoted = Span(f"“{one_line(words, 24)}” ", "strong")
        hit = self.hit
        if hit is None or hit.words != words:
            return [quoted, Span("…", "dim")]
        if hit.line is None:
            return [quoted, Span("is nowhere", "attention")]
        around = ", from the other end" if hit.around_end else ""
        return [quoted, Span(f"{hit.place:,} of {hit.count:,}{around}", "dim")]


class LogSection(Vertical, Shell):
    """The log under its title."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self.log_list = LogList()
        self._title = LogTitle()
        self._title.shown = self.log_list
        self._field = Input(placeholder="words to find in the whole log", id="log-search")
        self._pages: Pages | None = None

    def compose(self) -> ComposeResult:
        """Title, search field, lines."""
        yield self._title
        yield self._field
        yield self.log_list

    def on_mount(self) -> None:
        """The field shows when it is asked for."""
        self._field.display = False

    def follow(self, pages: Pages | None) -> None:
        """Show the log of another run."""
        self._pages = pages
        self._title.hit = None
        self.log_list.begin()
        self._field.value = ""
        self._field.display = False

    def look(self, now: float) -> None:
        """Show what is new, when the log is on the screen."""
        if self.display:
            self.log_list.look(now)

    def copy(self) -> None:
        """Copy the whole line under the cursor."""
        line = self.log_list.selected
        if line is not None:
            self._whole(partial(self.shell.copy, f"log line of {clock(line.at)}"))

    # -- questions -------------------------------------------------------------------------------

    @on(LogList.Wants)
    def _ask(self, event: LogList.Wants) -> None:
        event.stop()
        if self._pages is not None:
            question = event.question
            self._pages.ask(f"log {question.where}", lambda stores: load(stores.log, question), self._take)

    def _take(self, page: object) -> None:
        self.log_list.take(page)  # type: ignore[arg-type]

    @on(CursorList.Turned)
    def _turned(self) -> None:
        self._title.changed()

    # -- levels and search -----------------------------------------------------------------------

    def turn_level(self) -> None:
        """All lines, warnings and errors, errors, in turn."""
        log = self.log_list
        log.choose(LEVELS[(LEVELS.index(log.level) + 1) % len(LEVELS)], log.words)
        self._title.hit = None
        if log.words:
            self._find(forward=False, here=True, go=False)
        self._title.changed()

    def search(self) -> None:
        """Ask for the words."""
        self._field.display = True
        self._field.focus()

    def next_hit(self, *, forward: bool) -> None:
        """Go to the next line that holds the words, or ask for words first."""
        if self.log_list.words:
            self._find(forward=forward)
        else:
            self.search()

    def end_search(self) -> bool:
        """Take the words away; False when there were none."""
        if not self.log_list.words and not self._field.display:
            return False
        self._field.value = ""
        self._field.display = False
        self.log_list.choose(self.log_list.level, "")
        self._title.changed()
        self.log_list.focus()
        return True

    @on(Input.Changed, "#log-search")
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        if event.value != self.log_list.words:
            self.log_list.choose(self.log_list.level, event.value)
            if event.value:
                self._find(forward=False, here=True, go=False)
            self._title.changed()

    @on(Input.Submitted, "#log-search")
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if not event.value:
            self.end_search()
            return
        self._field.display = False
        self.log_list.focus()
        self._find(forward=False, here=True)

    def _find(self, *, forward: bool, here: bool = False, go: bool = True) -> None:
        log, pages = self.log_list, self._pages
        if pages is None or not log.words:
            return
        start = log.selected.id if log.selected is not None else 0
        words, level = log.words, log.level
        pages.ask(
            "log find",
            lambda stores: find(stores.log, words, level, start, forward=forward, here=here),
            partial(self._found, go),
        )

    def _found(self, go: bool, hit: Hit) -> None:
        if hit.words != self.log_list.words:
            return
        self._title.hit = hit
        self._title.changed()
        if go and hit.line is not None:
            self.log_list.show_line(hit.line)

    # -- the whole line --------------------------------------------------------------------------

    @on(CursorList.Opened)
    def _open(self, event: CursorList.Opened) -> None:
        event.stop()
        line = self.log_list.selected
        if line is not None:
            when = f"log, {clock(line.at)}, {plural(line.length, 'character')}"
            self._whole(lambda text: self.app.push_screen(TextScreen(when, text)))

    def _whole(self, then: Callable[[str], object]) -> None:
        """Fetch the whole text of the line under the cursor."""
        line = self.log_list.selected
        if line is not None and self._pages is not None:
            number = line.id
            self._pages.ask("log text", lambda stores: stores.log.text(number), then)
