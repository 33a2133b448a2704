"""Talk to policies by running `grpo-tui chat` in a child process, which loads the models in its own."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from grpo_tui.core.text import one_line

MOST_SAID = 400


class Chatting:
    """One `grpo-tui chat` with these words. Call `run` in a thread, and the rest from any."""

    def __init__(self, words: Sequence[str]) -> None:
        self._words = [sys.executable, "-m", "grpo_tui", "chat", *words, "--events"]
        self._process: subprocess.Popen[str] | None = None
        self._waiting: list[str] = []
        self._lock = threading.Lock()
        self._ready = self._closed = False

    def run(self, tell: Callable[[Mapping[str, Any]], object]) -> str:
        """Start it and wait for its end. `tell` gets every event, from this thread.

        Return what went wrong as one line that is safe to show, or an empty text.
        """
        with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as trouble:
            try:
                with self._lock:
                    if self._closed:
                        return ""
                    process = self._process = subprocess.Popen(
                        self._words,
                        stdin=subprocess.PIPE,
                        stdout=subprocess.PIPE,
                        stderr=trouble,
                        text=True,
                        errors="replace",
                        start_new_session=True,  # ctrl+c belongs to the screen
                    )
            except OSError as error:
                return one_line(f"it could not be started: {error}", MOST_SAID)
            assert process.stdout is not None
            for line in process.stdout:
                self._begin()
                tell(json.loads(line))
            code = process.wait()
            trouble.seek(0)
            said = [line.removeprefix("grpo-tui: ").strip() for line in trouble if line.strip()]
        if self._closed or code == 0:
            return ""
        return one_line(" ".join(said[-4:]) or f"the chat ended with exit code {code}", MOST_SAID)

    def _begin(self) -> None:
        """Send what was said before the child listened."""
        with self._lock:
            self._ready, waiting, self._waiting = True, self._waiting, []
            for line in waiting:
                self._send(line)

    def say(self, line: str) -> None:
        """Send a prompt or a command such as `/new`."""
        with self._lock:
            if self._ready:
                self._send(line)
            else:
                self._waiting.append(line)

    def _send(self, line: str) -> None:
        process = self._process
        if process is not None and process.stdin is not None:
            with contextlib.suppress(OSError, ValueError):  # it has ended, which `run` reports
                process.stdin.write(json.dumps(line) + "\n")
                process.stdin.flush()

    def stop(self) -> None:
        """End the running answer, as ctrl+c does."""
        if self._ready:
            self._signal(signal.SIGINT)

    def close(self) -> None:
        """End it and its children."""
        with self._lock:
            self._closed = True
        self._signal(signal.SIGTERM)

    def _signal(self, number: signal.Signals) -> None:
        process = self._process
        if process is not None and process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(number)
