"""Split `train.log` into lines as it grows, and read stored lines in pages, by level and text.

A progress bar is one line that changes. Control bytes other than carriage return and newline stay in the
text and are made visible where it is shown. A line's level comes from its own words and from the traceback
or warning it belongs to, so that a filter by level keeps tracebacks and indented details whole.

Of a long stored line a page holds only a piece, around the text searched for. `LogReader.text` returns all.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grpo_tui.core.records import LogLine
from grpo_tui.store.connection import RunFile
from grpo_tui.store.json_file import open_regular

_WORD = re.compile(r"\b(ERROR|CRITICAL|FATAL|Error|Exception|Traceback|WARNING|WARN|Warning|DEBUG)\b")
_NAMED = re.compile(r"(?:^|: )(?:[A-Za-z_]\w*\.)*[A-Z]\w*?(Error|Exception|Warning)(?::|$)")
"""An exception or warning as Python prints it: `ValueError: no`, `file.py:3: UserWarning: hot`."""
_LEVELS = {"warning": "warning", "warn": "warning", "debug": "debug"}
_RANK = re.compile(r"^\[[\w .:=-]{1,40}\]:? ?")
"""Prefixes that launchers add to a rank's lines: `[rank0]: `, `[default1]:`."""
_TRACEBACK = re.compile(r"Traceback \(most recent call last\)|Exception Group Traceback")
_BAR = re.compile(r"\s*\d+%\|")
_LINKS = (
    "During handling of the above exception",
    "The above exception was the direct cause",
)
"""What Python prints between two tracebacks of one failure."""
MOST_PREFIXES = 256


class Levels:
    """Determines the level of each line of a log, in order. Lines of several ranks may alternate."""

    def __init__(self) -> None:
        self._above: dict[str, tuple[str, bool]] = {}
        """By prefix: the level of the previous line, and whether it is inside a traceback."""

    def of(self, text: str) -> str:
        """Return the level of the next line: `error`, `warning`, `debug` or `info`."""
        found = _RANK.match(text)
        prefix = found.group() if found else ""
        level, inside = self._next(text[len(prefix) :], *self._above.get(prefix, ("info", False)))
        if len(self._above) > MOST_PREFIXES:
            self._above.clear()
        self._above[prefix] = (level, inside)
        return level

    def _next(self, line: str, above: str, inside: bool) -> tuple[str, bool]:
        if _TRACEBACK.search(line):
            return "error", True
        if _BAR.match(line):
            return "info", False
        if line[:1] in (" ", "\t"):
            return (above if above in ("error", "warning") else level_of(line)), inside
        if line.startswith(_LINKS):
            return "error", True
        if inside:  # the exception itself ends its traceback
            return "error", False
        return level_of(line), False


def level_of(text: str) -> str:
    """Return the level of a line judged by its own words."""
    found = _WORD.search(text) or _NAMED.search(text)
    if found is None:
        return "info"
    return _LEVELS.get(found.group(1).lower(), "error")


MAX_LINE = 120_000
"""Characters kept of a line. The rest is counted, and only `train.log` has it."""

_COLOR = re.compile(r"\x1b\[[0-9;]*[mKA-G]")


class LogTail:
    """Follows a log file from a byte position on."""

    def __init__(self, path: Path, position: int = 0) -> None:
        self._path = path
        self.position = position
        self._partial = ""
        self._levels = Levels()
        self._open = False  # the last line returned may still be replaced

    def read(self, limit_bytes: int = 1 << 20) -> list[LogLine]:
        """Return the lines added since the last call, from at most `limit_bytes` of the file."""
        try:
            with open_regular(self._path) as file:
                file.seek(self.position)
                data = file.read(limit_bytes)
        except OSError:
            return []
        if not data:
            return []
        self.position += len(data)
        text = self._partial + data.decode("utf-8", "replace")
        return self._lines(text.replace("\r\n", "\n"), time.time())

    def flush(self) -> list[LogLine]:
        """Return the remaining text without a line end as a line."""
        rest, self._partial = self._partial, ""
        return [self._line(rest, time.time())] if rest.strip() else []

    def _lines(self, text: str, now: float) -> list[LogLine]:
        pieces = text.split("\n")
        self._partial = pieces.pop()
        found = []
        for piece in pieces:
            # Of "a\rb\rc" a terminal shows only the last part.
            found.append(self._line(piece.rstrip("\r").rsplit("\r", 1)[-1], now))
            self._open = False
        if "\r" in self._partial:
            shown, _, self._partial = self._partial.rpartition("\r")
            # The part after the last carriage return may still grow. Until then the previous one is shown.
            current = self._partial or shown.rsplit("\r", 1)[-1]
            if current.strip():
                found.append(self._line(current, now))
                self._open = True
        return [line for line in found if line.text.strip()]

    def _line(self, text: str, now: float) -> LogLine:
        text = _COLOR.sub("", text)
        level = self._levels.of(text[:MAX_LINE])
        if len(text) > MAX_LINE:
            text = f"{text[:MAX_LINE]}… {len(text) - MAX_LINE:,} characters more in {self._path.name}"
        return LogLine(at=now, text=text, level=level, replaces=self._open)


