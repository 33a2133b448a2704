"""The real program in a pseudo-terminal: what it writes, and what it leaves behind."""

from __future__ import annotations

import os
import pty
import select
import signal
import struct
import sys
import time
from fcntl import ioctl
from pathlib import Path
from termios import TIOCSWINSZ

import pyte
import pytest

from tests import PATIENCE_S
from tests.ui.recorded_run import RecordedRun

PROGRAM = """
import sys
from pathlib import Path
from grpo_tui.cli.plain import last_word
from grpo_tui.ui.app import run_app
last_word(f"left: {run_app([Path('runs')], Path(sys.argv[1]) if len(sys.argv) > 1 else None)}")
"""


class Terminal:
    """The program as a child behind a pseudo-terminal of 100 by 30, and what that shows."""

    def __init__(self, *arguments: str) -> None:
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            ioctl(0, TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
            env = os.environ | {
                "TERM": "xterm-256color",
                "PYTHONPATH": str(Path(__file__).resolve().parents[2]),
            }
            for name in ("COLUMNS", "LINES"):  # they would count for more than the size
                env.pop(name, None)
            os.execve(sys.executable, [sys.executable, "-c", PROGRAM, *arguments], env)
        self.output, self._emulated = b"", 0
        self.screen = pyte.Screen(100, 30)
        self._stream = pyte.ByteStream(self.screen)

    def until(self, word: bytes, *, there: bool = True) -> int:
        """Read until the screen shows this or the program writes it, or neither; the bytes that were read."""
        end, before = time.monotonic() + PATIENCE_S, len(self.output)
        while (word.decode() in self.shown() or (there and word in self.output[before:])) != there:
            assert time.monotonic() < end, f"{word!r}\n{self.shown()}"
            assert self._read(), f"it ended: {word!r}\n{self.shown()}"
        return len(self.output) - before

    def shown(self) -> str:
        """What the terminal shows of all that was read."""
        self._stream.feed(self.output[self._emulated :])
        self._emulated = len(self.output)
        return "\n".join(self.screen.display)

    def resize(self, columns: int, lines: int) -> None:
        """Give the terminal another size, and forget what it showed."""
        self.screen.resize(lines, columns)
        self.screen.reset()
        ioctl(self.fd, TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def end(self) -> int:
        """Read to the end; the exit status."""
        end = time.monotonic() + PATIENCE_S
        while self._read():
            assert time.monotonic() < end, "it did not end"
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def _read(self) -> bool:
        ready, _, _ = select.select([self.fd], [], [], 0.2)
        if not ready:
            return True
        try:
            data = os.read(self.fd, 65536)
        except OSError:
            return False
        self.output += data
        return bool(data)


def assert_restored(output: bytes) -> None:
    """Main screen, mouse off, cursor on, after everything else."""
    assert output.rindex(b"\x1b[?1049l") > output.rindex(b"\x1b[?1049h")
    assert output.rindex(b"\x1b[?1000l") > output.rindex(b"\x1b[?1000h")
    assert output.rindex(b"\x1b[?25h") > output.rindex(b"\x1b[?25l")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_gives_the_terminal_back(run: RecordedRun, number: signal.Signals) -> None:
    terminal = Terminal(str(run.folder.root))
    terminal.until(b"newest group")
    os.kill(terminal.pid, number)
    terminal.end()
    assert_restored(terminal.output)
    assert not list(run.folder.root.glob("commands/*.json"))


def test_leaving_prints_the_way_back_on_the_main_screen(run: RecordedRun) -> None:
    terminal = Terminal(str(run.folder.root))
    terminal.until(b"Reward is up")
    os.write(terminal.fd, b"q")
    assert terminal.end() == 0
    assert_restored(terminal.output)
    after = terminal.output[terminal.output.rindex(b"\x1b[?1049l") :]
    assert b"left: training continues; `grpo-tui attach runs/demo-add`" in after


def test_leaving_before_the_run_is_read_tells_the_way_back_too(run: RecordedRun) -> None:
    terminal = Terminal(str(run.folder.root))
    os.write(terminal.fd, b"q")
    terminal.end()
    assert b"left: training continues; `grpo-tui attach runs/demo-add`" in terminal.output


def test_no_byte_of_a_model_a_log_or_an_error_commands_the_terminal(run: RecordedRun) -> None:
    terminal = Terminal(str(run.folder.root))
    terminal.until(b"[@click=app.quit]")  # a completion and a refused command hold it
    os.write(terminal.fd, b"l")
    terminal.until(b"{'loss'")
    os.write(terminal.fd, b"q")
    terminal.end()
    assert b"\x1b]52" not in terminal.output
    assert b"c;x\x07" not in terminal.output


def test_the_process_gives_way_to_training(run: RecordedRun) -> None:
    terminal = Terminal()
    terminal.until(b"demo-add")
    assert os.getpriority(os.PRIO_PROCESS, terminal.pid) >= os.getpriority(os.PRIO_PROCESS, 0) + 10
    os.write(terminal.fd, b"q")
    terminal.end()
