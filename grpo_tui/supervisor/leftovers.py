"""End what a training process leaves behind, also what it does not descend from any more.

Whatever a supervisor starts carries a mark of the run folder in its environment, and so does whatever that
starts. A supervisor that came later, to which nothing of this is a child, knows them by it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
from pathlib import Path

import psutil

MARK = "GRPO_TUI_RUN"
"""Variable of the environment that says which run folder a process belongs to."""
PR_SET_CHILD_SUBREAPER = 36


def mark_of(root: Path) -> str:
    """What marks the processes of a run: its folder by what it is, so that a renaming changes nothing."""
    found = os.stat(root)
    return f"{found.st_dev:x}-{found.st_ino:x}"


def adopt_orphans() -> None:
    """Become the parent of whatever a dead trainer leaves behind, even in sessions of its own; prctl(2)."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def kill_session(leader: int) -> None:
    """Kill the process group that a training process leads."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


def kill_descendants() -> None:
    """Kill every process below this one."""
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            process.kill()


def kill_marked(mark: str) -> None:
    """Kill every process that carries this mark, whoever its parent is now."""
    wanted = f"{MARK}={mark}".encode()
    for process in psutil.process_iter():
        if process.pid != os.getpid() and wanted in _environment(process.pid):
            with contextlib.suppress(psutil.Error):
                process.kill()


def _environment(pid: int) -> list[bytes]:
    """The environment a process began with; nothing when it is not ours to read."""
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []
