"""Which checkpoint a run can be resumed from, and why not from the others."""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from grpo_tui.core.records import AttemptEnded, AttemptStarted
from grpo_tui.store.checkpoints import (
    MARKER,
    copy,
    has_new_optimizer,
    held,
    is_held,
    judge,
    newest_usable,
    refused_at_resume,
    remove,
)
from grpo_tui.store.connection import open_writer
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.status import read_status
from grpo_tui.store.writer import Writer

HOLDS = """\
import os, sys
from pathlib import Path
from grpo_tui.store.checkpoints import held
os.read(int(sys.argv[2]), 1)
with held(Path(sys.argv[1])):
    print("held", flush=True)
    os.read(int(sys.argv[2]), 1)
"""
"""Holds a checkpoint, from one byte of a pipe to the next."""


def _safetensors(path: Path, missing: int = 0) -> None:
    """A file of one tensor of 32 bytes, with some of them missing."""
    header = json.dumps({"w": {"dtype": "F32", "shape": [8], "data_offsets": [0, 32]}}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(32 - missing))


def _checkpoint(root: Path, step: int, *, marked: bool = True) -> Path:
    path = root / f"checkpoint-{step}"
    path.mkdir()
    _safetensors(path / "model.safetensors")
    (path / "optimizer.pt").write_bytes(b"moments")
    (path / "trainer_state.json").write_text(json.dumps({"global_step": step}))
    if marked:
        sizes = {file.name: file.stat().st_size for file in path.iterdir()}
        (path / MARKER).write_text(json.dumps({"step": step, "files": sizes}))
    return path


def test_a_marked_checkpoint_is_usable_as_long_as_every_file_is_whole(tmp_path: Path) -> None:
    path = _checkpoint(tmp_path, 4)
    assert (judge(path).usable, judge(path).step, judge(path).reason) == (True, 4, "")
    (path / "optimizer.pt").write_bytes(b"mom")
    assert not judge(path).usable
    assert judge(path).reason == "optimizer.pt holds 3 of 7 bytes"
    (path / "optimizer.pt").unlink()
    assert not judge(path).usable
    assert judge(path).reason == "optimizer.pt is missing"


def _cut_weights(path: Path) -> None:
    _safetensors(path / "model.safetensors", missing=1)


def _cut_state(path: Path) -> None:
    (path / "trainer_state.json").write_text('{"global_step": ')


@pytest.mark.parametrize(
    ("harm", "usable", "reason"),
    [
        (lambda path: None, True, "an unfinished generation batch is generated again"),
        (_cut_weights, False, "model.safetensors is incomplete"),
        (
            lambda path: (path / "model.safetensors").write_bytes(b"\x08"),
            False,
            "model.safetensors is incomplete",
        ),
        (lambda path: (path / "model.safetensors").unlink(), False, "it contains no weights"),
        (_cut_state, False, "trainer_state.json is missing or incomplete, so the save did not finish"),
        (lambda path: (path / "trainer_state.json").unlink(), False, "so the save did not finish"),
        (
            lambda path: (path / "optimizer.pt").unlink(),
            True,
            "no optimizer state, so momentum starts from zero",
        ),
    ],
)
def test_a_checkpoint_without_a_marker_is_judged_by_its_files(
    harm: object, usable: bool, reason: str, tmp_path: Path
) -> None:
    path = _checkpoint(tmp_path, 6, marked=False)
    harm(path)  # type: ignore[operator]
    assert judge(path).usable is usable
    assert reason in judge(path).reason


def test_the_newest_whole_checkpoint_is_taken_and_the_newer_ones_are_told_with_their_reasons(
    tmp_path: Path,
) -> None:
    for step in (2, 10, 9, 100):
        _checkpoint(tmp_path, step)
    _cut_weights(tmp_path / "checkpoint-100")
    (tmp_path / "checkpoint-10" / "trainer_state.json").unlink()
    best, passed = newest_usable(RunFolder(tmp_path))
    assert best is not None
    assert best.step == 9
    assert [(verdict.step, verdict.reason.partition(" ")[0]) for verdict in passed] == [
        (100, "model.safetensors"),
        (10, "trainer_state.json"),
    ]


def test_a_state_that_was_changed_in_a_marked_checkpoint_is_found_and_an_earlier_one_can_be_asked_for(
    tmp_path: Path,
) -> None:
    for step in (4, 8, 12):
        _checkpoint(tmp_path, step)
    state = tmp_path / "checkpoint-12" / "trainer_state.json"
    state.write_bytes(b"\xff" * state.stat().st_size)
    best, passed = newest_usable(RunFolder(tmp_path))
    assert best is not None
    assert (best.step, [verdict.step for verdict in passed]) == (8, [12])
    earlier, _ = newest_usable(RunFolder(tmp_path), before=8)
    assert earlier is not None
    assert earlier.step == 4
    assert newest_usable(RunFolder(tmp_path), before=4) == (None, [])


