"""The processes of a run: their CPU and memory use, and whether a process belongs to the run."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable

import psutil

TREE_S = 10.0
"""How often the process tree is walked. The cost grows with the number of processes on the machine."""
AGAIN_S = 1.0
"""Minimum time before the tree is walked again for an unknown process."""


class RunProcesses:
    """The processes of a run. Kept between samples, because CPU use is measured from one to the next."""

    def __init__(self) -> None:
        self._roots: tuple[int, ...] = ()
        self._tree: dict[int, psutil.Process] = {}
        self._walked_at = float("-inf")
        self._others: dict[int, tuple[float, str, str | None]] = {}
        self._own: dict[int, tuple[str, str | None]] = {}

    def follow(self, roots: Iterable[int]) -> None:
        """Walk the trees below these processes if the roots have changed or the last walk is too old."""
        wanted = tuple(dict.fromkeys(roots))
        if wanted != self._roots or time.monotonic() - self._walked_at >= TREE_S:
            self._roots = wanted
            self._walk()

    def figures(self) -> tuple[float | None, int | None]:
        """Return the sums of CPU use (percent of a core) and resident bytes; None when no process is left."""
        cpu, rss, alive = 0.0, 0, False
        for pid, process in list(self._tree.items()):
            try:
                with process.oneshot():
                    cpu += process.cpu_percent(None)
                    rss += process.memory_info().rss
                alive = True
            except psutil.Error:
                del self._tree[pid]
        return (round(cpu, 1), rss) if alive else (None, None)

    def describe(self, pid: int) -> tuple[str, str | None, bool]:
        """Return a process's name ("" if not visible), its user, and whether it belongs to the run."""
        try:
            process = psutil.Process(pid)
            began = process.create_time()
            known = self._others.get(pid)
            if known is None or known[0] != began:
                if pid not in self._tree and time.monotonic() - self._walked_at > AGAIN_S:
                    self._walk()  # it may be new
                known = (began, process_name(process), _user(process))
                self._others[pid] = known
                self._own.pop(pid, None)  # the pid may have been reused
            if pid in self._tree:
                self._own[pid] = known[1:]
            return known[1], known[2], pid in self._own
        except psutil.Error:
            # The driver still lists a process that has just ended.
            name, user = self._own.get(pid, ("", None))
            return name, user, pid in self._own

    def _walk(self) -> None:
        self._walked_at = time.monotonic()
        found: dict[int, psutil.Process] = {}
        for root in self._roots:
            if root in found:
                continue  # already in a tree; each walk visits every process of the machine
            with contextlib.suppress(psutil.Error):
                process = psutil.Process(root)
                for one in [process, *process.children(recursive=True)]:
                    found.setdefault(one.pid, self._kept(one))
        self._tree = found

    def _kept(self, process: psutil.Process) -> psutil.Process:
        """Return the object that measured this process before, so that its next CPU figure is right."""
        before = self._tree.get(process.pid)
        if before is not None and before == process:
            return before
        with contextlib.suppress(psutil.Error):
            process.cpu_percent(None)
        return process


def process_name(process: psutil.Process) -> str:
    """Return a short name: the script or module of a Python process, else the system's name.

    Never the whole command line, which may contain another user's password.
    """
    name = process.name()
    if not name.startswith("python"):
        return name
    try:
        words = process.cmdline()[1:]
    except psutil.Error:
        return name
    while words and words[0].startswith("-") and words[0] not in ("-m", "-c"):
        words.pop(0)
    if words[:1] == ["-m"] and len(words) > 1:
        return f"python -m {words[1]}"
    if words and not words[0].startswith("-"):
        return f"python {os.path.basename(words[0])}"
    return name


def _user(process: psutil.Process) -> str | None:
    try:
        return process.username()
    except (psutil.Error, KeyError):
        return None
