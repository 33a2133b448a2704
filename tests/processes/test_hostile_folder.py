"""A look at a run folder executes nothing from it, signals nobody, starts nothing and never hangs."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from grpo_tui.cli.main import main
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.reader import RunReader
from tests import PATIENCE_S
from tests.ui.recorded_run import RecordedRun

STATUS_OF_EACH = """
import os, sys, time
from grpo_tui.cli.main import main
for root in (sys.argv[1], *sys.argv[1:]):  # the first one twice, of which the second counts: it imports
    since = time.process_time()
    code = main(["status", root])
    sys.stdout.flush()
    print("CASE", os.path.basename(root), code, time.process_time() - since < 2.0, flush=True)
"""


@pytest.fixture(scope="module")
def donor(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was cut off, as on the disk of somebody else."""
    run = RecordedRun(tmp_path_factory.mktemp("donor"), pid=999_997)
    run.advance(2)
    run.close()
    return run.folder.root


@pytest.fixture
def victim() -> Iterator[subprocess.Popen[bytes]]:
    """A process of the viewer that has nothing to do with any run."""
    process = subprocess.Popen(["sleep", "600"])
    yield process
    process.kill()
    process.wait()


class _Acts:
    def __reduce__(self) -> Any:
        return os.mkdir, ("hostile-code-ran",)


def _hostile(donor: Path, folder: RunFolder, victim: int, *kinds: str) -> None:
    """Lay out what makes a viewer act that believes the folder."""
    shutil.copytree(donor, folder.root)
    beat = {"supervisor": 999_998, "supervisor_started": 1.0, "host": socket.gethostname()}
    folder.heartbeat.write_text(json.dumps({**beat, "trainer": victim, "trainer_started": None}))
    folder.log.touch()
    folder.spool.mkdir()
    (folder.spool / "1-1-00000001.records").write_bytes(pickle.dumps([_Acts()]))
    folder.commands.mkdir()
    for number, kind in enumerate(kinds):
        body = {"kind": kind, "args": {}, "at": time.time(), "by": "you"}
        (folder.commands / f"{number:020d}-aaaaaa.json").write_text(json.dumps(body))
    rank = {"pid": victim, "started": None, "reward_call": 1, "reward_function": "x"}
    folder.rank(0).write_text(json.dumps(rank))


