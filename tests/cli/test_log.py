"""`grpo-tui log`: safe on a terminal, as printed into a pipe, by level, words and pattern."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import time
from pathlib import Path

import pytest

from grpo_tui.cli.main import main
from grpo_tui.core import records as r
from tests.ui.recorded_run import HOSTILE, RecordedRun


@pytest.fixture
def run(tmp_path: Path) -> RecordedRun:
    made = RecordedRun(tmp_path / "run")
    made.write(
        r.LogLine(1.0, "starts"),
        r.LogLine(2.0, f"evil {HOSTILE}"),
        r.LogLine(3.0, "UserWarning: hot", "warning"),
        r.LogLine(4.0, "Traceback (most recent call last):", "error"),
        r.LogLine(5.0, "  File 'x', line 1", "error"),
        r.LogLine(6.0, "KeyError: 'answer'", "error"),
        r.LogLine(7.0, "ends"),
    )
    return made


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    assert main(["log", *words]) == 0
    return capsys.readouterr().out.splitlines()


def test_into_a_pipe_lines_go_as_they_were_printed(
    run: RecordedRun, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = printed(capsys, str(run.folder.root))
    assert len(lines) == 7
    assert lines[1] == f"evil {HOSTILE}"


def test_levels_words_patterns_and_the_end(run: RecordedRun, capsys: pytest.CaptureFixture[str]) -> None:
    root = str(run.folder.root)
    assert len(printed(capsys, root, "--level", "error")) == 3
    assert len(printed(capsys, root, "--level", "warning")) == 4
    assert printed(capsys, root, "--search", "KEYERROR") == ["KeyError: 'answer'"]
    assert printed(capsys, root, "--regex", "^(start|end)s$") == ["starts", "ends"]
    assert printed(capsys, root, "--regex", "s$", "--tail", "1") == ["ends"]
    assert printed(capsys, root, "--search", "zebra") == []


def test_a_wrong_pattern_is_told_in_a_sentence(run: RecordedRun, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["log", str(run.folder.root), "--regex", "("]) == 2
    assert "--regex '('" in capsys.readouterr().err


def test_a_terminal_gets_no_control_character_of_a_line(run: RecordedRun) -> None:
    pid, fd = pty.fork()
    if pid == 0:
        os.environ["PYTHONPATH"] = str(Path(__file__).resolve().parents[2])
        os.execv(sys.executable, [sys.executable, "-m", "grpo_tui", "log", str(run.folder.root)])
    output = b""
    while True:
        try:
            chunk = os.read(fd, 4096)
        except OSError:
            break
        if not chunk:
            break
        output += chunk
    os.waitpid(pid, 0)
    assert b"\x1b" not in output
    assert b"\x07" not in output
    assert "evil [/INST] [@click=app.quit]x[/] ␛]52;c;x␇".encode() in output
    assert b"01 Jan" in output
    assert b"E KeyError" in output


def test_it_follows_until_the_run_has_ended(run: RecordedRun) -> None:
    run.now("update")
    command = [sys.executable, "-m", "grpo_tui", "log", str(run.folder.root), "--follow", "--search", "new"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        run.write(r.LogLine(8.0, "new 1"), r.LogLine(9.0, "other"), r.LogLine(10.0, "new 2"))
        assert process.stdout.readline() == "new 1\n"
        run.write(r.AttemptEnded(1, time.time() + 60, "finished", 0, 0))
        assert process.stdout.read() == "new 2\n"
        assert process.wait() == 0


def test_following_prints_a_changing_line_once_and_the_last_one_too(
    run: RecordedRun, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run.now("update")
    moments = [
        [r.LogLine(8.0, "10%|#")],
        [r.LogLine(9.0, "20%|##", replaces=True), r.LogLine(10.0, "new 1"), r.LogLine(11.0, "new 2")],
        [r.LogLine(12.0, "new 3"), r.LogLine(13.0, "new 4")],
        [r.LogLine(14.0, "new 5"), r.AttemptEnded(1, time.time() + 60, "finished", 0, 0)],
    ]
    seen: list[list[str]] = []

    def passes(_: float) -> None:
        seen.append(capsys.readouterr().out.splitlines())
        run.write(*moments.pop(0))

    monkeypatch.setattr("grpo_tui.cli.log.time.sleep", passes)
    rest = printed(capsys, str(run.folder.root), "--follow", "--tail", "1")
    assert seen == [["ends"], [], ["20%|##", "new 1"], ["new 2", "new 3"]], "the newest one may still change"
    assert rest == ["new 4", "new 5"]
