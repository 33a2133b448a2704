"""A value of a run.db that cannot be read is named and passed over, in every command and by other runs."""

from __future__ import annotations

import json
import shutil
import socket
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

import pytest

from grpo_tui.cli.main import main
from grpo_tui.config.resolve import load_config
from grpo_tui.core import records as r
from grpo_tui.demo import DEMO_CONFIG
from grpo_tui.present.known_rates import known_rates
from grpo_tui.present.run_state import DeltaReader
from grpo_tui.store.layout import RunFolder, remember
from grpo_tui.store.reader import RunReader, wrong_types
from grpo_tui.store.schema import JSON_COLUMNS
from grpo_tui.store.spec import RunSpec
from grpo_tui.store.status import read_status
from tests.ui.recorded_run import RecordedRun, evaluated

BAD = ("X", "5", '"x"', "[1]", "[" * 100_000, b"\xff\xfe")
COMMANDS = (
    ("status",), ("status", "--json"), ("attach",), ("completions",), ("completions", "--format", "jsonl"),
    ("course",), ("prompts",), ("metrics",), ("log",),
)  # fmt: skip
BRIEF = (("status", "--json"), ("attach",), ("completions", "--format", "jsonl"))
SLOW = (("completions", "--where", 'prompt has "a" or column.answer == "1" or extra.x == 1'), ("whatif",))
"""Commands that start a process each."""


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that failed, with a row in every table."""
    run = RecordedRun(tmp_path_factory.mktemp("sound") / "run")
    run.advance(6)
    run.events()
    run.log(3)
    run.write(*evaluated((0, 6)))
    run.write(r.Fact("peak_memory", {"device": "cpu", "world_size": 1}))
    run.end("failed", {"type": "ValueError", "message": "no", "cause": "no"})
    run.close()
    folder = RunFolder(run.folder.root)
    config = load_config(DEMO_CONFIG)
    RunSpec(config.to_json()).write(folder.spec)
    connection = sqlite3.connect(folder.database)
    connection.execute("UPDATE completion SET extra = '{}', messages = '[]'")
    connection.execute("UPDATE attempt SET host = ?", (socket.gethostname(),))
    connection.commit()
    connection.close()
    return folder.root


def _harm(run: Path, columns: tuple[tuple[str, str, tuple[str, ...]], ...], bad: object) -> None:
    connection = sqlite3.connect(run / "run.db")
    for table, column, _ in columns:
        assert connection.execute(f"UPDATE {table} SET {column} = ?", (bad,)).rowcount, (table, column)
    connection.commit()
    connection.close()


def _look(
    run: Path,
    commands: Iterable[tuple[str, ...]],
    capsys: pytest.CaptureFixture[str],
    unlisted: bool = False,
) -> None:
    for words in commands:
        code = main([words[0], str(run), *words[1:]])
        seen = capsys.readouterr()
        # The run failed, and a reward needs a column that cannot be read.
        assert code == (1 if words[0] in ("attach", "whatif") else 0), (words, seen.err)
        assert "Error" not in seen.err
    assert main(["runs", str(run.parent), "--json"]) == 0
    seen = capsys.readouterr()
    states = [row["state"] for row in json.loads(seen.out)]
    # Bytes are of the wrong type in a column of text: such a run is named instead.
    assert (states, str(run) in seen.err) == (([], True) if unlisted else (["failed"], False)), seen.err
    with closing(RunReader(run / "run.db")) as reader:
        assert DeltaReader(reader).read().groups


def test_every_command_passes_it_over(
    sound: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "runs" / "one"
    shutil.copytree(sound, run)
    remember(run)
    for bad in BAD:
        _harm(run, JSON_COLUMNS, bad)
        _look(run, COMMANDS + (SLOW if bad == "X" else ()), capsys, isinstance(bad, bytes))
    for column in JSON_COLUMNS:
        shutil.copy(sound / "run.db", run / "run.db")
        _harm(run, (column,), "X")
        _look(run, BRIEF, capsys)


def test_status_names_what_cannot_be_read(
    sound: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    shutil.copytree(sound, run)
    assert read_status(run).alerts == ()
    for table, column, kinds in JSON_COLUMNS:
        shutil.copy(sound / "run.db", run / "run.db")
        _harm(run, ((table, column, kinds),), "X")
        assert main(["status", str(run)]) == 0
        place = "fact config" if table == "fact" else f"{table}.{column}"
        (line,) = [one for one in capsys.readouterr().out.splitlines() if one.startswith("attention: ")]
        assert line.startswith("attention: run.db holds values that cannot be read: ")
        assert place in line
        shutil.copy(sound / "run.db", run / "run.db")
        _harm(run, ((table, column, kinds),), '{"a": NaN}' if "object" in kinds or not kinds else "[NaN]")
        assert read_status(run).alerts == ()


def test_the_start_of_another_run_knows_the_rates_of_its_neighbours(sound: Path, tmp_path: Path) -> None:
    model = load_config(DEMO_CONFIG).model
    for name, bad in (("facts", "X"), ("deep", "[" * 100_000), ("bytes", b"\xff")):
        shutil.copytree(sound, tmp_path / name)
        _harm(tmp_path / name, JSON_COLUMNS, bad)
    for name, text in (("spec", '{"config": 1}'), ("nested", '{"config": {"path": ' + "[" * 100_000)):
        shutil.copytree(sound, tmp_path / name)
        (tmp_path / name / "run.json").write_text(text)
    shutil.copytree(sound, tmp_path / "types")
    connection = sqlite3.connect(tmp_path / "types" / "run.db")
    for table in ("metric_row", "attempt", "generation_group"):
        connection.execute(f"UPDATE {table} SET step = 'three'")
    connection.execute("UPDATE metric SET value = x'00'")
    connection.commit()
    connection.close()
    rates = known_rates((tmp_path,), model)
    assert {rate.run for rate in rates} == {"facts", "deep", "bytes"}


def test_a_value_of_the_wrong_type_is_named(
    sound: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "runs" / "one"
    shutil.copytree(sound, run)
    assert wrong_types(run / "run.db") is None
    for words, table, column, bad in (
        ("course", "generation_group", "step", "x"),
        ("course", "reward", "value", "x"),
        ("metrics", "metric_row", "step", "x"),
        ("completions --format jsonl", "completion", "total", b"x"),
        ("status", "metric_row", "step", "x"),
    ):
        shutil.copy(sound / "run.db", run / "run.db")
        _harm(run, ((table, column, ()),), bad)
        command, *more = words.split()
        assert main([command, str(run), *more]) == 2
        assert capsys.readouterr().err == (
            f"grpo-tui: {run}/run.db: values of the wrong type in {table}.{column}. "
            "Another program changed this file; restore it from a copy.\n"
        )
    for table, column in (("metric_row", "step"), ("attempt", "total_steps"), ("checkpoint", "size_bytes")):
        shutil.copy(sound / "run.db", run / "run.db")
        _harm(run, ((table, column, ()),), b"x")
        assert main(["runs", str(run.parent)]) == 0
        assert f"values of the wrong type in {table}.{column}" in capsys.readouterr().err


def test_numbers_that_sqlite_cannot_say_are_not_of_the_wrong_type(sound: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(sound, run)
    for table, column in (("reward", "value"), ("completion", "total"), ("completion", "advantage")):
        _harm(run, ((table, column, ()),), "nan")
        assert wrong_types(run / "run.db") is None
        _harm(run, ((table, column, ()),), float("inf"))
        assert wrong_types(run / "run.db") is None
    _harm(run, (("metric", "value", ()),), "a text that was logged")
    assert wrong_types(run / "run.db") is None
