"""Run folders in odd places: network file systems, read-only folders, clocks that run backwards."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from grpo_tui.core import records as r
from grpo_tui.store import connection
from grpo_tui.store.connection import RunDatabaseError, filesystem_type, open_writer
from grpo_tui.store.layout import RunFolder, find_runs
from grpo_tui.store.live import (
    RankFile,
    process_alive,
    process_started,
    read_heartbeat,
    read_rank,
    write_heartbeat,
)
from grpo_tui.store.mailbox import Mailbox
from grpo_tui.store.reader import RunReader
from grpo_tui.store.status import read_status
from grpo_tui.store.writer import Writer
from tests import PATIENCE_S


@pytest.mark.parametrize(
    ("kind", "mode"), [("nfs", "truncate"), ("lustre", "truncate"), ("ext2/ext3", "wal")]
)
def test_the_journal_mode_follows_the_file_system(
    kind: str, mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "filesystem_type", lambda path: kind)
    database = open_writer(tmp_path / "run.db")
    assert database.execute("PRAGMA journal_mode").fetchone()[0] == mode
    Writer(database).write([r.Fact("a", 1)])
    assert RunReader(tmp_path / "run.db").fact("a") == 1


def test_the_file_system_of_a_real_folder_has_a_name(tmp_path: Path) -> None:
    assert filesystem_type(tmp_path)
    assert filesystem_type(tmp_path / "missing") == ""


@pytest.mark.parametrize("left", ["nothing beside it", "a write-ahead log beside it"])
def test_a_folder_that_cannot_be_written_is_read_whole(
    left: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = Writer(open_writer(tmp_path / "run.db"))
    writer.write([r.Fact("newest", 7)])
    if left == "nothing beside it":
        writer.close()
        assert not (tmp_path / "run.db-wal").exists()
    before = sorted(p.name for p in tmp_path.iterdir())
    monkeypatch.setattr(os, "access", lambda path, how: False)
    assert RunReader(tmp_path / "run.db").fact("newest") == 7
    assert sorted(p.name for p in tmp_path.iterdir()) == before


class Guest:
    """A child process that may read a folder and not write into it, whoever runs the tests.

    It is forked before anything in the folder is opened: what SQLite knows of a file it knows per process.
    """

    def __init__(self, folder: Path, question: Callable[[Guest], Any]) -> None:
        (begin, self._begin), (self._hears, tell) = os.pipe(), os.pipe()
        self._child = os.fork()
        if self._child:
            os.close(tell)
            return
        try:
            os.read(begin, 1)
            if os.geteuid() == 0:
                os.setgroups([])
                os.setgid(65534)
                os.setuid(65534)
            assert not os.access(folder, os.W_OK)
            self._begin = tell
            answer = question(self)
        except BaseException as error:
            answer = f"{type(error).__name__}: {error}"
        os.write(tell, json.dumps(answer).encode())
        os._exit(0)

    def go_on(self) -> None:
        """Let the other side go on."""
        os.write(self._begin, b" ")

    def wait(self) -> None:
        """Wait until the child lets this side go on."""
        os.read(self._hears, 1)

    def answer(self) -> Any:
        """What the child found."""
        with os.fdopen(self._hears, "rb") as pipe:
            told = pipe.read()
        os.waitpid(self._child, 0)
        return json.loads(told)


@pytest.fixture
def elsewhere() -> Iterator[Path]:
    """A folder that another user can reach and read, but not write; pytest's own are private."""
    base = Path(tempfile.mkdtemp())
    base.chmod(0o755)
    folder = base / "read only, ünïcode"
    folder.mkdir()
    copies = base / "copies"
    copies.mkdir()
    copies.chmod(0o777)
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(base)


@pytest.mark.parametrize("left", ["closed", "killed", "live"])
def test_another_login_that_may_only_read_sees_a_run_whole(left: str, elsewhere: Path) -> None:
    folder, copies = RunFolder(elsewhere), elsewhere.with_name("copies")

    def look(guest: Guest) -> list[Any]:
        tempfile.tempdir = str(copies)
        reader = RunReader(folder.database)
        found = [reader.fact("newest")]
        if left == "live":
            guest.go_on()
            deadline = time.monotonic() + PATIENCE_S
            while reader.fact("newest") == 7 and time.monotonic() < deadline:
                time.sleep(0.01)
            found.append(reader.fact("newest"))
        return [*found, read_status(elsewhere).state]

    guest = Guest(elsewhere, look)
    writer = Writer(open_writer(folder.database))
    writer.write([r.AttemptStarted(1, 0.0, "here", 2**22 + 1), r.Fact("newest", 7)])
    if left == "closed":
        writer.close()
    elif left == "killed":
        kept = {name: (elsewhere / name).read_bytes() for name in ("run.db", "run.db-wal", "run.db-shm")}
        writer.close()
        for name, content in kept.items():
            (elsewhere / name).write_bytes(content)
    for path in elsewhere.iterdir():
        path.chmod(0o644 if os.geteuid() == 0 else 0o444)
    elsewhere.chmod(0o555)
    before = sorted(path.name for path in elsewhere.iterdir())
    guest.go_on()
    if left == "live":
        guest.wait()
        writer.write([r.Fact("newest", 8)])
    assert guest.answer() == [7, *([8] if left == "live" else []), "crashed"]
    assert sorted(path.name for path in elsewhere.iterdir()) == before
    assert list(copies.iterdir()) == [], "copies do not pile up"


