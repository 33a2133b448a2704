"""The training process as a whole, where it can be looked at without a supervisor."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from grpo_tui.store.layout import RunFolder
from grpo_tui.store.live import read_rank
from grpo_tui.store.spec import RunSpec

ENDED_ON_BEGINNING = """
import os, signal, sys
from grpo_tui.train import worker

begun = worker.Session

def session(*words, **settings):
    made = begun(*words, **settings)
    os.kill(os.getpid(), signal.{name})
    return made

worker.Session = session
sys.exit(worker.main(sys.argv[1:]))
"""


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_a_signal_between_the_first_word_and_the_first_line_stops_the_run(tmp_path: Path, name: str) -> None:
    folder = RunFolder(tmp_path)
    RunSpec({}).write(folder.spec)
    code = ENDED_ON_BEGINNING.format(name=name)
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 3, done
    assert "there was nothing to save" in done.stdout
    rank = read_rank(folder.rank(0))
    assert rank is not None
    assert rank.ended == "stopped"
