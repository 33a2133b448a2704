"""Files under a run's names that somebody else has put there, and texts that are no UTF-8."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from grpo_tui.core.commands import Command, Outcome
from grpo_tui.store.json_file import (
    append_regular,
    open_regular,
    read_object,
    unfinished,
    write_json,
)
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.live import read_errors, read_hardware, read_heartbeat, read_rank
from grpo_tui.store.mailbox import Mailbox
from grpo_tui.store.spec import read_spec

LONE = "bad \udcff \ud800"
ODD: dict[str, Callable[[Path], object]] = {
    "nothing": lambda path: path.touch(),
    "torn": lambda path: path.write_text('{"kind": "pau'),
    "a list": lambda path: path.write_text("[1]"),
    "bytes": lambda path: path.write_bytes(b"\xff\xfe\x00"),
    "nested deeply": lambda path: path.write_text("[" * 100_000),
    "a folder": lambda path: path.mkdir(),
    "a pipe": lambda path: os.mkfifo(path),
    "a link to itself": lambda path: path.symlink_to(path),
    "huge": lambda path: (path.touch(), os.truncate(path, 1 << 34)),
}


@pytest.mark.parametrize("harm", ODD.values(), ids=ODD)
def test_what_is_none_of_ours_is_passed_over(harm: Callable[[Path], object], tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.commands.mkdir()
    for path in (folder.commands / "1.json", folder.heartbeat, folder.hardware, folder.error(1)):
        harm(path)
    mailbox = Mailbox(folder.commands)
    assert mailbox.pending() == []
    assert mailbox.history(set()) == []
    assert read_heartbeat(folder.heartbeat) is None
    assert read_hardware(folder.hardware) is None
    assert read_errors(folder) is None


def test_a_run_json_and_a_rank_file_of_endless_nesting_are_refused_in_words(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    for path in (folder.spec, folder.rank(0)):
        ODD["nested deeply"](path)
    with pytest.raises(ValueError, match="not a run specification"):
        read_spec(folder.spec)
    assert read_rank(folder.rank(0)) is None


def test_text_that_is_no_utf8_arrives_as_it_was(tmp_path: Path) -> None:
    mailbox = Mailbox(tmp_path / "commands")
    sent = mailbox.submit("sample", {"prompt": LONE})
    assert [command.args for command in mailbox.pending()] == [{"prompt": LONE}]
    mailbox.finish(Command(sent.id, sent.kind), Outcome(False, 0, LONE))
    outcome = mailbox.outcome(sent.id)
    assert outcome is not None
    assert outcome.reason == LONE


def test_a_write_that_fails_leaves_the_earlier_file_and_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    write_json(path, {"step": 1})
    path.with_name(".state.json.7-7.new").touch()
    assert len(unfinished(path)) == 1
    unfinished(path)[0].unlink()
    target = tmp_path / "full"
    target.mkdir()
    with pytest.raises(OSError):
        write_json(target, {"step": 2})  # a folder stands where the file should go
    assert read_object(path) == {"step": 1}
    assert sorted(file.name for file in tmp_path.iterdir()) == ["full", "state.json"]


def test_a_refused_file_leaves_no_descriptor_open(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("/dev/zero")
    os.mkfifo(tmp_path / "pipe")
    gc.collect()  # what an earlier test has left would be closed at any moment
    before = len(os.listdir("/proc/self/fd"))
    for name in ("folder", "link", "pipe", "missing", "folder/inner/file"):
        with pytest.raises(OSError):
            open_regular(tmp_path / name, below=tmp_path)
        if name not in ("missing", "folder/inner/file"):
            with pytest.raises(OSError):
                append_regular(tmp_path / name)
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_link_within_the_path_is_not_followed_but_one_to_the_run_folder_is(tmp_path: Path) -> None:
    inner = tmp_path / "run" / "commands"
    inner.mkdir(parents=True)
    (inner / "a.json").write_text('{"n": 7}')
    (tmp_path / "named").symlink_to(tmp_path / "run")
    (tmp_path / "run" / "elsewhere").symlink_to(inner)
    for run in (tmp_path / "run", tmp_path / "named"):
        assert read_object(run / "commands" / "a.json", below=run) == {"n": 7}
        assert read_object(run / "elsewhere" / "a.json", below=run) is None
    assert read_object(inner / "a.json", largest=0) is None
