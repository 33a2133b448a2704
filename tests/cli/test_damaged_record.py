"""A record that cannot be read any more is told in a sentence, with what lets the run go on."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from grpo_tui.cli.errors import CommandError
from grpo_tui.cli.main import main
from grpo_tui.cli.start import known
from grpo_tui.core.records import AttemptEnded, AttemptStarted
from grpo_tui.store.connection import open_writer
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.writer import Writer


def _sql(path: Path, statement: str) -> None:
    connection = sqlite3.connect(path)
    connection.execute(statement)
    connection.commit()
    connection.close()


HARM: dict[str, Callable[[Path], object]] = {
    "no database": lambda path: path.write_bytes(b"junk" * 5000),
    "cut off": lambda path: path.write_bytes(path.read_bytes()[:9000]),
    "a table is gone": lambda path: _sql(path, "DROP TABLE metric_row"),
    "a schema with bytes that are not UTF-8": lambda path: path.write_bytes(
        path.read_bytes().replace(b"CREATE TABLE log", b"CREATE \xff\xfeBLE log")
    ),
    "a folder": lambda path: (path.unlink(), path.mkdir()),
}


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    found = RunFolder(tmp_path)
    writer = Writer(open_writer(found.database))
    writer.write([AttemptStarted(1, 0.0, "here", 1), AttemptEnded(1, 1.0, "stopped", 4)])
    writer.close()
    return found


@pytest.mark.parametrize("harm", HARM.values(), ids=HARM)
def test_a_start_into_it_is_refused_with_what_to_put_aside(
    harm: Callable[[Path], object], folder: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    harm(folder.database)
    assert main(["status", str(folder.root)]) == 2
    assert capsys.readouterr().err.startswith(f"grpo-tui: {folder.database}: ")
    with pytest.raises(CommandError, match=r"(?s)to start a new record:\nmkdir .*/broken && mv .*/run.db\* "):
        known(folder)
    folder.database.rename(folder.root / "aside")
    assert known(folder) == (0, 0)


def test_the_record_of_a_newer_version_is_not_put_aside(folder: RunFolder) -> None:
    _sql(folder.database, "PRAGMA user_version=99")
    with pytest.raises(CommandError, match=r"written by a newer grpo-tui .* Upgrade with"):
        known(folder)


def test_a_run_json_that_cannot_be_read_leaves_the_way_of_the_config(
    folder: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    folder.spec.write_text('{"config": ')
    assert main(["train", str(folder.root), "--resume"]) == 2
    assert f"`grpo-tui train CONFIG.yaml --run-dir {folder.root} --resume`" in capsys.readouterr().err
