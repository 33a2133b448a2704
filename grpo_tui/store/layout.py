"""Find run folders, name the files in them, hold a folder open, and know which runs this user started.

A folder can be renamed under a live run, or deleted and another created under its name. A held folder is
accessed through an open descriptor, so it is the same one after a rename and never another.

A run folder can come from anyone: a colleague, an archive, a shared disk. Files in it can lie about who made
it. So each start is also noted in the user's state folder, by the device and inode of the run folder and a
random id that the folder stores too. A copy has another inode, so it does not count as this user's run.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from grpo_tui.store.json_file import read_object, write_json

BUNDLE = "grpo-tui-bundle.json"
"""Manifest of a bundle: a run exported to be trained again, with the user's code in it."""


class _Name:
    """The path of a name in a run folder."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, folder: RunFolder, kind: object = None) -> Path:
        return folder.root / self._name


@dataclass(frozen=True, slots=True)
class RunFolder:
    """Paths of one run; `root` is TRL's `output_dir`."""

    root: Path
    opened: int = 0
    """Number of an opening after which the panes must read the run again."""

    database = _Name("run.db")
    """SQLite file with everything recorded."""
    spec = _Name("run.json")
    """Resolved config and start options, as JSON."""
    identity = _Name("run.id")
    """Random id that proves that this user started the run."""
    earlier_spec = _Name("run.json.before")
    """`run.json` from before a resume, kept until the resumed run has ended."""
    lock = _Name("run.lock")
    """Locked with `flock` by the supervisor and the training process together."""
    supervisor_lock = _Name("supervisor.lock")
    """Locked by the run's one supervisor."""
    heartbeat = _Name("heartbeat")
    """Written by the supervisor once a second, with its own process and the one it watches."""
    hardware = _Name("hardware.json")
    """State of the machine, replaced by the supervisor every two seconds and removed at the end."""
    notified = _Name("notified.json")
    """Findings that were notified about, with the time."""
    log = _Name("train.log")
    """All output of the training process."""
    commands = _Name("commands")
    """Mailbox of commands and outcomes."""
    spool = _Name("spool")
    """Records of ranks other than the first, before they reach the database."""

    def abort(self, rank: int) -> Path:
        """Id of the reward call to abort on a rank, written before the signal is sent."""
        return self.root / f"rank-{rank}.abort"

    def rank(self, rank: int) -> Path:
        """Current state of one rank."""
        return self.root / f"rank-{rank}.json"

    def error(self, rank: int) -> Path:
        """Why a rank other than the first failed."""
        return self.root / f"rank-{rank}.error"

    def ranks(self) -> list[int]:
        """Return the ranks that have a state file, in order."""
        named = (p.stem.removeprefix("rank-") for p in self.root.glob("rank-*.json"))
        return sorted(int(number) for number in named if number.isdecimal())

    def exists(self) -> bool:
        """Return whether the folder holds a run."""
        return self.database.exists() or self.spec.exists()

    @property
    def of_script(self) -> bool:
        """Whether a script of the user trains the run. Only `grpo-tui train` writes `run.json`."""
        return self.database.exists() and not self.spec.exists()

    def checkpoints(self) -> list[Path]:
        """Return checkpoint folders by step, oldest first. Links and other names are ignored."""
        named = [p for p in self.root.glob("checkpoint-*") if p.name.removeprefix("checkpoint-").isdecimal()]
        found = [p for p in named if p.is_dir() and not p.is_symlink()]
        return sorted(found, key=lambda path: int(path.name.split("-")[-1]))


DESCRIPTORS = Path("/proc/self/fd")


def hold(root: Path) -> Path:
    """Return a path that always leads to this folder, valid in this process for its lifetime.

    Child processes must be given `where` instead. Without /proc the path is returned unchanged.

    Raises:
        OSError: There is no such folder.
    """
    if not DESCRIPTORS.is_dir():
        return root
    return DESCRIPTORS / str(os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC))


def where(held: Path) -> Path | None:
    """Return the current name of a held folder; None when it was deleted."""
    if held.parent != DESCRIPTORS:
        return held
    name = os.readlink(held)
    try:
        there = os.stat(name)
    except OSError:
        return None
    return Path(name) if os.path.samestat(there, os.stat(held)) else None


MAX_DEPTH = 4
"""Levels searched below a root. Checkpoints and hidden folders are skipped."""


def find_runs(roots: Iterable[Path]) -> list[Path]:
    """Return the run folders under the roots, without duplicates, most recently changed first."""
    starts = list(dict.fromkeys(os.path.abspath(root) for root in roots))
    found: dict[Path, float] = {}
    for start in starts:
        # A root inside another one is searched once, from itself: that goes deeper.
        _walk(start, MAX_DEPTH, found, frozenset(starts) - {start})
    return sorted(found, key=lambda path: found[path], reverse=True)


def _walk(folder: str, depth: int, found: dict[Path, float], others: frozenset[str]) -> None:
    try:
        with os.scandir(folder) as scan:
            entries = list(scan)
    except OSError:
        return
    names = {entry.name for entry in entries}
    if "run.db" in names or "run.json" in names:
        path = Path(folder)
        found[path.resolve()] = last_written_at(path / name for name in ("run.db", "run.db-wal", "run.json"))
        return
    if depth == 0:
        return
    for inner in inner_folders(entries):
        if inner not in others:
            _walk(inner, depth - 1, found, others)


def inner_folders(entries: Iterable[os.DirEntry[str]]) -> list[str]:
    """Return the folders in which runs are searched."""
    return [
        entry.path
        for entry in entries
        if not entry.name.startswith((".", "checkpoint-", "__"))
        and entry.name not in ("node_modules", "site-packages")
        and entry.is_dir(follow_symlinks=False)
    ]


def last_written_at(paths: Iterable[Path]) -> float:
    """Return the newest modification time of some files; 0 when there are none.

    An empty file does not count: a reader of `run.db` leaves an empty write-ahead log behind.
    """
    newest = 0.0
    for path in paths:
        try:
            found = path.stat()
        except OSError:
            continue
        if found.st_size:
            newest = max(newest, found.st_mtime)
    return newest


def own_folder(kind: Literal["state", "cache"], environment: Mapping[str, str] | None = None) -> Path:
    """Return this program's folder of data about runs, or of what may be deleted at any time."""
    if chosen := (os.environ if environment is None else environment).get(f"GRPO_TUI_{kind.upper()}_DIR"):
        return Path(chosen)
    import platformdirs

    return Path(getattr(platformdirs, f"user_{kind}_path")("grpo-tui", appauthor=False))


def remember(run: Path) -> None:
    """Note that this user started the run in this folder. A known run keeps its id.

    Raises:
        OSError: The run folder or the state folder cannot be written.
    """
    if is_known(run):
        return
    import secrets

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
    return own_folder("state") / "runs" / f"{found.st_dev:x}-{found.st_ino:x}.json"
