"""Give a process the three standard streams, whatever it was started without, and keep terminals safe.

All that a command prints on a terminal goes through `SafeTerminal`, so no command can forget it.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterable
from typing import Any, TextIO

from grpo_tui.core.text import one_line, safe

LAST_WORD_S = 1.0
PROGRESS_CELLS = 76


class SafeTerminal:
    """A stream to a terminal that shows every control character instead of sending it.

    Args:
        stream: The stream; everything but writing is its own.
    """

    def __init__(self, stream: TextIO) -> None:
        self.raw = stream

    def write(self, text: str) -> int:
        """Write a text as `core.text.safe` shows it."""
        self.raw.write(safe(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write each of some texts."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.raw, name)


def guard_terminals() -> None:
    """Put a `SafeTerminal` before standard output and error where they are terminals.

    A pipe or a file gets what is printed byte for byte. The screen writes to `sys.__stderr__`.
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if not isinstance(stream, SafeTerminal) and stream.isatty():
            setattr(sys, name, SafeTerminal(stream))


def show_progress(text: str) -> None:
    """Say on a terminal's stderr what is done now, in a line that the next one replaces."""
    if sys.stderr.isatty():
        raw = sys.stderr.raw if isinstance(sys.stderr, SafeTerminal) else sys.stderr
        print(f"\r\x1b[K{one_line(text, PROGRESS_CELLS)}", end="", file=raw, flush=True)


def open_standard_streams() -> None:
    """Open what is closed of standard input, output and error on /dev/null.

    A closed one's number would go to the next file that is opened, a database or a lock, and what is
    printed then would go into that.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # gets the lowest free number, this one
        if getattr(sys, name) is None:
            stream = open(number, mode, encoding="utf-8", closefd=False)  # noqa: SIM115
            setattr(sys, name, stream)
            setattr(sys, f"__{name}__", stream)


def complain(text: str) -> None:
    """Say on stderr what is wrong; where that cannot be written, the exit code has to do."""
    try:
        print(f"grpo-tui: {text}", file=sys.stderr, flush=True)
    except OSError:
        _drop(sys.stderr)  # at exit Python would try once more, and make another exit code of it


def last_word(text: str) -> None:
    """Say a last word on stdout, unless it is a terminal that takes nothing: nobody waits for that."""
    if not sys.stdout.isatty():
        print(text)
        return
    data, number = f"{safe(text)}\n".encode(sys.stdout.encoding, errors="replace"), sys.stdout.fileno()

    def write() -> None:
        with contextlib.suppress(OSError):
            os.write(number, data)  # past the buffer, whose lock would be waited for at exit

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    thread.join(LAST_WORD_S)


def drop_output() -> None:
    """Let nothing more be written to stdout, whose reader went away; at exit it would raise again."""
    _drop(sys.stdout)


def _drop(stream: TextIO) -> None:
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
