"""Odd standard streams: closed, full, or read by nobody any more."""

from __future__ import annotations

import gc
import io
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from grpo_tui.cli import look
from grpo_tui.cli.chat import _Events
from grpo_tui.cli.plain import SafeTerminal, guard_terminals
from grpo_tui.store.importers import copies
from grpo_tui.store.importers.copies import LogSource
from tests import PATIENCE_S
from tests.processes.hostile import HostileRun, Weaver

PROGRAM = [sys.executable, "-m", "grpo_tui"]


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("ended") / "run"
    HostileRun(root, Weaver(1), "finished").close()
    return root


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Path]:
    run = HostileRun(tmp_path / "run", Weaver(2))
    yield run.folder.root
    run.close()


def _shell(redirected: str, *words: str | Path) -> subprocess.CompletedProcess[str]:
    command = ["sh", "-c", f'"$@" {redirected}', "sh", *PROGRAM, *map(str, words)]
    return subprocess.run(
        command, capture_output=True, text=True, errors="replace", timeout=PATIENCE_S, check=False
    )


@pytest.mark.parametrize("word", ["attach", "log", "completions"])
def test_closed_streams_change_no_exit_code_and_break_nothing(word: str, ended: Path) -> None:
    done = _shell("<&- >&-", word, ended)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_refusal_keeps_its_exit_code_where_it_cannot_be_said(ended: Path) -> None:
    assert _shell("2>/dev/full", "pause", ended).returncode == 3


def test_no_file_gets_the_number_of_a_closed_stream() -> None:
    code = (
        "import os; from grpo_tui.cli.plain import open_standard_streams as f; f(); f();"
        "print('said'); os._exit(os.open('/dev/null', os.O_RDONLY))"
    )
    done = subprocess.run(["sh", "-c", f'"{sys.executable}" -c "{code}" <&- >&- 2>&-'], check=False)
    assert done.returncode > 2


def _following(run: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*PROGRAM, "attach", str(run)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    )


def test_who_is_terminated_while_following_says_that_the_run_goes_on(live: Path) -> None:
    follower = _following(live)
    assert follower.stdout is not None
    assert follower.stdout.readline().startswith("step")
    follower.send_signal(signal.SIGTERM)
    _, said = follower.communicate(timeout=PATIENCE_S)
    assert follower.returncode == 143
    assert said.startswith("training continues. Watch it with `grpo-tui attach ")


def test_a_pipe_whose_reader_left_is_not_taken_for_a_finished_run(live: Path) -> None:
    follower = _following(live)
    assert follower.stdout is not None
    follower.stdout.close()
    assert follower.wait(timeout=PATIENCE_S) == 141
    assert follower.stderr is not None
    (said,) = follower.stderr.read().splitlines()
    assert said.startswith("training continues. ")


class _Stream(io.StringIO):
    def __init__(self, *, terminal: bool) -> None:
        super().__init__()
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal


def test_terminals_are_guarded_once_and_pipes_never(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal, pipe = _Stream(terminal=True), _Stream(terminal=False)
    monkeypatch.setattr(sys, "stdout", pipe)
    monkeypatch.setattr(sys, "stderr", terminal)
    for _ in range(2):
        guard_terminals()
        assert sys.stdout is pipe
        assert isinstance(sys.stderr, SafeTerminal)
        assert sys.stderr.raw is terminal
    for stream in (sys.stdout, sys.stderr):
        stream.write("a\x1b[31m\n")
    assert pipe.getvalue() == "a\x1b[31m\n"
    assert "\x1b" not in terminal.getvalue()


def test_what_a_chat_tells_the_screen_is_there_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written := io.BytesIO()))
    _Events().said("kept")
    assert json.loads(written.getvalue()) == {"event": "said", "text": "kept"}


def test_that_a_log_is_only_read_is_no_part_of_the_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(copies, "follow", lambda source: nullcontext(tmp_path / "copy"))
    with look.followed(LogSource("trl", tmp_path, tmp_path)) as root:
        assert root == tmp_path / "copy"
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", f"grpo-tui: completions that TRL logged in {tmp_path}; read-only\n")


@pytest.mark.parametrize("parting", ["", "The run goes on."])
def test_the_screen_has_a_last_word_only_if_it_says_something(
    parting: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from grpo_tui.cli import screen

    monkeypatch.setattr("grpo_tui.ui.app.run_app", lambda **asked: parting)
    monkeypatch.setattr(gc, "disable", lambda: None)
    assert screen._screen(None, [], None, None) == 0
    assert capsys.readouterr().out == (f"{parting}\n" if parting else "")
