"""The supervisor goes on watching whatever goes wrong around it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from grpo_tui.core.records import AttemptEnded, AttemptStarted
from grpo_tui.core.stages import DONE
from grpo_tui.store.connection import open_writer
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.live import RankFile, RankState, read_rank
from grpo_tui.store.mailbox import Mailbox
from grpo_tui.store.reader import RunReader
from grpo_tui.store.spec import RunSpec
from grpo_tui.store.status import read_status
from grpo_tui.store.writer import Writer
from grpo_tui.supervisor import RunFolderBusy, adopt, launch, take_lock, watch
from grpo_tui.supervisor.watch import Supervisor
from tests import PATIENCE_S
from tests.family import gone, kill


@pytest.fixture
def trainer() -> Iterator[subprocess.Popen[bytes]]:
    """A process that stands for a training process."""
    process = subprocess.Popen(["sleep", "600"])
    yield process
    process.kill()
    process.wait()


def test_troubles_while_serving_and_a_command_of_another_version_end_no_watch(
    trainer: subprocess.Popen[bytes],
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = RunFolder(tmp_path)
    writer = Writer(open_writer(folder.database))
    writer.write([AttemptStarted(1, 0.0, "here", trainer.pid)])
    writer.close()
    rank = RankFile(folder.rank(0), trainer.pid)
    rank.update(attempt=1, phase="generate", step=3)
    rank.close()
    mailbox = Mailbox(folder.commands)
    supervisor = Supervisor(folder, trainer=trainer.pid)
    watching = threading.Thread(target=supervisor.run)
    watching.start()
    try:
        outcome = mailbox.wait(mailbox.submit("fly"), PATIENCE_S)
        assert outcome is not None
        assert (outcome.applied, outcome.reason) == (False, "unknown command fly")
        asked = threading.Event()

        def broken() -> None:
            asked.set()
            raise RuntimeError("somebody's odd file")

        monkeypatch.setattr(supervisor, "_serve", broken)
        monkeypatch.setattr(supervisor, "_refuse_leftovers", lambda reason: broken())
        assert asked.wait(PATIENCE_S)
    finally:
        trainer.kill()
        watching.join(PATIENCE_S)
    assert not watching.is_alive()
    (attempt,) = RunReader(folder.database).attempts()
    assert attempt.state == "crashed"
    assert attempt.error is not None
    assert ", while generating, and did not say why" in attempt.error["cause"]
    assert capfd.readouterr().out.count("failed while serving the run: RuntimeError: somebody's odd") == 1


def test_what_a_run_left_behind_ends_with_it_though_its_first_supervisor_is_gone(tmp_path: Path) -> None:
    """A real supervisor starts what stands for a trainer; that starts a process in a session of its own."""
    behind = (
        "import subprocess, time; left = subprocess.Popen(['sleep', '600'], start_new_session=True); "
        "print(left.pid, flush=True); time.sleep(600)"
    )
    left: dict[str, psutil.Process] = {}
    began: dict[str, tuple[subprocess.Popen[bytes], psutil.Process]] = {}
    for name in ("run", "other"):
        folder = RunFolder(tmp_path / name)
        folder.root.mkdir()
        RunSpec({}, launcher=(sys.executable, "-c", behind)).write(folder.spec)
        first = subprocess.Popen([sys.executable, "-m", "grpo_tui.supervisor", str(folder.root)])
        _until(lambda log=folder.log: log.exists() and log.read_text().strip())
        left[name] = psutil.Process(int(folder.log.read_text()))
        began[name] = (first, psutil.Process(first.pid).children()[0])
    try:
        for first, trainer in began.values():
            first.kill()
            first.wait()
            trainer.kill()
        (tmp_path / "run").rename(tmp_path / "renamed")
        _, trainer = began["run"]
        Supervisor(RunFolder(tmp_path / "renamed"), trainer=trainer.pid, started=1.0).run()
        _until(lambda: gone(left["run"]))
        assert not gone(left["other"])
    finally:
        kill(*left.values(), *(trainer for _, trainer in began.values()))


IN_A_CALL = """
import ctypes, os, sys, time
from pathlib import Path
from grpo_tui.core.records import AttemptStarted
from grpo_tui.store.connection import open_writer
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.live import RankFile, RankState, read_rank
from grpo_tui.store.writer import Writer

