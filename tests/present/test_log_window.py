"""The window over a run's output: what each question brings, where a search goes on, and what joins on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from grpo_tui.core import records as r
from grpo_tui.present import log_window
from grpo_tui.present.log_window import Hit, LogQuestion, LogWindow, find, load
from grpo_tui.store.connection import open_writer
from grpo_tui.store.log_lines import LogReader
from grpo_tui.store.writer import Writer

LEVELS = {3: "warning", 6: "error", 9: "warning"}


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LogReader]:
    """Ten lines, of which three are warnings or errors, in pages of four."""
    monkeypatch.setattr(log_window, "PAGE", 4)
    writer = Writer(open_writer(tmp_path / "run.db"))
    odd = {n: "odd" if n % 2 else "even" for n in range(1, 11)}
    writer.write([r.LogLine(float(n), f"{odd[n]} {n}", LEVELS.get(n, "info")) for n in odd])
    writer.close()
    opened = LogReader(tmp_path / "run.db")
    yield opened
    opened.close()


@pytest.mark.parametrize(
    ("asked", "lines", "older", "newer", "unseen"),
    [
        (LogQuestion("end"), [7, 8, 9, 10], True, False, 0),
        (LogQuestion("end", level="warning"), [3, 6, 9], False, False, 0),
        (LogQuestion("older", 5), [1, 2, 3, 4], True, True, 0),
        (LogQuestion("older", 4), [1, 2, 3], False, True, 0),
        (LogQuestion("older", 10, "error"), [6], False, True, 0),
        (LogQuestion("newer", 7, seen=8), [7, 8, 9, 10], True, True, 2),
        (LogQuestion("newer", 8, seen=8), [8, 9, 10], True, False, 2),
        (LogQuestion("newer", 2, "error", seen=5), [6], True, False, 1),
        (LogQuestion("around", 5, seen=9), [3, 4, 5, 6], True, True, 1),
        (LogQuestion("around", 2), [1, 2, 3], False, True, 0),
        (LogQuestion("around", 10), [8, 9, 10], True, False, 0),
        (LogQuestion("around", 6, "warning"), [3, 6, 9], False, True, 0),
        (LogQuestion("count", seen=3), [], True, True, 7),
        (LogQuestion("count", level="warning", seen=3), [], True, True, 2),
        (LogQuestion("count"), [], True, True, 0),
    ],
)
def test_a_question_brings_its_lines_and_says_what_lies_around(
    asked: LogQuestion, lines: list[int], older: bool, newer: bool, unseen: int, reader: LogReader
) -> None:
    page = load(reader, asked)
    assert page.asked is asked
    assert [line.id for line in page.lines] == lines
    assert (page.older, page.newer, page.unseen) == (older, newer, unseen)


@pytest.mark.parametrize(
    ("start", "level", "forward", "here", "line", "place", "count", "around"),
    [
        (5, "all", True, False, 7, 4, 5, False),
        (5, "all", True, True, 5, 3, 5, False),
        (5, "all", False, False, 3, 2, 5, False),
        (5, "all", False, True, 5, 3, 5, False),
        (9, "all", True, False, 1, 1, 5, True),
        (1, "all", False, False, 9, 5, 5, True),
        (5, "warning", True, False, 9, 2, 2, False),
        (3, "warning", False, False, 9, 2, 2, True),
    ],
)
def test_a_search_goes_on_at_the_other_end(
    start: int,
    level: str,
    forward: bool,
    here: bool,
    line: int,
    place: int,
    count: int,
    around: bool,
    reader: LogReader,
) -> None:
    found = find(reader, "odd", level, start, forward=forward, here=here)
    assert found == Hit("odd", line, place, count, around)
    assert find(reader, "nowhere", level, start, forward=forward) == Hit("nowhere", None)


def test_pages_join_on_push_out_the_other_end_and_what_does_not_join_is_passed_over(
    reader: LogReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_window, "MOST", 6)
    window = LogWindow()

    def taken(where: str, line: int = 0) -> tuple[list[int], bool, bool]:
        window.take(load(reader, LogQuestion(where, line)))
        return [line.id for line in window.lines], window.older, window.newer

    assert taken("newer", 1) == ([1, 2, 3, 4], False, True)
    assert taken("newer", 3) == ([1, 2, 3, 4], False, True), "it does not begin where the window ends"
    assert taken("newer", 4) == ([2, 3, 4, 5, 6, 7], True, True)
    assert taken("newer", 7) == ([5, 6, 7, 8, 9, 10], True, True)
    assert taken("newer", 10) == ([5, 6, 7, 8, 9, 10], True, False)
    assert taken("older", 6) == ([5, 6, 7, 8, 9, 10], True, False)
    assert taken("older", 5) == ([1, 2, 3, 4, 5, 6], True, True)
    assert taken("older", 1) == ([1, 2, 3, 4, 5, 6], False, True)
    assert [window.index(line) for line in (1, 4, 99)] == [0, 3, 6]
    assert taken("end") == ([7, 8, 9, 10], True, False)
