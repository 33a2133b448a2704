"""The person's own editor, at the right line, and the screen whole afterwards."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from grpo_tui.ui.editing import edit, editor_command

FILE = Path("/tasks/my rewards.py")


@pytest.mark.parametrize(
    ("editor", "words"),
    [
        ("vim", ["vim", "+12", str(FILE)]),
        ("emacs -nw", ["emacs", "-nw", "+12", str(FILE)]),
        ("/usr/bin/hx", ["/usr/bin/hx", f"{FILE}:12"]),
        ("code --wait", ["code", "--wait", "--goto", f"{FILE}:12"]),
    ],
)
def test_editors_are_asked_for_the_line_in_their_own_way(editor: str, words: list[str]) -> None:
    assert editor_command({"EDITOR": editor}, FILE, 12) == words


def test_visual_comes_before_editor_and_a_file_without_a_line_is_just_opened() -> None:
    assert editor_command({"VISUAL": "nano", "EDITOR": "vi"}, FILE, None) == ["nano", str(FILE)]


def test_without_any_editor_there_is_no_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert editor_command({}, FILE, 1) is None


def test_an_editor_that_fails_is_said_and_the_signals_are_as_before(tmp_path: Path) -> None:
    before = [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTSTP, signal.SIGCONT)]
    script = tmp_path / "editor"
    script.write_text("#!/bin/sh\nexit 3\n")
    assert "cannot be started" in edit([str(script), "x"])
    script.chmod(0o755)
    assert edit([str(script), "x"]).endswith("exit code 3")
    assert edit(["true"]) == ""
    assert [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTSTP, signal.SIGCONT)] == before


def test_ctrl_c_in_the_editor_reaches_the_editor_and_not_the_screen(tmp_path: Path) -> None:
    script = tmp_path / "editor"
    script.write_text("#!/bin/sh\nkill -INT $PPID\nkill -INT $$\nexit 0\n")
    script.chmod(0o755)
    assert "exit code" in edit([str(script)])
