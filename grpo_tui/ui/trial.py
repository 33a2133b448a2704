"""Try a config from the screen: a child process does what `grpo-tui train CONFIG --smoke` does.

Knows the command and its answer; the command removes the folder of the trial, however it ends.
"""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence

from grpo_tui.core.text import one_line
from grpo_tui.store.trials import STAGES

MOST_SAID = 400
"""Characters of a refusal that are told."""


class Trial:
    """One trial; `run` waits for it in a thread of its own.

    Args:
        words: of `grpo-tui train`, without `--smoke`.
    """

    def __init__(self, words: Sequence[str]) -> None:
        self._words = [sys.executable, "-m", "grpo_tui", "train", *words, "--smoke"]
        self._process: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()
        self._ended = threading.Event()

    def cancelled(self) -> bool:
        """Whether a person ended it."""
        return self._ended.is_set()

    def run(self, tell: Callable[[str], None] = lambda stage: None) -> tuple[bool, str]:
        """Wait until it has ended.

        Args:
            tell: called with each stage, from this thread.

        Returns:
            Whether it trained, saved and came back, and what the command said.
        """
        try:
            with self._lock:
                if self.cancelled():
                    return False, "the trial was ended"
                self._process = subprocess.Popen(
                    self._words,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                    errors="replace",
                    start_new_session=True,  # ctrl+c of the terminal is the screen's
                )
        except OSError as error:
            return False, one_line(f"it could not be started: {error}", MOST_SAID)
        trouble = []
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        for line in self._process.stderr:
            if line.startswith(STAGES):
                tell(one_line(line.strip(), MOST_SAID))
            else:
                trouble.append(line)
        said = self._process.stdout.read()
        self._process.wait()
        if self.cancelled():
            return False, "the trial was ended; its folder is removed"
        if self._process.returncode == 0:
            return True, said
        lines = [line.removeprefix("grpo-tui: ").strip() for line in trouble if line.strip()]
        code = f"it ended with exit code {self._process.returncode}"
        return False, one_line(" ".join(lines[:4]) or code, MOST_SAID)

    def cancel(self) -> None:
        """End it as ctrl+c does: the command stops its run and removes the folder; from any thread."""
        with self._lock:
            self._ended.set()
            process = self._process
        if process is not None and process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGINT)
