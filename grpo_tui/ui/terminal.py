"""Give the terminal back, whatever ends the program.

Textual restores it on its own way out, not on a signal: then mouse reports and the alternate screen would
stay on.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable

from grpo_tui.ui.restore import RESTORE

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
