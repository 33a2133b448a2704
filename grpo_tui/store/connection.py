"""Open `run.db` for its one writer or for any number of readers."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from grpo_tui.core.text import one_line
from grpo_tui.store.json_file import not_regular
from grpo_tui.store.replay import Moment, Replay, hide, is_replayed, replay_of
from grpo_tui.store.schema import (
    INDEXES,
    LATER_COLUMNS,
    LATER_TABLES,
    SCHEMA_VERSION,
    TABLES,
    prepare_spans,
)

NETWORK_FILESYSTEMS = frozenset(
    {"nfs", "nfs4", "lustre", "gpfs", "cifs", "smb2", "smbfs", "beegfs", "ceph", "fuseblk"}
)
"""File systems on which SQLite's shared-memory index is unsafe between hosts."""

BUSY_TIMEOUT_MS = 5_000

SQLITE_ERRORS = (sqlite3.DatabaseError, UnicodeDecodeError)
"""SQLite's errors for a damaged file. The second occurs when its message quotes bytes that are not UTF-8."""


class RunDatabaseError(Exception):
    """`run.db` cannot be used; the message says why and what to do."""


class DamagedError(RunDatabaseError):
    """The file is not a database, or part of it cannot be read."""


class NewerError(RunDatabaseError):
    """A newer version of this program wrote the file."""


