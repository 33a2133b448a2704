"""The training process as a whole, where it can be looked at without a supervisor."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from grpo_tui.store.layout import RunFolder
from grpo_tui.store.live import read_rank
from grpo_tui.store.spec import RunSpec

AS_IT_BEGINS = """
begun = worker.Session

def session(*words, **settings):
    made = begun(*words, **settings)
    os.kill(os.getpid(), signal.{name})
    return made

worker.Session = session
"""

TURNED_INTO_ANOTHER_ERROR = """
def train(*_):
    try:
        os.kill(os.getpid(), signal.{name})
    except BaseException:
        raise ImportError("numpy._core.multiarray failed to import") from None

worker._train = train
"""

LOST = """
def train(session, spec, folder, early):
    try:
        os.kill(os.getpid(), signal.{name})
    except BaseException:
        pass
    worker._stop_on_signals(session, early)
    return "finished"

worker._train = train
"""


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
@pytest.mark.parametrize(
    "moment", [AS_IT_BEGINS, TURNED_INTO_ANOTHER_ERROR, LOST], ids=("as it begins", "turned", "lost")
)
def test_a_signal_while_there_is_nothing_to_save_stops_the_run(
    tmp_path: Path, name: str, moment: str
) -> None:
    folder = RunFolder(tmp_path)
    RunSpec({}).write(folder.spec)
    code = "\n".join(
        (
            "import os, signal, sys",
            "from grpo_tui.train import worker",
            moment.format(name=name),
            "sys.exit(worker.main(sys.argv[1:]))",
        )
    )
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 3, done
    assert "there was nothing to save" in done.stdout
    rank = read_rank(folder.rank(0))
    assert rank is not None
    assert rank.ended == "stopped"


def test_what_a_start_says_is_in_the_log_of_a_run_that_crashes(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    RunSpec({}, notes=("it was resumed",), forced=("an error",)).write(folder.spec)
    code = "\n".join(
        (
            "import os, sys",
            "from grpo_tui.train import worker",
            "worker._train = lambda *_: os._exit(9)",
            "sys.exit(worker.main(sys.argv[1:]))",
        )
    )
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path],
        env={**os.environ, "PYTHONUNBUFFERED": ""},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 9, done
    assert done.stdout == "grpo-tui: it was resumed\ngrpo-tui: started despite an error\n"
