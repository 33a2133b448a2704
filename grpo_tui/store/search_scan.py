"""Run one statement over part of a run, with regular expressions, so that it can be interrupted.

SQLite lets other threads run meanwhile and can be interrupted. The `regex` package does so too during a match
and has a timeout; Python's `re` has neither.
"""

from __future__ import annotations

import contextlib
import re
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grpo_tui.store.connection import Shown, open_reader
from grpo_tui.store.query_functions import register

if TYPE_CHECKING:
    import regex

MATCH_LIMIT_S = 0.2
MOST_SLOW = 10

_BRACES = re.compile(r"\\N\{[^}]*\}|\\.|\{(?!\d+(?:,\d*)?\}|,\d*\})", re.DOTALL)
"""Escapes to leave as they are, and braces that are not a repetition."""


class ScanStopped(Exception):
    """The scan was interrupted from another thread."""


class ScanFailed(Exception):
    """The scan cannot run; the message says why."""


def compiled(pattern: str) -> regex.Pattern[str]:
    r"""Compile a pattern of Python's `re`.

    In `\\frac{d}{dx}` the braces are literal in `re` but mean approximate matching in `regex`, so they are
    escaped.

    Raises:
        ScanFailed: `regex` does not accept it.
    """
    import regex

    plain = _BRACES.sub(lambda found: "\\{" if found[0] == "{" else found[0], pattern)
    try:
        return regex.compile(plain, regex.VERSION0)
    except regex.error as error:
        raise ScanFailed(f"the regex package does not read this pattern: {error}") from error


class Scan:
    """Runs statements over its own connection, one at a time."""

    def __init__(self, path: Path) -> None:
        self._db = open_reader(path)
        self._db.row_factory = None
        self._shown = Shown(path)
        self._patterns: list[regex.Pattern[str]] = []
        self._slow = 0
        register(self._db, self._matches)

    def rows(self, sql: str, values: Sequence[Any], patterns: Sequence[str]) -> tuple[list[Any], int]:
        """Return all rows of a statement, and the number of texts in which a pattern timed out.

        Raises:
            ScanStopped: `stop` was called meanwhile.
            ScanFailed: The statement cannot be run.
        """
        self._patterns = [compiled(pattern) for pattern in patterns]
        self._slow = 0
        try:
            self._shown.follow(self._db)
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
        """Interrupt the running statement, if any, from another thread."""
        with contextlib.suppress(sqlite3.ProgrammingError):  # closed meanwhile
            self._db.interrupt()

    def close(self) -> None:
        """Close the connection."""
        self._db.close()