def test_a_command_into_a_folder_that_may_only_be_read_is_refused(elsewhere: Path) -> None:
    elsewhere.chmod(0o555)

    def submit(guest: Guest) -> str:
        try:
            Mailbox(RunFolder(elsewhere).commands).submit("pause")
        except OSError as error:
            return str(error.strerror)
        return "written"

    guest = Guest(elsewhere, submit)
    guest.go_on()
    refused = "this run belongs to root, and only root can steer it"
    assert guest.answer() == (refused if os.geteuid() == 0 else "Permission denied"), "only root has a guest"


def test_a_process_is_the_same_when_the_second_of_the_boot_is_told_otherwise() -> None:
    began = process_started(os.getpid())
    assert began is not None
    assert process_alive(os.getpid(), began + 1.0)
    assert process_alive(os.getpid(), began - 1.0)
    assert not process_alive(os.getpid(), began + 2.0)


def test_a_clock_set_back_makes_no_heartbeat_negative(tmp_path: Path) -> None:
    path = RunFolder(tmp_path).heartbeat
    write_heartbeat(path, os.getpid(), None)
    ahead = time.time() + 3600
    os.utime(path, (ahead, ahead))
    beat = read_heartbeat(path)
    assert beat is not None
    assert beat.age_s == 0.0
    assert beat.supervisor_alive


def test_a_heartbeat_of_another_host_is_judged_by_its_age(tmp_path: Path) -> None:
    path = RunFolder(tmp_path).heartbeat
    write_heartbeat(path, 1, None)
    text = path.read_text().replace(f'"{os.uname().nodename}"', '"elsewhere"')
    path.write_text(text)
    beat = read_heartbeat(path)
    assert beat is not None
    assert not beat.same_host
    assert beat.supervisor_alive
    old = time.time() - 120
    os.utime(path, (old, old))
    again = read_heartbeat(path)
    assert again is not None
    assert not again.supervisor_alive


def test_a_rank_file_never_grows_and_is_read_whole(tmp_path: Path) -> None:
    path = RunFolder(tmp_path).rank(0)
    file = RankFile(path, os.getpid())
    file.update(phase="reward", reward_function="\x1b]52;c;x\x07" * 1000, note="ü" * 5000)
    size = path.stat().st_size
    file.update(phase="update", reward_function=None)
    state = read_rank(path)
    assert state is not None
    assert (state.phase, state.reward_function, state.alive) == ("update", None, True)
    assert len(state.note) == 200
    assert path.stat().st_size == size


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\x00" * 4096, b'{"pid": 1}'])
def test_a_torn_live_file_is_no_error(content: bytes, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.rank(0).write_bytes(content)
    folder.heartbeat.write_bytes(content)
    assert read_rank(folder.rank(0)) is None or content == b'{"pid": 1}'
    assert read_heartbeat(folder.heartbeat) is None


def test_a_file_that_is_no_database_is_said_to_be_none(tmp_path: Path) -> None:
    (tmp_path / "run.db").write_text("this is no database, though long enough to be taken for one" * 10)
    with pytest.raises(RunDatabaseError, match="not a database"):
        RunReader(tmp_path / "run.db")
    with pytest.raises(RunDatabaseError, match="not a database"):
        open_writer(tmp_path / "run.db")


def test_runs_are_found_in_folders_with_odd_names_and_checkpoints_are_passed_over(tmp_path: Path) -> None:
    for name in ("plain", "with space", "ünïcode\nnewline", "deep/er/still"):
        folder = tmp_path / name
        folder.mkdir(parents=True)
        Writer(open_writer(folder / "run.db")).close()
    inside = tmp_path / "plain" / "checkpoint-3"
    inside.mkdir()
    (inside / "run.json").touch()
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden" / "run.db").touch()
    assert len(find_runs([tmp_path, tmp_path])) == 4


def test_a_run_that_was_never_started_has_a_state(tmp_path: Path) -> None:
    with pytest.raises(RunDatabaseError, match="no run here"):
        read_status(tmp_path)
    (tmp_path / "run.json").write_text("{}")
    assert read_status(tmp_path).state == "crashed"


def test_looking_at_an_ended_run_is_no_sign_of_life_of_it(tmp_path: Path) -> None:
    from grpo_tui.present.runs_view import changed_at

    folder = RunFolder(tmp_path)
    Writer(open_writer(folder.database)).close()
    long_ago = time.time() - 5000
    os.utime(folder.database, (long_ago, long_ago))
    reader = RunReader(folder.database)
    assert changed_at(folder) == pytest.approx(long_ago, abs=1)
    reader.close()
