"""Search the folders for runs repeatedly, in a thread.

Unchanged runs are not read again, and folders that take long to walk are walked less often.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from textual.message import Message

from grpo_tui.present.runs_view import RunRow, fingerprint, ordered, read_run_row, run_names
from grpo_tui.store.layout import RunFolder, find_runs
from grpo_tui.store.replay import see_present
from grpo_tui.ui.messages import RunsListed

LOOK_S = 2.0
WALK_SHARE = 0.02
"""Largest fraction of time spent walking the folders for new runs."""
FIRST_PAGE = 12
"""Number of rows read before the list is shown for the first time."""


class RunsWatch:
    """Keeps the list of runs up to date. Call `run` in a thread; it ends when `stopped` is set."""

    def __init__(
        self, roots: Sequence[Path], post: Callable[[Message], object], stopped: threading.Event
    ) -> None:
        self._roots, self._post = tuple(roots), post
        self._stopped = stopped
        self._paths: list[Path] = []
        self._names: dict[Path, str] = {}
        self._walk_at = float("-inf")
        self._known: dict[Path, tuple[Any, RunRow]] = {}
        self._shown: tuple[RunRow, ...] | None = None

    def run(self) -> None:
        see_present()  # the open run may be a replay
        while not self._stopped.is_set():
            self.look()
            self._stopped.wait(LOOK_S)

    def look(self) -> None:
        """Search once, and post the list if it has changed."""
        self._walk()
        for number, path in enumerate(self._paths):
            if self._stopped.is_set():
                return
            self._read(path)
            if self._shown is None and number + 1 in (FIRST_PAGE, FIRST_PAGE * 6):
                self._post(RunsListed(self._rows(), complete=False))
        rows = self._rows()
        if rows != self._shown:
            self._shown = rows
            self._post(RunsListed(rows, complete=True))

    def _walk(self) -> None:
        """Find the run folders, unless the last walk was slow and another would come too soon."""
        began = time.monotonic()
        if began < self._walk_at and all(path.is_dir() for path in self._paths):
            return
        self._paths = find_runs(self._roots)
        self._names = run_names(self._paths)
        self._known = {path: known for path, known in self._known.items() if path in self._names}
        ended = time.monotonic()
        self._walk_at = ended + (ended - began) / WALK_SHARE - LOOK_S

    def _read(self, path: Path) -> None:
        """Read a run that has changed or is live: a live one can die without writing anything."""
        mark, known = fingerprint(RunFolder(path)), self._known.get(path)
        if known is None or known[0] != mark or known[1].live:
            self._known[path] = (mark, read_run_row(path, self._names[path]))

    def _rows(self) -> tuple[RunRow, ...]:
        return tuple(ordered(row for _, row in self._known.values()))