def filesystem_type(path: Path) -> str:
    """Return the type of the file system that holds `path`, as `statfs` names it; empty when unknown."""
    try:
        done = subprocess.run(
            ["stat", "-f", "-c", "%T", os.fspath(path)],
            capture_output=True,
            text=True,
            timeout=5,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip()


def open_writer(path: Path) -> sqlite3.Connection:
    """Open or create `run.db` for writing, with its schema.

    Raises:
        RunDatabaseError: A newer version wrote the file, or it is not a database.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    _refuse_links(path)
    connection = sqlite3.connect(
        path, timeout=BUSY_TIMEOUT_MS / 1000, isolation_level=None, check_same_thread=False
    )
    try:
        network = filesystem_type(path.parent) in NETWORK_FILESYSTEMS
        # WAL lets readers read while the recorder writes. With NORMAL the file survives a killed process, and
        # only a power cut can lose the last transactions. On a network file system WAL can corrupt the file.
        connection.execute(f"PRAGMA journal_mode={'TRUNCATE' if network else 'WAL'}")
        connection.execute("PRAGMA synchronous=NORMAL")
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version == 0:
            connection.executescript(f"BEGIN;{TABLES};PRAGMA user_version={SCHEMA_VERSION};COMMIT;")
        else:
            _check_version(path, version)
            _refuse_programs(path, connection)
        connection.executescript(LATER_TABLES)
        _add_columns(connection)
        connection.executescript(INDEXES)
        prepare_spans(connection)
    except SQLITE_ERRORS as error:
        connection.close()
        raise RunDatabaseError(f"{path}: {error}. Is another program using it, or the disk full?") from error
    except RunDatabaseError:
        connection.close()
        raise
    return connection


def open_reader(path: Path) -> sqlite3.Connection:
    """Open `run.db` read-only. This never creates, migrates or locks the file for long.

    In a read-only folder SQLite cannot create its shared-memory file. While a run writes, the run's own can
    be used. After a kill that one is useless: `run.db` and its `-wal` file, which holds the newest rows, are
    copied first. Without a `-wal` file, `run.db` is read as immutable. So is that of a replay in any folder,
    because SQLite would create its files there, except in a mode without WAL, in which it creates none.

    Raises:
        RunDatabaseError: There is no such file, or a newer version wrote it.
    """
    if not path.exists():
        raise RunDatabaseError(f"{path.parent}: no run.db here. `grpo-tui runs` lists the runs it can find.")
    connection, version = _open_foreign(path)
    if version == 0:
        connection.close()
        raise RunDatabaseError(f"{path}: the run has not written anything yet.")
    _check_version(path, version)
    _refuse_programs(path, connection)
    return connection


def open_other(path: Path) -> sqlite3.Connection:
    """Open the SQLite file of another program read-only, as `open_reader` opens `run.db`.

    Raises:
        RunDatabaseError: It is not a database, not a regular file, or holds views or triggers.
    """
    connection, _ = _open_foreign(path)
    _refuse_programs(path, connection)
    return connection


def _open_foreign(path: Path) -> tuple[sqlite3.Connection, int]:
    _refuse_links(path)
    try:
        return _open_read_only(path)
    except SQLITE_ERRORS as error:
        raise DamagedError(f"{path}: {error}.") from error


def _refuse_links(path: Path) -> None:
    """Refuse files that SQLite would block on or follow out of the folder: links, pipes, devices, folders."""
    for name in (path, *(path.with_name(path.name + ending) for ending in ("-wal", "-shm", "-journal"))):
        try:
            regular = stat.S_ISREG(name.lstat().st_mode)
        except OSError:
            continue
        if not regular:
            raise DamagedError(f"{name}: {not_regular(name).strerror}.")


def _open_read_only(path: Path) -> tuple[sqlite3.Connection, int]:
    """Return a connection that can read the newest rows, and the schema version."""
    wal = path.with_name(path.name + "-wal")
    settled = not (wal.exists() and wal.stat().st_size)
    writable = os.access(path.parent, os.W_OK)
    if writable and not (settled and is_replayed(path) and _uses_wal(path)):
        return _looked_at(_connect(path, "mode=ro"))
    if settled:
        return _looked_at(_connect(path, "immutable=1"))
    try:
        return _looked_at(_connect(path, "mode=ro"))
    except sqlite3.OperationalError:  # no process writes any longer
        # SQLite keeps the copies open, so their names can be removed at once.
        with tempfile.TemporaryDirectory(prefix="grpo-tui-") as folder:
            for source in (path, wal):
                shutil.copyfile(source, Path(folder) / source.name)
            return _looked_at(_connect(Path(folder) / path.name, "mode=ro"))


def _uses_wal(path: Path) -> bool:
    """Return whether the header says that readers share a `-wal` file. A network file system has none."""
    with path.open("rb") as file:
        return file.read(19)[18:] == b"\x02"


def _looked_at(connection: sqlite3.Connection) -> tuple[sqlite3.Connection, int]:
    try:
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        connection.execute("PRAGMA trusted_schema=OFF")
        return connection, version
    except SQLITE_ERRORS:
        connection.close()
        raise


def _add_columns(connection: sqlite3.Connection) -> None:
    for table, column, kind in LATER_COLUMNS:
        if column not in {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}:
            connection.execute(f"ALTER TABLE {table} ADD COLUMN {column} {kind}")


def _connect(path: Path, options: str) -> sqlite3.Connection:
    uri = path.absolute().as_uri() + "?" + options
    connection = sqlite3.connect(
        uri, uri=True, timeout=BUSY_TIMEOUT_MS / 1000, isolation_level=None, check_same_thread=False
    )
    connection.row_factory = sqlite3.Row
    connection.text_factory = lambda data: data.decode("utf-8", "replace")
    return connection


def _refuse_programs(path: Path, connection: sqlite3.Connection) -> None:
    """Refuse views and triggers: they run when the file is used, and no record has any."""
    try:
        found = connection.execute(
            "SELECT type, name FROM sqlite_master WHERE type IN ('view', 'trigger') LIMIT 1"
        ).fetchone()
    except SQLITE_ERRORS as error:
        connection.close()
        raise DamagedError(f"{path}: {error}.") from error
    if found is not None:
        connection.close()
        raise DamagedError(f"{path}: not a record: it holds the {found[0]} {one_line(str(found[1]), 60)}.")


def _check_version(path: Path, version: int) -> None:
    if version > SCHEMA_VERSION:
        raise NewerError(
            f"{path}: written by a newer grpo-tui (schema {version}, this one reads {SCHEMA_VERSION}). "
            "Upgrade with `pip install -U grpo-tui`."
        )


class Shown:
    """What a connection shows of a run: everything, or what there was at the moment of a replay."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._replay: Replay | None = None
        self.version = -1
        self.moment: Moment | None = None

    def follow(self, db: sqlite3.Connection) -> None:
        """Make the connection show what it has to show now."""
        replay = replay_of(self._path)
        if replay is None and self._replay is not None:
            hide(db)
            self.version, self.moment = -1, None
        elif replay is not None and (replay is not self._replay or replay.version != self.version):
            self.version, self.moment = replay.show(db)
        self._replay = replay


class RunFile:
    """`run.db` opened for reading. Use it from one thread at a time.

    Raises:
        RunDatabaseError: From the constructor, when there is no readable `run.db`.
        DamagedError: At any time, when part of it cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._db = open_reader(path)
        self._shown = Shown(path)
        self._version: tuple[int, int] | None = None
        self._known: set[tuple[str, str]] = set()

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def changed(self) -> bool:
        """Return whether anything was written since the last call. Takes about 70 microseconds."""
        version = self.one("PRAGMA data_version")[0], self._shown.version
        changed = version != self._version
        self._version = version
        return bool(changed)

    @property
    def moment(self) -> Moment | None:
        """The moment of the run that is shown; None for the present."""
        with self._damage_told():
            return self._shown.moment

    def has(self, table: str, column: str) -> bool:
        """Return whether the file has this column. An older file may lack it until the run is resumed."""
        if (table, column) not in self._known:
            self._known |= {(table, row["name"]) for row in self.all(f"PRAGMA table_info({table})")}
        return (table, column) in self._known

    def all(self, query: str, *values: Any, **named: Any) -> list[sqlite3.Row]:
        """Return all rows of a statement. No cursor stays open between calls."""
        with self._damage_told():
            return self._db.execute(query, named or values).fetchall()

    def among(self, query: str, ids: Sequence[int]) -> Iterator[sqlite3.Row]:
        """Yield the rows of a statement with `IN (?)` for any number of ids, 500 of them at a time."""
        for start in range(0, len(ids), 500):
            page = ids[start : start + 500]
            yield from self.all(query.replace("(?)", f"({','.join('?' * len(page))})"), *page)

    def one(self, query: str, *values: Any) -> Any:
        """Return the first row of a statement; None without any."""
        with self._damage_told():
            return self._db.execute(query, values).fetchone()

    @contextmanager
    def _damage_told(self) -> Iterator[None]:
        try:
            self._shown.follow(self._db)
            yield
        except SQLITE_ERRORS as error:
            raise DamagedError(f"{self.path}: {error}.") from error
