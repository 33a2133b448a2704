"""Run `grpo-tui` commands such as start, resume and trial in child processes.

The screen itself never imports what starts a training process, and never waits for it.
"""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from grpo_tui.core.text import one_line
from grpo_tui.store.trials import STAGES

FAILED = 1
PATIENCE_S = 120.0
"""How long a start may take before it is reported as unanswered."""


def resume_run(path: Path) -> tuple[bool, str]:
    """Resume a run and wait until it has started. The return value is that of `start_run`."""
    return start_run([str(path), "--resume"], "resumed")


def start_run(words: Sequence[str], done_word: str = "started", command: str = "train") -> tuple[bool, str]:
    """Start a run with arguments of `grpo-tui train`, or `race`, and wait until it has started.

    Return whether it started, and the command's output as one line that is safe to show (`done_word` if it is
    empty).
    """
    words = [sys.executable, "-m", "grpo_tui", command, *words, "--detach"]
    try:
        done = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PATIENCE_S,
            start_new_session=True,  # a terminal hang-up must not interrupt a start
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False, f"no answer within {PATIENCE_S:.0f} s; `grpo-tui status RUN` shows its state"
    except OSError as error:
        return False, one_line(f"it could not be started: {error}", 300)
    said = [line.removeprefix("grpo-tui: ").strip() for line in done.stderr.splitlines() if line.strip()]
    if done.returncode == 0:
        return True, one_line("; ".join(said) or done_word, 300)
    return False, one_line(" ".join(said[-4:]) or f"it ended with exit code {done.returncode}", 400)


MOST_SAID = 400


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended.

    Attributes:
        code: Exit code; None when the command did not start.
        printed: Its stdout.
        trouble: Its error output as one line that is safe to show.
    """

    code: int | None
    printed: str
    trouble: str


class Child:
    """A `grpo-tui` command as a child process. Call `run` in a thread.

    Lines of its stderr with a prefix in `stages` report progress. With `talks`, these are lines of its
    stdout, and its stdin is open.
    """

    def __init__(self, words: Sequence[str], stages: str | tuple[str, ...], *, talks: bool = False) -> None:
        self.words, self._stages = [sys.executable, "-m", "grpo_tui", *words], stages
        self._talks = talks
        self._process: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()
        self._ended = threading.Event()

    def cancelled(self) -> bool:
        return self._ended.is_set()

    def run(self, tell: Callable[[str], object] = lambda stage: None) -> Ended:
        """Run the command and wait for it. `tell` is called with each progress line, from this thread."""
        with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as kept:
            return self._run(tell, kept)

    def _run(self, tell: Callable[[str], object], kept: IO[str]) -> Ended:
        # The other output goes to a file: it may not fit into the buffer of a pipe.
        pipe, none = subprocess.PIPE, subprocess.DEVNULL
        stdin, stdout, stderr = (pipe, pipe, kept) if self._talks else (none, kept, pipe)
        try:
            with self._lock:
                if self.cancelled():
                    return Ended(None, "", "")
                self._process = subprocess.Popen(
                    self.words,
                    stdin=stdin,
                    stdout=stdout,
                    stderr=stderr,
                    text=True,
                    errors="replace",
                    start_new_session=True,  # ctrl+c belongs to the screen
                )
        except OSError as error:
            return Ended(None, "", one_line(f"it could not be started: {error}", MOST_SAID))
        other = list[str]()
        for line in self._process.stdout or self._process.stderr or ():
            if not line.startswith(self._stages):
                other.append(line)
            else:
                tell(line if self._talks else one_line(line.strip(), MOST_SAID))
        code = self._process.wait()
        kept.seek(0)
        printed, trouble = ("", list(kept)) if self._talks else (kept.read(), other)
        lines = [line.removeprefix("grpo-tui: ").strip() for line in trouble if line.strip()]
        said = " ".join(lines[:4]) or f"it ended with exit code {code}"
        return Ended(code, printed, one_line(said, MOST_SAID))

    def cancel(self) -> None:
        """Send SIGINT, as ctrl+c does. Safe from any thread."""
        with self._lock:
            self._ended.set()
        self._signal(signal.SIGINT)

    def _signal(self, number: signal.Signals) -> None:
        process = self._process
        if process is not None and process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(number)


def read_object(printed: str) -> dict[str, Any] | None:
    """Return the first JSON object that begins a line, None without one.

    What a library prints around it is skipped.
    """
    at = 0
    for line in printed.splitlines(keepends=True):
        if line.startswith("{"):
            with contextlib.suppress(ValueError, RecursionError):
                body: dict[str, Any] = json.JSONDecoder().raw_decode(printed, at)[0]
                return body
        at += len(line)
    return None


class Trial:
    """One trial, or all drills, with arguments of `grpo-tui train`. Call `run` in a thread.

    The command removes the trial's folder, however it ends.
    """

    def __init__(self, words: Sequence[str], *, drills: bool = False) -> None:
        self.drills = drills
        self._child = Child(["train", *words, "--drill=all" if drills else "--smoke"], STAGES)

    def cancelled(self) -> bool:
        return self._child.cancelled()

    def run(self, tell: Callable[[str], object] = lambda stage: None) -> tuple[bool, str]:
        """Run the trial and wait for it. `tell` is called with each stage, from this thread.

        Return whether it trained, saved and reloaded, or the drills ran, and the command's output.
        """
        done = self._child.run(tell)
        if self.cancelled():
            began = done.code is not None
            return False, "the trial was stopped" + (" and its folder removed" if began else "")
        drilled = self.drills and done.code == FAILED  # a drill found what to change
        return (True, done.printed) if done.code == 0 or drilled else (False, done.trouble)

    def cancel(self) -> None:
        """Stop the trial as ctrl+c does; the command then removes the folder. Safe from any thread."""
        self._child.cancel()
