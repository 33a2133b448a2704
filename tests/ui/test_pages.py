"""Pages of one run: each answer reaches the screen, but none after the screen has gone on to another run."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from grpo_tui.core import records as r
from grpo_tui.store.connection import open_writer
from grpo_tui.store.read_series import metric_rows
from grpo_tui.store.writer import Writer
from grpo_tui.ui.pages import Pages, Stores
from tests import PATIENCE_S
from tests.ui.recorded_run import RecordedRun


def test_an_answer_that_waits_for_the_screen_is_dropped_once_the_run_was_left(run: RecordedRun) -> None:
    waiting: list[Callable[[], object]] = []
    brought = threading.Semaphore(0)

    def deliver(callback: Callable[[], object]) -> None:
        waiting.append(callback)
        brought.release()

    answers: list[int] = []
    pages = Pages(run.folder.database, deliver)
    thread = threading.Thread(target=pages.run)
    thread.start()
    for number in (1, 2):
        pages.ask("groups", lambda stores, number=number: number, answers.append)  # type: ignore[misc]
        assert brought.acquire(timeout=PATIENCE_S)
    waiting[0]()
    pages.stop()
    waiting[1]()
    thread.join()
    assert answers == [1]


def test_stores_read_the_file_that_is_there_now_however_often_it_is_replaced(
    run: RecordedRun, tmp_path: Path
) -> None:
    stores = Stores(run.folder.database)
    for number in (1, 2, 3):
        other = tmp_path / "other.db"
        writer = Writer(open_writer(other))
        writer.write([r.MetricRow(1, step, 0.0, {"reward": 1.0}) for step in range(number)])
        writer.write([r.LogLine(0.0, f"line {line}") for line in range(number)])
        writer.close()
        other.replace(run.folder.database)
        stores.refresh()
        assert len(metric_rows(stores.run)) == number
        assert stores.log.newest() == number
        readers = stores.log, stores.run, stores.search
        stores.refresh()
        assert (stores.log, stores.run, stores.search) == readers, "the same file stays open"
    stores.close()