def _torch_file(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("data.pkl", b"moments" * 50)


@pytest.mark.parametrize("name", ["optimizer.pt", "scheduler.pt", "rng_state.pth", "pytorch_model.bin"])
def test_a_file_of_torch_that_is_cut_off_is_found_without_a_marker(name: str, tmp_path: Path) -> None:
    path = _checkpoint(tmp_path, 4, marked=False)
    _torch_file(path / name)
    assert judge(path).usable
    whole = (path / name).read_bytes()
    for part in (whole[: len(whole) // 2], b""):
        (path / name).write_bytes(part)
        assert (judge(path).usable, judge(path).reason) == (False, f"{name} is incomplete")


def test_a_shard_that_is_missing_is_named_without_a_marker(tmp_path: Path) -> None:
    path = _checkpoint(tmp_path, 4, marked=False)
    shards = {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}
    (path / "model.safetensors").rename(path / shards["a"])
    (path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": shards}))
    assert judge(path).reason == "model-00002-of-00002.safetensors is missing"


@pytest.mark.parametrize("marker", ["", "{", "[]", '{"files": 3}', "[" * 100_000])
def test_a_marker_that_cannot_be_read_is_said_and_the_files_decide(marker: str, tmp_path: Path) -> None:
    path = _checkpoint(tmp_path, 4)
    (path / MARKER).write_text(marker)
    _torch_file(path / "grpo_tui_state_0.pt")
    assert judge(path).usable
    assert judge(path).reason.startswith(f"{MARKER} cannot be read, ")
    _cut_weights(path)
    assert not judge(path).usable


def test_a_checkpoint_that_run_db_knows_nothing_of_is_told_by_its_files(tmp_path: Path) -> None:
    _checkpoint(tmp_path, 4)
    (_checkpoint(tmp_path, 8) / "optimizer.pt").unlink()
    writer = Writer(open_writer(RunFolder(tmp_path).database))
    writer.write([AttemptStarted(1, 0.0, "here", 1), AttemptEnded(1, 1.0, "crashed", 8)])
    writer.close()
    assert [(c.step, c.complete) for c in read_status(tmp_path).checkpoints] == [(4, True), (8, False)]


@pytest.mark.parametrize("links", [True, False])
def test_a_checkpoint_is_copied_whole_and_never_over_another(
    links: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not links:
        monkeypatch.setattr("os.link", lambda *a, **k: (_ for _ in ()).throw(OSError(18, "another device")))
    checkpoint = tmp_path / "run" / "checkpoint-4"
    (checkpoint / "inner").mkdir(parents=True)
    (checkpoint / "model.safetensors").write_bytes(b"weights")
    (checkpoint / "inner" / "file").write_bytes(b"more")
    (tmp_path / "fork" / ".checkpoint-4.copying").mkdir(parents=True)
    (tmp_path / "fork" / ".checkpoint-4.copying" / "half").write_bytes(b"of a copy that was killed")
    made = copy(checkpoint, tmp_path / "fork")
    assert made == tmp_path / "fork" / "checkpoint-4"
    assert sorted(path.name for path in made.rglob("*")) == ["file", "inner", "model.safetensors"]
    assert (made / "model.safetensors").samefile(checkpoint / "model.safetensors") is links
    assert [path.name for path in made.parent.iterdir()] == ["checkpoint-4"]
    with pytest.raises(OSError, match="not empty"):
        copy(checkpoint, tmp_path / "fork")
    remove(made)
    assert (checkpoint / "model.safetensors").read_bytes() == b"weights"


def test_a_copy_takes_the_place_of_one_from_a_start_that_was_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "run").mkdir()
    checkpoint, fork = _checkpoint(tmp_path / "run", 4), tmp_path / "fork"
    copy(checkpoint, fork, optimizer=False)
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", lambda path, ignore_errors=False: ignore_errors or sys.exit())
        with pytest.raises(SystemExit):
            copy(checkpoint, fork)
    assert [path.name for path in fork.iterdir()] == [".checkpoint-4.copying"], "not half of a checkpoint"
    made = copy(checkpoint, fork)
    assert [path.name for path in fork.iterdir()] == ["checkpoint-4"]
    assert (made / "optimizer.pt").exists()


def test_a_checkpoint_is_held_until_the_last_process_lets_it_go(tmp_path: Path) -> None:
    checkpoint = _checkpoint(tmp_path, 4)
    with held(checkpoint):
        with held(checkpoint):
            pass
        assert is_held(checkpoint)
    assert not is_held(checkpoint)
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint-4"]


def test_a_hold_is_handed_on_to_a_process_without_a_moment_between(tmp_path: Path) -> None:
    checkpoint = _checkpoint(tmp_path, 4)
    read, write = os.pipe()
    command = [sys.executable, "-c", HOLDS, str(checkpoint), str(read)]
    with held(checkpoint) as hold:
        assert hold is not None
        child = subprocess.Popen(command, stdin=hold, stdout=subprocess.PIPE, pass_fds=(read,))
        hold.close()
    assert is_held(checkpoint), "the process has not begun"
    os.write(write, b"1")
    assert child.stdout is not None
    assert child.stdout.readline() == b"held\n"
    assert is_held(checkpoint)
    os.write(write, b"2")
    child.communicate()
    assert not is_held(checkpoint)
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint-4"]


def test_a_copy_without_the_optimizer_is_complete_and_its_origin_keeps_its_own(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    checkpoint = _checkpoint(tmp_path / "run", 4)
    marker = (checkpoint / MARKER).read_text()
    made = copy(checkpoint, tmp_path / "fork", optimizer=False)
    assert sorted(file.name for file in made.iterdir()) == sorted(
        [MARKER, "model.safetensors", "trainer_state.json"]
    )
    assert (judge(made).usable, judge(made).reason) == (True, "")
    assert has_new_optimizer(made)
    assert not has_new_optimizer(checkpoint)
    assert (checkpoint / MARKER).read_text() == marker
    assert judge(checkpoint).usable


@pytest.mark.parametrize(
    ("saved", "asked", "new", "had_new", "refusal"),
    [
        ({"optim": "sgd"}, {"optim": "adafactor"}, False, False, "optim cannot change from sgd to adafactor"),
        ({"optim": "sgd"}, {"optim": "adafactor"}, True, False, ""),
        ({"optim": "sgd"}, {"optim": "adafactor"}, False, True, ""),
        ({"optim": "sgd"}, {"optim": "sgd"}, False, False, ""),
        ({"optim": "sgd"}, {}, False, False, ""),
        ({"optim": "adamw_torch"}, {"optim": "adamw_torch_fused"}, False, False, ""),
        ({"optim": "adamw_torch"}, {"optim": "sgd"}, False, False, "optim cannot change"),
        ({"lr_scheduler_type": "linear"}, {"lr_scheduler_type": "cosine"}, False, False, ""),
        *(
            ({"lr_scheduler_type": old}, {"lr_scheduler_type": new}, False, False, "lr_scheduler_type cannot")
            for old, new in (("linear", "greedy"), ("reduce_lr_on_plateau", "linear"))
        ),
        ({"lr_scheduler_type": "linear"}, {"lr_scheduler_type": "greedy"}, False, True, ""),
        ({"fsdp": "full_shard"}, {"fsdp": ""}, False, False, "was saved with it"),
        ({"fsdp": ""}, {"fsdp": "full_shard"}, False, False, "was saved without it"),
        ({"deepspeed": None}, {"deepspeed": "ds.json"}, True, True, "deepspeed cannot change"),
        ({"deepspeed": "a.json"}, {"deepspeed": "b.json"}, False, False, ""),
    ],
)
def test_what_a_checkpoint_holds_decides_what_may_change_at_a_resume(
    saved: dict[str, object], asked: dict[str, object], new: bool, had_new: bool, refusal: str, tmp_path: Path
) -> None:
    """`had_new`: a fork has left the optimizer's state out of it."""
    marker = {"settings": saved} | ({"optimizer": "new"} if had_new else {})
    (tmp_path / MARKER).write_text(json.dumps(marker))
    assert has_new_optimizer(tmp_path) is had_new
    said = refused_at_resume(tmp_path, asked, new_optimizer=new)
    assert refusal in said
    assert bool(refusal) == bool(said)


def test_a_folder_with_a_longer_name_is_not_a_checkpoint(tmp_path: Path) -> None:
    path = _checkpoint(tmp_path, 4)
    path.with_name("checkpoint-4-merged-2").mkdir()
    path.with_name("checkpoint-last").mkdir()
    assert RunFolder(tmp_path).checkpoints() == [path]


def test_a_copy_without_room_says_why_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: Any, **kwargs: Any) -> None:
        raise OSError(28, "No space left on device")

    path = _checkpoint(tmp_path, 4)
    monkeypatch.setattr(os, "link", full)
    monkeypatch.setattr("shutil.copy2", full)
    with pytest.raises(OSError, match=r"checkpoint-4 cannot be copied: .*No space left on device") as told:
        copy(path, tmp_path / "fork")
    assert told.value.strerror is not None
    assert list((tmp_path / "fork").iterdir()) == []
