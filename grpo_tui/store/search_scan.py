"""Run one statement over a part of a run, in this process or in a child, so that it can be stopped.

Looking for characters is done here: SQLite lets other threads work meanwhile and can be interrupted. Python
does neither (`re` in one match, JSON row after row), so what needs it for very many rows is done in a child
process (`search_child`), which can be killed.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from grpo_tui.store.connection import open_reader
from grpo_tui.store.query_functions import register

NICENESS = 10
"""Of the child processes: what trains on the same cores goes first."""


def stand_back() -> None:
    """Let what trains on the same cores go first; called by a child process of itself."""
    os.nice(max(0, NICENESS - os.getpriority(os.PRIO_PROCESS, 0)))


class ScanStopped(Exception):
    """The scan was ended from outside before its end."""


class ScanFailed(Exception):
    """The scan cannot be done; the message says why."""


class Scan(Protocol):
    """Runs statements, one at a time."""

    def rows(self, sql: str, values: Sequence[Any], patterns: Sequence[str]) -> tuple[list[Any], int]:
        """All rows of a statement, and in how many texts a pattern was given up.

        Raises:
            ScanStopped: `stop` was called meanwhile.
            ScanFailed: The statement cannot be run.
        """

    def stop(self) -> None:
        """End the statement that runs, from another thread."""

    def close(self) -> None:
        """Let go of the file."""


class DirectScan:
    """A connection of its own in this process, without `matches`."""

    def __init__(self, path: Path) -> None:
        self._db = open_reader(path)
        self._db.row_factory = None
        register(self._db)

    def rows(self, sql: str, values: Sequence[Any], patterns: Sequence[str]) -> tuple[list[Any], int]:
        """As `Scan.rows`; `patterns` must be empty."""
        try:
            return self._db.execute(sql, values).fetchall(), 0
        except sqlite3.DatabaseError as error:
            if "interrupted" in str(error):
                raise ScanStopped from error
            raise ScanFailed(f"run.db cannot be searched: {error}") from error

    def stop(self) -> None:
        """Interrupt the statement that runs, if one does."""
        with contextlib.suppress(sqlite3.ProgrammingError):  # closed meanwhile
            self._db.interrupt()

    def close(self) -> None:
        """Close the connection."""
        self._db.close()


class ChildScan:
    """A child process with a connection of its own; it ends with its input, so it outlives nobody."""

    def __init__(self, path: Path) -> None:
        self._stopped = False
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "grpo_tui.store.search_child", os.fspath(path.absolute())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
        )

    def rows(self, sql: str, values: Sequence[Any], patterns: Sequence[str]) -> tuple[list[Any], int]:
        """As `Scan.rows`."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        job = {"sql": sql, "values": list(values), "patterns": list(patterns)}
        try:
            process.stdin.write(json.dumps(job).encode() + b"\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except (OSError, ValueError) as error:
            raise ScanStopped from error
        if not line.endswith(b"\n"):
            raise ScanStopped
        answer = json.loads(line)
        if "error" in answer:
            raise ScanFailed(answer["error"])
        return answer["rows"], answer["slow"]

    def stop(self) -> None:
        """Kill the child; it is of no further use."""
        self._stopped = True
        self._process.kill()

    @property
    def ended(self) -> bool:
        """True when the child is gone, or about to go."""
        return self._stopped or self._process.poll() is not None

    def close(self) -> None:
        """End the child and wait for it."""
        self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        self._process.wait()
