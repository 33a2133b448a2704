"""The supervisor goes on watching whatever goes wrong around it."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from grpo_tui.core.records import AttemptStarted
from grpo_tui.store.connection import open_writer
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.live import RankFile
from grpo_tui.store.mailbox import Mailbox
from grpo_tui.store.reader import RunReader
from grpo_tui.store.spec import RunSpec
from grpo_tui.store.writer import Writer
from grpo_tui.supervisor import RunFolderBusy, launch, take_lock
from grpo_tui.supervisor.watch import Supervisor
from tests import PATIENCE_S


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
        _until(lambda: _gone(left["run"]))
        assert not _gone(left["other"])
    finally:
        for process in (*left.values(), *(trainer for _, trainer in began.values())):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()


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
        for process in (supervisor, *trainer):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
    os.close(take_lock(folder, PATIENCE_S))


def _until(true: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.05)


def _gone(process: psutil.Process) -> bool:
    """Whether a process has ended; one that was killed may wait for its parent to look."""
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
