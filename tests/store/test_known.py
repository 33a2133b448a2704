"""A run is known when this user's own start on this machine made it; everything else is foreign."""

from __future__ import annotations

import json
import os
import shutil
import stat
from pathlib import Path

import pytest

from grpo_tui.core.records import PhaseSpan
from grpo_tui.rewards import consent
from grpo_tui.store.layout import RunFolder, is_known, own_folder, remember
from grpo_tui.store.recorder import SpoolRecorder
from grpo_tui.ui.preferences import FOLDER, keep_unsaved


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GRPO_TUI_STATE_DIR", str(tmp_path / "state"))
    return tmp_path / "state"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    root = tmp_path / "run"
    root.mkdir()
    return root


def test_a_folder_is_foreign_until_its_start_was_noted_and_keeps_its_id(run: Path) -> None:
    assert not is_known(run)
    remember(run)
    identity = RunFolder(run).identity.read_bytes()
    remember(run)
    assert is_known(run)
    assert RunFolder(run).identity.read_bytes() == identity
    moved = run.rename(run.with_name("moved"))
    assert is_known(moved)
    assert is_known(Path(f"/proc/self/fd/{os.open(moved, os.O_PATH)}"))


def test_a_copy_and_a_folder_with_another_id_are_foreign(run: Path) -> None:
    remember(run)
    copy = Path(shutil.copytree(run, run.with_name("copy")))
    assert not is_known(copy)
    assert is_known(run)
    for body in ({"id": "0" * 32}, {"id": None}, {}, [], "x"):
        RunFolder(run).identity.write_text(json.dumps(body))
        assert not is_known(run)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"id": null}', "\0"])
def test_a_note_without_an_id_makes_nothing_known(run: Path, state: Path, content: str) -> None:
    remember(run)
    RunFolder(run).identity.unlink()
    (note,) = (state / "runs").iterdir()
    note.write_text(content)
    assert not is_known(run)


def test_nobody_else_can_read_or_write_what_is_remembered(run: Path, state: Path) -> None:
    before = os.umask(0)
    try:
        remember(run)
    finally:
        os.umask(before)
    (note,) = (state / "runs").iterdir()
    modes = [stat.S_IMODE(p.stat().st_mode) for p in (state / "runs", note, RunFolder(run).identity)]
    assert modes == [0o700, 0o600, 0o600]
    note.chmod(0o622)
    assert not is_known(run), "others may have written it"


def test_a_yes_an_unsaved_draft_and_what_ranks_hand_in_are_for_this_user_alone(
    run: Path, state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRPO_TUI_CONFIG_DIR", str(tmp_path / "config"))
    spool = RunFolder(run).spool
    before = os.umask(0)
    try:
        consent.give([consent.Code("a file", "of a run", "0" * 8)])
        keep_unsaved(tmp_path / "c.yaml", "hub_token: secret")
        recorder = SpoolRecorder(RunFolder(run), 1)
        recorder.start()
        recorder.put(PhaseSpan(1, 1, "update", 1, 1.0, 1.0))
        recorder.close()
    finally:
        os.umask(before)
    for folder in (state / "trusted", tmp_path / "config" / FOLDER, spool):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700, folder
        (file,) = folder.iterdir()
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file


def test_state_that_cannot_be_written_is_an_error_and_a_missing_folder_is_foreign(
    run: Path, state: Path
) -> None:
    state.write_text("a file")
    with pytest.raises(OSError):
        remember(run)
    assert not is_known(run)
    assert not is_known(run / "missing")
    assert own_folder("state", {}).name == "grpo-tui"
    assert own_folder("state", {"GRPO_TUI_STATE_DIR": "/x"}) == Path("/x")
