"""Look through the folders for runs, in a thread of its own, again and again.

A run that did not change is not read again. Knows folders and rows; touches no widget.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from textual.message import Message

from grpo_tui.present.runs_view import RunRow, changed_at, ordered, read_run_row, run_names
from grpo_tui.store.catalog import find_runs
from grpo_tui.store.layout import RunFolder
from grpo_tui.ui.messages import RunsListed

LOOK_S = 2.0
FIRST_PAGE = 12
"""So many rows are read before the list is shown for the first time."""


class RunsWatch:
    """Keeps the list of runs; `run` is the body of the thread, which ends when `stopped` is set."""

    def __init__(
        self, roots: Sequence[Path], post: Callable[[Message], object], stopped: threading.Event
    ) -> None:
        self._roots, self._post = tuple(roots), post
        self._stopped = stopped
        self._known: dict[Path, tuple[float | None, RunRow]] = {}
        self._shown: tuple[RunRow, ...] | None = None

    def run(self) -> None:
        """Look again and again until stopped."""
        while not self._stopped.is_set():
            self.look()
            self._stopped.wait(LOOK_S)

    def look(self) -> None:
        """Look once, and post the list when it is another."""
        paths = find_runs(self._roots)
        names = run_names(paths)
        self._known = {path: known for path, known in self._known.items() if path in names}
        for number, path in enumerate(paths):
            if self._stopped.is_set():
                return
            changed = changed_at(RunFolder(path))
            known = self._known.get(path)
            # A live run can end without a word in its folder, so it is always looked at.
            if known is None or known[0] != changed or known[1].live:
                self._known[path] = (changed, read_run_row(path, names[path]))
            if self._shown is None and number + 1 in (FIRST_PAGE, FIRST_PAGE * 6):
                self._post(RunsListed(self._rows(), complete=False))
        rows = self._rows()
        if rows != self._shown:
            self._shown = rows
            self._post(RunsListed(rows, complete=True))

    def _rows(self) -> tuple[RunRow, ...]:
        return tuple(ordered(row for _, row in self._known.values()))
