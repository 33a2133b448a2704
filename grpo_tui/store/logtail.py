"""Read `train.log` as it grows and make lines of it; a progress bar is one line that changes.

Knows bytes and lines; knows nothing of who writes them. Control bytes other than carriage return and
newline stay in the text, to be made visible where it is shown.
"""

from __future__ import annotations

import re
import time
from pathlib import Path

from grpo_tui.core.records import LogLine
from grpo_tui.store.json_file import open_regular
from grpo_tui.store.loglevels import Levels

MAX_LINE = 120_000
"""Characters kept of one line; of a longer one the rest is counted, and stands in `train.log` alone."""

_COLOUR = re.compile(r"\x1b\[[0-9;]*[mKA-G]")


class LogTail:
    """Follows one log file from a position on."""

    def __init__(self, path: Path, position: int = 0) -> None:
        self._path = path
        self.position = position
        self._partial = ""
        self._levels = Levels()
        self._open = False  # the last line given out may still be replaced

    def read(self, limit_bytes: int = 1 << 20) -> list[LogLine]:
        """The lines that came since the last call, at most `limit_bytes` of them."""
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
        """What is left without an end of line, as a line."""
        rest, self._partial = self._partial, ""
        return [self._line(rest, time.time())] if rest.strip() else []

    def _lines(self, text: str, now: float) -> list[LogLine]:
        pieces = text.split("\n")
        self._partial = pieces.pop()
        found = []
        for piece in pieces:
            # What a terminal would show of "a\rb\rc" is its last part.
            found.append(self._line(piece.rstrip("\r").rsplit("\r", 1)[-1], now))
            self._open = False
        if "\r" in self._partial:
            shown, _, self._partial = self._partial.rpartition("\r")
            # The part after the last carriage return may still grow; the one before it is what shows now.
            current = self._partial or shown.rsplit("\r", 1)[-1]
            if current.strip():
                found.append(self._line(current, now))
                self._open = True
        return [line for line in found if line.text.strip()]

    def _line(self, text: str, now: float) -> LogLine:
        text = _COLOUR.sub("", text)
        level = self._levels.of(text[:MAX_LINE])
        if len(text) > MAX_LINE:
            text = f"{text[:MAX_LINE]}… {len(text) - MAX_LINE:,} characters more in {self._path.name}"
        return LogLine(at=now, text=text, level=level, replaces=self._open)
