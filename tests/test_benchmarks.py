"""The benchmarks start, and what they play looks like a run that trains. Nothing here looks at a clock."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from grpo_tui.store.read_series import last_training_row
from grpo_tui.store.reader import RunReader
from grpo_tui.store.status import read_status

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"
SCRIPTS = sorted(path for path in BENCHMARKS.glob("*.py") if not path.name.startswith("_"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_benchmark_says_what_it_measures_and_how_it_is_called(script: Path) -> None:
    done = subprocess.run([sys.executable, script, "--help"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f"python benchmarks/{script.name}" in done.stdout


def test_every_fault_of_the_regressions_names_tests_that_exist() -> None:
    faults = runpy.run_path(str(BENCHMARKS / "regressions.py"))["FAULTS"]
    for names in faults.values():
        for name in names:
            file, _, test = name.partition("::")
            text = (BENCHMARKS.parent / file).read_text() if test else "def ("
            assert (BENCHMARKS.parent / file).exists(), name
            assert f"def {test.partition('[')[0]}(" in text, name


def test_a_played_run_is_live_and_goes_on_until_its_player_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    from _player import playing

    root, rows = tmp_path / "run", tmp_path / "rows"
    with playing(root, 0.05, history=5, rows=rows):
        while not rows.exists() or len(rows.read_text().splitlines()) < 2:
            pass
        status = read_status(root)
        assert (status.state, status.live, status.supervised) == ("training", True, True)
        assert status.step >= 7
    assert read_status(root).state == "crashed"  # ended from outside, as a killed trainer
    reader = RunReader(root / "run.db")
    assert last_training_row(reader) is not None
    reader.close()


@pytest.mark.parametrize("program", ["make.py", "states.py"])
def test_a_program_that_makes_pictures_finds_what_it_imports(program: str) -> None:
    runpy.run_path(str(BENCHMARKS.parent / "screenshots" / program), run_name="imported")
