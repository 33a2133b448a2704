"""Exit codes, and the one exception by which a command says what is wrong.

Knows nothing of any command.
"""

from __future__ import annotations

OK, FAILED, USAGE, REFUSED, TIMED_OUT = 0, 1, 2, 3, 4
"""0 done, 1 the run failed, 2 wrong usage, 3 refused or stopped, 4 the wait ran out."""


class CommandError(Exception):
    """What a person did wrong or cannot have, in one or two lines."""

    def __init__(self, message: str, code: int = USAGE) -> None:
        super().__init__(message)
        self.code = code