folder = RunFolder(Path(sys.argv[-1]))
writer = Writer(open_writer(folder.database))
writer.write([AttemptStarted(1, time.time(), "here", os.getpid())])
writer.close()
rank = RankFile(folder.rank(0), os.getpid())
rank.update(attempt=1, phase="reward", step=0, reward_function="judge", reward_call=1)
"""
"""What stands for a training process in a reward call, and then does what a test adds."""


Launched = Callable[[str], tuple[RunFolder, psutil.Process]]


@pytest.fixture
def launched(tmp_path: Path) -> Iterator[Launched]:
    """Such a run, and its real supervisor."""
    folder = RunFolder(tmp_path / "run")

    def launched(then: str) -> tuple[RunFolder, psutil.Process]:
        spec = RunSpec({}, launcher=(sys.executable, "-c", IN_A_CALL + then))
        return folder, psutil.Process(launch(folder, spec))

    yield launched
    rank = read_rank(folder.rank(0))
    if rank is not None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(rank.pid, signal.SIGKILL)


def _in_a_call(folder: RunFolder) -> RankState:
    _until(lambda: (rank := read_rank(folder.rank(0))) and rank.reward_function)
    rank = read_rank(folder.rank(0))
    assert rank is not None
    return rank


@pytest.mark.parametrize(
    ("then", "cause"),
    [
        ("os._exit(0)", "the training process ended with code 0, while reward function 'judge' ran,"),
        ("ctypes.string_at(0)", "a native library crashed (SIGSEGV), while reward function 'judge' ran;"),
    ],
)
def test_an_end_that_nobody_said_is_no_success_and_has_its_cause(
    then: str, cause: str, launched: Launched
) -> None:
    folder, supervisor = launched(then)
    supervisor.wait(PATIENCE_S)
    (attempt,) = RunReader(folder.database).attempts()
    assert attempt.state == "crashed"
    assert attempt.error is not None
    assert attempt.error["cause"].startswith(cause)


def test_stop_at_once_ends_a_process_that_cannot_leave_by_itself(launched: Launched) -> None:
    folder, supervisor = launched("time.sleep(600)")
    trainer = psutil.Process(_in_a_call(folder).pid)
    trainer.suspend()  # as C code that keeps the interpreter: no thread of it can leave
    mailbox = Mailbox(folder.commands)
    outcome = mailbox.wait(mailbox.submit("stop_now"), PATIENCE_S)
    assert outcome is not None
    said = (True, "ended at once; there is no checkpoint to resume from")
    assert (outcome.applied, outcome.reason) == said
    supervisor.wait(PATIENCE_S)
    assert read_status(folder.root).state == "stopped"
    assert gone(trainer)


def test_an_end_that_nobody_watched_is_recorded_after_the_next_look(launched: Launched) -> None:
    folder, supervisor = launched("time.sleep(600)")
    trainer = psutil.Process(_in_a_call(folder).pid)
    for process in (supervisor, trainer):
        process.kill()
    _until(lambda: gone(supervisor) and gone(trainer))
    assert read_status(folder.root).state == "crashed"
    assert RunReader(folder.database).attempts()[-1].state is None
    assert "no supervisor was watching" in adopt(folder)
    _until(lambda: RunReader(folder.database).attempts()[-1].state == "crashed")


def test_a_folder_is_taken_as_long_as_its_supervisor_or_its_training_process_lives(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    sleeper = (sys.executable, "-c", "import time; print('begun', flush=True); time.sleep(600)")
    supervisor = psutil.Process(launch(folder, RunSpec({}, launcher=sleeper)))
    trainer: list[psutil.Process] = []
    try:
        _until(lambda: "begun" in folder.log.read_text())
        trainer = supervisor.children()
        with pytest.raises(RunFolderBusy):
            take_lock(folder, 0)
        supervisor.kill()
        supervisor.wait(PATIENCE_S)
        with pytest.raises(RunFolderBusy):
            take_lock(folder, 0)
    finally:
        kill(supervisor, *trainer)
    os.close(take_lock(folder, PATIENCE_S))


def _until(true: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.05)


@pytest.fixture
def supervisor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Supervisor:
    """One that holds the folder and whose training process has just ended. It kills nothing."""
    made = Supervisor(RunFolder(tmp_path), lock=1)
    made._child = SimpleNamespace(pid=2**22, wait=lambda: 0)  # type: ignore[assignment]
    for name in ("kill_session", "kill_marked", "kill_descendants"):
        monkeypatch.setattr(watch.leftovers, name, lambda *_: None)
    return made


@pytest.mark.parametrize(
    ("state", "began", "stopped", "goes_on"),
    [
        (DONE, 1.0, False, True),
        (DONE, 1.0, True, False),
        (DONE, -1.0, False, False),
        ("finished", 1.0, False, False),
        ("stopped", 1.0, False, False),
        (None, 1.0, False, False),
    ],
)
def test_the_next_stage_follows_only_what_this_process_completed_and_nobody_ended(
    state: str | None, began: float, stopped: bool, goes_on: bool, supervisor: Supervisor, tmp_path: Path
) -> None:
    """`began`: seconds after the process was started."""
    at = supervisor._started_at + began
    writer = Writer(open_writer(RunFolder(tmp_path).database))
    writer.write([AttemptStarted(1, at, "here", 2**22)])
    if state is not None:
        writer.write([AttemptEnded(1, at + 1, state, 3)])
    writer.close()
    if stopped:
        supervisor._stop_now = Mailbox(RunFolder(tmp_path).commands).submit("stop_now"), 0.0
    assert supervisor._stage_done() == goes_on


def test_a_message_on_its_way_survives_the_end_of_the_training_process(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    spared: list[Any] = []
    monkeypatch.setattr(watch.leftovers, "kill_descendants", lambda pids: spared.append(set(pids)))
    supervisor._end_processes()
    supervisor._notifier = SimpleNamespace(senders=lambda: {7, 8})  # type: ignore[assignment]
    supervisor._end_processes()
    assert spared == [set(), {7, 8}]
