"""The visible part of a run's output: a small window that moves over all stored lines."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field

from grpo_tui.present.formatting import plural
from grpo_tui.store.log_lines import LogReader, StoredLine

PAGE = 400
MOST = 2_400
LEVELS = ("folded", "warning", "error", "all")
LEVEL_WORDS = {
    "folded": "metrics and progress bars folded",
    "warning": "warnings and errors",
    "error": "errors",
    "all": "all lines",
}
FOLD = "fold"
"""Level of a row that represents folded lines. Its number is that of the first of them."""


@dataclass(frozen=True, slots=True)
class LogQuestion:
    """Which lines to load."""

    where: str
    """`end`, `older`, `newer`, or `around` a line; `count` loads no lines and only counts unseen ones."""
    line: int = 0
    level: str = "all"
    words: str = ""
    seen: int = 0
    """Last line the user has seen at the end. Later ones are counted."""
    go: bool = False
    """Whether to move to the line instead of only keeping it in view."""


@dataclass(frozen=True, slots=True)
class LogPage:
    """Lines for a window, and what is around them."""

    asked: LogQuestion
    lines: tuple[StoredLine, ...]
    older: bool
    newer: bool
    unseen: int = 0
    last: int = 0


@dataclass(frozen=True, slots=True)
class Hit:
    """A line that matches the search."""

    words: str
    line: int | None
    place: int = 0
    """Position among all matches, from 1 for the oldest."""
    count: int = 0
    around_end: bool = False


def load(reader: LogReader, asked: LogQuestion) -> LogPage:
    """Load the requested lines."""
    level, words = asked.level, asked.words
    end = reader.newest()
    if asked.where == "count":
        return LogPage(asked, (), True, True, _unseen(reader, asked), end)
    if asked.where == "newer":
        # Include the last known line: a progress bar changes in place.
        found = reader.page(first=asked.line, level=level, words=words, limit=PAGE)
        return LogPage(asked, tuple(found), True, len(found) == PAGE, _unseen(reader, asked), end)
    if asked.where == "older":
        found = reader.page(last=asked.line - 1, level=level, words=words, newest=True, limit=PAGE)
        return LogPage(asked, tuple(found), len(found) == PAGE, True, last=end)
    if asked.where == "around":
        before = reader.page(last=asked.line - 1, level=level, words=words, newest=True, limit=PAGE // 2)
        after = reader.page(first=asked.line, level=level, words=words, limit=PAGE // 2)
        more = len(before) == PAGE // 2, len(after) == PAGE // 2
        return LogPage(asked, (*before, *after), *more, _unseen(reader, asked), end)
    found = reader.page(level=level, words=words, newest=True, limit=PAGE)
    return LogPage(asked, tuple(found), len(found) == PAGE, False, last=end)


def _unseen(reader: LogReader, asked: LogQuestion) -> int:
    return reader.count(level=asked.level, first=asked.seen + 1) if asked.seen else 0


def find(reader: LogReader, words: str, level: str, start: int, *, forward: bool, here: bool = False) -> Hit:
    """Find the next line with these words, wrapping around at the end."""
    count = reader.count(words, level=level)
    if not count:
        return Hit(words, None)
    first = start + (0 if not here else -1 if forward else 1)
    line = reader.find(words, start=first, forward=forward, level=level)
    around = line is None
    if line is None:
        line = reader.find(words, start=0 if forward else 1 << 62, forward=forward, level=level)
    place = reader.count(words, level=level, last=line) if line is not None else 0
    return Hit(words, line, place, count, around)


@dataclass(slots=True)
class LogWindow:
    """Lines in order. Lines added at one end displace those at the other."""

    lines: list[StoredLine] = field(default_factory=list)
    older: bool = False
    newer: bool = False
    last: int = 0
    rows: list[StoredLine] = field(default_factory=list)
    """The lines, with one row for each folded stretch between them."""

    def take(self, page: LogPage) -> None:
        """Add a page. One that is not adjacent is ignored."""
        self.last = page.last
        self._take(page)
        self.rows = self._folded() if page.asked.level == "folded" else self.lines

    def _folded(self) -> list[StoredLine]:
        rows: list[StoredLine] = []
        before = 0 if not self.older else self.lines[0].id - 1 if self.lines else self.last
        for line in self.lines:
            rows += [*_fold(before, line.id, line.at), line]
            before = line.id
        end = [] if self.newer else _fold(before, self.last + 1, rows[-1].at if rows else 0.0)
        return [*rows, *end]

    def _take(self, page: LogPage) -> None:
        if page.asked.where == "newer":
            self._append(page)
        elif page.asked.where == "older":
            if self.lines and page.asked.line == self.lines[0].id:
                self.lines[:0] = page.lines
                self.older = page.older
                if len(self.lines) > MOST:
                    del self.lines[MOST:]
                    self.newer = True
        else:
            self.lines, self.older, self.newer = list(page.lines), page.older, page.newer

    def _append(self, page: LogPage) -> None:
        if not self.lines:
            self.lines, self.older = list(page.lines), False
        elif self.lines[-1].id == page.asked.line:
            self.lines.pop()
            self.lines += page.lines
        self.newer = page.newer
        if len(self.lines) > MOST:
            del self.lines[:-MOST]
            self.older = True

    def index(self, line: int) -> int:
        """Return the row of a line, or of the next one after it."""
        return bisect_left(self.rows, line, key=lambda stored: stored.id)


def _fold(before: int, after: int, at: float) -> list[StoredLine]:
    count = after - before - 1
    text = f"▸ {plural(count, 'line')} of metrics and progress bars"
    return [StoredLine(before + 1, at, FOLD, text)] if count > 0 else []
