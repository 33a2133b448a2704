"""Give a process the three standard streams, whatever it was started without.

Knows descriptors only.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from typing import TextIO

LAST_WORD_S = 1.0


def open_standard_streams() -> None:
    """Open what is closed of standard input, output and error on /dev/null.

    A closed one's number would go to the next file that is opened, a database or a lock, and what is
    printed then would go into that.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # gets the lowest free number, this one
        if getattr(sys, name) is None:
            stream = open(number, mode, encoding="utf-8", closefd=False)  # noqa: SIM115
            setattr(sys, name, stream)
            setattr(sys, f"__{name}__", stream)


def complain(text: str) -> None:
    """Say on stderr what is wrong; where that cannot be written, the exit code has to do."""
    try:
        print(f"grpo-tui: {text}", file=sys.stderr, flush=True)
    except OSError:
        _drop(sys.stderr)  # at exit Python would try once more, and make another exit code of it


def last_word(text: str) -> None:
    """Say a last word on stdout, unless it is a terminal that takes nothing: nobody waits for that."""
    if not sys.stdout.isatty():
        print(text)
        return
    data, number = f"{text}\n".encode(sys.stdout.encoding, errors="replace"), sys.stdout.fileno()

    def write() -> None:
        with contextlib.suppress(OSError):
            os.write(number, data)  # past the buffer, whose lock would be waited for at exit

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    thread.join(LAST_WORD_S)


def drop_output() -> None:
    """Let nothing more be written to stdout, whose reader went away; at exit it would raise again."""
    _drop(sys.stdout)


def _drop(stream: TextIO) -> None:
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
