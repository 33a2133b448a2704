"""`grpo-tui checkpoints` lists what a run has saved, and deletes only what nothing needs."""

from __future__ import annotations

import io
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from grpo_tui.cli import main
from grpo_tui.core import records as r
from grpo_tui.core.stages import SETTING, StageNow
from grpo_tui.present.checkpoint_list import list_checkpoints
from grpo_tui.store.checkpoints import MARKER, held, judge
from grpo_tui.store.json_file import read_object, write_json
from grpo_tui.store.reader import RunReader
from grpo_tui.store.spec import RunSpec
from tests.ship.folders import checkpoint, model
from tests.ui.recorded_run import RecordedRun


@pytest.fixture
def run(tmp_path: Path) -> Iterator[RecordedRun]:
    """Checkpoints at steps 2 and 4, one at 6 that was cut off, and one at 8."""
    made = RecordedRun(tmp_path / "run")
    made.advance(9)
    for step in (2, 4, 6, 8):
        checkpoint(made.folder.root, step, whole=step != 6)
    yield made
    made.close()


def steps(root: Path) -> list[int]:
    return [one.step for one in list_checkpoints(root).checkpoints]


def told(capsys: pytest.CaptureFixture[str], code: int, *words: object) -> str:
    assert main(["checkpoints", *map(str, words)]) == code
    shown = capsys.readouterr()
    return shown.err if code else shown.out


def test_each_checkpoint_has_its_size_and_the_reward_of_its_step(
    run: RecordedRun, capsys: pytest.CaptureFixture[str]
) -> None:
    root = run.folder.root
    model(root)
    run.end("finished")
    marked = root / "checkpoint-2" / MARKER
    write_json(marked, {**(read_object(marked) or {}), "requested": True})
    body = json.loads(told(capsys, 0, root, "--json"))
    listed = {one["step"]: one for one in body["checkpoints"]}
    assert list(listed) == [2, 4, 6, 8]
    files = (root / "checkpoint-4").iterdir()
    assert listed[4]["size_bytes"] == sum(file.stat().st_size for file in files)
    rewards = {step: one["reward"] for step, one in listed.items()}
    with closing(RunReader(run.folder.database)) as reader:
        rows = reader.all(
            "SELECT r.step, m.value FROM metric m JOIN metric_row r ON r.id = m.row"
            " JOIN metric_key k ON k.id = m.key WHERE k.key = 'reward' AND r.step IN (2, 4, 6, 8)"
        )
    assert rewards == {row["step"]: row["value"] for row in rows}
    assert [step for step, one in listed.items() if one["newest"]] == [8]
    best = max((2, 4, 8), key=lambda step: rewards[step])
    assert [step for step, one in listed.items() if one["best"]] == [best]
    assert [step for step, one in listed.items() if one["requested"]] == [2]
    assert (listed[6]["complete"], listed[6]["reason"]) == (False, "model.safetensors holds 73 of 74 bytes")
    weights = (root / "model.safetensors").stat().st_size
    assert body["final"] == {"step": 9, "path": str(root), "size_bytes": weights}
    assert body["disk_bytes"] == sum(one["size_bytes"] for one in listed.values()) + weights
    assert body["deleted"] == []
    table = told(capsys, 0, root).splitlines()
    assert [line.split()[0] for line in table] == ["step", "2", "4", "6", "8", "9", "4"]
    assert "requested" in table[1]
    assert "incomplete: model.safetensors holds 73 of 74 bytes" in table[3]
    assert "newest" in table[4]
    assert table[5].endswith("final model")
    assert table[6].startswith("4 checkpoints and the final model: ")


@pytest.mark.parametrize(("began", "rewarded"), [(0, (2, 4, 8)), (4, (8,)), (8, ())])
def test_the_best_reward_is_one_of_the_stage_that_trains(
    began: int, rewarded: tuple[int, ...], run: RecordedRun
) -> None:
    """Earlier rewards can have another meaning."""
    rewards = {one.step: one.reward or 0.0 for one in list_checkpoints(run.folder.root).checkpoints}
    run.write(r.SettingChanged(1, began, run.at(began), SETTING, "easy", "hard", "config"))
    best = [one.step for one in list_checkpoints(run.folder.root).checkpoints if one.best]
    assert best == ([max(rewarded, key=lambda step: rewards[step])] if rewarded else [])


def test_the_reward_is_that_of_the_last_logged_step(run: RecordedRun) -> None:
    checkpoint(run.folder.root, 30)
    newest = list_checkpoints(run.folder.root).checkpoints[-1]
    assert (newest.step, newest.metrics_step) == (30, 9)


