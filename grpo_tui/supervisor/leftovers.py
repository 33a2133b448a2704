"""Signal the processes of a run and no others, and end what a training process leaves behind.

Whatever a supervisor starts carries a mark of the run folder in its environment, and so does whatever that
starts. A supervisor that came later, to which nothing of this is a child, knows them by it. A script that
joined with `monitor` has no mark, but holds a file of the run folder open that only the run itself writes.
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
"""What the supervisor sends to a training process to have the running reward call aborted."""
MARK = "GRPO_TUI_RUN"
"""Variable of the environment that says which run folder a process belongs to."""


def mark_of(root: Path) -> str:
    """What marks the processes of a run: its folder by what it is, so that a renaming changes nothing."""
    found = os.stat(root)
    return f"{found.st_dev:x}-{found.st_ino:x}"


def kill_session(leader: int) -> None:
    """Kill the process group of a child that has not been waited for, so that its id is still its own."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


def send(number: int, pid: int, started: float | None, folder: RunFolder) -> bool:
    """Send a signal to a process that a file named; False when it is gone, or not proved to be of the run.

    Args:
        number: The signal.
        pid: The process, as the file says.
        started: Its start time, as the file says.
        folder: The run.
    """
    try:
        # The descriptor means this very process: when the pid is reused after the proof, nobody gets it.
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
    """Return True for a process of this user that began at that time and belongs to the run."""
    try:
        if not process_alive(pid, started) or os.stat(f"/proc/{pid}").st_uid != os.geteuid():
            return False
        return is_marked(pid, mark_of(folder.root)) or _writes_into(pid, folder)
    except OSError:
        return False


def is_marked(pid: int, mark: str) -> bool:
    """Return True for a process that was started for the run with this mark."""
    return f"{MARK}={mark}".encode() in _environment(pid)


def _writes_into(pid: int, folder: RunFolder) -> bool:
    """True when the process holds the run's lock or one of its rank files open for writing."""
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
    """Kill every process below this one, except these children and what is below them."""
    for child in psutil.Process().children():
        if child.pid in spared:
            continue
        with contextlib.suppress(psutil.Error):
            for process in (child, *child.children(recursive=True)):
                with contextlib.suppress(psutil.Error):
                    process.kill()


def kill_marked(mark: str) -> None:
    """Kill every process that carries this mark, whoever its parent is now."""
    for process in psutil.process_iter():
        if process.pid != os.getpid() and is_marked(process.pid, mark):
            with contextlib.suppress(psutil.Error):
                process.kill()


def _environment(pid: int) -> list[bytes]:
    """The environment a process began with; nothing when it is not ours to read."""
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []
