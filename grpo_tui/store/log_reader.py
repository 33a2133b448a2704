"""Read the stored output of a run in pages, by level and words, from either end.

Of a long line a piece is given, around the words looked for; the whole is asked for by its number. Knows the
table of lines; knows nothing of how they are shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from grpo_tui.store.queries import Queries

PIECE = 1_000
"""Characters of a line that a page holds."""
BEFORE_HIT = 40
"""Characters of it before the words looked for, where they stand far from the line's start."""
SHOWN_LEVELS = {"all": (), "warning": ("warning", "error"), "error": ("error",)}
"""A choice of levels to the levels it shows; empty: all of them."""


@dataclass(frozen=True, slots=True)
class StoredLine:
    """A line of output, or a piece of it."""

    id: int
    at: float
    level: str
    text: str
    start: int = 0
    """Where in the whole line the text begins."""
    length: int = 0
    """Characters of the whole line."""


class LogReader(Queries):
    """Reads the lines of one run. Use it from one thread at a time.

    Raises:
        RunDatabaseError: From the constructor, when there is no readable `run.db`.
    """

    def page(
        self,
        *,
        first: int | None = None,
        last: int | None = None,
        level: str = "all",
        words: str = "",
        newest: bool = False,
        limit: int = 500,
        piece: int = PIECE,
    ) -> list[StoredLine]:
        """Lines in their order, a page of at most `limit`.

        Args:
            first, last: Inclusive bounds on the line's number.
            level: `all`, `warning` (and errors) or `error`.
            words: Of a long line, the piece that holds these is given; all lines are.
            newest: Take the last lines of what is asked for, not the first ones.
            limit: Size of the page.
            piece: Most characters of a line.
        """
        where, values = _where(first, last, level)
        order = "DESC" if newest else "ASC"
        hit = "max(0, instr(lower(text), lower(?)) - 1)"
        rows = self._all(
            f"SELECT id, at, level, length(text) AS n, substr(text, start + 1, ?) AS part, start FROM"
            f" (SELECT *, CASE WHEN {hit} > ? THEN {hit} - {BEFORE_HIT} ELSE 0 END AS start"
            f" FROM log{where} ORDER BY id {order} LIMIT ?)",
            piece,
            words,
            piece - BEFORE_HIT,
            words,
            *values,
            limit,
        )
        found = [StoredLine(r["id"], r["at"], r["level"], r["part"], r["start"], r["n"]) for r in rows]
        return found[::-1] if newest else found

    def find(self, words: str, *, start: int, forward: bool, level: str = "all") -> int | None:
        """Number of the nearest line that holds the words (of any case), after or before line `start`."""
        first, last = (start + 1, None) if forward else (None, start - 1)
        where, values = _where(first, last, level)
        row = self._one(
            f"SELECT id FROM log{_and(where)} instr(lower(text), lower(?)) > 0"
            f" ORDER BY id {'ASC' if forward else 'DESC'} LIMIT 1",
            *values,
            words,
        )
        return None if row is None else int(row["id"])

    def count(
        self, words: str = "", *, level: str = "all", first: int | None = None, last: int | None = None
    ) -> int:
        """How many lines hold the words, from line `first` up to line `last`."""
        where, values = _where(first, last, level)
        if words:
            where, values = f"{_and(where)} instr(lower(text), lower(?)) > 0", [*values, words]
        return int(self._one(f"SELECT count(*) FROM log{where}", *values)[0])

    def text(self, line: int) -> str:
        """The whole text of a line, empty when there is none."""
        row = self._one("SELECT text FROM log WHERE id = ?", line)
        return "" if row is None else str(row["text"])

    def lines(
        self,
        *,
        after: int = 0,
        last: int | None = None,
        level: str = "all",
        words: str = "",
        pattern: re.Pattern[str] | None = None,
    ) -> Iterator[StoredLine]:
        """Whole lines after one, up to line `last`, that hold the words and match the pattern."""
        words = words.lower()
        while page := self.page(first=after + 1, last=last, level=level, limit=200, piece=1 << 30):
            for line in page:
                after = line.id
                if words in line.text.lower() and (pattern is None or pattern.search(line.text)):
                    yield line


def _where(first: int | None, last: int | None, level: str) -> tuple[str, list[Any]]:
    clauses: list[str] = []
    values: list[Any] = []
    for clause, value in (("id >= ?", first), ("id <= ?", last)):
        if value is not None:
            clauses.append(clause)
            values.append(value)
    if levels := SHOWN_LEVELS[level]:
        clauses.append(f"level IN ({','.join('?' * len(levels))})")
        values += levels
    return (" WHERE " + " AND ".join(clauses) if clauses else ""), values


def _and(where: str) -> str:
    return f"{where} AND" if where else " WHERE"
