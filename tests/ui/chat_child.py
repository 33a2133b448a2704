"""A chat that answers every prompt with 2 and then waits until it is stopped."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from queue import SimpleQueue
from typing import Any, ClassVar


class Scripted:
    """Stands for `Chatting`, without a process."""

    closed: ClassVar[bool] = False

    def __init__(self, words: Sequence[str]) -> None:
        self.name = words[0]
        self._said: SimpleQueue[str] = SimpleQueue()
        type(self).closed = False

    def converse(self, tell: Callable[[Mapping[str, Any]], object]) -> str:
        """Answer until it is closed."""
        asked = ""
        while line := self._said.get():
            if line == "stop":
                answer = {"policy": self.name, "text": "2", "tokens": 1, "truncated": True, "stopped": False}
                answer |= {"rewards": {"good": 1.0}, "reward": 1.0}
                body = {"prompt": asked, "row": None, "answers": [answer], "errors": {}, "notes": []}
                tell({"event": "exchange", "body": body})
            elif line.startswith("/"):
                tell({"event": "said", "text": "asking mine" if line.startswith("/with") else f"did {line}"})
            else:
                asked = line
                tell({"event": "text", "place": 0, "text": "2"})
        type(self).closed = True
        return ""

    def say(self, line: str) -> None:
        """Take a line."""
        self._said.put(line)

    def stop(self) -> None:
        """End the answer."""
        self._said.put("stop")

    def close(self) -> None:
        """End."""
        self._said.put("")