PIECE = 1_000
BEFORE_HIT = 40
"""Characters before the match in such a piece."""
SHOWN = {
    "all": "",
    "folded": "NOT (level = 'info' AND length(text) < 4000 AND (text GLOB '{''*'': *}'"
    " OR text GLOB '[[]*]:* {''*'': *}' OR text GLOB '*[0-9]%|*]'))",
    "warning": "level IN ('warning', 'error')",
    "error": "level = 'error'",
}
"""Filter name to its SQL condition; `folded` hides logged metrics and progress bars."""


@dataclass(frozen=True, slots=True)
class StoredLine:
    """A line of output, or a piece of it."""

    id: int
    at: float
    level: str
    text: str
    start: int = 0
    length: int = 0


class LogReader(RunFile):
    """Reads the log lines of one run. Use it from one thread at a time.

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
        """Return a page of lines in order, from number `first` to `last`, both inclusive.

        Args:
            level: `all`, `folded` (all but metrics and progress bars), `warning` (and errors) or `error`.
            words: Long lines are cut to a piece around this text. It does not filter lines.
            newest: Return the last lines of the range instead of the first.
            piece: Maximum characters per line.
        """
        where, values = _where(first, last, level)
        order = "DESC" if newest else "ASC"
        hit = "max(0, instr(lower(text), lower(?)) - 1)"
        rows = self.all(
            f"SELECT id, at, level, length(text) AS n, substr(text, start + 1, ?) AS part, start FROM"
            f" (SELECT *, CASE WHEN {hit} > ? THEN {hit} - {BEFORE_HIT} ELSE 0 END AS start"
            f" FROM log WHERE {where} ORDER BY id {order} LIMIT ?)",
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
        """Return the nearest line with this text (in any case), after or before line `start`."""
        first, last = (start + 1, None) if forward else (None, start - 1)
        where, values = _where(first, last, level, words)
        order = "ASC" if forward else "DESC"
        row = self.one(f"SELECT id FROM log WHERE {where} ORDER BY id {order} LIMIT 1", *values)
        return None if row is None else int(row["id"])

    def count(
        self, words: str = "", *, level: str = "all", first: int | None = None, last: int | None = None
    ) -> int:
        """Count the lines with this text, from line `first` to line `last`."""
        where, values = _where(first, last, level, words)
        return int(self.one(f"SELECT count(*) FROM log WHERE {where}", *values)[0])

    def newest(self) -> int:
        """Return the number of the newest line; 0 without any."""
        return int(self.one("SELECT coalesce(max(id), 0) FROM log")[0])

    def text(self, line: int) -> str:
        """Return the whole text of a line; empty when there is no such line."""
        row = self.one("SELECT text FROM log WHERE id = ?", line)
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
        """Yield whole lines after `after`, up to `last`, that contain the text and match the pattern."""
        words = words.lower()
        while page := self.page(first=after + 1, last=last, level=level, limit=200, piece=1 << 30):
            for line in page:
                after = line.id
                if words in line.text.lower() and (pattern is None or pattern.search(line.text)):
                    yield line


def _where(first: int | None, last: int | None, level: str, words: str = "") -> tuple[str, list[Any]]:
    asked = {"id >= ?": first, "id <= ?": last, "instr(lower(text), lower(?)) > 0": words or None}
    clauses = [*(clause for clause, value in asked.items() if value is not None), SHOWN[level]]
    values = [value for value in asked.values() if value is not None]
    return " AND ".join(filter(None, clauses)) or "1", values
