"""Find run folders, name everything in them, hold on to one, and know which of them this user started here.

A folder can be renamed under a live run, or deleted and another one made under its name. A held folder is
reached through an open descriptor: the same one after a renaming, and never somebody else's.

A run folder can come from anyone: a colleague, an archive, a shared disk. Its files say who made it, and any
of them can lie. So each start is also noted outside the folder, in the user's state folder, by the device and
inode of the run folder and a random id that the folder holds too. A copy has another inode and is foreign.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from grpo_tui.store.json_file import read_object, write_json


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The files of one run; `root` is TRL's `output_dir`."""

    root: Path

    @property
    def database(self) -> Path:
        """The SQLite file that holds everything recorded."""
        return self.root / "run.db"

    @property
    def spec(self) -> Path:
        """What to run: the resolved config and the start options, as JSON."""
        return self.root / "run.json"

    @property
    def identity(self) -> Path:
        """A random id, by which the user who started the run knows it again."""
        return self.root / "run.id"

    @property
    def earlier_spec(self) -> Path:
        """`run.json` as it was before a resume, until the resumed run has ended."""
        return self.root / "run.json.before"

    @property
    def lock(self) -> Path:
        """Held with `flock` by the supervisor and the training process together."""
        return self.root / "run.lock"

    @property
    def supervisor_lock(self) -> Path:
        """Held by the one supervisor of the run."""
        return self.root / "supervisor.lock"

    @property
    def heartbeat(self) -> Path:
        """Touched by the supervisor once a second; holds who watches whom."""
        return self.root / "heartbeat"

    @property
    def hardware(self) -> Path:
        """How the machine is, replaced by the supervisor every two seconds; gone after the end."""
        return self.root / "hardware.json"

    @property
    def notified(self) -> Path:
        """Findings that a notification was sent about, with the time."""
        return self.root / "notified.json"

    @property
    def log(self) -> Path:
        """All output of the training process."""
        return self.root / "train.log"

    @property
    def commands(self) -> Path:
        """Mailbox of commands and outcomes."""
        return self.root / "commands"

    @property
    def spool(self) -> Path:
        """Records of ranks other than the first, on their way into the database."""
        return self.root / "spool"

    def abort(self, rank: int) -> Path:
        """The id of the reward call on a rank that shall be aborted, written before the signal goes out."""
        return self.root / f"rank-{rank}.abort"

    def rank(self, rank: int) -> Path:
        """What one rank is doing now."""
        return self.root / f"rank-{rank}.json"

    def error(self, rank: int) -> Path:
        """Why a rank other than the first failed."""
        return self.root / f"rank-{rank}.error"

    def ranks(self) -> list[int]:
        """Ranks that have said something, in order."""
        named = (p.stem.removeprefix("rank-") for p in self.root.glob("rank-*.json"))
        return sorted(int(number) for number in named if number.isdecimal())

    def exists(self) -> bool:
        """True when the folder holds a run."""
        return self.database.exists() or self.spec.exists()

    def checkpoints(self) -> list[Path]:
        """Checkpoint folders by step, oldest first; a link to a folder is not one."""
        named = [p for p in self.root.glob("checkpoint-*") if p.name.split("-")[-1].isdecimal()]
        found = [p for p in named if p.is_dir() and not p.is_symlink()]
        return sorted(found, key=lambda path: int(path.name.split("-")[-1]))


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


MAX_DEPTH = 4
"""How deep below a root runs are looked for; checkpoints and hidden folders are passed over."""


def find_runs(roots: Iterable[Path]) -> list[Path]:
    """Run folders under the roots, each once, newest first by the last change of `run.db`."""
    starts = list(dict.fromkeys(os.path.abspath(root) for root in roots))
    found: dict[Path, float] = {}
    for start in starts:
        # A root inside another one is walked once, from itself: that goes deeper.
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
        found[path.resolve()] = _changed_at(path)
        return
    if depth == 0:
        return
    for entry in entries:
        skipped = entry.name.startswith((".", "checkpoint-", "__")) or entry.name in (
            "node_modules",
            "site-packages",
        )
        if not skipped and entry.path not in others and entry.is_dir(follow_symlinks=False):
            _walk(entry.path, depth - 1, found, others)


def _changed_at(folder: Path) -> float:
    return last_written_at(folder / name for name in ("run.db", "run.db-wal", "run.json"))


def last_written_at(paths: Iterable[Path]) -> float:
    """When the newest of some files was written, 0 when there is none.

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
