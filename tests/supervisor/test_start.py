"""A start makes the folder its own before anything runs in it, and a run without a supervisor gets one."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from grpo_tui.cli.start import known
from grpo_tui.core.records import AttemptEnded, AttemptStarted, MetricRow
from grpo_tui.store.connection import open_writer
from grpo_tui.store.json_file import write_json
from grpo_tui.store.layout import RunFolder, is_known, remember
from grpo_tui.store.live import process_started, read_heartbeat
from grpo_tui.store.spec import RunSpec, read_spec
from grpo_tui.store.writer import Writer
from grpo_tui.supervisor import __main__ as program
from grpo_tui.supervisor import start
from grpo_tui.supervisor.start import RunFolderBusy, adopt, launch, start_sidecar, take_lock

GONE = 2**22 + 1
"""A pid no process has."""


class Started:
    """Stands for `subprocess.Popen` of a supervisor, and looks at the folder as that would find it."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder, self.pid, self.returncode = folder, os.getpid(), None
        self.words: list[str] = []
        self.given: dict[str, Any] = {}
        self.busy, self.log = False, 0

    def __call__(self, words: list[str], **given: Any) -> Started:
        self.words, self.given = words, given
        self.log = os.fstat(given["stdout"].fileno()).st_ino
        try:
            os.close(take_lock(self.folder, 0))
        except RunFolderBusy:
            self.busy = True
        return self


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path / "run")


@pytest.fixture
def started(folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> Started:
    folder.root.mkdir()
    made = Started(folder)
    monkeypatch.setattr(start, "LEAVING_S", 0.0)
    stands = SimpleNamespace(Popen=made, DEVNULL=subprocess.DEVNULL)
    monkeypatch.setattr(start, "subprocess", stands)
    return made


@pytest.fixture
def trainer() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "60"])
    yield process
    process.kill()
    process.wait()


@pytest.mark.parametrize("resume", [None, "checkpoint-4"])
def test_a_start_holds_the_folder_writes_its_config_and_is_remembered(
    resume: str | None, folder: RunFolder, started: Started
) -> None:
    RunSpec({"as": "long ago"}).write(folder.earlier_spec)
    RunSpec({"as": "before"}).write(folder.spec)
    folder.commands.mkdir(mode=0o777)
    folder.commands.chmod(0o777)
    assert launch(folder, RunSpec({"as": "now"}, resume=resume)) == os.getpid()
    assert read_spec(folder.spec).config == {"as": "now"}
    assert folder.earlier_spec.exists() == (resume is not None), "what a fresh start replaces is not put back"
    if resume is not None:
        assert read_spec(folder.earlier_spec).config == {"as": "before"}
    assert is_known(folder.root)
    assert stat.S_IMODE(folder.commands.stat().st_mode) == 0o700
    assert started.busy
    assert started.words[:5] == [sys.executable, "-P", "-m", "grpo_tui.supervisor", str(folder.root)]
    (lock,) = started.given["pass_fds"]
    assert started.words[5:] == ["--lock", str(lock)]
    assert started.given["start_new_session"]
    assert started.given["stdin"] == subprocess.DEVNULL
    assert started.log == folder.log.stat().st_ino, "what it says is in the run's log"
    beat = read_heartbeat(folder.heartbeat)
    assert beat is not None
    assert (beat.supervisor, beat.trainer, beat.host) == (os.getpid(), None, socket.gethostname())
    os.close(take_lock(folder, 0))


def test_a_busy_folder_is_left_as_it_is(folder: RunFolder, started: Started) -> None:
    RunSpec({"as": "before"}).write(folder.spec)
    lock = take_lock(folder)
    with pytest.raises(RunFolderBusy, match="another run is training in this folder"):
        launch(folder, RunSpec({"as": "now"}))
    os.close(lock)
    assert read_spec(folder.spec).config == {"as": "before"}
    assert started.words == []


