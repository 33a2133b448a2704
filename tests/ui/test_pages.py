"""Pages of one run: each answer reaches the screen, but none after the screen has gone on to another run."""

from __future__ import annotations

import threading
from collections.abc import Callable

from grpo_tui.ui.pages import Pages
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
