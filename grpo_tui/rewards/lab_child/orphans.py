"""What rewards leave behind: in their process after a call, and when that process ends.

A process that was started in a session of its own, or by one that is gone already, belongs to nobody the
parent could find: the nursery takes it in and ends it. It knows processes, no reward.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Collection

import psutil

WAIT_S = 2.0
"""How long what was killed is waited for."""


_WATCHED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)
_POOLS = ("ThreadPoolExecutor", "asyncio_")
"""Names of threads that end by themselves with their process."""


class Around:
    """What belongs to the whole process and is as it was before a call."""

    def __init__(self) -> None:
        self._folder = os.getcwd()
        self._handlers = {number: signal.getsignal(number) for number in _WATCHED}
        self._threads = set(threading.enumerate())
        self._closed = _closed_streams()

    def changed(self) -> list[str]:
        """Return what a call has left changed, each to be read after the function's name."""
        found = []
        if os.getcwd() != self._folder:
            found.append(f"changes the current folder to {os.getcwd()}, for training too")
        names = [n.name for n, handler in self._handlers.items() if signal.getsignal(n) is not handler]
        if names:
            found.append(f"replaces the handler of {', '.join(names)}, by which a run is stopped and watched")
        left = [
            thread.name
            for thread in threading.enumerate()
            if thread not in self._threads and not thread.daemon and not thread.name.startswith(_POOLS)
        ]
        if left:
            found.append(f"leaves a thread running ({left[0]}), and training cannot end before that one does")
        closed = [name for name in _closed_streams() if name not in self._closed]
        if closed:
            found.append(f"closes sys.{closed[0]}, so that nothing printed after it is in the log")
        return found


def _closed_streams() -> list[str]:
    return [name for name in ("stdout", "stderr") if getattr(getattr(sys, name), "closed", True)]


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
