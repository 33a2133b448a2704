"""What a reward prints, from Python, from C and from its own children, kept apart per call.

Standard output and error of the lab's child are one file that its parent opened for appending; this reads
what a call has added to it. The parent can read it too when the child hangs.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass

MOST_BYTES = 20_000
"""What is kept of one call's output; of more, the beginning and the end."""
MOST_FILE_BYTES = 8_000_000
_kept: int | None = None


@dataclass(slots=True)
class Printed:
    """The text printed within one `captured()` block, filled in at its end."""

    text: str = ""


@contextlib.contextmanager
def captured() -> Iterator[Printed]:
    """Collect what is printed inside the block."""
    _flush()
    start = printed_bytes()
    if start > MOST_FILE_BYTES:
        os.ftruncate(1, 0)
        start = 0
    printed = Printed()
    try:
        yield printed
    finally:
        _flush()
        printed_bytes()
        printed.text = read_output(1, start)


def printed_bytes() -> int:
    """How much was printed so far; standard output that a reward has closed is opened again."""
    global _kept
    try:
        size = os.fstat(1).st_size
        if _kept is None:
            _kept = os.dup(1)
        return size
    except OSError:
        if _kept is None:
            raise
        os.dup2(_kept, 1)
        return os.fstat(1).st_size


def reopen_streams() -> None:
    """Give this process its `sys.stdout` and `sys.stderr` again where a reward has closed them."""
    printed_bytes()
    for name, descriptor in (("stdout", 1), ("stderr", 2)):
        if getattr(getattr(sys, name), "closed", True):
            with contextlib.suppress(OSError):
                os.dup2(1, descriptor)
                # By lines, so that what Python and what C print keep their order.
                stream = os.fdopen(descriptor, "w", 1, encoding="utf-8", errors="replace", closefd=False)
                setattr(sys, name, stream)


def read_output(descriptor: int, start: int) -> str:
    """Return what stands in the file after `start`, shortened in the middle when it is long."""
    size = os.fstat(descriptor).st_size - start
    if size <= MOST_BYTES:
        return os.pread(descriptor, max(size, 0), start).decode("utf-8", "replace")
    half = MOST_BYTES // 2
    first, last = os.pread(descriptor, half, start), os.pread(descriptor, half, start + size - half)
    left_out = f"\n… {size - 2 * half:,} bytes left out …\n"
    return first.decode("utf-8", "replace") + left_out + last.decode("utf-8", "replace")


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):  # a reward may have put anything there
            stream.flush()
    with contextlib.suppress(Exception):
        ctypes.CDLL(None).fflush(None)
