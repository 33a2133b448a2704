"""Ask a child process that is started with the first question and kept for the next.

Another thread can cancel a call, and a child that is silent for too long is killed. Calls block, so a screen
makes them from a thread.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from grpo_tui.children.pipe import ChildGoneError, ChildHungError, ChildPipe, ModuleStarter
from grpo_tui.core.closing import Closing

LOOK_S = 0.1
"""How often `cancel` is checked."""
MESSAGE_LIMIT_S = 60.0
"""Time limit for one message, once it has begun."""

Take = Callable[[Mapping[str, Any]], None]


class RefusedError(RuntimeError):
    """The child raised an exception, whose message this is. `type` is its class name."""

    def __init__(self, message: str, type_name: str = "") -> None:
        super().__init__(message)
        self.type = type_name


class EndedError(RuntimeError):
    """The call was canceled, and the child ended."""


class AskedChild(Closing):
    """Owns one child, whose program `module` calls `serve_alone`. A context manager.

    The child is killed after being silent for `quiet_s`; None for no limit.
    """

    def __init__(self, module: str, quiet_s: float | None = None) -> None:
        self.quiet_s = quiet_s
        self._module = module
        self._pipe: ChildPipe | None = None

    def close(self) -> None:
        """End the child and everything it started."""
        pipe, self._pipe = self._pipe, None
        if pipe is not None:
            pipe.close()

    @property
    def pid(self) -> int | None:
        """The child's process id; None while there is none."""
        return None if self._pipe is None else self._pipe.pid

    def signal(self, number: int) -> None:
        """Send the child a signal, if there is one. Safe from any thread while a call runs."""
        pipe = self._pipe
        if pipe is not None and not pipe.killed:
            with contextlib.suppress(OSError):
                os.kill(pipe.pid, number)

    def ask(
        self,
        request: Mapping[str, Any],
        take: Take,
        *,
        folder: str = "",
        cancel: threading.Event,
        waiting: Callable[[float], None] = lambda seconds: None,
    ) -> dict[str, Any]:
        """Send a request and wait for its reply.

        Args:
            take: Called with every event.
            folder: Working folder of a newly started child. If it does not exist, this process's is used.
            waiting: Called repeatedly with the seconds since the last message.

        Raises:
            RefusedError: The child raised an exception.
            ChildGoneError, ChildHungError: It ended, or hung and was killed.
            StartError: It cannot be started.
            EndedError: `cancel` was set.
        """
        if cancel.is_set():
            raise EndedError("cancelled")
        if self._pipe is None:
            there = folder if folder and Path(folder).is_dir() else os.getcwd()
            self._pipe = ChildPipe(ModuleStarter(self._module), there)
        try:
            self._pipe.send(request, MESSAGE_LIMIT_S)
            while True:
                message = self._next(self._pipe, cancel, waiting)
                if "reply" in message:
                    return dict(message["reply"])
                if "refused" in message:
                    raise RefusedError(str(message["refused"]), str(message.get("type", "")))
                take(message)
        except (ChildGoneError, ChildHungError, EndedError, KeyboardInterrupt):
            self.close()
            raise

    def _next(
        self, pipe: ChildPipe, cancel: threading.Event, waiting: Callable[[float], None]
    ) -> dict[str, Any]:
        since = time.monotonic()
        while not pipe.ready(LOOK_S):
            waited = time.monotonic() - since
            waiting(waited)
            if cancel.is_set():
                raise EndedError("cancelled")
            if self.quiet_s is not None and waited >= self.quiet_s:
                raise ChildHungError(f"it said nothing for {self.quiet_s:g} s")
        return pipe.receive(MESSAGE_LIMIT_S)
