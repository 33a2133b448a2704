"""The complete output of the training process, newest line at the bottom, with levels and search.

Shows a window of the stored lines and asks its owner for more pages as needed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from rich.cells import cell_len
from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.message import Message
from textual.widgets import Input

from grpo_tui.core.text import one_line
from grpo_tui.present.formatting import clock, date, plural
from grpo_tui.present.log_window import (
    FOLD,
    LEVEL_WORDS,
    LEVELS,
    Hit,
    LogPage,
    LogQuestion,
    LogWindow,
    find,
    load,
)
from grpo_tui.store.log_lines import StoredLine
from grpo_tui.ui.kit.table import CursorList, LazyLines
from grpo_tui.ui.paint import Line, LinePane, Span, ruled
from grpo_tui.ui.screens.reading import TextScreen
from grpo_tui.ui.shell import Shell

if TYPE_CHECKING:
    from grpo_tui.ui.pages import Pages

_ROLES = {"error": "bad", "warning": "attention", "debug": "dim", FOLD: "dim"}
NEAR = 60
"""The next page is requested when the cursor or the view is this many lines from an end of the window."""
DATE_WIDTH = 96
"""From this width, lines of other days show their date."""


class LogList(CursorList):
    """A window of the output. Follows the end until the user moves away from it."""

    class Wants(Message):
        """Posted when a page of lines is needed."""

        def __init__(self, question: LogQuestion) -> None:
            super().__init__()
            self.question = question

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.window = LogWindow()
        self.level, self.words = LEVELS[0], ""
        self.follows = True
        self.unseen = 0
        """Lines added since the user left the end."""
        self._seen = 0
        self._now = 0.0
        self._loaded = False

    @property
    def count(self) -> int:
        return len(self.window.rows)

    @property
    def selected(self) -> StoredLine | None:
        """The line under the cursor, or the row of a fold."""
        return self.window.rows[self.cursor] if self.cursor < self.count else None

    @property
    def reach(self) -> str:
        """The level to query. A search also covers folded lines."""
        return "all" if self.words and self.level == "folded" else self.level

    # -- pages -----------------------------------------------------------------------------------

    def look(self, now: float) -> None:
        self._now = now
        if not self._loaded:
            self.ask("end")
        elif self.follows and self.window.lines:
            self.ask("newer", self.window.lines[-1].id)
        elif self.follows:
            self.ask("end")
        else:
            self.ask("count", self._seen)

    def ask(self, where: str, line: int = 0, *, go: bool = False) -> None:
        """Request a page; with `go`, move the cursor to the line when it arrives."""
        self.post_message(self.Wants(LogQuestion(where, line, self.reach, self.words, self._seen, go)))

    def take(self, page: LogPage) -> None:
        """Add a page. The view stays at the line being read unless the page was requested with `go`."""
        if (page.asked.level, page.asked.words) != (self.reach, self.words):
            return  # requested before the choice changed; another answer is coming
        if page.asked.where == "count":
            self._count_unseen(page.unseen)
            return
        self._loaded = True
        top = self._line_at(self.scroll_offset.y)
        here = self.selected.id if self.selected is not None else 0
        self.window.take(page)
        if self.follows and not self.window.newer:
            self._seen = max(page.last, self.window.lines[-1].id if self.window.lines else 0)
            self._count_unseen(0)
            self.put(self.count - 1)
            return
        chosen = page.asked.line if page.asked.go else 0
        self.cursor = min(self.window.index(chosen or here), max(0, self.count - 1))
        self.changed()
        if chosen:
            self.scroll_to(y=max(0, self.cursor - self._height // 3), animate=False, force=True)
            self.put(self.cursor)
        else:
            self.scroll_to(y=self.window.index(top), animate=False, force=True)
        self._count_unseen(page.unseen if page.asked.where == "around" else self.unseen)

    def on_resize(self) -> None:
        """Lay out again. When following, scroll to lines that arrived before there was room."""
        super().on_resize()
        self.call_after_refresh(self._keep_end)

    def _keep_end(self) -> None:
        if self.follows and self._loaded:
            self.put(self.count - 1)

    def begin(self) -> None:
        self.window, self.words, self.follows = LogWindow(), "", True
        self.cursor = self.unseen = self._seen = 0
        self._loaded = False
        self.changed()

    def choose(self, level: str, words: str) -> None:
        """Change the level or the marked words. The view stays near the line being read."""
        self.level, self.words = level, words
        at = self.selected.id if self.selected is not None and not self.follows else 0
        self.ask("around" if at else "end", at)

    def unfold(self, line: int) -> None:
        self.level = "all"
        self._leave_end()
        self.ask("around", line, go=True)

    def show_line(self, line: int) -> None:
        self._leave_end()
        place = self.window.index(line)
        if place < self.count and self.window.rows[place].id == line:
            self.put(place)
            self.moved()
        else:
            self.ask("around", line, go=True)

    # -- scrolling -------------------------------------------------------------------------------

    def action_last(self) -> None:
        self.follows = True
        if self.window.newer:
            self.ask("end")
        self.put(self.count - 1)
        self.look(self._now)

    def moved(self) -> None:
        """Follow if the cursor is at the very end, and request pages near either end of the window."""
        if self.cursor >= self.count - 1 and not self.window.newer:
            if not self.follows:
                self.follows = True
                self.look(self._now)
        else:
            self._leave_end()
        self._reach(self.cursor)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if self._loaded:
            self._reach(int(new_value) if new_value < old_value else int(new_value) + self._height)

    def on_mouse_scroll_up(self) -> None:
        if self.max_scroll_y > 0:
            self._leave_end()

    def on_mouse_scroll_down(self) -> None:
        self.call_after_refresh(self._back_at_end)

    def _back_at_end(self) -> None:
        if not self.follows and not self.window.newer and self.scroll_offset.y >= self.max_scroll_y:
            self.action_last()

    def _leave_end(self) -> None:
        if self.follows:
            self.follows = False
            self.post_message(self.Turned())

    def _reach(self, place: int) -> None:
        if place < NEAR and self.window.older and self.window.lines:
            self.ask("older", self.window.lines[0].id)
        elif place > self.count - NEAR and self.window.newer:
            self.ask("newer", self.window.lines[-1].id)

    def _line_at(self, place: int) -> int:
        return self.window.rows[min(place, self.count - 1)].id if self.count else 0

    def _count_unseen(self, unseen: int) -> None:
        if unseen != self.unseen:
            self.unseen = unseen
        self.post_message(self.Turned())

    # -- painting --------------------------------------------------------------------------------

    def lines(self, width: int) -> LazyLines:
        if not self.window.rows:
            word = "Reading the log." if not self._loaded else self._nothing()
            return LazyLines(1, lambda _: [Span(f"  {word}", "dim")])
        rows, words = tuple(self.window.rows), self.words
        cursor = self.cursor if self.has_focus else -1
        dated = width >= DATE_WIDTH and not _same_day(rows[0].at, self._now)
        return LazyLines(len(rows), lambda i: row_line(rows[i], width, words, dated=dated, here=i == cursor))

    def _nothing(self) -> str:
        if self.level in ("warning", "error"):
            return f"No {'errors' if self.level == 'error' else 'warnings and no errors'}; w shows all lines."
        return "The process has not printed anything yet."


def row_line(row: StoredLine, width: int, words: str, *, dated: bool, here: bool) -> Line:
    """Return a line of output with search matches marked, shortened so that the first match stays visible."""
    tail = " selected" if here else ""
    when = f"{date(row.at)} {clock(row.at)}" if dated else clock(row.at)
    head = [Span("❙" if here else " ", "accent" + tail), Span(f"{when}  ", "dim" + tail)]
    role = _ROLES.get(row.level, "text") + tail
    room = max(1, width - 1 - len(when) - 2)
    text = one_line(row.text[: 4 * room + 400])
    start = row.start > 0
    hit = text.lower().find(words.lower()) if words else -1
    if hit + len(words) > room:  # show the match, with some text before it
        text, start = text[max(0, hit - room // 3) :], True
    if start:
        text = "…" + text
    line = [*head, *_marked(text, words, role)]
    fill = width - sum(cell_len(span.text) for span in line)
    return [*line, Span(" " * fill, role)] if here and fill > 0 else line


def _marked(text: str, words: str, role: str) -> list[Span]:
    if not words:
        return [Span(text, role)]
    spans: list[Span] = []
    low, wanted, at = text.lower(), words.lower(), 0
    while len(low) == len(text) and (hit := low.find(wanted, at)) >= 0 and len(spans) < 100:
        spans += [Span(text[at:hit], role), Span(text[hit : hit + len(words)], f"{role} match")]
        at = hit + len(words)
    return [*(span for span in spans if span.text), Span(text[at:], role)]


def _same_day(at: float, now: float) -> bool:
    one, other = time.localtime(at), time.localtime(now)
    return (one.tm_year, one.tm_yday) == (other.tm_year, other.tm_yday)


class LogTitle(LinePane):
    """The title over the log: level, search matches, and new lines."""

    shown: LogList
    hit: Hit | None = None

    def lines(self, width: int, height: int) -> list[Line]:
        log = self.shown
        parts: list[Line] = [[Span("log", "title")]]
        parts.append([Span(LEVEL_WORDS[log.level], "dim" if log.level in ("all", "folded") else "attention")])
        if log.words:
            parts.append(self._search(log.words))
        right: Line = ()
        if not log.follows:
            new = f"{plural(log.unseen, 'new line')}, " if log.unseen else ""
            right = [Span(f"{new}G follows", "attention" if log.unseen else "dim", "screen.part_end")]
        return [ruled(parts, width, right)]

    def _search(self, words: str) -> Line:
        quoted = Span(f"“{one_line(words, 24)}” ", "strong")
        hit = self.hit
        if hit is None or hit.words != words:
            return [quoted, Span("…", "dim")]
        if hit.line is None:
            return [quoted, Span("not found", "attention")]
        around = ", wrapped around" if hit.around_end else ""
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
        yield self._title
        yield self._field
        yield self.log_list

    def on_mount(self) -> None:
        self._field.display = False

    def follow(self, pages: Pages | None) -> None:
        self._pages = pages
        self._title.hit = None
        self.log_list.begin()
        self._field.value = ""
        self._field.display = False

    def look(self, now: float) -> None:
        if self.display:
            self.log_list.look(now)

    def copy(self) -> None:
        line = self.log_list.selected
        if line is not None and line.level == FOLD:
            self.app.notify("Enter shows these lines.")
        elif line is not None:
            self._whole(partial(self.shell.copy, f"log line of {clock(line.at)}"))

    # -- questions -------------------------------------------------------------------------------

    @on(LogList.Wants)
    def _ask(self, event: LogList.Wants) -> None:
        event.stop()
        if self._pages is not None:
            question = event.question
            kind = f"log {question.where}"
            self._pages.ask(kind, lambda stores: load(stores.log, question), self.log_list.take)

    @on(CursorList.Turned)
    def _turned(self) -> None:
        self._title.changed()

    # -- levels and search -----------------------------------------------------------------------

    def turn_level(self) -> None:
        log = self.log_list
        log.choose(LEVELS[(LEVELS.index(log.level) + 1) % len(LEVELS)], log.words)
        self._title.hit = None
        if log.words:
            self._find(forward=False, here=True, go=False)
        self._title.changed()

    def search(self) -> None:
        self._field.display = True
        self._field.focus()

    def next_hit(self, *, forward: bool) -> None:
        """Go to the next match, or open the search field if there are no words."""
        if self.log_list.words:
            self._find(forward=forward)
        else:
            self.search()

    def end_search(self) -> bool:
        """End the search. Return False when there was none."""
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
        words, level = log.words, log.reach
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

    @on(CursorList.Selected)
    def _open(self, event: CursorList.Selected) -> None:
        event.stop()
        line = self.log_list.selected
        if line is not None and line.level == FOLD:
            self.log_list.unfold(line.id)
            self._title.changed()
        elif line is not None:
            when = f"log, {clock(line.at)}, {plural(line.length, 'character')}"
            self._whole(lambda text: self.app.push_screen(TextScreen(when, text)))

    def _whole(self, then: Callable[[str], object]) -> None:
        line = self.log_list.selected
        if line is not None and self._pages is not None:
            number = line.id
            self._pages.ask("log text", lambda stores: stores.log.text(number), then)
