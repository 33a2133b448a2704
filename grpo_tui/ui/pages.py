"""Ask the store for pages in a thread, so that scrolling and searching never make the screen wait.

Of one kind of question only the newest is answered.
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
    """The readers of one run, opened when they are first asked."""

    def __init__(self, database: Path) -> None:
        self._database = database
        self._log: LogReader | None = None
        self._run: RunReader | None = None
        self._search: Search | None = None
        self._file: tuple[int, int] | None = None

    @property
    def log(self) -> LogReader:
        """The output."""
        if self._log is None:
            self._log = LogReader(self._database)
        return self._log

    @property
    def run(self) -> RunReader:
        """All else."""
        if self._run is None:
            self._run = RunReader(self._database)
        return self._run

    @property
    def search(self) -> Search:
        """The completions, by a query."""
        if self._search is None:
            from grpo_tui.store.search import Search

            self._search = Search(self._database)
        return self._search

    def refresh(self) -> None:
        """Let go of a file that another one has replaced."""
        stat = os.stat(self._database)
        file = (stat.st_dev, stat.st_ino)
        if file != self._file:
            self.close()
            self._file = file

    def close(self) -> None:
        """Close what is open."""
        for reader in (self._log, self._run, self._search):
            if reader is not None:
                with contextlib.suppress(Exception):
                    reader.close()
        self._log = self._run = self._search = None


class Pages:
    """Answers questions about one run; `run` is the body of the thread.

    Args:
        database: The run's `run.db`; it need not exist yet.
        deliver: Runs a callback in the thread of the screen.
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
        """Have a question answered; an older one of the same kind that still waits is given up.

        Args:
            kind: What the question is about.
            question: Asks the store, in the thread.
            then: Gets the answer, in the thread of the screen; not called when the store cannot be read, nor
                once `stop` was called: what it would show is another run's by then.
            failed: Gets a sentence in the place of the answer, when the store cannot be read.
        """
        self._jobs.ask(kind, (question, then, failed))

    def stop(self) -> None:
        """End the thread soon; what still waits is not answered."""
        self._jobs.stop()

    def run(self) -> None:
        """Answer until stopped."""
        try:
            while (asked := self._jobs.next()) is not None:
                question, then, failed = asked
                try:
                    self._stores.refresh()
                    answer = question(self._stores)
                except Exception as error:  # whatever is in the file; the next question may do
                    self._stores.close()
                    if failed is None:  # the poller says what is wrong with the file
                        continue
                    then, answer = failed, _sentence(error)
                if not self._jobs.stopped.is_set():
                    self._deliver(partial(self._answer, then, answer))
        finally:
            self._stores.close()

    def _answer(self, then: Callable[[Any], object], answer: Any) -> None:
        """In the thread of the screen, which may have stopped this meanwhile."""
        if not self._jobs.stopped.is_set():
            then(answer)


def _sentence(error: Exception) -> str:
    """What keeps a question from its answer, for the person."""
    if isinstance(error, FileNotFoundError):
        return "run.db no longer exists"
    return f"run.db cannot be read: {one_line(str(error) or type(error).__name__, 300)}"
