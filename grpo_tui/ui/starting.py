"""Start, resume or try a run, or do another command: a child process does what `grpo-tui` does.

The screen never imports what starts a training process, nor waits for it.
"""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from grpo_tui.core.text import one_line
from grpo_tui.store.trials import STAGES

PATIENCE_S = 120.0
"""So long a start may take before the screen says that it got no answer."""


def resume_run(path: Path) -> tuple[bool, str]:
    """Resume a run and wait until it has started.

    Returns:
        Whether it started, and what the command said, on one line and safe to show.
    """
    return start_run([str(path), "--resume"], "resumed")


def start_run(words: Sequence[str], done_word: str = "started") -> tuple[bool, str]:
    """Start a run by the command and wait until it has started.

    Args:
        words: of `grpo-tui train`, without `--detach`.
        done_word: what is said when the command has nothing to say.

    Returns:
        As `resume_run`.
    """
    words = [sys.executable, "-m", "grpo_tui", "train", *words, "--detach"]
    try:
        done = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PATIENCE_S,
            start_new_session=True,  # a hang-up of the terminal must not end a start half way
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
"""Characters of a refusal that are told."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended.

    Attributes:
        code: its exit code; None when it did not begin.
        printed: what it printed.
        trouble: what it complained of, on one line and safe to show.
    """

    code: int | None
    printed: str
    trouble: str


class Child:
    """A command of this program as a child process; `run` waits for it in a thread of its own.

    Args:
        words: of `grpo-tui`.
        stages: how the lines of its stderr begin that say what it does now.
    """

    def __init__(self, words: Sequence[str], stages: str | tuple[str, ...]) -> None:
        self.words, self._stages = [sys.executable, "-m", "grpo_tui", *words], stages
        self._process: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()
        self._ended = threading.Event()

    def cancelled(self) -> bool:
        """Whether a person ended it."""
        return self._ended.is_set()

    def run(self, tell: Callable[[str], None] = lambda stage: None) -> Ended:
        """Wait until it has ended.

        Args:
            tell: called with each stage, from this thread.
        """
        with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as printed:
            return self._run(tell, printed)

    def _run(self, tell: Callable[[str], None], printed: IO[str]) -> Ended:
        try:
            with self._lock:
                if self.cancelled():
                    return Ended(None, "", "")
                self._process = subprocess.Popen(
                    self.words,
                    stdin=subprocess.DEVNULL,
                    stdout=printed,  # no pipe: what it prints may be more than one holds
                    stderr=subprocess.PIPE,
                    text=True,
                    errors="replace",
                    start_new_session=True,  # ctrl+c of the terminal is the screen's
                )
        except OSError as error:
            return Ended(None, "", one_line(f"it could not be started: {error}", MOST_SAID))
        trouble = []
        assert self._process.stderr is not None
        for line in self._process.stderr:
            if line.startswith(self._stages):
                tell(one_line(line.strip(), MOST_SAID))
            else:
                trouble.append(line)
        code = self._process.wait()
        lines = [line.removeprefix("grpo-tui: ").strip() for line in trouble if line.strip()]
        said = " ".join(lines[:4]) or f"it ended with exit code {code}"
        printed.seek(0)
        return Ended(code, printed.read(), one_line(said, MOST_SAID))

    def cancel(self) -> None:
        """End it as ctrl+c does, from any thread."""
        with self._lock:
            self._ended.set()
            process = self._process
        if process is not None and process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGINT)


class Trial:
    """One trial; `run` waits for it in a thread of its own.

    The command removes the folder of the trial, however it ends.

    Args:
        words: of `grpo-tui train`, without `--smoke`.
    """

    def __init__(self, words: Sequence[str]) -> None:
        self._child = Child(["train", *words, "--smoke"], STAGES)

    def cancelled(self) -> bool:
        """Whether a person ended it."""
        return self._child.cancelled()

    def run(self, tell: Callable[[str], None] = lambda stage: None) -> tuple[bool, str]:
        """Wait until it has ended.

        Args:
            tell: called with each stage, from this thread.

        Returns:
            Whether it trained, saved and came back, and what the command said.
        """
        done = self._child.run(tell)
        if self.cancelled():
            began = done.code is not None
            return False, "the trial was stopped" + (" and its folder removed" if began else "")
        return (True, done.printed) if done.code == 0 else (False, done.trouble)

    def cancel(self) -> None:
        """End it as ctrl+c does: the command stops its run and removes the folder; from any thread."""
        self._child.cancel()
