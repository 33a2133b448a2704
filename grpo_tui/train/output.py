"""Output that never breaks a run: a full disk or a closed pipe swallows text, not the training.

Knows streams only.
"""

from __future__ import annotations

import contextlib
from typing import Any, TextIO


class Unbreakable:
    """A text stream whose write errors are swallowed, and which may copy what it is given into a log."""

    def __init__(self, stream: TextIO, copy_to: TextIO | None = None) -> None:
        self._stream, self._copy = stream, copy_to

    def write(self, text: str) -> int:
        """Write, as far as it goes."""
        for stream in (self._copy, self._stream):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.write(text)
        if self._copy is not None:
            with contextlib.suppress(OSError):
                self._copy.flush()
        return len(text)

    def flush(self) -> None:
        """Flush, as far as it goes."""
        with contextlib.suppress(OSError):
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
