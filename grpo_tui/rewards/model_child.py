"""The parent's side of a child that holds a model: start it, ask it, hear of its progress, end it.

Calls block: a screen makes them from a thread. It imports neither torch nor transformers, and knows no
request.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from grpo_tui.config.run_config import RunConfig
from grpo_tui.core.closing import Closing
from grpo_tui.rewards.consent import Need, required
from grpo_tui.rewards.lab_pipe import ChildGoneError, ChildHungError, ChildPipe, ModuleStarter
from grpo_tui.rewards.nursery import NurseryError

LOOK_S = 0.1
"""How often it is asked whether the person has had enough."""
MESSAGE_LIMIT_S = 60.0
"""For one message, once it has begun."""


class GenerateError(RuntimeError):
    """The model gave nothing; the message is for a person."""


class CancelledError(GenerateError):
    """The person had enough."""


@dataclass(frozen=True, slots=True)
class Progress:
    """What goes on in the child.

    Attributes:
        what: `starting`, `reading the dataset`, `loading MODEL`, `generating`.
        done: completions that are there.
        of: completions that were asked for, 0 while that is not known.
        tokens: their tokens.
        seconds: how long generating took so far.
    """

    what: str
    done: int = 0
    of: int = 0
    tokens: int = 0
    seconds: float = 0.0

    @property
    def tokens_per_s(self) -> float | None:
        """Tokens a second, None before the first."""
        return self.tokens / self.seconds if self.seconds > 0 else None


Tell = Callable[[Progress], None]


class ModelChild(Closing):
    """Owns one child; a context manager.

    Args:
        config: whose model it holds.
        tell: called with what goes on.
        cancel: when set, the call under way ends with `CancelledError` and nothing is left running.
    """

    module: ClassVar[str]
    """The child's entry point."""
    what: ClassVar[str]
    """What it does, as a verb: the process that …"""
    needs: ClassVar[tuple[Need, ...]] = ("data", "model")
    """What of its config it loads."""
    quiet_s: ClassVar[float | None] = None
    """It is ended when it says nothing for so long; None where its progress is told all the time."""

    def __init__(
        self, config: RunConfig, tell: Tell | None = None, cancel: threading.Event | None = None
    ) -> None:
        self._config = config
        self.tell: Tell = tell or (lambda progress: None)
        self._cancel = cancel or threading.Event()
        self._pipe: ChildPipe | None = None

    def close(self) -> None:
        """End the child and everything it started."""
        pipe, self._pipe = self._pipe, None
        if pipe is not None:
            pipe.close()

    def ask(self, request: Mapping[str, Any], take: Callable[[Mapping[str, Any]], None]) -> dict[str, Any]:
        """Send a request with the config and wait for the reply.

        Args:
            request: `do` and its arguments.
            take: gets every event but `at`, which is told as progress.

        Raises:
            GenerateError: it was refused, or the child ended or hung.
            ConsentError: it would run code that is not the user's own.
        """
        required(self._config, *self.needs)
        pipe = self._start()
        try:
            pipe.send({**request, "config": self._config.to_json()}, MESSAGE_LIMIT_S)
            while True:
                message = self._next(pipe)
                if "reply" in message:
                    return dict(message["reply"])
                if "refused" in message:
                    raise GenerateError(str(message["refused"]))
                if message["event"] == "at":
                    self.tell(Progress(str(message["what"])))
                else:
                    take(message)
        except (ChildGoneError, ChildHungError) as error:
            self.close()
            raise GenerateError(f"the process that {self.what} ended: {error}") from error
        except (CancelledError, KeyboardInterrupt):
            self.close()
            raise

    def _next(self, pipe: ChildPipe) -> dict[str, Any]:
        since = time.monotonic()
        while not pipe.ready(LOOK_S):
            if self._cancel.is_set():
                raise CancelledError("cancelled")
            if self.quiet_s is not None and time.monotonic() - since > self.quiet_s:
                raise ChildHungError(f"it said nothing for {self.quiet_s:g} s")
        return pipe.receive(MESSAGE_LIMIT_S)

    def _start(self) -> ChildPipe:
        if self._cancel.is_set():
            raise CancelledError("cancelled")
        if self._pipe is None:
            self.tell(Progress("starting"))
            folder = self._config.cwd
            try:
                self._pipe = ChildPipe(
                    ModuleStarter(self.module), folder if folder and Path(folder).is_dir() else os.getcwd()
                )
            except NurseryError as error:
                raise GenerateError(f"the process that {self.what} could not start: {error}") from error
        return self._pipe
