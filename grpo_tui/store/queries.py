"""What every part of the reader stands on: an open file, asked in whole pages.

No cursor stays open between calls. Knows no table.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from grpo_tui.store.connection import SQLITE_ERRORS, DamagedError, open_reader


class Queries:
    """A file opened for reading. Use it from one thread at a time.

    Raises:
        RunDatabaseError: From the constructor, when there is no readable `run.db`.
        DamagedError: At any time, when a part of it cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._db = open_reader(path)
        self._version: int | None = None
        self._known: set[tuple[str, str]] = set()

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def changed(self) -> bool:
        """True when anything was written since the last call; costs some 70 microseconds."""
        version = self._one("PRAGMA data_version")[0]
        changed = version != self._version
        self._version = version
        return bool(changed)

    def _has(self, table: str, column: str) -> bool:
        """True when the file has this column; an older one may lack it until the run is resumed."""
        if (table, column) not in self._known:
            self._known |= {(table, row["name"]) for row in self._all(f"PRAGMA table_info({table})")}
        return (table, column) in self._known

    def _all(self, query: str, *values: Any) -> list[sqlite3.Row]:
        with self._damage_told():
            return self._db.execute(query, values).fetchall()

    def _one(self, query: str, *values: Any) -> Any:
        with self._damage_told():
            return self._db.execute(query, values).fetchone()

    @contextmanager
    def _damage_told(self) -> Iterator[None]:
        """Say of a file that turns out to be damaged which one it is, in a sentence."""
        try:
            yield
        except SQLITE_ERRORS as error:
            raise DamagedError(f"{self.path}: {error}.") from error
