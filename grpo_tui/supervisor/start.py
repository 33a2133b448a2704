"""Start supervisors: for a new run, a running script, or a run whose supervisor died."""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
import sys
import time

from grpo_tui.store.connection import RunDatabaseError
from grpo_tui.store.json_file import append_regular
from grpo_tui.store.layout import RunFolder, is_known, own_folder, remember
from grpo_tui.store.live import process_alive, read_heartbeat, write_heartbeat
from grpo_tui.store.reader import RunReader
from grpo_tui.store.spec import RunSpec, keep_earlier, settle_earlier
from grpo_tui.store.status import is_live

LOCK_POLL_S = 0.1
LEAVING_S = 20.0
"""How long a new start waits for the processes of an ended run to exit."""


class RunFolderBusy(RuntimeError):
    """Another run is training in the folder."""


def take_lock(folder: RunFolder, wait_s: float = 0.0) -> int:
    """Lock the folder and return the descriptor that holds the lock. Children that inherit it hold it too.

    The folder is created if missing. `wait_s` is how long to wait for processes of an ended run to exit.

    Raises:
        RunFolderBusy: Another process holds the lock.
    """
    folder.root.mkdir(mode=0o755, parents=True, exist_ok=True)
    descriptor = os.open(folder.lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
    deadline = time.monotonic() + wait_s
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            if time.monotonic() >= deadline:
                os.close(descriptor)
                raise RunFolderBusy(f"{folder.root}: another run is training in this folder") from None
            time.sleep(LOCK_POLL_S)
        else:
            return descriptor


def launch(folder: RunFolder, spec: RunSpec) -> int:
    """Write `run.json`, start a supervisor and return its pid. The supervisor starts the training process.

    Raises:
        RunFolderBusy: Another run is training in the folder.
        OSError: The folder cannot be written.
    """
    lock = take_lock(folder, 0.0 if is_live(folder.root) else LEAVING_S)
    try:
        if spec.resume is None:
            settle_earlier(folder, restore=False)
        else:
            keep_earlier(folder)
        spec.write(folder.spec)
        _remember(folder)
        _close_to_others(folder)
        return _start(folder, ["--lock", str(lock)], lock=lock)
    finally:
        os.close(lock)


def start_sidecar(folder: RunFolder, trainer: int, lock: int) -> int:
    """Start a supervisor for a training process that is already running. Return the supervisor's pid."""
    _remember(folder)
    _close_to_others(folder)
    return _start(folder, ["--watch", str(trainer)], trainer=trainer, lock=lock)


def adopt(folder: RunFolder) -> str:
    """Start a supervisor for a run that has lost its own, whether the run is alive or ended unrecorded.

    A run the user did not start on this machine is left alone: looking at a folder never acts on it.

    Returns:
        A message about what was missing and what was done; empty when nothing was missing.
    """
    beat = read_heartbeat(folder.heartbeat)
    if beat is None or beat.trainer is None or not beat.same_host or beat.supervisor_alive:
        return ""
    if not _unfinished(folder) or not os.access(folder.root, os.W_OK):
        return ""
    if not is_known(folder.root):
        return (
            "its supervisor is gone. You did not start this run on this machine, so grpo-tui only displays it"
        )
    _start(
        folder,
        ["--watch", str(beat.trainer), "--started", repr(beat.trainer_started or 0.0)],
        trainer=beat.trainer,
    )
    if process_alive(beat.trainer, beat.trainer_started):
        return (
            "the supervisor was gone, so abort-reward and stop --now did not work. It has been started again"
        )
    return "the run ended while no supervisor was watching. Its end is now recorded"


def _remember(folder: RunFolder) -> None:
    """Record that the user started this run. On failure it still trains, but `adopt` will not act on it."""
    try:
        remember(folder.root)
    except OSError as error:
        print(
            f"grpo-tui: this start could not be noted in {own_folder('state')} ({error.strerror}): if its "
            "supervisor dies, `grpo-tui attach` cannot start another",
            flush=True,
        )


def _close_to_others(folder: RunFolder) -> None:
    """Keep other users from writing commands. Warn if the file system does not support permissions."""
    with contextlib.suppress(OSError):
        folder.commands.mkdir(mode=0o700, exist_ok=True)
        if not folder.commands.is_symlink():
            folder.commands.chmod(0o700)
    with contextlib.suppress(OSError):
        if folder.commands.stat().st_mode & 0o077:
            print(
                f"grpo-tui: the file system of {folder.root} keeps no permissions, so everyone who can "
                "write there can steer this run",
                flush=True,
            )


def _unfinished(folder: RunFolder) -> bool:
    try:
        with contextlib.closing(RunReader(folder.database)) as reader:
            return any(one.state is None for one in reader.attempts()[-1:])
    except RunDatabaseError:
        return False


def _start(
    folder: RunFolder, arguments: list[str], *, trainer: int | None = None, lock: int | None = None
) -> int:
    with append_regular(folder.log) as log:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "grpo_tui.supervisor", str(folder.root), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            pass_fds=() if lock is None else (lock,),
        )
    write_heartbeat(folder.heartbeat, process.pid, trainer)
    # The supervisor outlives this process. A return code avoids the warning about a child not waited for.
    process.returncode = 0
    return process.pid