@pytest.mark.parametrize("command", ["status", "attach"])
def test_a_look_at_a_folder_of_somebody_else_does_nothing(
    command: str,
    donor: Path,
    victim: subprocess.Popen[bytes],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = RunFolder(tmp_path / "run")
    _hostile(donor, folder, victim.pid, "stop_now", "abort_reward")
    before = {path: path.read_bytes() for path in folder.root.rglob("*") if path.is_file()}
    main([command, str(folder.root)])
    assert "You did not start this run on this machine" in capsys.readouterr().err
    after = {path: path.read_bytes() for path in folder.root.rglob("*") if path.is_file()}
    new = {path.name for path in after.keys() - before.keys()}
    assert new <= {"run.db-wal", "run.db-shm"}, "which SQLite makes for a reader"
    assert {path: after[path] for path in before} == before
    assert victim.poll() is None
    assert not Path("hostile-code-ran").exists()


def test_a_run_of_this_user_whose_files_were_replaced_harms_nobody(
    donor: Path, victim: subprocess.Popen[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from grpo_tui.store.layout import remember

    monkeypatch.chdir(tmp_path)
    folder = RunFolder(tmp_path / "run")
    _hostile(donor, folder, victim.pid, "stop_now", "abort_reward")
    remember(folder.root)
    main(["status", str(folder.root)])  # it starts a supervisor, which records the end
    deadline = time.monotonic() + PATIENCE_S
    while RunReader(folder.database).attempts()[-1].state is None and time.monotonic() < deadline:
        time.sleep(0.05)
    reader = RunReader(folder.database)
    assert reader.attempts()[-1].state in ("crashed", "stopped")
    assert reader.dropped()["records"] == 1
    assert victim.poll() is None
    assert not (folder.root / "hostile-code-ran").exists()
    assert not Path("hostile-code-ran").exists()


def _replaced(name: str, put: Callable[[Path], object]) -> Callable[[Path], object]:
    def harm(root: Path) -> None:
        path = root / name
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
        put(path)

    return harm


def _link_to(target: str) -> Callable[[Path], object]:
    return lambda path: path.symlink_to(target)


def _written(name: str, text: str) -> Callable[[Path], object]:
    return lambda root: (root / name).write_text(text)


def _view(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.executescript(
        "DROP TABLE attempt; CREATE VIEW attempt AS WITH RECURSIVE n(i) AS"
        " (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS attempt, i AS pid FROM n"
    )
    connection.close()


ANY = ("run.json", "run.id", "heartbeat", "hardware.json", "rank-0.json", "run.db", "run.db-wal", "train.log")
BAD: dict[str, Callable[[Path], object]] = {
    **{f"pipe {name}": _replaced(name, os.mkfifo) for name in (*ANY, "commands", "rank-0.error")},
    **{f"endless {name}": _replaced(name, _link_to("/dev/zero")) for name in (*ANY, "run.db-shm")},
    **{f"folder {name}": _replaced(name, Path.mkdir) for name in ANY},
    "commands of the system": _replaced("commands", _link_to("/")),
    "checkpoint of the system": _replaced("checkpoint-3", _link_to("/etc")),
    "checkpoint with pipes": lambda root: [
        os.mkfifo((root / "checkpoint-3").joinpath(name))
        for _ in [(root / "checkpoint-3").mkdir()]
        for name in ("trainer_state.json", "grpo_tui.json", "model.safetensors", "optimizer.pt")
    ],
    "odd numbers": lambda root: [
        (root / name).mkdir() for name in ("rank-x.json", "rank-².json", "checkpoint-²")
    ],
    "huge rank": lambda root: os.truncate(_touched(root / "rank-0.json"), 1 << 40),
    "huge heartbeat": lambda root: os.truncate(_touched(root / "heartbeat"), 1 << 40),
    "odd rank": _written("rank-0.json", '{"pid": -1, "started": 1e999, "step": "x"}'),
    "odd process": _written("rank-0.json", f'{{"pid": {10**30}, "started": 1.0}}'),
    "odd heartbeat": lambda root: (root / "heartbeat").write_text(
        '{"supervisor": 1, "supervisor_started": "x"}'
    ),
    "nested": _written("heartbeat", "[" * 60_000),
    "a view without end": lambda root: _view(root / "run.db"),
}


def _touched(path: Path) -> Path:
    path.touch()
    return path


def test_no_file_of_a_run_folder_makes_a_look_hang_or_break(donor: Path, tmp_path: Path) -> None:
    roots = []
    for name, harm in BAD.items():
        root = tmp_path / name.replace(" ", "_")
        shutil.copytree(donor, root)
        (root / "run.json").write_text('{"config": {}}')
        harm(root)
        roots.append(root)
    logs = tmp_path / "logs"  # not a run, but `runs` looks for what TRL and verl have logged
    logs.mkdir()
    os.mkfifo(logs / "1.jsonl")
    (logs / "2.jsonl").symlink_to("/dev/zero")
    os.mkfifo(logs / "completions_00001.parquet")
    said = subprocess.run(
        [sys.executable, "-c", STATUS_OF_EACH, *map(str, roots)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    told = dict(line.split(" ", 2)[1:] for line in said.stdout.splitlines() if line.startswith("CASE "))
    assert set(told) == {root.name for root in roots}, said.stderr
    # A run without a record that can be read is refused, everything else is shown.
    unreadable = {
        "pipe_run.db", "pipe_run.db-wal", "endless_run.db", "endless_run.db-wal", "endless_run.db-shm",
        "folder_run.db", "folder_run.db-wal", "a_view_without_end",
    }  # fmt: skip
    assert told == {root.name: "2 True" if root.name in unreadable else "0 True" for root in roots}, (
        said.stderr
    )
    listed = subprocess.run(
        [sys.executable, "-m", "grpo_tui", "runs", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert "Traceback" not in listed.stderr + said.stderr
    assert listed.returncode == 0
    seen = listed.stdout + listed.stderr
    assert [root.name for root in roots if root.name not in seen] == []
    assert not [line for line in listed.stderr.splitlines() if not line.startswith("grpo-tui: ")]
