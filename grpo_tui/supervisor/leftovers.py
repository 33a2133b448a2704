"""Signal only processes of a run, and kill what a training process leaves behind.

Everything a supervisor starts inherits a mark of the run folder in its environment. A supervisor started
later has none of them as children and recognizes them by it. A script that joined with `monitor` has no mark,
but holds a file of the run folder open for writing.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Collection
from pathlib import Path

import psutil

from grpo_tui.store.layout import RunFolder
from grpo_tui.store.live import process_alive

ABORT_SIGNAL = signal.SIGRTMIN + 3
"""Sent to a rank to abort its running reward call."""
MARK = "GRPO_TUI_RUN"
"""Environment variable that identifies the run folder a process belongs to."""


def mark_of(root: Path) -> str:
    """Return the mark of a run: device and inode of its folder, so that renaming does not change it."""
    found = os.stat(root)
    return f"{found.st_dev:x}-{found.st_ino:x}"


def kill_session(leader: int) -> None:
    """Kill the process group of a child not yet waited for, while its pid cannot be reused."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


def send(number: int, pid: int, started: float | None, folder: RunFolder) -> bool:
    """Send a signal to a process, given its pid and start time from a file.

    Return False if it is gone or not proven to be of the run.
    """
    try:
        # The descriptor refers to this very process. If the pid is reused after the check, no signal is sent.
        process = os.pidfd_open(pid)
    except (OSError, ValueError, OverflowError):
        return False
    try:
        if not is_ours(pid, started, folder):
            return False
        signal.pidfd_send_signal(process, number)
    except OSError:
        return False
    finally:
        os.close(process)
    return True


def is_ours(pid: int, started: float | None, folder: RunFolder) -> bool:
    """Return whether a process is the user's, started at that time, and belongs to the run."""
    try:
        if not process_alive(pid, started) or os.stat(f"/proc/{pid}").st_uid != os.geteuid():
            return False
        return is_marked(pid, mark_of(folder.root)) or _writes_into(pid, folder)
    except OSError:
        return False


def is_marked(pid: int, mark: str) -> bool:
    """Return whether a process has this mark in its environment."""
    return f"{MARK}={mark}".encode() in _environment(pid)


def _writes_into(pid: int, folder: RunFolder) -> bool:
    """Return whether a process holds the run's lock or one of its rank files open for writing."""
    ours = set()
    for name in (folder.lock, *(folder.rank(number) for number in folder.ranks())):
        with contextlib.suppress(OSError):
            found = name.lstat()
            ours.add((found.st_dev, found.st_ino))
    for descriptor in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(OSError):  # it may be closed meanwhile
            found = os.stat(f"/proc/{pid}/fd/{descriptor}")
            if (found.st_dev, found.st_ino) in ours:
                said = Path(f"/proc/{pid}/fdinfo/{descriptor}").read_text(encoding="ascii")
                (flags,) = (line.split()[1] for line in said.splitlines() if line.startswith("flags:"))
                if int(flags, 8) & os.O_ACCMODE != os.O_RDONLY:
                    return True
    return False


def kill_descendants(spared: Collection[int] = ()) -> None:
    """Kill every descendant of this process, except the spared children and their descendants."""
    for child in psutil.Process().children():
        if child.pid in spared:
            continue
        with contextlib.suppress(psutil.Error):
            for process in (child, *child.children(recursive=True)):
                with contextlib.suppress(psutil.Error):
                    process.kill()


def kill_marked(mark: str) -> None:
    """Kill every process with this mark, whoever its parent is."""
    for process in psutil.process_iter():
        if process.pid != os.getpid() and is_marked(process.pid, mark):
            with contextlib.suppress(psutil.Error):
                process.kill()


def _environment(pid: int) -> list[bytes]:
    """Return a process's initial environment; empty when it is not readable."""
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []
