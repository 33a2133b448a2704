"""Exit codes, and the one exception by which a command says what is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

OK, FAILED, USAGE, REFUSED, TIMED_OUT = 0, 1, 2, 3, 4
"""0 done, 1 the run failed, 2 wrong usage, 3 refused or stopped, 4 the wait ran out."""


class CommandError(Exception):
    """What the user did wrong or cannot have, in one or two lines."""

    def __init__(self, message: str, code: int = USAGE) -> None:
        super().__init__(message)
        self.code = code


@contextmanager
def reported(*kinds: type[Exception], before: str = "") -> Iterator[None]:
    """Turn errors of some kinds, whose text is a sentence for the user, into `CommandError`."""
    try:
        yield
    except kinds as error:
        raise CommandError(f"{before}{error}") from error
