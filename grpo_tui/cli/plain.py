"""Output of commands: lines, JSON and progress, on safe streams.

All terminal output of commands goes through `SafeTerminal`. This module also decides whether the terminal can
show the screen.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, TextIO

from grpo_tui.core.text import one_line, safe
from grpo_tui.present.glyphs import ascii_locale, to_ascii

KNOWN = (
    "xterm", "screen", "tmux", "rxvt", "linux", "alacritty", "kitty", "foot", "wezterm", "ghostty", "konsole",
)  # fmt: skip
WITHOUT = ("", "dumb", "unknown", "network", "dialup", "emacs")


def can_place_text(environment: Mapping[str, str]) -> bool:
    """Return whether the terminal can position text. An unknown one is assumed to.

    Terminals newer than the system's terminfo database are not in it.
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
    """Return the width of COLUMNS or of the terminal in cells, 120 without either."""
    return shutil.get_terminal_size((120, 24)).columns


def print_text(lines: Iterable[str]) -> None:
    """Print lines, as ASCII in an ASCII locale."""
    plain = ascii_locale(os.environ)
    for line in lines:
        print(to_ascii(line) if plain else line)


def print_lines(lines: Iterable[Iterable[tuple[str, str]]]) -> None:
    """Print lines of spans without their colors."""
    print_text("".join(part for part, _ in line).rstrip() for line in lines)


def print_json(body: Any, *, ascii_only: bool = False, indent: int | None = None) -> None:
    """Print a value as JSON. NaN and infinities are null."""
    import json

    from grpo_tui.core.exchange import finite_json

    print(json.dumps(finite_json(body), ensure_ascii=ascii_only, indent=indent, default=str))


def has_screen(instead: str) -> bool:
    """Return whether the screen can be shown. Else tell a terminal what is shown `instead`."""
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
    """A terminal stream that shows control characters instead of sending them."""

    def __init__(self, stream: TextIO) -> None:
        self.raw = stream

    def write(self, text: str) -> int:
        """Write a text with `core.text.safe`."""
        self.raw.write(safe(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write each text."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.raw, name)


def guard_terminals() -> None:
    """Wrap stdout and stderr in a `SafeTerminal` if they are terminals.

    Pipes and files get the output unchanged. The screen writes to `sys.__stderr__`.
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if not isinstance(stream, SafeTerminal) and stream.isatty():
            setattr(sys, name, SafeTerminal(stream))


def show_progress(text: str) -> None:
    """Show progress on a terminal's stderr. The next call replaces the line."""
    if sys.stderr.isatty():
        raw = sys.stderr.raw if isinstance(sys.stderr, SafeTerminal) else sys.stderr
        print(f"\r\x1b[K{one_line(text, PROGRESS_CELLS)}", end="", file=raw, flush=True)


def open_standard_streams() -> None:
    """Open closed standard streams on /dev/null.

    Otherwise the next opened file, such as a database, would get the number and receive the output.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # gets the lowest free number
        if getattr(sys, name) is None:
            stream = open(number, mode, encoding="utf-8", closefd=False)  # noqa: SIM115
            setattr(sys, name, stream)
            setattr(sys, f"__{name}__", stream)


def complain(text: str) -> None:
    """Print an error to stderr, if possible."""
    try:
        print(f"grpo-tui: {text}", file=sys.stderr, flush=True)
    except OSError:
        _drop(sys.stderr)  # flushing again at exit would change the exit code


def last_word(text: str) -> None:
    """Print a final message to stdout without waiting for a terminal that does not accept it."""
    if not sys.stdout.isatty():
        print(text)
        return
    data, number = f"{safe(text)}\n".encode(sys.stdout.encoding, errors="replace"), sys.stdout.fileno()

    def write() -> None:
        with contextlib.suppress(OSError):
            os.write(number, data)  # bypass the buffer, because exit waits for its lock

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    thread.join(LAST_WORD_S)


def drop_output() -> None:
    """Discard further output after the reader of stdout is gone. Flushing at exit would fail again."""
    _drop(sys.stdout)


def _drop(stream: TextIO) -> None:
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


@contextlib.contextmanager
def handling(number: signal.Signals, handler: Callable[[], None]) -> Iterator[None]:
    """Call `handler` on a signal."""
    before = signal.signal(number, lambda *_: handler())
    try:
        yield
    finally:
        signal.signal(number, before)


@contextlib.contextmanager
def leaving_by_exit() -> Iterator[None]:
    """Raise SystemExit on SIGTERM and SIGHUP, so that what was started is stopped. Ignored ones stay so."""

    def leave(number: signal.Signals) -> None:
        for other in heard:
            signal.signal(other, signal.SIG_IGN)  # nothing interrupts the stopping
        raise SystemExit(128 + number)

    heard = [n for n in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(n) is not signal.SIG_IGN]
    with contextlib.ExitStack() as stack:
        for number in heard:
            stack.enter_context(handling(number, partial(leave, number)))
        yield
