"""Who may steer a run: the user who started it, and root."""

from __future__ import annotations

import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from grpo_tui.core.commands import Outcome
from grpo_tui.store.layout import RunFolder, remember
from grpo_tui.store.mailbox import Mailbox

SOMEBODY = 54_321


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    found = RunFolder(tmp_path / "run")
    found.root.mkdir()
    return found


def test_the_mailbox_is_for_its_user_alone_whatever_the_umask(folder: RunFolder) -> None:
    before = os.umask(0)
    try:
        command = Mailbox(folder.commands).submit("pause")
    finally:
        os.umask(before)
    assert stat.S_IMODE(folder.commands.stat().st_mode) == 0o700
    assert (folder.commands / f"{command.id}.json").stat().st_mode & 0o022 == 0


def test_the_run_of_another_login_is_not_steered(folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    mailbox = Mailbox(folder.commands)
    monkeypatch.setattr(os, "geteuid", lambda: SOMEBODY)
    with pytest.raises(PermissionError, match=r"this run belongs to \S+, and only \S+ can steer it"):
        mailbox.submit("pause")
    assert not folder.commands.exists()


def test_a_known_run_is_steered_where_the_file_system_has_other_owners(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    remember(folder.root)
    monkeypatch.setattr("grpo_tui.store.mailbox.os.geteuid", lambda: SOMEBODY)
    assert Mailbox(folder.commands).refusal(), "the note is not that user's"
    monkeypatch.setattr("grpo_tui.store.mailbox.is_known", lambda run: run == folder.root)
    assert Mailbox(folder.commands).refusal() == ""


@pytest.mark.parametrize(("decided", "kept"), [(0.0, 1_770_000_000.0), (1_760_000_000.0, 1_760_000_000.0)])
def test_a_command_and_its_outcome_have_the_time_of_the_clock(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch, decided: float, kept: float
) -> None:
    monkeypatch.setattr("grpo_tui.store.mailbox.time.time", lambda: 1_770_000_000.0)
    mailbox = Mailbox(folder.commands)
    command = mailbox.submit("set", {"name": "beta", "value": 0.1}, by="a rule")
    assert mailbox.pending() == [command]
    assert (command.at, command.by) == (1_770_000_000.0, "a rule")
    outcome = Outcome(True, 7, "set", {"old": 0.0}, decided)
    mailbox.finish(command, outcome)
    assert mailbox.history(set())[-1] == (command, replace(outcome, at=kept))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_command_of_another_user_is_ignored(folder: RunFolder) -> None:
    mailbox = Mailbox(folder.commands)
    ours, theirs = mailbox.submit("pause"), mailbox.submit("stop")
    os.chown(folder.commands / f"{theirs.id}.json", SOMEBODY, SOMEBODY)
    assert [command.id for command in mailbox.pending()] == [ours.id]
    assert [command.id for command, _ in mailbox.history(set())] == [ours.id]
    os.chown(folder.root, SOMEBODY, SOMEBODY)
    assert len(mailbox.pending()) == 2, "it is the run's own user"


def test_commands_behind_a_link_are_neither_read_nor_written(folder: RunFolder, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "00000000000000000001-aaaaaa.json").write_text('{"kind": "stop", "args": {}}')
    folder.commands.symlink_to(elsewhere)
    mailbox = Mailbox(folder.commands)
    assert mailbox.pending() == []
    assert mailbox.outcome("00000000000000000001-aaaaaa") is None
    with pytest.raises(PermissionError, match="commands is not a folder"):
        mailbox.submit("stop")
    assert len(list(elsewhere.iterdir())) == 1
