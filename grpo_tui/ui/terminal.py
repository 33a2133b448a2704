"""Restore the terminal however the program ends; write its clipboard and title.

Textual restores the terminal on a normal exit but not on a signal, which would leave mouse reports and the
alternate screen on.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from grpo_tui.core.text import one_line, safe
from grpo_tui.present.glyphs import state_sign, to_ascii
from grpo_tui.ui.restore import RESTORE, TITLE_BACK

if TYPE_CHECKING:
    from grpo_tui.present.train_view import TrainView

MOST_BYTES = 74_994
"""Some terminals drop longer sequences entirely. This fits into 100,000 bytes as framed Base64."""
_SCREEN_PIECE = 240
"""GNU screen passes on strings of at most 256 bytes."""


def fitting(text: str) -> str:
    """Truncate text to what a clipboard takes. Control characters are made visible, as a shell may get it."""
    whole = safe(text)
    data = whole.encode("utf-8")
    if len(data) <= MOST_BYTES:
        return whole
    return data[:MOST_BYTES].decode("utf-8", "ignore")


def sequences(text: str, environment: Mapping[str, str]) -> str:
    """Return the sequences that copy `text` to the clipboard (OSC 52), also through SSH, tmux and GNU screen.

    The text is Base64, so nothing in it can end the sequence.

    tmux handles OSC 52 itself if `set-clipboard` is `on`, and passes on a wrapped one if `allow-passthrough`
    is on. Both are written; they set the same text.
    """
    plain = f"\x1b]52;c;{base64.b64encode(text.encode('utf-8')).decode('ascii')}\x07"
    if environment.get("TMUX"):
        return plain + "\x1bPtmux;" + plain.replace("\x1b", "\x1b\x1b") + "\x1b\\"
    if environment.get("STY"):
        pieces = [plain[i : i + _SCREEN_PIECE] for i in range(0, len(plain), _SCREEN_PIECE)]
        return "".join(f"\x1bP{piece}\x1b\\" for piece in pieces)
    return plain


MOST_CELLS = 80
KEEP = "\x1b[22;0t"
"""XTWINOPS: pushes the current title onto the terminal's stack. Ignored by terminals without one."""
WITHOUT = ("dumb", "linux", "unknown", "vt", "ansi", "cons", "sun")
"""Prefixes of TERM for terminals that have no title and may print the sequence."""


def has_title(environment: Mapping[str, str]) -> bool:
    """Return whether the terminal supports a title."""
    name = environment.get("TERM", "")
    return bool(name) and not name.startswith(WITHOUT)


def title_of(view: TrainView | None, *, plain: bool = False) -> str:
    """Return the title for a view, such as `▶ 57/120 demo-add — grpo-tui`. Contains no control characters."""
    if view is None:
        return "grpo-tui"
    sign = state_sign(view.state)[0]
    step = f"{view.step}/{view.total_steps}" if view.total_steps else str(view.step)
    text = one_line(f"{sign} {step} {view.name} — grpo-tui", MOST_CELLS)
    return to_ascii(text.replace("—", "-")) if plain else text


class TerminalTitle:
    """Writes the terminal title when it changes, and restores the previous one. `plain` uses ASCII only."""

    def __init__(self, write: Callable[[str], object], *, plain: bool = False) -> None:
        self._write, self._plain = write, plain
        self._shown: str | None = None

    def show(self, view: TrainView | None) -> None:
        title = title_of(view, plain=self._plain)
        if title != self._shown:
            self._write(f"{KEEP if self._shown is None else ''}\x1b]2;{title}\x07")
            self._shown = title

    def give_back(self) -> None:
        if self._shown is not None:
            self._write(TITLE_BACK)
        self._shown = None


LEAVING_SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
PATIENCE_S = 3.0
"""Time for an orderly exit after a signal before the process restores the terminal and exits."""

TWICE_S = 1.0
"""Signals this close together count as one: the terminal and a parent may both send it."""


def exit_on_signals(leave: Callable[[], object]) -> None:
    """Call `leave` on SIGTERM, SIGHUP and SIGINT. A later second signal or a hanging exit kills the process.

    Ctrl+C is a key in this app, not a signal. Call this inside the running event loop.
    """
    loop = asyncio.get_running_loop()
    asked_at: float | None = None

    def on_signal(number: int) -> None:
        nonlocal asked_at
        if asked_at is not None:
            if loop.time() - asked_at > TWICE_S:
                _end(128 + number)
            return
        asked_at = loop.time()
        loop.call_later(PATIENCE_S, _end, 128 + number)
        leave()

    for number in LEAVING_SIGNALS:
        with contextlib.suppress(RuntimeError, ValueError, NotImplementedError):  # not in the main thread
            loop.add_signal_handler(number, on_signal, number)


def follow_stops(give_back: Callable[[], object], take: Callable[[], object]) -> None:
    """On SIGTSTP leave full-screen mode and stop. On SIGCONT enter it again if in the foreground.

    SIGSTOP gives no warning, so in that case the terminal is released on SIGCONT before it is taken back. All
    of this runs between two turns of the event loop: a plain signal handler could interrupt the writer's
    queue and deadlock. Call this inside the running event loop.
    """
    loop = asyncio.get_running_loop()
    given = False

    def on_stop() -> None:
        nonlocal given
        if not given:
            give_back()
        given = True
        os.kill(os.getpid(), signal.SIGSTOP)

    def on_continue() -> None:
        nonlocal given
        if not in_foreground():
            os.kill(os.getpid(), signal.SIGSTOP)
            return
        if not given:
            give_back()
        given = False
        take()

    for number, handler in ((signal.SIGTSTP, on_stop), (signal.SIGCONT, on_continue)):
        with contextlib.suppress(RuntimeError, ValueError, NotImplementedError):  # not in the main thread
            loop.add_signal_handler(number, handler)


def in_foreground() -> bool:
    """Return whether this process is in the terminal's foreground. True if there is no terminal."""
    stream = sys.__stdin__
    try:
        return stream is None or os.tcgetpgrp(stream.fileno()) == os.getpgrp()
    except (OSError, ValueError):
        return True


def can_be_continued() -> bool:
    """Return whether a shell with job control could continue a stopped app.

    The kernel's rule for SIGTSTP: the process group has a parent outside of it in the same session.
    """
    pid, group, session = os.getpid(), os.getpgrp(), os.getsid(0)
    while os.getpgid(pid) == group:
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
                pid = int(file.read().rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            return False
        if pid == 0:
            return False
    return os.getsid(pid) == session


def _end(code: int) -> None:
    restore_terminal()
    os._exit(code)


def restore_terminal() -> None:
    """Write the sequences that undo full-screen modes. Harmless if they are already undone."""
    stream = sys.__stderr__
    if stream is None or not stream.isatty():
        return
    with contextlib.suppress(OSError, ValueError):  # the terminal may be gone
        os.write(stream.fileno(), RESTORE.encode())
