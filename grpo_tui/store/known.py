"""Remember the runs that this user started on this machine; every other run folder is foreign.

A run folder can come from anyone: a colleague, an archive, a shared disk. Its files say who made it, and any
of them can lie. So each start is also noted outside the folder, in the user's state folder, by the device and
inode of the run folder and a random id that the folder holds too. A copy has another inode and is foreign.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Mapping
from pathlib import Path

from grpo_tui.store.json_file import read_object, write_json
from grpo_tui.store.layout import RunFolder

FOLDER_VARIABLE = "GRPO_TUI_STATE_DIR"


def state_folder(environment: Mapping[str, str] | None = None) -> Path:
    """Return the folder of what this program remembers about its own runs."""
    chosen = (os.environ if environment is None else environment).get(FOLDER_VARIABLE)
    if chosen:
        return Path(chosen)
    from platformdirs import user_state_path

    return user_state_path("grpo-tui", appauthor=False)


def remember(run: Path) -> None:
    """Note that this user started the run in this folder. A run that is known keeps its id.

    Raises:
        OSError: The run folder or the state folder cannot be written.
    """
    if is_known(run):
        return
    note, identity = _note(run), {"id": secrets.token_hex(16)}
    note.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_json(RunFolder(run).identity, identity, mode=0o600)
    write_json(note, {**identity, "path": os.path.abspath(run), "at": time.time()}, mode=0o600)


def is_known(run: Path) -> bool:
    """Return True when this user started the run on this machine, False when in doubt."""
    try:
        note = _note(run)
        found = os.lstat(note)
    except OSError:
        return False
    if found.st_uid != os.geteuid() or found.st_mode & 0o022:
        return False
    kept, told = read_object(note) or {}, read_object(RunFolder(run).identity) or {}
    return isinstance(kept.get("id"), str) and kept["id"] == told.get("id")


def _note(run: Path) -> Path:
    found = os.stat(run)
    return state_folder() / "runs" / f"{found.st_dev:x}-{found.st_ino:x}.json"
