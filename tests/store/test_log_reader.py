"""The stored output is read in pages, from either end, and searched as a whole."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from grpo_tui.core import records as r
from grpo_tui.store.connection import open_writer
from grpo_tui.store.log_lines import PIECE, LogReader
from grpo_tui.store.writer import Writer


@pytest.fixture
def log(tmp_path: Path) -> LogReader:
    writer = Writer(open_writer(tmp_path / "run.db"))
    lines = [r.LogLine(float(i), f"line {i}", "error" if i % 100 == 0 else "info") for i in range(1, 2_001)]
    lines[999] = r.LogLine(1000.0, "x" * 50_000 + " NEEDLE " + "y" * 50_000, "warning")
    writer.write(lines)
    writer.close()
    return LogReader(tmp_path / "run.db")


def test_pages_come_from_either_end(log: LogReader) -> None:
    assert [line.id for line in log.page(newest=True, limit=3)] == [1998, 1999, 2000]
    assert [line.id for line in log.page(last=1997, newest=True, limit=2)] == [1996, 1997]
    assert [line.id for line in log.page(first=5, limit=2)] == [5, 6]


def test_levels_include_what_is_worse(log: LogReader) -> None:
    assert log.count(level="error") == 19
    assert log.count(level="warning") == 20
    assert log.page(level="error", newest=True, limit=1)[0].id == 2000
    assert log.page(level="warning", first=901, limit=1)[0].id == 1000


def test_of_a_long_line_the_piece_with_the_words_is_given(log: LogReader) -> None:
    (start,) = log.page(first=1000, last=1000)
    assert (start.start, len(start.text), start.length) == (0, PIECE, 100_008)
    (there,) = log.page(first=1000, last=1000, words="needle")
    assert "NEEDLE" in there.text
    assert there.start > 49_000
    assert len(log.text(1000)) == 100_008


def test_metrics_and_progress_bars_are_left_out_of_what_is_folded(tmp_path: Path) -> None:
    noise = [
        "{'loss': 0.01, 'grad_norm': 1.5, 'epoch': 0.02}",
        "[rank0]: {'reward': '2.5'}",
        "  3%|▎         | 2/60 [00:01<00:40,  1.43it/s]",
        "Loading weights: 100%|██████████| 2/2 [00:00<00:00, 9.1it/s]",
    ]
    kept = [
        "saved to runs/demo",
        "{not metrics}",
        "50% of the rows, see [1]",
        "  3%|▎ | 2/60 [00:01<?]KeyError: 'a'",
    ]
    writer = Writer(open_writer(tmp_path / "run.db"))
    writer.write([r.LogLine(0.0, text) for pair in zip(noise, kept, strict=True) for text in pair])
    writer.write([r.LogLine(0.0, "{'loss': nan} UserWarning: {'a': 1}", "warning")])
    writer.close()
    log = LogReader(tmp_path / "run.db")
    assert [line.text for line in log.page(level="folded")] == [*kept, "{'loss': nan} UserWarning: {'a': 1}"]
    assert log.newest() == 9


def test_the_whole_log_is_searched_in_both_directions(log: LogReader) -> None:
    assert log.find("needle", start=2001, forward=False) == 1000
    assert log.find("needle", start=1000, forward=False) is None
    assert log.find("LINE 2", start=2, forward=True) == 20
    assert log.find("line", start=1, forward=True, level="error") == 100
    assert log.count("line 19") == 111
    assert log.count("line 19", last=190) == 2


def test_words_are_no_pattern(log: LogReader) -> None:
    assert log.find("l%e_1", start=0, forward=True) is None


def test_a_pattern_walks_through_whole_lines(log: LogReader) -> None:
    found = [line.id for line in log.lines(pattern=re.compile(r"^line 1?99\d$|y$"))]
    assert found == [*range(990, 1001), *range(1990, 2000)]
