"""The processes of a run: what they use, and whether another process belongs to them."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable

import psutil

TREE_S = 10.0
"""How often the process tree is walked, which costs more the more processes the machine has."""
AGAIN_S = 1.0
"""How soon it is walked again for a process that nobody knows."""


class RunProcesses:
    """The processes of a run, kept between samples, for a share of time is measured from one to the next."""

    def __init__(self) -> None:
        self._roots: tuple[int, ...] = ()
        self._tree: dict[int, psutil.Process] = {}
        self._walked_at = float("-inf")
        self._others: dict[int, tuple[float, str, str | None]] = {}
        self._own: dict[int, tuple[str, str | None]] = {}

    def follow(self, roots: Iterable[int]) -> None:
        """Walk the trees of these processes when that is due, or when there are other roots."""
        wanted = tuple(dict.fromkeys(roots))
        if wanted != self._roots or time.monotonic() - self._walked_at >= TREE_S:
            self._roots = wanted
            self._walk()

    def figures(self) -> tuple[float | None, int | None]:
        """Share of a core in percent and resident bytes, both summed; None when no process is left."""
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
        """Name, user and whether it is of this run; an empty name when it cannot be seen from here."""
        try:
            process = psutil.Process(pid)
            began = process.create_time()
            known = self._others.get(pid)
            if known is None or known[0] != began:
                if pid not in self._tree and time.monotonic() - self._walked_at > AGAIN_S:
                    self._walk()  # it may have been started since
                known = (began, process_name(process), _user(process))
                self._others[pid] = known
                if pid not in self._tree:
                    self._own.pop(pid, None)  # another process has the number now
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
                continue  # within a tree already: each walk goes over every process of the machine
            with contextlib.suppress(psutil.Error):
                process = psutil.Process(root)
                for one in [process, *process.children(recursive=True)]:
                    found.setdefault(one.pid, self._kept(one))
        self._tree = found

    def _kept(self, process: psutil.Process) -> psutil.Process:
        """The object that has measured this process before, for its next share of time to be right."""
        before = self._tree.get(process.pid)
        if before is not None and before == process:
            return before
        with contextlib.suppress(psutil.Error):
            process.cpu_percent(None)
        return process


def process_name(process: psutil.Process) -> str:
    """A short name: the script or module of a Python process, else what the system calls it.

    Never the whole command line, which may hold a password of somebody else.
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
