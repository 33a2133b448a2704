"""Asks checker and lab for the data view, from three threads: rows at once, facts and rewards as they come.

Rows come from a child of their own until the other one has loaded the tokenizer, which takes long; from then
on they come from that one, and the first is ended. What is asked is put down and done in turn; of one kind
only the newest counts.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from textual.message import Message

from grpo_tui.config import ConfigError, RunConfig
from grpo_tui.ui.kit.jobs import Jobs
from grpo_tui.ui.messages import DataBusy, DataGold, DataKnown, DataMatches, DataRow, DataTrouble

if TYPE_CHECKING:
    from grpo_tui.preflight.checker import Checker
    from grpo_tui.preflight.facts import RowView


class DataWorker:
    """`run`, `find_out` and `score` are the bodies of threads.

    Args:
        post: takes a message for the screen, from any thread.
        config: gives the config; it may raise ConfigError.
    """

    def __init__(self, post: Callable[[Message], object], config: Callable[[], RunConfig]) -> None:
        self._post, self._config_of = post, config
        self._cancel = threading.Event()
        self._read = threading.Event()
        self._config: RunConfig | None = None
        self._jobs: Jobs[Callable[[], None]] = Jobs()
        self._golden: Jobs[RowView] = Jobs()
        """The newest row with a right answer, to be scored."""
        self._rows: Checker | None = None
        self._full: Checker | None = None
        self._number: int | None = 1
        self._interrupt: Callable[[], None] | None = None

    # -- asked by the screen; returns at once ------------------------------------------------------

    def row(self, number: int) -> None:
        """Show a row."""
        self._jobs.ask("row", partial(self._show, number))

    def any_row(self) -> None:
        """Show a row by chance."""
        self._jobs.ask("row", partial(self._show, None))

    def search(self, words: str) -> None:
        """Find the rows that hold words."""
        self._jobs.ask("search", partial(self._search, words))

    def stop(self) -> None:
        """End the threads soon, and the processes they asked."""
        self._jobs.stop()
        self._golden.stop()
        self._cancel.set()
        self._read.set()
        if self._interrupt is not None:
            self._interrupt()

    # -- rows ------------------------------------------------------------------------------------

    def run(self) -> None:
        """Read the config, show the first row, then do what is asked until stopped."""
        from grpo_tui.preflight.checker import CheckCancelledError, Checker, CheckerError
        from grpo_tui.rewards.consent import ConsentError

        self._rows = Checker(cancel=self._cancel)
        self._jobs.ask("row", partial(self._show, 1))
        try:
            self._config = self._config_of()
            while (job := self._jobs.next()) is not None:
                try:
                    job()
                except CheckCancelledError:
                    return
                except ConsentError as error:
                    self._tell(DataTrouble(str(error), error.codes))
                except (CheckerError, OSError) as error:
                    self._tell(DataTrouble(str(error)))
                self._read.set()  # what takes long begins when the first row is there
        except ConfigError as error:
            self._tell(DataTrouble(str(error)))
            self._tell(DataBusy(""))
        finally:
            self._read.set()
            for checker in (self._rows, self._full):  # the second one may wait to be changed over to
                if checker is not None:
                    checker.close()

    def _show(self, number: int | None) -> None:
        if self._config is None or self._rows is None:
            return
        rendered = self._rows is self._full
        if number is None:
            view = self._rows.any_row(self._config, rendered=rendered)
        else:
            view = self._rows.row(self._config, number, rendered=rendered)
        self._number = view.number
        self._tell(DataRow(view))
        if view.answer_column:
            self._golden.ask("row", view)

    def _search(self, words: str) -> None:
        if self._config is not None and self._rows is not None:
            self._tell(DataMatches(words, self._rows.holding(self._config, words)))

    def _change_over(self) -> None:
        """From now on rows come with the tokenizer; show the one that is open again."""
        quick, self._rows = self._rows, self._full
        if quick is not None:
            quick.close()
        self._show(self._number)

    # -- facts -----------------------------------------------------------------------------------

    def find_out(self) -> None:
        """Tell all facts part by part, then give the checker that knows them to the rows."""
        from grpo_tui.preflight.checker import CheckCancelledError, Checker

        self._read.wait()
        if self._config is None or self._jobs.stopped.is_set():
            return
        full = Checker(progress=lambda what: self._tell(DataBusy(what)), cancel=self._cancel)
        try:
            checked = full.check(
                self._config, world_size=None, tell=lambda known: self._tell(DataKnown(known))
            )
        except CheckCancelledError:
            full.close()
            return
        self._tell(DataKnown(checked))
        self._tell(DataBusy(""))
        if checked.facts.tokenizer is not None:
            self._full = full  # closed with the rows' own when the screen goes meanwhile
            if self._jobs.ask("change over", self._change_over):
                return
        full.close()

    # -- rewards ---------------------------------------------------------------------------------

    def score(self) -> None:
        """Score the right answer of the newest row, until stopped; the lab starts with the first."""
        from grpo_tui.preflight.gold_rewards import gold_rewards
        from grpo_tui.rewards.consent import ConsentError
        from grpo_tui.rewards.lab import Lab, LabError

        loaded = False
        with Lab() as lab:
            while (row := self._golden.next()) is not None:
                try:
                    if not loaded and self._config is not None:
                        self._interrupt = lab.interrupt
                        lab.load(self._config)
                        loaded = True
                    self._tell(DataGold(row.number, gold_rewards(lab, row), ""))
                except ConsentError as error:
                    self._tell(DataGold(row.number, None, str(error), error.codes))
                except (LabError, ValueError, OSError) as error:
                    self._tell(DataGold(row.number, None, str(error)))

    # -- all threads -----------------------------------------------------------------------------

    def _tell(self, message: Message) -> None:
        if not self._jobs.stopped.is_set():
            self._post(message)
