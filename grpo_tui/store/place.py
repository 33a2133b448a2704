"""Hold on to a run folder by what it is, not by its name.

A folder can be renamed under a live run, or deleted and another one made under its name. A held folder is
reached through an open descriptor: the same one after a renaming, and never somebody else's. Knows
descriptors and paths only.
"""

from __future__ import annotations

import os
from pathlib import Path

DESCRIPTORS = Path("/proc/self/fd")


def hold(root: Path) -> Path:
    """A path of this very folder, good in this process for as long as it lives.

    What is started must be given `where` instead. Without /proc it is the path as given.

    Raises:
        OSError: There is no such folder.
    """
    if not DESCRIPTORS.is_dir():
        return root
    return DESCRIPTORS / str(os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC))


def where(held: Path) -> Path | None:
    """The name a held folder has now, None when it was deleted."""
    if held.parent != DESCRIPTORS:
        return held
    name = os.readlink(held)
    try:
        there = os.stat(name)
    except OSError:
        return None
    return Path(name) if os.path.samestat(there, os.stat(held)) else None
