"""What commands print on a terminal holds no byte that it would obey, whatever a run or a word holds."""

from __future__ import annotations

import os
import pty
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from grpo_tui.cli.main import main
from tests import PATIENCE_S
from tests.processes.hostile import NASTY, HostileRun, Weaver, obeyed

LIMIT_S = int(PATIENCE_S)
WORD = "".join(NASTY).encode("utf-8", "ignore").decode().replace("\x00", "").replace("/", "|")[:120]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("runs") / "run"
    HostileRun(root, Weaver(5), "failed").close()
    return root


def _fork(*, terminal: bool) -> tuple[int, int]:
    if terminal:
        return pty.fork()
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        for number in (1, 2):
            os.dup2(theirs, number)
    os.close(theirs)
    return pid, ours


def _chunks(descriptor: int) -> Iterator[bytes]:
    while True:
        try:
            chunk = os.read(descriptor, 65536)
        except OSError:  # the other side of the terminal was closed
            return
        if not chunk:
            return
        yield chunk


def _printed(*words: str | Path, terminal: bool = True) -> tuple[int, bytes]:
    """Run a command in a child of this process; return its exit code and every byte it printed."""
    pid, descriptor = _fork(terminal=terminal)
    if pid == 0:
        code = 99
        try:
            signal.alarm(LIMIT_S)
            os.environ["TERM"] = "dumb"  # lines instead of the screen
            for number, name in ((1, "stdout"), (2, "stderr")):
                stream = open(number, "w", encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115
                setattr(sys, name, stream)
            code = main([str(word) for word in words])
        except SystemExit as error:  # of argparse
            code = error.code if isinstance(error.code, int) else 1
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    output = b"".join(_chunks(descriptor))
    os.close(descriptor)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), output


TEXT = (
    ("status",), ("runs",), ("attach",), ("completions",), ("completions", "--sort", "-reward"), ("course",),
    ("prompts",),
    ("metrics",), ("log",), ("metrics", "--explain", "odd"), ("train", "--resume"), ("config",), ("plan",),
)  # fmt: skip
DATA = (
    ("status", "--json"), ("runs", "--json"), ("completions", "--format", "jsonl"), ("course", "--json"),
    ("prompts", "--json"), ("prompts", "--csv"),
    ("completions", "--format", "csv"), ("metrics", "--format", "jsonl"), ("metrics", "--format", "csv"),
)  # fmt: skip


@pytest.mark.parametrize("words", TEXT + DATA, ids=" ".join)
def test_no_command_on_a_run(run: Path, words: tuple[str, ...]) -> None:
    folder = run.parent if words[0] == "runs" else run
    code, output = _printed(words[0], folder, *words[1:])
    assert code in (0, 1, 2, 3)
    assert len(output) > 20
    assert obeyed(output) == []


@pytest.mark.parametrize("words", [words for words in TEXT if words != ("log",)], ids=" ".join)
def test_no_text_through_a_pipe_either(run: Path, words: tuple[str, ...]) -> None:
    folder = run.parent if words[0] == "runs" else run
    _, output = _printed(words[0], folder, *words[1:], terminal=False)
    assert obeyed(output) == []


@pytest.mark.parametrize(
    "words",
    [
        (WORD,), ("status", WORD), ("status", "--x" + WORD), ("set", "RUN", WORD),
        ("set", "RUN", f"a={WORD}"), ("runs", WORD), ("log", "RUN", "--level", WORD),
        ("completions", "RUN", "--where", WORD), ("completions", "RUN", "--sort", WORD),
        ("metrics", "RUN", "--keys", WORD), ("metrics", "RUN", "--explain", WORD), ("train", WORD),
        ("train", WORD + ".yaml"), ("runs", ".", "--filter", WORD),
        ("course", "RUN", "--key", WORD), ("attach", WORD), ("config", WORD), ("--debug", "status", WORD),
    ],
)  # fmt: skip
def test_no_word_that_was_typed(run: Path, words: tuple[str, ...]) -> None:
    _, output = _printed(*[str(run) if word == "RUN" else word for word in words])
    assert output
    assert obeyed(output) == []


def test_a_pipe_gets_data_byte_for_byte(run: Path) -> None:
    _, output = _printed("completions", run, "--format", "jsonl", terminal=False)
    assert "\u202e".encode() in output or b"\\u202e" in output
    assert "日本語".encode() in output or b"\\u65e5" in output
