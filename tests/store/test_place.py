"""A run folder is known by what it is: renamed it is the same, made anew under its name it is another."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from grpo_tui.core import records as r
from grpo_tui.store import connection
from grpo_tui.store.layout import RunFolder, hold, where
from grpo_tui.store.mailbox import Mailbox
from grpo_tui.store.read_series import metric_rows
from grpo_tui.store.reader import RunReader
from grpo_tui.store.recorder import Recorder


def test_a_held_folder_is_followed_and_one_made_anew_under_its_name_is_none_of_it(tmp_path: Path) -> None:
    root, renamed = tmp_path / "run (deleted)", tmp_path / "other"
    root.mkdir()
    held = hold(root)
    assert where(held) == root
    root.rename(renamed)
    assert where(held) == renamed
    (held / "file").write_text("x")
    assert (renamed / "file").read_text() == "x"
    shutil.rmtree(renamed)
    renamed.mkdir()
    assert where(held) is None
    with pytest.raises(OSError, match="No such file"):
        (held / "file").write_text("x")
    assert os.listdir(renamed) == []


@pytest.mark.parametrize("kind", ["ext2/ext3", "nfs"])
def test_recording_and_commands_go_on_in_a_renamed_folder_also_where_there_is_no_write_ahead_log(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "filesystem_type", lambda path: kind)
    root, renamed = tmp_path / "run", tmp_path / "renamed"
    root.mkdir()
    recorder = Recorder(RunFolder(hold(root)))
    recorder.start()
    recorder.put(r.AttemptStarted(1, 0.0, "here", 1))
    early = RunReader(root / "run.db")
    while early.attempts() == []:
        time.sleep(0.05)
    early.close()
    root.rename(renamed)
    root.mkdir()
    Mailbox(root / "commands").submit("stop_now")
    (root / "train.log").write_text("another's\n")
    asked = Mailbox(renamed / "commands").submit("pause")
    (renamed / "train.log").write_text("ours\n")
    recorder.put(r.MetricRow(1, 1, 0.0, {"reward": 1.0}))
    recorder.close()
    assert not (renamed / "run.db-wal").exists(), "the log of the last writer is folded in"
    reader = RunReader(renamed / "run.db")
    assert [step for _, step, _ in metric_rows(reader)] == [1]
    assert [command.id for command, _ in reader.commands()] == [asked.id]
    assert [entry.text for entry in reader.log()] == ["ours"]
    assert sorted(os.listdir(root)) == ["commands", "train.log"]
