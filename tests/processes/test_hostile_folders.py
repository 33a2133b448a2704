"""Whatever lies in a run folder, looking at it ends, executes nothing and ends no process."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.processes.fuzz import Fuzz

pytestmark = pytest.mark.slow

SEED, CASES = 1, 24
"""More of them: `python benchmarks/fuzz_looking.py --minutes 20 --seed 2`."""


def test_looking_at_anything_at_all_ends_and_executes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    fuzz = Fuzz(tmp_path, SEED)
    try:
        for number in range(CASES):
            fuzz.case(number)
    finally:
        fuzz.close()
    found = fuzz.outcome
    assert found.commands >= CASES * 7
    assert (found.hangs, found.executions, found.deaths) == ([], [], [])
