"""Without UTF-8, or without a cursor to place, the program still says what it has to say."""

from __future__ import annotations

import contextlib
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from grpo_tui.cli.look import describe
from grpo_tui.cli.plain import can_place_text
from grpo_tui.store.status import Status
from tests.ui.recorded_run import recorded


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


def on_terminal(cwd: Path, name: str | None, *words: str) -> str:
    """What the program writes on a terminal of this name."""
    pid, fd = pty.fork()
    if pid == 0:
        os.chdir(cwd)
        os.environ["PYTHONPATH"] = str(Path(__file__).resolve().parents[1])
        os.environ.pop("TERM", None)
        if name is not None:
            os.environ["TERM"] = name
        os.execv(sys.executable, [sys.executable, "-m", "grpo_tui", *words])
    output = b""
    with contextlib.suppress(OSError):
        while chunk := os.read(fd, 4096):
            output += chunk
    os.waitpid(pid, 0)
    return output.decode().replace("\r\n", "\n")


@pytest.mark.parametrize("name", ["dumb", None])
def test_a_terminal_without_a_cursor_gets_the_list_of_runs_in_plain_text(
    tmp_path: Path, name: str | None
) -> None:
    run = recorded(tmp_path / "runs" / "demo-add", "finished")
    run.close()
    text = on_terminal(tmp_path, name)
    assert "cannot show the screen, only the list of runs" in text
    assert "finished  step 60/60" in text
    assert "\x1b" not in text


def test_attach_on_a_terminal_without_a_cursor_prints_a_line_per_step(tmp_path: Path) -> None:
    run = recorded(tmp_path / "runs" / "demo-add", "finished")
    run.close()
    text = on_terminal(tmp_path, "dumb", "attach", "runs/demo-add")
    assert "TERM=dumb cannot show the screen, only a line per step" in text
    assert "step     1  " in text
    assert "finished at step 60" in text
    assert "\x1b" not in text


@pytest.mark.parametrize(
    ("name", "can"),
    [("xterm-16color", True), ("screen", True), ("tmux-256color", True), ("linux", True), ("vt100", True),
     ("a-terminal-of-tomorrow", True), ("dumb", False), ("", False)],
)  # fmt: skip
def test_only_terminals_known_to_have_no_cursor_go_without_the_screen(name: str, can: bool) -> None:
    assert can_place_text({"TERM": name}) is can
