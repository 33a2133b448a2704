"""Give the terminal back, whatever ends the program.

Textual restores it on its own way out, not on a signal: then mouse reports and the alternate screen would
stay on. Knows signals and escape sequences; knows nothing of the app but how to make it exit.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable

LEAVING_SIGNALS = (signal.SIGTERM, signal.SIGHUP)
PATIENCE_S = 3.0
"""How long an orderly exit may take after a signal before the process restores the terminal and goes."""

RESTORE = (
    "\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?1015l"  # mouse reports
    "\x1b[?1004l\x1b[?2004l\x1b[?2048l\x1b[<u"  # focus, paste, in-band resize, keyboard protocol
    "\x1b[?1049l\x1b[?25h\x1b[0m"  # main screen, cursor, plain text
)


def exit_on_signals(leave: Callable[[], object]) -> None:
    """Call `leave` on SIGTERM and SIGHUP; a second signal, or an exit that hangs, ends the process.

    Call it inside the running event loop.
    """
    loop = asyncio.get_running_loop()
    asked = False

    def on_signal(number: int) -> None:
        nonlocal asked
        if asked:
            restore_terminal()
            os._exit(128 + number)
        asked = True
        loop.call_later(PATIENCE_S, _end, 128 + number)
        leave()

    for number in LEAVING_SIGNALS:
        with contextlib.suppress(RuntimeError, ValueError, NotImplementedError):  # not in the main thread
            loop.add_signal_handler(number, on_signal, number)


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
