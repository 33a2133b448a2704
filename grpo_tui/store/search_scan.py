"""Run one statement over a part of a run, so that it can be stopped, with regular expressions in it.

SQLite lets other threads work meanwhile and can be interrupted. So does the `regex` package during a match,
which it also ends when it takes too long; Python's `re` can do neither.
"""

from __future__ import annotations

import contextlib
import re
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grpo_tui.store.connection import open_reader
from grpo_tui.store.query_functions import register

if TYPE_CHECKING:
    import regex

MATCH_LIMIT_S = 0.2
"""A pattern may take so long in one text."""
MOST_SLOW = 10
"""After so many texts that took too long, the pattern is given up altogether."""

_BRACES = re.compile(r"\\N\{[^}]*\}|\\.|\{(?!\d+(?:,\d*)?\}|,\d*\})", re.DOTALL)
"""What is kept as it is, and a brace that repeats nothing."""


class ScanStopped(Exception):
    """The scan was ended from outside before its end."""


class ScanFailed(Exception):
    """The scan cannot be done; the message says why."""


def compiled(pattern: str) -> regex.Pattern[str]:
    r"""Compile a pattern of Python's `re`.

    In `\\frac{d}{dx}` the braces stand for themselves in `re`, but in `regex` for approximate matching, so
    they are escaped.

    Raises:
        ScanFailed: `regex` does not take it.
    """
    import regex

    plain = _BRACES.sub(lambda found: "\\{" if found[0] == "{" else found[0], pattern)
    try:
        return regex.compile(plain, regex.VERSION0)
    except regex.error as error:
        raise ScanFailed(f"the regex package does not read this pattern: {error}") from error


class Scan:
    """Runs statements over a connection of its own, one at a time."""

    def __init__(self, path: Path) -> None:
        self._db = open_reader(path)
        self._db.row_factory = None
        self._patterns: list[regex.Pattern[str]] = []
        self._slow = 0
        register(self._db, self._matches)

    def rows(self, sql: str, values: Sequence[Any], patterns: Sequence[str]) -> tuple[list[Any], int]:
        """Return all rows of a statement, and in how many texts a pattern was given up.

        Args:
            sql: The statement.
            values: Bound in it.
            patterns: Those that `matches` in it calls by number.

        Raises:
            ScanStopped: `stop` was called meanwhile.
            ScanFailed: The statement cannot be run.
        """
        self._patterns = [compiled(pattern) for pattern in patterns]
        self._slow = 0
        try:
            return self._db.execute(sql, values).fetchall(), self._slow
        except sqlite3.DatabaseError as error:
            if "interrupted" in str(error):
                raise ScanStopped from error
            raise ScanFailed(f"run.db cannot be searched: {error}") from error

    def _matches(self, number: int, text: str | None) -> bool:
        if text is None or self._slow >= MOST_SLOW:
            return False
        try:
            return self._patterns[number].search(text, timeout=MATCH_LIMIT_S) is not None
        except TimeoutError:
            self._slow += 1
            return False

    def stop(self) -> None:
        """Interrupt the statement that runs, if one does, from another thread."""
        with contextlib.suppress(sqlite3.ProgrammingError):  # closed meanwhile
            self._db.interrupt()

    def close(self) -> None:
        """Close the connection."""
        self._db.close()
