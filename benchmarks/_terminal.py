"""A program behind a pseudo-terminal: what it paints and when, what it writes, what it costs.

Bytes are stamped when they are read; what they look like is worked out afterwards, so that the
emulation costs no latency. Knows terminals and processes, not what is shown.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import signal
import struct
import termios
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil
import pyte

COLUMNS, LINES = 120, 40
TAIL = 6000
"""Bytes kept, to say how a program ended."""
SETTLE_S = 0.35
"""After a key nothing is emulated for so long, for that would compete with reading."""
ANSWERS = {
    b"\x1b[c": b"\x1b[?62;22c",
    b"\x1b[6n": b"\x1b[1;1R",
    b"\x1b[?2026$p": b"\x1b[?2026;2$y",  # frames can be synchronised, as most terminals of today can
    b"\x1b]11;?\x07": b"\x1b]11;rgb:0000/0000/0000\x1b\\",
}
"""What a terminal says when it is asked; a program that waits for an answer would start late."""


@dataclass(frozen=True, slots=True)
class Key:
    """A key, and the text that tells that it was painted."""

    press: str
    text: str
    there: bool = True
    """Whether the text comes, or goes."""


class Emulated(pyte.Screen):
    """pyte's screen, which knows no private forms of the sequences that set attributes."""

    def select_graphic_rendition(self, *attributes: int, private: bool = False) -> None:
        """Pass over the private ones, which are questions about the keyboard."""
        if not private:
            super().select_graphic_rendition(*attributes)

    def report_device_status(self, mode: int, **_: object) -> None:
        """Answered by the reader."""


class Terminal:
    """One program in a terminal of its own, from `exec` on."""

    def __init__(
        self,
        words: Sequence[str | Path],
        *,
        folder: Path | None = None,
        env: Mapping[str, str] | None = None,
        size: tuple[int, int] = (COLUMNS, LINES),
    ) -> None:
        """Start it.

        Args:
            words: Program and arguments.
            folder: Where it runs.
            env: Added to this process's environment.
            size: Columns and lines.
        """
        self._screen = Emulated(*size)
        self._stream = pyte.ByteStream(self._screen)
        self._read: list[tuple[float, bytes]] = []
        self._emulated = 0
        self.bytes_read = 0
        self.tail = b""
        self.started_at = time.perf_counter()
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            try:
                self._become([str(word) for word in words], folder, env, size)
            finally:
                os._exit(127)
        self._resize_kernel(size)
        self._reader = threading.Thread(target=self._drain, daemon=True)
        self._reader.start()

    @staticmethod
    def _become(
        words: list[str], folder: Path | None, env: Mapping[str, str] | None, size: tuple[int, int]
    ) -> None:
        if folder is not None:
            os.chdir(folder)
            os.environ["GRPO_TUI_CONFIG_DIR"] = str(folder / "preferences")  # a person's own change nothing
        # A start that compiles the program again is not the one that users wait for.
        for name in ("COLUMNS", "LINES", "NO_COLOR", "PYTHONDONTWRITEBYTECODE"):
            os.environ.pop(name, None)
        os.environ.update({"TERM": "xterm-256color", "COLORTERM": "truecolor", **(env or {})})
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
        os.execvp(words[0], words)

    def _drain(self) -> None:
        while True:
            try:
                data = os.read(self._fd, 65536)
            except OSError:
                return
            if not data:
                return
            self._read.append((time.perf_counter(), data))
            self.bytes_read += len(data)
            self.tail = (self.tail + data)[-TAIL:]
            for asked, answer in ANSWERS.items():
                if asked in data:
                    self.type(answer)

    # -- what is shown ---------------------------------------------------------------------------

    def shown(self) -> str:
        """The screen as text, by all that was read."""
        while self._emulated < len(self._read):
            self._emulate()
        return "\n".join(self._screen.display)

    def since_start(self, text: str, *, patience_s: float = 90.0) -> float:
        """Seconds from the start until this text was painted."""
        return self._when(lambda: text in "\n".join(self._screen.display), text, patience_s) - self.started_at

    def press(self, key: Key, *, patience_s: float = 10.0) -> float:
        """Press a key; seconds until it was painted."""
        if (key.text in self.shown()) == key.there:
            raise RuntimeError(
                f"before {key.press!r} the screen is as after it: {key.text!r}\n{self.shown()}"
            )
        pressed_at = time.perf_counter()
        self.type(key.press.encode())
        time.sleep(SETTLE_S)
        return self._when(lambda: self._has(key), repr(key), patience_s) - pressed_at

    def _has(self, key: Key) -> bool:
        return (key.text in "\n".join(self._screen.display)) == key.there

    def _when(self, true: Callable[[], bool], what: str, patience_s: float) -> float:
        """When the bytes were read that made it true."""
        end = time.monotonic() + patience_s
        while time.monotonic() < end:
            if self._emulated == len(self._read):
                if not self._reader.is_alive():
                    break
                time.sleep(0.001)
                continue
            at = self._emulate()
            if true():
                return at
        raise RuntimeError(f"not painted: {what}\n" + "\n".join(self._screen.display))

    def _emulate(self) -> float:
        at, data = self._read[self._emulated]
        self._read[self._emulated] = (at, b"")
        self._emulated += 1
        self._stream.feed(data)
        return at

    def pass_over(self) -> None:
        """Forget what was read without emulating it; the screen is right again after the next whole paint."""
        while self._emulated < len(self._read):
            self._read[self._emulated] = (self._read[self._emulated][0], b"")
            self._emulated += 1

    # -- what a person does ----------------------------------------------------------------------

    def type(self, data: bytes) -> None:
        """Write into the terminal."""
        with contextlib.suppress(OSError):
            os.write(self._fd, data)

    def resize(self, columns: int, lines: int) -> None:
        """Give it another size."""
        self._screen.resize(lines, columns)
        self._resize_kernel((columns, lines))
        os.kill(self.pid, signal.SIGWINCH)

    def _resize_kernel(self, size: tuple[int, int]) -> None:
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))

    # -- what it costs ---------------------------------------------------------------------------

    def cpu_s(self) -> float:
        """Processor seconds, user and system, of the program and what it started."""
        return summed(lambda process: sum(process.cpu_times()[:2]), self.pid)

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return self._reader.is_alive() and os.waitpid(self.pid, os.WNOHANG) == (0, 0)

    def end(self) -> None:
        """Kill it and what it started."""
        with contextlib.suppress(psutil.Error):
            for process in psutil.Process(self.pid).children(recursive=True):
                with contextlib.suppress(psutil.Error):
                    process.kill()
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, 0)
        self._reader.join(2)
        with contextlib.suppress(OSError):
            os.close(self._fd)


def summed(figure: Callable[[psutil.Process], float], pid: int) -> float:
    """A figure of a process and of all below it, any of which may end meanwhile."""
    total = 0.0
    with contextlib.suppress(psutil.NoSuchProcess):
        first = psutil.Process(pid)
        for process in (first, *first.children(recursive=True)):
            with contextlib.suppress(psutil.Error):
                total += figure(process)
    return total
