"""A full disk stops no training, loses nothing that memory can hold, and a half-written save is known.

The limit on file sizes (`RLIMIT_FSIZE`, set from outside with prlimit) stands for the full disk: it can be
taken away again, as space can be freed, and needs no privileges.
"""

from __future__ import annotations

import errno
import resource
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from grpo_tui.store.checkpoints import MARKER, judge
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.live import process_alive, read_rank
from grpo_tui.store.read_series import last_metric_row_id, metric_rows
from grpo_tui.store.reader import RunReader
from grpo_tui.store.status import read_status
from grpo_tui.train.checkpoints import DiskFull, cannot_write, first_line, readable
from tests.processes.runs import at_step, command, grpo_tui, start, state, until


def _limit(run: Path, size: int | None) -> None:
    rank = read_rank(RunFolder(run).rank(0))
    assert rank is not None
    soft = resource.RLIM_INFINITY if size is None else size
    resource.prlimit(rank.pid, resource.RLIMIT_FSIZE, (soft, resource.RLIM_INFINITY))


@pytest.mark.slow
def test_a_save_without_room_pauses_the_run_and_is_made_up_for_after_space_was_freed(run: Path) -> None:
    start(run, "save_steps=20")
    at_step(run, 2)
    assert command(run, "pause")["applied"]  # the disk is full before the next save, however fast it trains
    step = (state(run, "paused").step // 20 + 1) * 20
    _limit(run, 6_000_000)  # less than the optimizer state; what is recorded still fits
    assert command(run, "resume")["applied"]
    at_step(run, step)
    paused = state(run, "paused")
    assert paused.step == step
    (alert,) = paused.alerts
    assert alert["message"].startswith(f"no room for checkpoint-{step}: ")
    half = RunFolder(run).root / f"checkpoint-{step}"
    assert half.is_dir()
    assert not judge(half).usable
    assert [(c.step, c.complete) for c in paused.checkpoints][-1] == (step, False)

    refused = grpo_tui("resume", run, check=3)
    assert f"no room for checkpoint-{step}" in refused.stderr
    refused = grpo_tui("stop", run, check=3)
    assert "stop at once without saving" in refused.stderr
    assert state(run, "paused").step == step

    _limit(run, None)
    assert command(run, "resume")["applied"]
    at_step(run, step + 2)
    assert judge(half).usable
    assert read_status(run).alerts == ()
    command(run, "stop", "--now")


@pytest.mark.slow
def test_recording_waits_for_room_and_loses_nothing_that_memory_holds(run: Path) -> None:
    start(run)
    at_step(run, 2)
    database = RunFolder(run).database
    _limit(run, max(database.stat().st_size, database.with_name("run.db-wal").stat().st_size))
    waiting = until(
        lambda: (s := read_status(run)).alerts and "nothing can be recorded" in s.alerts[0]["message"] and s,
        "the alert",
    )
    assert waiting.state == "training", "training goes on"
    at_step(run, waiting.step + 5)
    written = last_metric_row_id(RunReader(database))
    _limit(run, None)
    until(lambda: not read_status(run).alerts, "the end of the alert")
    until(lambda: last_metric_row_id(RunReader(database)) > written + 5, "the rows that waited")
    outcome = command(run, "stop", "--now")
    assert outcome["applied"]
    assert "there is no checkpoint to resume from" in outcome["reason"]
    assert state(run, "stopped").error is None
    rank = read_rank(RunFolder(run).rank(0))
    assert rank is not None
    assert not process_alive(rank.pid, rank.started)
    reader = RunReader(database)
    steps = [s for _, s, v in metric_rows(reader, limit=100_000) if "reward" in v]
    assert steps == list(range(1, len(steps) + 1))
    assert len(steps) >= rank.step
    assert {g.step for g in reader.iter_groups()} >= set(steps)
    assert reader.dropped() == {}


@pytest.mark.parametrize(
    ("error", "full"),
    [
        (OSError(errno.ENOSPC, "Kein Speicherplatz mehr"), True),  # the system speaks the person's language
        (OSError(errno.EDQUOT, "Plattenkontingent überschritten"), True),
        (OSError(errno.EFBIG, "Datei zu groß"), True),
        (OSError(errno.ENOENT, "No such file"), False),
        (RuntimeError("Error while serializing: I/O error: No space left on device (os error 28)"), True),
        (RuntimeError("Error while serializing: I/O error: Lesefehler (os error 5)"), True),
        (RuntimeError("[enforce fail at inline_container.cc:672] . unexpected pos 4057536 vs 4057428"), True),
        (RuntimeError("PytorchStreamWriter failed writing file data/0: file write failed"), True),
        (OSError(errno.EROFS, "Read-only file system"), True),
        (OSError(errno.ESTALE, "Stale file handle"), True),
        (RuntimeError("no such thing (os error 2)"), False),
        (DiskFull("no room"), True),
        (ValueError("a wrong value"), False),
    ],
)  # fmt: skip
def test_a_full_disk_is_known_by_its_errno_or_its_words(error: Exception, full: bool) -> None:
    assert cannot_write(error) is full


def test_a_write_that_was_cut_off_is_told_in_words() -> None:
    torn = RuntimeError("[enforce fail at inline_container.cc:672] . unexpected pos 4057536 vs 4057428")
    assert first_line(torn).startswith(
        "a write was cut short, as by a full disk, a quota or a limit of file sizes"
    )
    assert first_line(OSError(errno.EIO, "Input/output error")) == "[Errno 5] Input/output error"
    assert first_line(OSError()) == "OSError"


def test_a_full_disk_behind_another_error_is_found() -> None:
    cause = OSError(errno.ENOSPC, "No space left on device")
    error = RuntimeError("could not save")
    error.__cause__ = cause
    assert cannot_write(error)


def test_the_free_space_is_looked_at_before_a_save(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With too little room nothing is written at all."""
    from grpo_tui.train import checkpoints
    from grpo_tui.train.checkpoints import Checkpoints

    monkeypatch.setattr(checkpoints, "free_bytes", lambda folder: 10)
    monkeypatch.setattr(checkpoints, "checkpoint_bytes", lambda trainer: 5_000_000)
    saved: list[Any] = []

    def save(model: Any, trial: Any) -> None:
        saved.append(1)
        raise OSError(errno.ENOSPC, "No space left on device")

    trainer = SimpleNamespace(
        args=SimpleNamespace(output_dir=str(tmp_path)),
        state=SimpleNamespace(global_step=3),
        _save_checkpoint=save,
    )
    phases: Any = SimpleNamespace(during=_nothing)
    ranks: Any = SimpleNamespace(first=True, rank=0, any_of=lambda *flags: flags)
    checkpoints = Checkpoints(trainer, lambda record: None, phases, 1, ranks)
    told: list[str] = []
    checkpoints.on_owed = told.append
    checkpoints.install()
    trainer._save_checkpoint(None, None)
    assert not saved
    assert told == [f"no room for checkpoint-3: it needs about 5.0 MB, 10 bytes are free in {tmp_path}"]
    assert checkpoints.owed

    # A save over an earlier one of this step leaves nothing that would be taken for a whole checkpoint.
    monkeypatch.setattr("grpo_tui.train.checkpoints.free_bytes", lambda folder: 10_000_000)
    (tmp_path / "checkpoint-3").mkdir()
    (tmp_path / "checkpoint-3" / MARKER).write_text("{}")
    trainer._save_checkpoint(None, None)
    assert saved == [1]
    assert told[1] == "no room for checkpoint-3: [Errno 28] No space left on device"
    assert not (tmp_path / "checkpoint-3" / MARKER).exists()


def _nothing(phase: str) -> Any:
    import contextlib

    return contextlib.nullcontext()


def test_sizes_read_well() -> None:
    assert [readable(n) for n in (0, 999, 1_000, 9_812_345, 3_200_000_000_000)] == [
        "0 bytes", "999 bytes", "1.0 kB", "9.8 MB", "3200 GB",
    ]  # fmt: skip


def test_several_trainers_in_one_process_hide_their_kept_checkpoints_without_piling_up(
    tmp_path: Path,
) -> None:
    from transformers import trainer, trainer_utils

    from grpo_tui.train import compat

    for name in ("checkpoint-1", "checkpoint-2", "checkpoint-3"):
        (tmp_path / name).mkdir()
    compat.keep_from_rotation("elsewhere", lambda path: path.name == "checkpoint-1", lambda path: False)
    wrapped = trainer_utils.sort_checkpoints
    for _ in range(3):
        compat.keep_from_rotation(str(tmp_path), lambda path: path.name == "checkpoint-2", lambda path: False)
    assert trainer_utils.sort_checkpoints is trainer.sort_checkpoints is wrapped
    left = trainer_utils.sort_checkpoints(output_dir=str(tmp_path))
    assert [Path(path).name for path in left] == ["checkpoint-3"]
    compat.keep_from_rotation(str(tmp_path), lambda path: False, lambda path: path.name == "checkpoint-2")
    left = trainer_utils.sort_checkpoints(output_dir=str(tmp_path))
    assert [Path(path).name for path in left] == ["checkpoint-3", "checkpoint-2"], "the newest word counts"
    compat.keep_from_rotation("elsewhere", lambda path: False, lambda path: False)
