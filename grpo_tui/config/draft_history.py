"""The earlier texts of a draft, for undo and redo; what is typed in one go is one step.

It knows texts and the place where one differs from the last, no keys and no screen.
"""

from __future__ import annotations

import time
from collections.abc import Callable

MOST_CHARACTERS = 20_000_000
PAUSE_S = 1.5
"""After so long without a key the next one begins a new step."""


class History:
    """Texts by time, with a place in them.

    Args:
        text: the first text.
        clock: seconds; another one for tests.
    """

    def __init__(self, text: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._texts = [text]
        self._at = 0
        self._clock = clock
        self._typing: tuple[int, bool, float] | None = None

    @property
    def text(self) -> str:
        """The text now."""
        return self._texts[self._at]

    @property
    def can_undo(self) -> bool:
        """Whether there is an earlier text."""
        return self._at > 0

    @property
    def can_redo(self) -> bool:
        """Whether there is a later text."""
        return self._at + 1 < len(self._texts)

    def push(self, text: str, *, typed: bool = False) -> bool:
        """Take a new text; returns whether it differs. Typing goes on in the step it began."""
        if text == self.text:
            return False
        change = _typed_at(self.text, text) if typed else None
        now = self._clock()
        goes_on = (
            change is not None
            and self._typing is not None
            and not self.can_redo
            and self._typing[:2] == (change[0], change[2])
            and now - self._typing[2] <= PAUSE_S
        )
        del self._texts[self._at + 1 :]
        if goes_on:
            self._texts[self._at] = text
        else:
            self._texts.append(text)
            self._at += 1
        self._typing = (change[1], change[2], now) if change is not None else None
        self._forget_oldest()
        return True

    def undo(self) -> bool:
        """Go back one step; False when there is none."""
        self._typing = None
        if not self.can_undo:
            return False
        self._at -= 1
        return True

    def redo(self) -> bool:
        """Go forward one step; False when there is none."""
        self._typing = None
        if not self.can_redo:
            return False
        self._at += 1
        return True

    def settle(self) -> None:
        """End the step that is being typed, as when the file is saved."""
        self._typing = None

    def _forget_oldest(self) -> None:
        total = sum(map(len, self._texts))
        while total > MOST_CHARACTERS and self._at > 0:
            total -= len(self._texts.pop(0))
            self._at -= 1


def _typed_at(before: str, after: str) -> tuple[int, int, bool] | None:
    """Return where one key changed a text, where the next one would, and whether it put something in.

    None for anything that is no single key: a paste, a line break, a replaced word.
    """
    grown = len(after) - len(before)
    if abs(grown) != 1:
        return None
    shorter, longer = (before, after) if grown > 0 else (after, before)
    at = next(
        (n for n, (one, two) in enumerate(zip(shorter, longer, strict=False)) if one != two), len(shorter)
    )
    if shorter[at:] != longer[at + 1 :] or longer[at] in "\r\n":
        return None
    return (at, at + 1, True) if grown > 0 else (at + 1, at, False)
