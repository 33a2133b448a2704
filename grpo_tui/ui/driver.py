"""Terminal output for slow connections: fewer bytes, and none once the terminal is gone.

Used by `PatientDriver` in `textual_private.py`.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import repeat
from typing import Any, NamedTuple, TextIO

from rich.console import Console
from textual.strip import Strip

RENDITION = re.compile(r"\x1b\[([0-9;]*)m")
MOVES = re.compile(r"(?:\x1b\[[0-9;]*H|\r|\n)*")
"""Sequences between two texts that show no color themselves."""
OFF = {"1": "22", "2": "22", "3": "23", "4": "24", "5": "25", "6": "25", "7": "27", "8": "28", "9": "29",
       "21": "24", "53": "55"}  # fmt: skip
"""SGR parameter that ends each attribute."""
SEEN_ON_BLANKS = frozenset(("4", "7", "9", "21", "53"))
"""Attributes that are visible on spaces."""


class TextStyle(NamedTuple):
    """SGR parameters for foreground, background and other attributes. Empty means the terminal's default."""

    ink: str = ""
    ground: str = ""
    others: frozenset[str] = frozenset()


PLAIN = TextStyle()


def merge_styles(data: str) -> str:
    """Return the same picture in fewer bytes, with colors sent only where they change.

    Textual ends each piece of text with a reset and starts the next with its full style, about 45 bytes a
    piece. That is two thirds of what a live view sends.

    Args:
        data: Output that starts and ends at the terminal's default colors.

    Returns:
        `data` unchanged if it contains a sequence this module cannot merge.
    """
    pieces = RENDITION.split(data)
    out = [pieces[0]]
    now = wanted = PLAIN
    for index in range(1, len(pieces), 2):
        look = read_look(wanted, pieces[index])
        if look is None:
            return data
        wanted, text = look, pieces[index + 1]
        if not text:
            continue
        if MOVES.fullmatch(text):
            out.append(text)
            continue
        target = wanted
        if text.isspace() and not (now.others | wanted.others) & SEEN_ON_BLANKS:
            target = TextStyle(now.ink, wanted.ground, now.others)
        out += (change(now, target), text)
        now = target
    out.append(change(now, wanted))
    return "".join(out)


@lru_cache(maxsize=2048)
def read_look(before: TextStyle, parameters: str) -> TextStyle | None:
    """Return the style after an SGR sequence; None when it has an unknown parameter."""
    ink, ground, others = before
    words = parameters.split(";")
    at = 0
    while at < len(words):
        word = words[at].lstrip("0")
        taken = 1
        if not word:
            ink, ground, others = PLAIN
        elif word in ("38", "48"):
            taken = {"2": 5, "5": 3}.get("".join(words[at + 1 : at + 2]), 0)
            if not taken or at + taken > len(words):
                return None
            color = ";".join(words[at : at + taken])
            ink, ground = (color, ground) if word == "38" else (ink, color)
        elif word in OFF:
            others |= {word}
        elif len(word) == 2 and word[0] in "39" and word[1] in "01234567":
            ink = word
        elif (len(word) == 2 and word[0] == "4") or (len(word) == 3 and word[:2] == "10"):
            if word[-1] not in "01234567":
                return None
            ground = word
        else:
            return None
        at += taken
    return TextStyle(ink, ground, others)


@lru_cache(maxsize=2048)
def change(now: TextStyle, wanted: TextStyle) -> str:
    """Return the shortest sequence that changes one style into another."""
    if now == wanted:
        return ""
    if wanted == PLAIN:
        return "\x1b[0m"
    whole = ["0", *sorted(wanted.others), wanted.ink, wanted.ground]
    ended = {OFF[word] for word in now.others - wanted.others}
    kept = {word for word in wanted.others if word not in now.others or OFF[word] in ended}
    parts = [*sorted(ended), *sorted(kept)]
    if now.ink != wanted.ink:
        parts.append(wanted.ink or "39")
    if now.ground != wanted.ground:
        parts.append(wanted.ground or "49")
    return min(("\x1b[" + ";".join(filter(None, words)) + "m" for words in (parts, whole)), key=len)


ONE_CELL_EACH = re.compile("[ -~\u00b7\u2013-\u2026\u2190-\u22ff\u2500-\u259f\u25b2-\u25d0\u2800-\u28ff]*")
"""Characters one cell wide that never combine with a neighbor: ASCII, and what this program draws."""
APART = 8
"""Runs of changed cells closer than this are sent as one: moving the cursor costs about as many bytes."""


class ShownCells:
    """The cells that the terminal shows, so that an update sends only those that differ.

    Textual sends each changed line from the left edge of its widget, and everything when a dialog closes.
    """

    def __init__(self) -> None:
        self._rows: dict[int, list[Any]] = {}

    def forget(self) -> None:
        """Send every cell again: the terminal may show something else."""
        self._rows.clear()

    def sequence(self, strips: Iterable[tuple[int, int, Strip]], console: Console) -> str:
        """Return what brings the terminal up to date with strips, each given as (x, y, strip)."""
        return "".join(
            f"\x1b[{y + 1};{at + 1}H{part.render(console)}"
            for x, y, strip in strips
            for at, part in self._changes(x, y, strip)
        )

    def _changes(self, x: int, y: int, strip: Strip) -> Iterator[tuple[int, Strip]]:
        """Yield the parts of a strip that differ from what is shown, each with its first column."""
        width = strip.cell_length
        row = self._rows.setdefault(y, [])
        row.extend(repeat(None, x + width - len(row)))
        before = row[x : x + width]
        if ONE_CELL_EACH.fullmatch(strip.text) is None:
            # Terminals disagree about the width of other characters, so such a strip is sent whole.
            whole = [tuple(strip), *repeat("", width - 1)]
            if before != whole:
                row[x : x + width] = whole
                del row[x + width :]  # the terminal may have moved what follows
                yield x, strip
            return
        cells = [cell for text, style, _ in strip for cell in zip(text, repeat(style), strict=False)]
        if cells == before:
            return
        row[x : x + width] = cells
        start = end = -1
        for at, (one, other) in enumerate(zip(before, cells, strict=True)):
            if one == other:
                continue
            if start < 0:
                start = at
            elif at - end > APART:
                yield x + start, strip.crop(start, end)
                start = at
            end = at + 1
        yield x + start, strip.crop(start, end)


class LastingFile:
    """The terminal as a file. Once the terminal is gone, writes do nothing and the process gets SIGHUP.

    Bypasses the buffer of Python's own file. Its lock would be held while a stalled terminal accepts no data,
    and flushing standard error at exit would then block forever.
    """

    def __init__(self, file: TextIO) -> None:
        self._file, self._gone = file, False

    def write(self, text: str) -> None:
        if not self._gone:
            left = text.encode(self._file.encoding, errors="backslashreplace")
            try:
                while left:
                    left = left[os.write(self._file.fileno(), left) :]
            except OSError:
                self._hang_up()

    def flush(self) -> None:
        """Do nothing: writes are not buffered."""

    def fileno(self) -> int:
        return self._file.fileno()

    def isatty(self) -> bool:
        return self._file.isatty()

    def _hang_up(self) -> None:
        self._gone = True
        os.kill(os.getpid(), signal.SIGHUP)
