"""The real program on lines that stand still, are slow, or are cut."""

from __future__ import annotations

import os
import signal
import time

import psutil

from tests import PATIENCE_S
from tests.ui.recorded_run import RecordedRun
from tests.ui.test_terminal import Terminal


def ended(pid: int) -> bool:
    """Whether the child ends within our patience."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        if os.waitpid(pid, os.WNOHANG)[0]:
            return True
        time.sleep(0.05)
    return False


def overfilled(run: RecordedRun) -> Terminal:
    """The program after it has painted the whole screen many times and nobody has read it."""
    terminal = Terminal(str(run.folder.root))
    terminal.until(b"newest group")
    for _ in range(17):
        os.write(terminal.fd, b"14")
        time.sleep(0.02)
    process = psutil.Process(terminal.pid)
    before, now = -1.0, process.cpu_times().user
    while now - before > 0.2:  # until it has nothing more to do, or can do nothing more
        time.sleep(0.7)
        before, now = now, process.cpu_times().user
    return terminal


def test_a_terminal_that_is_gone_ends_the_program(run: RecordedRun) -> None:
    terminal = overfilled(run)
    os.close(terminal.fd)
    assert ended(terminal.pid)


def test_a_terminal_that_takes_nothing_holds_up_no_signal(run: RecordedRun) -> None:
    terminal = overfilled(run)
    os.kill(terminal.pid, signal.SIGTERM)
    assert ended(terminal.pid)
    os.close(terminal.fd)


def test_a_terminal_that_takes_again_is_painted_as_it_should_be(run: RecordedRun) -> None:
    terminal = overfilled(run)
    for word in ("Reward is up", "newest group", "rewards by function", "q leave"):
        terminal.until(word.encode())
    os.kill(terminal.pid, signal.SIGTERM)
    terminal.end()
