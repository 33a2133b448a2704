"""Exit codes, and the exception for errors of a command."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

OK, FAILED, USAGE, REFUSED, TIMED_OUT = 0, 1, 2, 3, 4
"""0 done, 1 run failed, 2 usage error, 3 rejected or stopped, 4 timed out."""


class CommandError(Exception):
    """A user error, as one or two lines for stderr. Any function of this package may raise it."""

    def __init__(self, message: str, code: int = USAGE) -> None:
        super().__init__(message)
        self.code = code


@contextmanager
def reported(*kinds: type[Exception], before: str = "") -> Iterator[None]:
    """Convert exceptions with a message for the user to `CommandError`."""
    try:
        yield
    except kinds as error:
        raise CommandError(f"{before}{error}") from error
