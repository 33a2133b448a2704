"""`grpo-tui runs` over many folders: it says how far it is, and a bad folder is one line."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from pathlib import Path

import pytest

from grpo_tui.cli import runs
from grpo_tui.cli.main import main
from grpo_tui.store.connection import RunDatabaseError, open_reader, open_writer
from grpo_tui.store.spec import RunSpec
from tests.cli.test_terminal_output import _printed
from tests.ui.recorded_run import RecordedRun


@pytest.fixture(scope="module")
def roots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four runs, of which one holds a trigger, one wrong types, and one is no database."""
    root = tmp_path_factory.mktemp("many")
    run = RecordedRun(root / "sound")
    run.advance(3)
    run.end("finished")
    run.close()
    for name in ("trigger", "types", "junk"):
        shutil.copytree(root / "sound", root / name)
    for name, statement in (
        ("trigger", "CREATE TRIGGER odd AFTER INSERT ON fact BEGIN DELETE FROM fact; END"),
        ("types", "UPDATE attempt SET step = 'three', started_at = 'now'"),
    ):
        connection = sqlite3.connect(root / name / "run.db")
        connection.execute(statement)
        connection.commit()
        connection.close()
    (root / "junk" / "run.db").write_bytes(b"junk" * 5000)
    return root


def test_a_bad_folder_is_one_line(roots: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", str(roots)]) == 0
    seen = capsys.readouterr()
    assert "/sound" in seen.out
    for name, count in (("trigger", 1), ("types", 1), ("junk", 1)):
        lines = [line for line in (seen.err + seen.out).splitlines() if f"/{name}" in line]
        assert len(lines) == count, lines
    assert "not a record: it holds the trigger odd" in seen.err


def test_a_filter_chooses_among_the_runs(roots: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", str(roots), "--filter", "state:finished sound"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line.split()[:3] == ["finished", "step", "3/120"]
    assert main(["runs", str(roots), "--filter", "state:finished", "--json"]) == 0
    assert [row["state"] for row in json.loads(capsys.readouterr().out)] == ["finished"]
    assert main(["runs", str(roots), "--filter", "-state:finished -live"]) == 0
    assert capsys.readouterr().out == "no match in 4 runs. Leave out --filter to see all\n"
    assert main(["runs", str(roots), "--filter", "colour:red"]) == 2
    assert "--filter: “colour:” is not a field" in capsys.readouterr().err
    assert main(["runs", str(roots / "sound" / "run.db")]) == 2
    assert "this is a file" in capsys.readouterr().err


def test_how_far_it_is_is_said_on_a_terminal_alone(roots: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "PROGRESS_S", -1.0)
    assert b"read 3 of 4 runs" in _printed("runs", roots)[1]
    assert b"read " not in _printed("runs", roots, terminal=False)[1]


def test_no_writer_opens_a_file_with_a_trigger(roots: Path) -> None:
    for opened in (open_writer, open_reader):
        with pytest.raises(RunDatabaseError, match="it holds the trigger odd"):
            opened(roots / "trigger" / "run.db")


def test_forks_are_listed_under_their_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    parents = {"first": None, "second": "first", "third": "second", "other": "gone"}
    for number, (name, parent) in enumerate(parents.items()):
        run = RecordedRun(tmp_path / name)
        run.advance(3)
        run.end("finished")
        run.close()
        checkpoint = str(tmp_path / parent / "checkpoint-2") if parent else None
        RunSpec({}, forked_from=checkpoint).write(tmp_path / name / "run.json")
        for file in (tmp_path / name).iterdir():
            os.utime(file, (10**9 + number, 10**9 + number))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LC_ALL", "C.UTF-8")

    assert main(["runs"]) == 0
    listed = capsys.readouterr().out.splitlines()
    assert [line.split("  ")[-1] for line in listed[:2]] == ["other", "first"]
    assert [line[line.index("└") :] for line in listed[2:]] == ["└ second", "└ third"]
    assert listed[3].index("└") == listed[2].index("└") + 2
    assert main(["runs", "--filter", "third"]) == 0
    assert "└" not in capsys.readouterr().out
    monkeypatch.setenv("LC_ALL", "C")
    assert main(["runs", "--filter", "name:first,second"]) == 0
    assert capsys.readouterr().out.splitlines()[1].endswith("  ` second")

    assert main(["runs", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [Path(row["path"]).name for row in rows] == ["other", "third", "second", "first"]
    assert [row["forked_from"] for row in rows] == [
        str(tmp_path / "gone" / "checkpoint-2"),
        str(tmp_path / "second" / "checkpoint-2"),
        str(tmp_path / "first" / "checkpoint-2"),
        None,
    ]
