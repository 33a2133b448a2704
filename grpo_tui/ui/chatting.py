"""Talk to policies by running `grpo-tui chat` in a child process, which loads the models in its own."""

from __future__ import annotations

import contextlib
import json
import signal
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from grpo_tui.ui.starting import Child, read_object


class Chatting(Child):
    """One `grpo-tui chat` with these words. Call `converse` in a thread, and the rest from any."""

    def __init__(self, words: Sequence[str]) -> None:
        super().__init__(["chat", *words, "--events"], "{", talks=True)
        self._waiting: list[str] = []
        self._ready = False

    def converse(self, tell: Callable[[Mapping[str, Any]], object]) -> str:
        """Start it and wait for its end. `tell` gets every event, from this thread.

        Return what went wrong as one line that is safe to show, or an empty text.
        """

        def told(line: str) -> None:
            event = read_object(line)
            if event is not None and "event" in event:
                self._begin()
                tell(event)

        done = self.run(told)
        return "" if self.cancelled() or done.code == 0 else done.trouble

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
            with contextlib.suppress(OSError, ValueError):  # it has ended, which `converse` reports
                process.stdin.write(json.dumps(line) + "\n")
                process.stdin.flush()

    def stop(self) -> None:
        """End the running answer, as ctrl+c does."""
        if self._ready:
            self._signal(signal.SIGINT)

    def close(self) -> None:
        """End it and its children."""
        with self._lock:
            self._ended.set()
        self._signal(signal.SIGTERM)