def test_deleting_needs_a_yes(
    run: RecordedRun, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = run.folder.root
    run.end("stopped")
    assert "add --yes to delete 2 checkpoints of" in told(capsys, 2, root, "--delete", 2, 4)

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr("sys.stdin", Terminal("n\n"))
    assert "nothing was deleted" in told(capsys, 3, root, "--delete", 2, 4)
    monkeypatch.setattr("sys.stdin", Terminal("\n"))
    assert "No complete checkpoint will be left to resume from" in told(capsys, 3, root, "--delete", 2, 4, 8)
    assert steps(root) == [2, 4, 6, 8]
    monkeypatch.setattr("sys.stdin", Terminal("y\n"))
    assert main(["checkpoints", str(root), "--delete", "2", "6"]) == 0
    assert "Delete 2 checkpoints of" in capsys.readouterr().err
    assert steps(root) == [4, 8]


def test_yes_deletes_without_a_question_and_says_what(
    run: RecordedRun, capsys: pytest.CaptureFixture[str]
) -> None:
    root = run.folder.root
    run.end("stopped")
    body = json.loads(told(capsys, 0, root, "--delete", 8, "--yes", "--json"))
    assert (body["deleted"], steps(root)) == ([8], [2, 4, 6])
    assert [one["step"] for one in body["checkpoints"]] == [2, 4, 6], "as it is now"
    assert body["disk_bytes"] == sum(one["size_bytes"] for one in body["checkpoints"])
    assert [one["step"] for one in body["checkpoints"] if one["newest"]] == [4]
    table = told(capsys, 0, root, "--delete", 6, "--yes").splitlines()
    assert [line.split()[0] for line in table] == ["step", "2", "4", "2"]
    assert "no checkpoint of step 8, 9. Steps with a checkpoint: 2, 4" in told(
        capsys, 2, root, "--delete", 2, 8, 9, "--yes"
    )
    assert steps(root) == [2, 4]
    assert "--yes has no effect without --delete" in told(capsys, 2, root, "--yes")


def test_a_live_run_keeps_its_newest_checkpoint_and_the_one_being_written(
    run: RecordedRun, capsys: pytest.CaptureFixture[str]
) -> None:
    root = run.folder.root
    run.now("load")
    assert "the run is starting and may be loading a checkpoint" in told(
        capsys, 2, root, "--delete", 2, "--yes"
    )
    run.now("save")
    assert "step 8 is the newest checkpoint of a live run" in told(capsys, 2, root, "--delete", 2, 8, "--yes")
    assert "step 6 may still be incomplete" in told(capsys, 2, root, "--delete", 6, "--yes")
    (checkpoint(root, 9) / MARKER).unlink()
    assert "step 9 may still be incomplete" in told(capsys, 2, root, "--delete", 9, "--yes")
    newest = [one.step for one in list_checkpoints(root).checkpoints if one.newest]
    assert newest == [8], "the marker of 9 is not written yet"
    assert told(capsys, 0, root, "--delete", 2, "--yes")
    assert steps(root) == [4, 6, 8, 9]


def test_a_checkpoint_that_a_race_or_the_kl_of_a_stage_needs_is_kept(
    run: RecordedRun, capsys: pytest.CaptureFixture[str]
) -> None:
    root = run.folder.root
    RunSpec({}, stage=StageNow(("a", "b"), (0, 4), 9, references=(0, 4))).write(run.folder.spec)
    with held(root / "checkpoint-2"):
        assert "step 2 is in use, such as by a race" in told(capsys, 2, root, "--delete", 8, 2, "--yes")
    assert "a stage measures the KL from step 4" in told(capsys, 2, root, "--delete", 4, "--yes")
    assert steps(root) == [2, 4, 6, 8]
    run.end("finished")
    model(root)
    assert told(capsys, 0, root, "--delete", 2, 4, "--yes")
    assert steps(root) == [6, 8], "a finished run needs neither"


def test_a_deletion_that_is_cut_short_leaves_an_incomplete_checkpoint(
    run: RecordedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = run.folder.root
    run.end("stopped")

    def killed(path: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", killed)
        assert main(["checkpoints", str(root), "--delete", "8", "--yes"]) == 130
    assert not judge(root / "checkpoint-8").usable
    assert main(["checkpoints", str(root), "--delete", "8", "--yes"]) == 0
    assert steps(root) == [2, 4, 6]


def test_a_link_in_the_run_is_neither_listed_nor_followed(run: RecordedRun, tmp_path: Path) -> None:
    root = run.folder.root
    run.end("stopped")
    elsewhere = checkpoint(tmp_path / "other", 5)
    os.symlink(elsewhere, root / "checkpoint-5")
    os.symlink(elsewhere, root / "checkpoint-2" / "link")
    assert steps(root) == [2, 4, 6, 8]
    assert main(["checkpoints", str(root), "--delete", "2", "--yes"]) == 0
    assert (elsewhere / "model.safetensors").exists()
