"""Query the store in a thread, so that scrolling and searching never block the screen.

Only the newest waiting question of each kind is answered.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from grpo_tui.core.text import one_line
from grpo_tui.store.log_lines import LogReader
from grpo_tui.store.reader import RunReader
from grpo_tui.ui.kit.jobs import Jobs

if TYPE_CHECKING:
    from grpo_tui.store.search import Search

T = TypeVar("T")
_Failed = Callable[[str], object]
_Asked = tuple[Callable[["Stores"], Any], Callable[[Any], object], _Failed | None]


class Stores:
    """Readers of one run, each opened on first use."""

    def __init__(self, database: Path) -> None:
        self._database = database
        self._log: LogReader | None = None
        self._run: RunReader | None = None
        self._search: Search | None = None
        self._file: tuple[int, int] | None = None

    @property
    def log(self) -> LogReader:
        """Reader of the process's output."""
        if self._log is None:
            self._log = LogReader(self._database)
        return self._log

    @property
    def run(self) -> RunReader:
        """Reader of everything else that is recorded."""
        if self._run is None:
            self._run = RunReader(self._database)
        return self._run

    @property
    def search(self) -> Search:
        """Query interface for completions."""
        if self._search is None:
            from grpo_tui.store.search import Search

            self._search = Search(self._database)
        return self._search

    def refresh(self) -> None:
        """Close the readers when another file has replaced the database."""
        stat = os.stat(self._database)
        file = (stat.st_dev, stat.st_ino)
        if file != self._file:
            self.close()
            self._file = file

    def close(self) -> None:
        for reader in (self._log, self._run, self._search):
            if reader is not None:
                with contextlib.suppress(Exception):
                    reader.close()
        self._log = self._run = self._search = None


class Pages:
    """Answers questions about one run. Call `run` in a thread.

    The database need not exist yet. `deliver` runs a callback in the screen's thread.
    """

    def __init__(self, database: Path, deliver: Callable[[Callable[[], object]], object]) -> None:
        self._stores, self._deliver = Stores(database), deliver
        self._jobs: Jobs[_Asked] = Jobs()

    def ask(
        self,
        kind: str,
        question: Callable[[Stores], T],
        then: Callable[[T], object],
        failed: _Failed | None = None,
    ) -> None:
        """Queue a question. It replaces a waiting one of the same kind.

        Args:
            kind: What the question is about.
            question: Reads the store, in the worker thread.
            then: Receives the answer, in the screen's thread. Not called after `stop`.
            failed: Receives an error sentence instead when the store cannot be read.
        """
        self._jobs.ask(kind, (question, then, failed))

    def stop(self) -> None:
        """Ask the thread to end. Waiting questions are dropped."""
        self._jobs.stop()

    def run(self) -> None:
        try:
            while (asked := self._jobs.next()) is not None:
                question, then, failed = asked
                try:
                    self._stores.refresh()
                    answer = question(self._stores)
                except Exception as error:  # anything may be in the file; the next question may succeed
                    self._stores.close()
                    if failed is None:  # the poller reports errors of the file
                        continue
                    then, answer = failed, _sentence(error)
                if not self._jobs.stopped.is_set():
                    self._deliver(partial(self._answer, then, answer))
        finally:
            self._stores.close()

    def _answer(self, then: Callable[[Any], object], answer: Any) -> None:
        """Deliver an answer in the screen's thread, unless `stop` was called meanwhile."""
        if not self._jobs.stopped.is_set():
            then(answer)


def _sentence(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return "run.db no longer exists"
    return f"run.db cannot be read: {one_line(str(error) or type(error).__name__, 300)}"
