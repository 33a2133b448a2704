"""The child process that matches regular expressions: `python -m grpo_tui.store.search_child RUN.DB`.

A line of JSON on the input asks, a line of JSON on the output answers. A pattern that takes too long in a
text is given up for that text: `re` looks for signals while it matches, but only in a main thread, and this
is one.
"""

from __future__ import annotations

import json
import re
import signal
import sqlite3
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from grpo_tui.store.connection import RunDatabaseError, open_reader
from grpo_tui.store.query_functions import register
from grpo_tui.store.query_regex import Sieve, sieve
from grpo_tui.store.search_scan import stand_back

MATCH_LIMIT_S = 0.2
"""A pattern may take so long in one text."""
MOST_SLOW = 10
"""After so many texts that took too long, the pattern is given up altogether."""
TICK_S = 0.05
MAPPED_BYTES = 2**31 - 2**16
"""So much of a file is looked at where the system keeps it, which spares a third of the time of reading."""


class _TooSlow(Exception):
    """Raised within a match."""


class Matcher:
    """Matches numbered patterns, each match for a bounded time."""

    def __init__(self) -> None:
        self.slow = 0
        self._since = 0.0
        self._sources: list[str] = []
        self._patterns: list[tuple[Callable[[str], object], Sieve | None]] = []

    def use(self, patterns: list[str]) -> None:
        """Take other patterns, or the same ones again, and forget what was slow."""
        if patterns != self._sources:
            self._patterns = [(re.compile(pattern).search, sieve(pattern)) for pattern in patterns]
            self._sources = patterns
        self.slow = 0

    def watch(self) -> None:
        """Look at the clock from now on, in the main thread."""
        signal.signal(signal.SIGALRM, self._look)
        signal.setitimer(signal.ITIMER_REAL, TICK_S, TICK_S)

    def matches(self, number: int, text: str | None) -> bool:
        """Whether the pattern is found in the text; False when it was given up, or there is no text."""
        if text is None or self.slow >= MOST_SLOW:
            return False
        search, test = self._patterns[number]
        if test is not None and not test.lets(text):
            return False
        try:
            try:
                self._since = time.monotonic()
                return search(text) is not None
            finally:
                self._since = 0.0
        except _TooSlow:
            self.slow += 1
            return False

    def _look(self, _signal: int, _frame: Any) -> None:
        if self._since and time.monotonic() - self._since > MATCH_LIMIT_S:
            self._since = 0.0
            raise _TooSlow


def main() -> None:
    """Answer until the input ends."""
    stand_back()
    matcher = Matcher()
    try:
        connection = open_reader(Path(sys.argv[1]))
    except RunDatabaseError as error:
        _answer({"error": str(error)})
        return
    connection.row_factory = None
    if connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal":  # no network file system, then
        # A file that somebody cuts short meanwhile ends the process; this one may end.
        connection.execute(f"PRAGMA mmap_size={MAPPED_BYTES}")
    register(connection, matcher.matches)
    matcher.watch()
    for line in sys.stdin.buffer:
        job = json.loads(line)
        try:
            matcher.use(job["patterns"])
            rows = connection.execute(job["sql"], job["values"]).fetchall()
            _answer({"rows": rows, "slow": matcher.slow})
        except (sqlite3.Error, re.error, RecursionError) as error:
            _answer({"error": f"run.db cannot be searched: {error}"})


def _answer(answer: dict[str, Any]) -> None:
    sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
