"""What rewards leave behind when their process ends: taken in by the nursery, and ended.

A process that was started in a session of its own, or by one that is gone already, belongs to nobody the
parent could find. It knows process ids, no reward.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import time
from collections.abc import Collection

import psutil

WAIT_S = 2.0
"""How long what was killed is waited for."""


def adopt() -> None:
    """Become the parent of whatever a child of this process leaves behind (`prctl(2)`, Linux alone)."""
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER


def end_orphans(but: Collection[int] = ()) -> None:
    """Kill this process's children and all below them, and reap them.

    Args:
        but: children that are spared, with what they started.
    """
    end = time.monotonic() + WAIT_S
    while left := [child for child in psutil.Process().children() if child.pid not in but]:
        for child in left:
            with contextlib.suppress(psutil.Error):
                for process in (*child.children(recursive=True), child):
                    process.kill()
            with contextlib.suppress(ChildProcessError):
                os.waitpid(child.pid, os.WNOHANG)
        if time.monotonic() > end:
            return  # something starts anew faster than it is killed, or cannot be killed
        time.sleep(0.002)
