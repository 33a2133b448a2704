"""What commands print, and on what: lines, JSON and progress on streams that are there and kept safe.

All that a command prints on a terminal goes through `SafeTerminal`, so no command can forget it. Whether a
screen can be shown where the output goes is told here, and said in a sentence what comes instead.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
import threading
from collections.abc import Iterable, Mapping
from typing import Any, TextIO

from grpo_tui.core.text import one_line, safe
from grpo_tui.present.glyphs import ascii_locale, to_ascii

KNOWN = (
    "xterm",
    "screen",
    "tmux",
    "rxvt",
    "linux",
    "alacritty",
    "kitty",
    "foot",
    "wezterm",
    "ghostty",
    "konsole",
)
WITHOUT = ("", "dumb", "unknown", "network", "dialup", "emacs")


def can_place_text(environment: Mapping[str, str]) -> bool:
    """True unless the terminal is known to have no means of putting text at a place.

    A name that the system's database (terminfo) does not know is taken for a terminal newer than it.
    """
    name = environment.get("TERM", "")
    if name in WITHOUT:
        return False
    if name.startswith(KNOWN):
        return True
    import curses

    try:
        curses.setupterm(name, sys.__stdout__.fileno() if sys.__stdout__ is not None else 1)
        return curses.tigetstr("cup") is not None
    except (curses.error, OSError, ValueError):
        return True


def terminal_width() -> int:
    """Cells of a line: as COLUMNS says, else of the terminal that the output goes to; 120 without one."""
    return shutil.get_terminal_size((120, 24)).columns


def print_text(lines: Iterable[str]) -> None:
    """Print lines, in ASCII where the locale has no more."""
    plain = ascii_locale(os.environ)
    for line in lines:
        print(to_ascii(line) if plain else line)


def print_lines(lines: Iterable[Iterable[tuple[str, str]]]) -> None:
    """Print lines of spans without their colours, as `print_text` does."""
    print_text("".join(part for part, _ in line).rstrip() for line in lines)


def print_json(body: Any, *, ascii_only: bool = False, indent: int | None = None) -> None:
    """Print a JSON value in one line, or indented; what is not finite is null."""
    from grpo_tui.core.exchange import finite_json

    print(json.dumps(finite_json(body), ensure_ascii=ascii_only, indent=indent, default=str))


def has_screen(instead: str) -> bool:
    """True when the screen can be shown; on a terminal that cannot, says what comes instead.

    Args:
        instead: What is printed instead, such as `a line per step`.
    """
    if not sys.stdout.isatty():
        return False
    if can_place_text(os.environ):
        return True
    name = one_line(os.environ.get("TERM", ""), 30)
    kind = f"TERM={name}" if name else "TERM is not set, so this terminal"
    print(f"grpo-tui: {kind} cannot show the screen, only {instead}", file=sys.stderr, flush=True)
    return False


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
