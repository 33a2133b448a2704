"""Give each line of output a level: by its words, and by the traceback or warning it belongs to.

A traceback's lines carry the level of its first one, so that a filter by level keeps it whole; so does what
stands indented under a warning or an error. Knows words and indentation; knows nothing of files.
"""

from __future__ import annotations

import re

_WORD = re.compile(r"\b(ERROR|CRITICAL|FATAL|Error|Exception|Traceback|WARNING|WARN|Warning|DEBUG)\b")
_NAMED = re.compile(r"(?:^|: )(?:[A-Za-z_]\w*\.)*[A-Z]\w*?(Error|Exception|Warning)(?::|$)")
"""An exception or warning as Python prints it: `ValueError: no`, `file.py:3: UserWarning: hot`."""
_LEVELS = {"warning": "warning", "warn": "warning", "debug": "debug"}
_RANK = re.compile(r"^\[[\w .:=-]{1,40}\]:? ?")
"""What launchers put before a rank's lines: `[rank0]: `, `[default1]:`."""
_TRACEBACK = re.compile(r"Traceback \(most recent call last\)|Exception Group Traceback")
_BAR = re.compile(r"\s*\d+%\|")
_LINKS = (
    "During handling of the above exception",
    "The above exception was the direct cause",
)
"""What Python writes between two tracebacks of one failure."""
MOST_PREFIXES = 256


class Levels:
    """The level of each line of one log, in order; lines of several ranks may alternate."""

    def __init__(self) -> None:
        self._above: dict[str, tuple[str, bool]] = {}
        """Per prefix: the level of the line above, and whether a traceback goes on there."""

    def of(self, text: str) -> str:
        """The level of the next line: `error`, `warning`, `debug` or `info`."""
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
    """The level of a line by its own words."""
    found = _WORD.search(text) or _NAMED.search(text)
    if found is None:
        return "info"
    return _LEVELS.get(found.group(1).lower(), "error")
