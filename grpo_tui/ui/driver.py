"""A terminal driver for bad lines: few bytes, no waiting, no end in a terminal that is gone.

Textual's own waits once thirty writes are queued: on a line that stands still neither keys nor signals are
served then, and when the terminal is gone that lasts for ever. Here pictures that a slow line cannot take are
left out, and the newest is painted whole when it can again.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import signal
from typing import Any, TextIO

from textual.drivers.linux_driver import LinuxDriver

from grpo_tui.ui.frugal import frugal

SYNC_START, SYNC_END = "\x1b[?2026h", "\x1b[?2026l"
MOST_WAITING = 6
"""Writes that may wait for the terminal before pictures are left out: two pictures with their frames."""
LOOK_AGAIN_S = 0.1
LAST_WORDS_S = 1.0
"""How long leaving waits for a terminal that takes nothing."""


class LastingFile:
    """The terminal as a file; once it is gone, writing does nothing and the process is hung up.

    It writes past the buffer of Python's own file: its lock would be held while a terminal takes nothing, and
    whoever flushes standard error at exit would wait for it for ever.
    """

    def __init__(self, file: TextIO) -> None:
        self._file, self._gone = file, False

    def write(self, text: str) -> None:
        """Write, as long as there is a terminal."""
        if not self._gone:
            left = text.encode(self._file.encoding, errors="backslashreplace")
            try:
                while left:
                    left = left[os.write(self._file.fileno(), left) :]
            except OSError:
                self._hang_up()

    def flush(self) -> None:
        """Nothing is held back."""

    def fileno(self) -> int:
        """The terminal's descriptor."""
        return self._file.fileno()

    def isatty(self) -> bool:
        """Whether it is a terminal."""
        return self._file.isatty()

    def _hang_up(self) -> None:
        self._gone = True
        os.kill(os.getpid(), signal.SIGHUP)


class PatientDriver(LinuxDriver):
    """Textual's driver for Unix terminals, which leaves pictures out rather than wait."""

    def __init__(self, *args: Any, **keywords: Any) -> None:
        super().__init__(*args, **keywords)
        self._file = LastingFile(self._file)  # type: ignore[assignment,arg-type]
        self._leaves_out = self._in_frame = False

    def write(self, data: str) -> None:
        """Queue what is to be written; a picture is left out while earlier ones wait."""
        framed = self._in_frame or data == SYNC_START
        self._in_frame = framed and data != SYNC_END
        picture = framed or "\x1b[0m" in data
        begins = data == SYNC_START or (picture and not framed)
        if begins and not self._leaves_out and self._waiting() > MOST_WAITING:
            self._leaves_out = True
            self._look_again()
        if not (picture and self._leaves_out):
            self._put(frugal(data) if picture else data)

    def close(self) -> None:
        """Write the rest, but not for ever."""
        if self._writer_thread is not None:
            self._put(None)
            self._writer_thread.join(LAST_WORDS_S)

    def _waiting(self) -> int:
        return 0 if self._writer_thread is None else self._writer_thread._queue.qsize()

    def _put(self, data: str | None) -> None:
        if self._writer_thread is not None:
            with contextlib.suppress(queue.Full):  # what mends the terminal in the end is the guard's to say
                self._writer_thread._queue.put_nowait(data)

    def _look_again(self) -> None:
        """Paint the newest picture whole once the terminal has taken what waited."""
        if self._waiting():
            asyncio.get_running_loop().call_later(LOOK_AGAIN_S, self._look_again)
            return
        self._leaves_out = False
        self._app.refresh()
