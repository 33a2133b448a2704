"""What is said of each query that is not understood, whole, and what becomes of each line of a log."""

from __future__ import annotations

from collections.abc import Callable

from grpo_tui.store.log_lines import level_of
from grpo_tui.store.query import QueryError, read_query
from grpo_tui.store.search import read_sort
from tests.stable import given
from tests.store import test_query_language as language

LOG = (
    "", "plain", "WARNING: a", "UserWarning: a", "[W123] a", "ERROR a",
    "[rank0]: Traceback (most recent call last):",
    "ValueError: x", "torch.OutOfMemoryError: CUDA", "INFO:root:a",
    "2026-01-01 12:00:00,000 - WARNING - a", "{'loss': 0.1}",
    "error: 0.5", "no errors", "0 warnings", "  File \"a.py\", line 1", "FutureWarning: a", "E0101 a",
    "CRITICAL a",
    "DEBUG a", "fatal: a", "Exception ignored in", "[2026-01-01 12:00:00] [ERROR] a", "W0101 a",
    "DeprecationWarning",
)  # fmt: skip


def test_what_is_said_of_a_line_is_what_is_stored(stored: Callable[[str, str], None]) -> None:
    told = []
    lines = [
        row[0] for row in given(language.test_what_is_not_understood_is_said_in_a_sentence_with_its_column)
    ]
    for line in (*lines, "correctnes>1", "rewards.correctness<", "step 1..", "truncated=1", 'prompt~"("'):
        try:
            told.append(f"{line[:90]}\n  {read_query(line, ('correctness', 'form'))}")
        except QueryError as error:
            told.append(f"{line[:90]}\n  {error.sentence}")
    for line in ("-reward", "reward desc", "stp", "a b c", "correctness,-step", ""):
        try:
            told.append(f"sort {line}\n  {[str(key) for key in read_sort(line, ('correctness',))]}")
        except QueryError as error:
            told.append(f"sort {line}\n  {error.sentence}")
    told += [f"log {line!r}: {level_of(line)}" for line in LOG]
    stored("queries", "\n".join(told) + "\n")
