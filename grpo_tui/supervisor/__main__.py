"""The supervisor process: `python -m grpo_tui.supervisor RUN_DIR`."""

from __future__ import annotations

import argparse
import fcntl
import os
import signal
import sys
from pathlib import Path

from grpo_tui.store.layout import RunFolder
from grpo_tui.supervisor.watch import Supervisor


def _alone(folder: RunFolder) -> bool:
    """Take the supervisor's own lock, for as long as this process lives; False when there is another one."""
    descriptor = os.open(folder.supervisor_lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def main() -> int:
    """Entry point of the supervisor process."""
    parser = argparse.ArgumentParser(prog="grpo_tui.supervisor", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--lock", type=int, help="inherited descriptor that holds the folder's lock")
    parser.add_argument("--watch", type=int, help="pid of a training process that runs already")
    parser.add_argument("--started", type=float, help="its start time, against a pid that was reused")
    arguments = parser.parse_args()
    sys.dont_write_bytecode = True  # on a full disk, Python keeps bytecode that was cut short
    os.umask(os.umask(0o077) | 0o022)  # only the user may write the run's files, checkpoints included
    folder = RunFolder(arguments.folder)
    if not _alone(folder):
        return 0
    supervisor = Supervisor(folder, lock=arguments.lock, trainer=arguments.watch, started=arguments.started)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, supervisor.stop_gently)
    return supervisor.run()


if __name__ == "__main__":
    sys.exit(main())
