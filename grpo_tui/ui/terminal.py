"""Give the terminal back, whatever ends the program; write to its clipboard and its title.

Textual restores it on its own way out, not on a signal: then mouse reports and the alternate screen would
stay on.
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
"""Several terminals drop a longer sequence whole: 100,000 bytes of Base64 less its frame."""
_SCREEN_PIECE = 240
"""GNU screen passes on strings of 256 bytes at most."""


def fitting(text: str) -> str:
    """As much of the text as a clipboard takes, control characters made visible, for a shell may get it."""
    whole = safe(text)
    data = whole.encode("utf-8")
    if len(data) <= MOST_BYTES:
        return whole
    return data[:MOST_BYTES].decode("utf-8", "ignore")


def sequences(text: str, environment: Mapping[str, str]) -> str:
    """What is written to the terminal to have it copy `text` (OSC 52), through SSH, tmux or GNU screen too.

    Only what a person asks for is sent. The text goes out in Base64, so nothing in it can end the sequence.

    tmux takes OSC 52 itself where `set-clipboard` is `on`, and passes a wrapped one on where
    `allow-passthrough` is; both are written, for they set the same text.
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
"""XTWINOPS: the terminal keeps its title on a stack; ignored where there is none."""
WITHOUT = ("dumb", "linux", "unknown", "vt", "ansi", "cons", "sun")
"""Terminals, by the start of their name, that have no title and may print the sequence."""


def has_title(environment: Mapping[str, str]) -> bool:
    """True when the terminal is of a kind that has a title."""
    name = environment.get("TERM", "")
    return bool(name) and not name.startswith(WITHOUT)


def title_of(view: TrainView | None, *, plain: bool = False) -> str:
    """The title for a view: `▶ 57/120 demo-add, grpo-tui`; never with a control character."""
    if view is None:
        return "grpo-tui"
    sign = state_sign(view.state)[0]
    step = f"{view.step}/{view.total_steps}" if view.total_steps else str(view.step)
    text = one_line(f"{sign} {step} {view.name} — grpo-tui", MOST_CELLS)
    return to_ascii(text.replace("—", "-")) if plain else text


class TerminalTitle:
    """Writes the title, only when it changes; what was there before is put back.

    Args:
        write: Writes to the terminal.
        plain: Whether only ASCII can be shown.
    """

    def __init__(self, write: Callable[[str], object], *, plain: bool = False) -> None:
        self._write, self._plain = write, plain
        self._shown: str | None = None

    def show(self, view: TrainView | None) -> None:
        """Show this view."""
        title = title_of(view, plain=self._plain)
        if title != self._shown:
            self._write(f"{KEEP if self._shown is None else ''}\x1b]2;{title}\x07")
            self._shown = title

    def give_back(self) -> None:
        """Put back what stood there before."""
        if self._shown is not None:
            self._write(TITLE_BACK)
        self._shown = None


LEAVING_SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
PATIENCE_S = 3.0
"""How long an orderly exit may take after a signal before the process restores the terminal and goes."""

TWICE_S = 1.0
"""A signal may come twice at once, from the terminal and from the parent that passes it on: that is one."""


def exit_on_signals(leave: Callable[[], object]) -> None:
    """Call `leave` on SIGTERM, SIGHUP and SIGINT; a later second signal, or an exit that hangs, ends it all.

    Ctrl+C is a key here and no signal. Call it inside the running event loop.
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
    """On SIGTSTP give the terminal back and stop; on SIGCONT take it again, in the foreground only.

    SIGSTOP gives no warning, so what runs on the terminal is then given back on SIGCONT, before it is taken
    anew. All of it happens between two turns of the event loop: a plain signal handler could interrupt the
    queue of the screen's writer and wait for it for ever. Call it inside the running event loop.

    Args:
        give_back: Leaves full-screen mode.
        take: Enters it and paints.
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
    """True when this process may write to its terminal, and when it has none to ask."""
    stream = sys.__stdin__
    try:
        return stream is None or os.tcgetpgrp(stream.fileno()) == os.getpgrp()
    except (OSError, ValueError):
        return True


def can_be_continued() -> bool:
    """True when a shell with job control could bring a stopped screen back.

    As the kernel decides it for SIGTSTP: the process group has a parent outside of it, in the same session.
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
    """Write the sequences that undo a full-screen program's modes; harmless when they are undone already."""
    stream = sys.__stderr__
    if stream is None or not stream.isatty():
        return
    with contextlib.suppress(OSError, ValueError):  # the terminal may be gone
        os.write(stream.fileno(), RESTORE.encode())
