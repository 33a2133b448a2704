"""Without UTF-8 the command line still says what it has to say."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from grpo_tui.cli.look import describe
from grpo_tui.store.status import Status


def test_an_ascii_terminal_gets_question_marks_and_no_error(tmp_path: Path) -> None:
    (tmp_path / "ü漢" / "run").mkdir(parents=True)
    (tmp_path / "ü漢" / "run" / "run.json").write_text("{}")
    done = subprocess.run(
        [sys.executable, "-m", "grpo_tui", "runs", "."],
        cwd=tmp_path,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert b"??/run" in done.stdout


def test_status_tells_alerts() -> None:
    look = Status("training", alerts=({"message": "run.db was removed"},))
    assert "attention: run.db was removed" in describe(look)