def test_a_script_gets_a_supervisor_that_watches_it(
    folder: RunFolder, started: Started, trainer: subprocess.Popen[bytes]
) -> None:
    lock = take_lock(folder)
    assert start_sidecar(folder, trainer.pid, lock) == os.getpid()
    os.close(lock)
    assert started.words[5:] == ["--watch", str(trainer.pid)]
    assert started.given["pass_fds"] == (lock,)
    assert is_known(folder.root)
    beat = read_heartbeat(folder.heartbeat)
    assert beat is not None
    assert (beat.trainer, beat.trainer_started) == (trainer.pid, process_started(trainer.pid))


@pytest.mark.parametrize(
    ("case", "said"),
    [
        ("lives", "abort-reward and stop --now did not work. It has been started again"),
        ("gone", "the run ended while no supervisor was watching. Its end is now recorded"),
        ("foreign", "You did not start this run on this machine, so grpo-tui only displays it"),
        ("supervised", ""),
        ("elsewhere", ""),
        ("ended", ""),
        ("loading", ""),
        ("without a record", ""),
    ],
)
def test_a_run_whose_supervisor_is_gone_gets_another_when_it_is_ours_and_not_at_its_end(
    case: str, said: str, folder: RunFolder, started: Started, trainer: subprocess.Popen[bytes]
) -> None:
    if case != "foreign":
        remember(folder.root)
    if case != "without a record":
        writer = Writer(open_writer(folder.database))
        ended = [AttemptEnded(1, 1.0, "finished", 4)] if case == "ended" else []
        writer.write([AttemptStarted(1, 0.0, "here", trainer.pid), *ended])
        writer.close()
    watched = None if case == "loading" else GONE if case == "gone" else trainer.pid
    began = process_started(trainer.pid)
    body = {
        "supervisor": os.getpid() if case == "supervised" else GONE,
        "supervisor_started": process_started(os.getpid()),
        "host": "elsewhere" if case == "elsewhere" else socket.gethostname(),
        "trainer": watched,
        "trainer_started": began,
    }
    write_json(folder.heartbeat, body)
    told = adopt(folder)
    assert told.endswith(said)
    assert bool(told) == bool(said)
    if case in ("lives", "gone"):
        assert started.words[5:] == ["--watch", str(watched), "--started", repr(began)]
        assert started.given["pass_fds"] == ()
    else:
        assert started.words == []


def test_the_process_takes_its_words_and_leaves_the_run_to_one_that_watches_already(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.root.mkdir()
    made: list[tuple[Path, dict[str, Any]]] = []
    handled: dict[int, Any] = {}

    class Watching:
        def __init__(self, watched: RunFolder, **words: Any) -> None:
            made.append((watched.root, words))

        def stop_gently(self) -> None:
            """What SIGTERM asks for."""

        def run(self) -> int:
            return 7

    words = ["supervisor", str(folder.root), "--lock", "5", "--watch", "9", "--started", "1.5"]
    monkeypatch.setattr(sys, "argv", words)
    monkeypatch.setattr(program, "Supervisor", Watching)
    monkeypatch.setattr(program.signal, "signal", handled.__setitem__)
    before = os.umask(0o002)
    try:
        assert program.main() == 7
        assert os.umask(0o002) == 0o022, "nobody else writes what the run writes"
        assert program.main() == 0
    finally:
        os.umask(before)
    assert made == [(folder.root, {"lock": 5, "trainer": 9, "started": 1.5})]
    assert handled[signal.SIGHUP] == handled[signal.SIGINT] == signal.SIG_IGN
    assert handled[signal.SIGTERM].__name__ == "stop_gently"


@pytest.mark.parametrize(("attempts", "rows"), [((), 0), ((1,), 0), ((1, 2, 3), 4)])
def test_what_a_run_holds_before_a_start_is_its_newest_row_and_attempt(
    attempts: tuple[int, ...], rows: int, tmp_path: Path
) -> None:
    folder = RunFolder(tmp_path)
    assert known(folder) == (0, 0)
    writer = Writer(open_writer(folder.database))
    writer.write([AttemptStarted(attempt, 1.0, "here", 1) for attempt in attempts])
    writer.write([MetricRow(1, step + 1, 0.0, {"reward": 1.0}) for step in range(rows)])
    writer.close()
    assert known(folder) == (rows, max(attempts, default=0))
