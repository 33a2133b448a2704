"""`train.log` becomes lines; a progress bar is one line that changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from grpo_tui.core import records as r
from grpo_tui.store.connection import open_writer
from grpo_tui.store.log_lines import MAX_LINE, Levels, LogTail, level_of
from grpo_tui.store.reader import RunReader
from grpo_tui.store.writer import Writer


def _shown(folder: Path, *chunks: bytes) -> list[str]:
    """What a person sees in the log after the chunks came one by one."""
    log, writer = folder / "train.log", Writer(open_writer(folder / "run.db"))
    log.touch()
    tail = LogTail(log)
    for chunk in chunks:
        with log.open("ab") as file:
            file.write(chunk)
        writer.write(tail.read())
    writer.write(tail.flush())
    return [line.text for line in RunReader(folder / "run.db").log()]


def test_a_progress_bar_is_one_line_however_it_is_cut_into_chunks(tmp_path: Path) -> None:
    data = b"start\n  0%|   | 0/3\r 33%|#  | 1/3\r 66%|## | 2/3\r100%|###| 3/3\nend\n"
    expected = ["start", "100%|###| 3/3", "end"]
    for size in (1, 7, 20, len(data)):
        folder = tmp_path / str(size)
        folder.mkdir()
        chunks = [data[i : i + size] for i in range(0, len(data), size)]
        shown = _shown(folder, *chunks)
        assert shown == expected, size


def test_windows_line_ends_and_a_last_line_without_end_are_kept(tmp_path: Path) -> None:
    assert _shown(tmp_path, b"one\r\ntwo\r\n", b"three") == ["one", "two", "three"]


def test_bytes_that_are_no_text_and_colours_do_not_break_a_line(tmp_path: Path) -> None:
    assert _shown(tmp_path, b"\xff\xfe \x1b[31mred\x1b[0m\n") == ["\ufffd\ufffd red"]


def test_a_line_of_a_megabyte_is_cut_and_says_how_much_is_missing(tmp_path: Path) -> None:
    (line,) = _shown(tmp_path, b"x" * 1_000_000 + b"\n")
    assert line == "x" * MAX_LINE + "… 880,000 characters more in train.log"


TRACEBACK = """\
starts
Traceback (most recent call last):
  File "worker.py", line 3, in main
    reward(completions)
KeyError: 'answer'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "worker.py", line 5, in main
    raise RuntimeError("no answer")
RuntimeError: no answer
  a message of two lines
goes on
rewards.py:7: UserWarning: hot
  warnings.warn("hot")
  0%|   | 0/3
""".splitlines()


def test_every_line_of_a_traceback_and_of_a_warning_has_its_level() -> None:
    levels = Levels()
    found = [levels.of(line) for line in TRACEBACK if line.strip()]
    assert found == ["info"] + ["error"] * 9 + ["error", "info", "warning", "warning", "info"]


def test_tracebacks_of_two_ranks_that_alternate_stay_whole() -> None:
    levels = Levels()
    for first, second in zip(TRACEBACK, TRACEBACK, strict=True):
        if first.strip():
            one, other = levels.of(f"[rank0]: {first}"), levels.of(f"[rank1]: {second}")
            assert one == other
            assert (one == "error") == (first not in ("starts", "goes on") and "arn" not in first
                                        and "0%" not in first)  # fmt: skip


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        # A bar is drawn while a traceback is printed: what follows is judged by its own words.
        (["Traceback (most recent call last):", '  File "a.py"', " 50%|## | 1/2", "goes on"], "eeii"),
        (["Traceback (most recent call last):", " 50%|## | 1/2", "ValueError: no", "goes on"], "eiei"),
        (["a.py:3: UserWarning: hot", "  3%|  | 1/30", "  indented"], "wii"),
        (["a.py:3: UserWarning: hot", "  indented", "\tindented", "goes on", "  indented"], "wwwii"),
        (["DEBUG x", "  indented"], "di"),
        (["ERROR no", "  WARNING indented", "goes on"], "eei"),
        (["goes on", "  WARNING indented", "  more"], "iww"),
        (["  + Exception Group Traceback (most recent call last):", "  | ExceptionGroup: two"], "ee"),
    ],
)
def test_a_line_takes_the_level_of_what_it_belongs_to(lines: list[str], found: str) -> None:
    levels = Levels()
    assert "".join(levels.of(line)[0] for line in lines) == found


@pytest.mark.parametrize(
    ("text", "level"),
    [("all is well", "info"), ("WARNING: hot", "warning"), ("ValueError: no", "error"),
     ("a.py:3: UserWarning: hot", "warning"), ("x.y.NoError: z", "error"),
     ("no ValueErrors here", "info"), ("Error: no", "error"),
     ("Traceback (most recent call last):", "error"), ("DEBUG x", "debug")],
)  # fmt: skip
def test_the_level_of_a_line_is_read_from_its_words(text: str, level: str) -> None:
    assert level_of(text) == level


def test_lines_after_a_bar_are_lines_of_their_own(tmp_path: Path) -> None:
    writer = Writer(open_writer(tmp_path / "run.db"))
    writer.write([r.LogLine(0.0, "10%"), r.LogLine(0.0, "20%", replaces=True), r.LogLine(0.0, "next")])
    assert [line.text for line in RunReader(tmp_path / "run.db").log()] == ["20%", "next"]
