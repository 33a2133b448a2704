"""A signal goes to a process of the run and to no other, whatever the files of the run folder say."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from grpo_tui.core.records import AttemptStarted
from grpo_tui.store.connection import open_writer
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.live import RankFile, process_started
from grpo_tui.store.mailbox import Mailbox
from grpo_tui.store.writer import Writer
from grpo_tui.supervisor import watch
from grpo_tui.supervisor.leftovers import (
    MARK,
    is_marked,
    is_ours,
    kill_marked,
    kill_session,
    mark_of,
    send,
)

Start = Callable[..., int]
OPENS = "import os, sys; os.open(sys.argv[1], int(sys.argv[2])); print(flush=True); sys.stdin.read()"


@pytest.fixture
def start() -> Iterator[Start]:
    """Start a process that waits, and return its pid once it does what it was started for."""
    started: list[subprocess.Popen[str]] = []

    def begin(*opened: str, mark: str = "") -> int:
        words = [sys.executable, "-c", OPENS, *opened] if opened else ["cat"]
        pipe = subprocess.PIPE
        process = subprocess.Popen(
            words, stdin=pipe, stdout=pipe, text=True, env={**os.environ, **({MARK: mark} if mark else {})}
        )
        started.append(process)
        assert process.stdin is not None
        assert process.stdout is not None
        if not opened:  # cat answers, so it runs, and its environment can be seen
            process.stdin.write("\n")
            process.stdin.flush()
        process.stdout.readline()
        return process.pid

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def test_only_a_process_of_the_run_with_its_start_time_gets_a_signal(tmp_path: Path, start: Start) -> None:
    folder, other = RunFolder(tmp_path / "run"), tmp_path / "other"
    folder.root.mkdir()
    other.mkdir()
    RankFile(folder.rank(1), 1).close()
    rank_file = str(folder.rank(1))
    mark = mark_of(folder.root)
    reader, stranger, elsewhere = start(rank_file, str(os.O_RDONLY)), start(), start(mark=mark_of(other))
    marked, writer = start(mark=mark), start(rank_file, str(os.O_RDWR))
    for pid in (reader, stranger, elsewhere):
        assert not send(signal.SIGKILL, pid, process_started(pid), folder)
    for began in (None, 0.0, float("nan"), (process_started(marked) or 0.0) - 100.0):
        assert not send(signal.SIGKILL, marked, began, folder)
    for impossible in (-1, 0, 2**31, 10**30):
        assert not send(signal.SIGKILL, impossible, 1.0, folder)
    for pid in (marked, writer):
        assert send(0, pid, process_started(pid), folder)
    for pid in (reader, stranger, elsewhere, marked, writer):
        os.kill(pid, 0)
        assert Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"


def test_a_session_is_killed_whole_and_one_that_is_gone_is_no_error() -> None:
    words = ["sh", "-c", "sleep 99 & echo $!; wait"]
    leader = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, start_new_session=True)
    with leader:
        assert leader.stdout is not None
        child = int(leader.stdout.readline())
        kill_session(leader.pid)
        leader.stdout.read()  # until the last of them has closed it
        assert leader.wait() == -signal.SIGKILL
    assert not is_marked(child, "any")
    kill_session(leader.pid)


def test_what_has_the_mark_of_a_run_is_killed_and_nothing_else(tmp_path: Path, start: Start) -> None:
    mark, other = mark_of(tmp_path), start(mark="of another")
    ours = start(mark=mark)
    assert (is_marked(ours, mark), is_marked(other, mark), is_marked(ours, mark[:-1])) == (True, False, False)
    kill_marked(mark)
    assert os.waitid(os.P_PID, ours, os.WEXITED | os.WNOWAIT).si_status == signal.SIGKILL  # type: ignore[union-attr]
    assert is_marked(other, "of another")


def test_a_process_of_another_user_is_not_of_the_run(
    tmp_path: Path, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    marked = start(mark=mark_of(tmp_path))
    began = process_started(marked)
    assert is_ours(marked, began, RunFolder(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert not is_ours(marked, began, RunFolder(tmp_path))
    assert not send(0, marked, began, RunFolder(tmp_path))


@pytest.mark.parametrize("kind", ["abort_reward", "stop_now"])
def test_a_supervisor_ends_no_process_that_the_files_only_claim(
    kind: str, tmp_path: Path, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "ABORT_LIMIT_S", 0.0)
    monkeypatch.setattr(watch, "STOP_NOW_LIMIT_S", 0.0)
    victim = start()
    folder = RunFolder(tmp_path)
    writer = Writer(open_writer(folder.database))
    writer.write([AttemptStarted(1, 0.0, "here", victim)])
    writer.close()
    rank = RankFile(folder.rank(0), victim)
    rank.update(attempt=1, phase="reward", step=3, reward_call=1, reward_function="x")
    rank.close()
    mailbox = Mailbox(folder.commands)
    command = mailbox.submit(kind)
    supervisor = watch.Supervisor(folder, trainer=victim, started=process_started(victim))
    while (outcome := mailbox.outcome(command.id)) is None:
        supervisor._serve()
    assert not outcome.applied
    assert Path(f"/proc/{victim}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
