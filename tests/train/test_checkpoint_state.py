"""A checkpoint's own state is loaded as data; a file that holds more is left out, and never run."""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from transformers import trainer as trainer_module
from transformers import trainer_utils

from grpo_tui.core.records import PhaseSpan
from grpo_tui.store import recorder as recorder_module
from grpo_tui.store.checkpoints import MARKER, STATE_FILE
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.live import RankFile
from grpo_tui.store.reader import RunReader
from grpo_tui.store.recorder import Recorder, SpoolRecorder, take_spooled
from grpo_tui.train import checkpoints as checkpoints_module
from grpo_tui.train import compat
from grpo_tui.train.checkpoints import Checkpoints, readable
from grpo_tui.train.phases import PhaseClock
from grpo_tui.train.ranks import Ranks


class _Acts:
    def __reduce__(self) -> Any:
        return os.mkdir, ("ran",)


def _checkpoints(tmp_path: Path) -> tuple[Checkpoints, Any]:
    accelerator = SimpleNamespace(device=torch.device("cpu"), process_index=0, num_processes=1)
    trainer = SimpleNamespace(accelerator=accelerator, reward_func_names=(), reward_funcs=())
    phases = PhaseClock(RankFile(tmp_path / "rank-0.json", os.getpid()), lambda record: None, 1)
    return Checkpoints(trainer, lambda record: None, phases, 1, Ranks(trainer)), trainer


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 bytes"), (999, "999 bytes"), (1_000, "1.0 kB"), (99_940, "99.9 kB"), (100_000, "100 kB"),
        (250_400_000, "250 MB"), (1_000_000_000, "1.0 GB"), (1_234_000_000_000, "1234 GB"),
    ],
)  # fmt: skip
def test_the_size_of_a_checkpoint_has_a_digit_after_the_point_below_a_hundred(size: int, text: str) -> None:
    assert readable(size) == text


def test_a_state_of_an_earlier_version_is_left_out_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    checkpoint = tmp_path / "checkpoint-4"
    checkpoint.mkdir()
    state = {"step": 3, "buffered_inputs": [{"ids": torch.arange(3)}], "rewards": [("r", _Acts())]}
    torch.save(state, checkpoint / STATE_FILE.format(rank=0))
    checkpoints, trainer = _checkpoints(tmp_path)
    assert not checkpoints.restore(checkpoint, keep_batch=True)
    said = capsys.readouterr().out
    assert "checkpoint-4/grpo_tui_state_0.pt holds more than data" in said
    assert "generates the batch under way again" in said
    assert not Path("ran").exists()
    assert not hasattr(trainer, "_buffered_inputs"), "nothing of it is used"
    torch.save({**state, "rewards": []}, checkpoint / STATE_FILE.format(rank=0))
    assert checkpoints.restore(checkpoint, keep_batch=True)
    assert trainer._step == 3
    assert torch.equal(trainer._buffered_inputs[0]["ids"], torch.arange(3))


def test_rotation_spares_what_is_kept_and_takes_the_newest_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compat, "_ROTATION", {})
    for module in (trainer_utils, trainer_module):
        monkeypatch.setattr(module, "sort_checkpoints", trainer_utils.sort_checkpoints)
    for step in range(1, 5):
        (tmp_path / f"checkpoint-{step}").mkdir()

    def rotated() -> list[str]:
        found = trainer_utils.sort_checkpoints(output_dir=str(tmp_path))
        assert found == trainer_module.sort_checkpoints(output_dir=str(tmp_path))
        return [Path(path).name[-1] for path in found]

    folder = str(tmp_path)
    assert compat.keep_from_rotation(folder, lambda p: p.name[-1] == "2", lambda p: p.name[-1] == "3")
    assert rotated() == ["1", "4", "3"]
    assert compat.keep_from_rotation(folder, lambda p: p.name[-1] in "14", lambda p: False)
    assert rotated() == ["2", "3"], "a later trainer replaces what an earlier one kept"
    monkeypatch.delattr(trainer_utils, "sort_checkpoints")
    assert not compat.keep_from_rotation(folder, lambda p: True, lambda p: False)


@pytest.mark.parametrize("rank", [0, 1])
def test_a_checkpoint_is_complete_only_once_what_was_recorded_before_it_is_in_a_file(
    rank: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder_module, "DRAIN_S", 600.0)  # the thread is held back
    folder = RunFolder(tmp_path)

    def kept() -> list[int]:
        if rank:
            return [record.step for record in take_spooled(folder, 1)[0] if isinstance(record, PhaseSpan)]
        with closing(RunReader(folder.database)) as reader:
            return [row["step"] for row in reader.all("SELECT step FROM phase ORDER BY id")]

    recorder = SpoolRecorder(folder, rank) if rank else Recorder(folder, follow_log=False)
    recorder.put(PhaseSpan(1, rank, "update", 2, 1.0, 2.0))
    recorder.start()
    while kept() != [2]:
        time.sleep(0.02)
    found: list[list[int]] = []
    checkpoints, trainer = _checkpoints(tmp_path)
    checkpoints.flush = recorder.flush
    # The first rank marks the checkpoint once every rank has answered this.
    ranks: Any = SimpleNamespace(
        first=rank == 0, rank=rank, any_of=lambda *asked: found.append(kept()) or asked
    )
    checkpoints._ranks = ranks
    trainer.args, trainer.state = SimpleNamespace(output_dir=str(tmp_path)), SimpleNamespace(global_step=3)
    trainer._save_checkpoint = lambda model, trial: (tmp_path / "checkpoint-3").mkdir()
    monkeypatch.setattr(checkpoints_module, "checkpoint_bytes", lambda trainer: 0)
    monkeypatch.setattr(Checkpoints, "_save_rest", lambda self, path: None)
    checkpoints.install()
    recorder.put(PhaseSpan(1, rank, "update", 3, 4.0, 2.0))
    trainer._save_checkpoint(None, None)
    recorder.close()
    assert found[0] == [2], "so it was held back"
    assert found[1] == [2, 3]
    assert (tmp_path / "checkpoint-3" / MARKER).exists() is (rank == 0)


def test_a_save_does_not_wait_for_what_cannot_be_written(tmp_path: Path) -> None:
    recorder = Recorder(RunFolder(tmp_path), follow_log=False)
    recorder.patience_s = 0.0
    recorder._writer._db.execute("PRAGMA busy_timeout=0")
    blocker = sqlite3.connect(tmp_path / "run.db", isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    recorder.flush()  # there is no thread yet
    recorder.start()
    recorder.put(PhaseSpan(1, 0, "update", 2, 1.0, 2.0))
    began = time.monotonic()
    recorder.flush()
    assert time.monotonic() - began < recorder_module.FLUSH_S
    assert recorder.trouble
    blocker.close()
    recorder.close()
