"""How a child ended, when its pipe is closed before the process is."""

from __future__ import annotations

from pathlib import Path

import pytest

from grpo_tui.children import forker, pipe
from grpo_tui.children.forker import Forker
from grpo_tui.children.pipe import ChildGoneError, ChildPipe, ModuleStarter, StartError

CLOSES = """
import os, sys, time
os.close(int(sys.argv[3]))
time.sleep(0.2)
os.kill(os.getpid(), 9)
"""
STAYS = "import os, sys, time\nprint('bye', flush=True)\nos.close(int(sys.argv[3]))\ntime.sleep(600)\n"
FORKER_FAILS = "import sys\nprint('x' * 9000)\nprint('no torch here', flush=True)\nsys.exit(1)\n"
FORKER_CLOSES = """
import os, socket, sys, time
control = socket.socket(fileno=int(sys.argv[1]))
control.send(b"ready")
control.recv(1)
control.close()
time.sleep(0.2)
os._exit(3)
"""


@pytest.fixture(autouse=True)
def _module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "child_that_closes.py").write_text(CLOSES)
    (tmp_path / "child_that_stays.py").write_text(STAYS)
    (tmp_path / "forker_that_fails.py").write_text(FORKER_FAILS)
    (tmp_path / "forker_that_closes.py").write_text(FORKER_CLOSES)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    for module in (pipe, forker):
        monkeypatch.setattr(module, "END_S", 60.0)


def test_a_child_that_is_killed_after_its_pipe_was_closed_counts_as_killed(tmp_path: Path) -> None:
    child = ChildPipe(ModuleStarter("child_that_closes"), str(tmp_path))
    try:
        with pytest.raises(ChildGoneError, match=r"^killed by SIGKILL$"):
            child.receive(60)
    finally:
        child.close()


def test_a_child_that_closes_its_pipe_and_stays_is_killed_and_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipe, "END_S", 0.1)
    child = ChildPipe(ModuleStarter("child_that_stays"), str(tmp_path))
    try:
        told = r"^it closed its connection to grpo-tui, and was killed(; it said: bye)?$"
        with pytest.raises(ChildGoneError, match=told):
            child.receive(60)
    finally:
        child.close()


def test_a_forker_that_ends_after_its_socket_was_closed_is_told_with_its_code(tmp_path: Path) -> None:
    gone = Forker.acquire("forker_that_closes", 60)
    try:
        with pytest.raises(StartError, match=r"^it ended with code 3$"):
            gone.exit_code(1)
    finally:
        gone.release()


def test_of_a_forker_that_ends_before_it_is_ready_the_last_line_is_told_however_much_it_printed() -> None:
    with pytest.raises(StartError, match=r"^no torch here$"):
        Forker.acquire("forker_that_fails", 60)
