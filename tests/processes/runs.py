"""Start, watch and steer real runs through the command line, as a person would."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from grpo_tui.demo import DEMO_CONFIG
from grpo_tui.store.connection import RunDatabaseError
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.live import read_heartbeat
from grpo_tui.store.status import Status, read_status
from grpo_tui.supervisor import take_lock
from tests import PATIENCE_S, forked

_BATCHES = ("per_device_train_batch_size=16", "num_generations=4", "save_steps=1000")
SMALL = (*_BATCHES, "max_completion_length=20")
"""Settings that make a step of the shipped demo take some 100 ms."""
PACED = f"{Path(__file__).with_name('paced.py')}:correctness"
LIVING = (*_BATCHES, "max_completion_length=8", "max_steps=4000", f"grpo_tui.rewards.0.source={PACED}")
"""And those of a run that goes on until it is stopped, and leaves the machine to others between its steps."""
STEERING = ("abort-reward", "checkpoint", "pause", "resume", "sample", "set", "stop", "tokens")


def grpo_tui(
    *words: str | Path,
    check: int | None = 0,
    timeout_s: float = PATIENCE_S,
    cwd: Path | None = None,
    full_check: bool = False,
) -> subprocess.CompletedProcess[str]:
    """Run one command without a terminal, and wait for its outcome as long as a busy machine takes.

    A start checks its config alone, unless all is to be checked.
    """
    said = [str(word) for word in words]
    if said and said[0] in STEERING:
        said += ["--wait", f"{PATIENCE_S:g}"]
    if said[:1] == ["train"] and not full_check:
        said.append("--quick-check")
    done = forked.run(["-m", "grpo_tui", *said], cwd, timeout_s)
    if check is not None:
        assert done.returncode == check, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def start(run: Path, *overrides: str) -> None:
    """Start a run in the background that goes on until it is stopped."""
    settings = [word for pair in (*LIVING, *overrides) for word in ("--set", pair)]
    grpo_tui("train", DEMO_CONFIG, "--run-dir", run, "--detach", *settings)


def until(question: Callable[[], Any], what: str, timeout_s: float = PATIENCE_S) -> Any:
    """Wait until a question is answered by something true."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        try:
            answer = question()
        except RunDatabaseError:
            answer = None
        if answer:
            return answer
        time.sleep(0.1)
    raise AssertionError(f"{what} did not happen within {timeout_s} s")


def state(run: Path, *wanted: str, timeout_s: float = PATIENCE_S) -> Status:
    """Wait until a run is in one of the states."""

    def look() -> Status | None:
        status = read_status(run)
        return status if status.state in wanted else None

    try:
        return until(look, f"state {' or '.join(wanted)}", timeout_s)
    except AssertionError as error:
        log = (run / "train.log").read_text(errors="replace")[-3000:] if (run / "train.log").exists() else ""
        raise AssertionError(f"{error}; it is {read_status(run)}\n{log}") from None


def at_step(run: Path, step: int, timeout_s: float = PATIENCE_S) -> Status:
    """Wait until a run has done a step."""

    def look() -> Status | None:
        status = read_status(run)
        return status if status.step >= step else None

    return until(look, f"step {step}", timeout_s)


def left(run: Path) -> None:
    """Wait until nobody writes into the folder of a run that has ended: its supervisor leaves last."""
    os.close(take_lock(RunFolder(run), PATIENCE_S))


def kill_all(run: Path) -> None:
    """Kill supervisor and trainer at once, as a machine that goes down does."""
    beat = read_heartbeat(RunFolder(run).heartbeat)
    assert beat is not None
    for pid in (beat.supervisor, beat.trainer):
        os.kill(pid, signal.SIGKILL)
    until(lambda: not read_status(run).live, "the end")
    left(run)


def command(run: Path, *words: str, check: int | None = 0) -> dict[str, Any]:
    """Send a command and return its outcome."""
    done = grpo_tui(words[0], run, *words[1:], "--json", check=check)
    return json.loads(done.stdout)


def end(run: Path) -> None:
    """End a run that a test leaves behind, by its own processes."""
    try:
        if read_status(run).live:
            grpo_tui("stop", run, "--now", check=None)
    except RunDatabaseError:
        return


class Screen:
    """The real program in a pseudo-terminal."""

    def __init__(self, *words: str | Path, columns: int = 100, lines: int = 30) -> None:
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            os.environ.update({"TERM": "xterm-256color", "COLUMNS": str(columns), "LINES": str(lines)})
            os.execv(sys.executable, [sys.executable, "-m", "grpo_tui", *map(str, words)])
        self.output = b""

    def until(self, text: str, timeout_s: float = PATIENCE_S) -> None:
        """Read until a text has been painted."""
        deadline = time.monotonic() + timeout_s
        while text.encode() not in self.output:
            assert time.monotonic() < deadline, f"{text!r} was not painted: {self.output[-2000:]!r}"
            self.read(0.1)

    def read(self, seconds: float) -> None:
        """Take what the program paints for so long."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            ready, _, _ = select.select([self._fd], [], [], left)
            if not ready:
                return
            try:
                chunk = os.read(self._fd, 65536)
            except OSError:
                return
            if not chunk:
                return
            self.output += chunk

    def type(self, keys: str) -> None:
        """Press keys."""
        os.write(self._fd, keys.encode())

    def hang_up(self) -> None:
        """Close the terminal, as a lost SSH connection does, and wait for the program to end."""
        os.close(self._fd)
        self._wait()

    def kill(self) -> None:
        """Kill the program with SIGKILL."""
        os.kill(self.pid, signal.SIGKILL)
        self._wait()
        os.close(self._fd)

    def _wait(self) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            if os.waitpid(self.pid, os.WNOHANG)[0]:
                return
            time.sleep(0.05)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        raise AssertionError("the program did not end by itself")
