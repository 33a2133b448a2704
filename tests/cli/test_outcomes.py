"""Exit codes and lines of a run that is followed, steered or resumed, read from real run folders."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from grpo_tui.cli import headless, start
from grpo_tui.cli.main import main
from grpo_tui.config.resolve import load_config
from grpo_tui.core import records as r
from grpo_tui.demo import DEMO_CONFIG
from grpo_tui.store.checkpoints import MARKER
from grpo_tui.store.connection import open_writer
from grpo_tui.store.json_file import write_json
from grpo_tui.store.known import remember
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.live import RankFile
from grpo_tui.store.reader import RunReader
from grpo_tui.store.spec import RunSpec
from grpo_tui.store.writer import Writer


def _written(root: Path, *records: r.Record) -> Writer:
    root.mkdir(parents=True, exist_ok=True)
    writer = Writer(open_writer(RunFolder(root).database))
    writer.write(list(records))
    return writer


def _row(attempt: int, step: int, **values: float) -> r.MetricRow:
    return r.MetricRow(attempt, step, 0.0, values)


def test_rows_are_printed_once_each_after_a_resume_and_an_evaluation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is written between two looks is printed at the next one, and nothing of it again."""
    writer = _written(
        tmp_path,
        r.AttemptStarted(1, 0.0, "here", 2**22),
        *(_row(1, step, reward=1.0) for step in (1, 2, 3, 4)),
        r.Fact("resumed/1", ["said of an earlier resume"]),
        r.AttemptEnded(1, 1.0, "stopped", 4, None, None),
    )
    reader = RunReader(RunFolder(tmp_path).database)
    row, attempt = start._known(RunFolder(tmp_path))
    assert (row, attempt) == (reader.last_metric_row_id(), 1)
    assert headless._resumed_notes(reader, attempt) == (), "before the new attempt is recorded"
    assert headless._resumed_notes(reader, 0) == ["said of an earlier resume"]
    file = RankFile(RunFolder(tmp_path).rank(0), os.getpid())
    file.update(attempt=2, phase="update", step=2, progress_at=9e9)
    pid = os.getpid()
    writer.write([
        r.AttemptStarted(2, 2.0, socket.gethostname(), pid, 2),
        r.Fact("resumed/2", ["learning_rate is 0.0045 at step 3, 0.00225 at step 4"]),
        _row(2, 3, reward=1.5),
    ])  # fmt: skip
    later: list[list[r.Record]] = [
        [_row(2, 4, reward=2.0), _row(2, 4, eval_reward=1.75)],
        [],
        [r.AttemptEnded(2, 3.0, "finished", 4, None, None)],
    ]
    monkeypatch.setattr(headless.time, "sleep", lambda seconds: writer.write(later.pop(0)))
    assert headless.follow(tmp_path, after_row=row, after_attempt=attempt) == 0
    file.close()
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:4] for line in lines if line.startswith("step")] == [
        ["step", "3", "reward", "1.500"],
        ["step", "4", "reward", "2.000"],
        ["step", "4", "eval_reward", "1.750"],
    ]
    assert lines[0] == "note: learning_rate is 0.0045 at step 3, 0.00225 at step 4"
    assert not later


@pytest.mark.parametrize(("state", "code"), [("finished", 0), ("failed", 1), ("crashed", 1), ("stopped", 3)])
def test_a_followed_run_ends_with_the_exit_code_of_its_outcome(state: str, code: int, tmp_path: Path) -> None:
    _written(tmp_path, r.AttemptStarted(1, 0.0, "here", 2**22), r.AttemptEnded(1, 1.0, state, 3, None, None))
    assert headless.follow(tmp_path) == code


@pytest.fixture
def trainer() -> Iterator[subprocess.Popen[bytes]]:
    """A process that stands for a training process."""
    process = subprocess.Popen(["sleep", "60"])
    yield process
    process.kill()
    process.wait()


def test_a_command_that_nobody_takes_in_time_is_exit_4_and_stays(
    trainer: subprocess.Popen[bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _written(tmp_path, r.AttemptStarted(1, 0.0, socket.gethostname(), trainer.pid)).close()
    file = RankFile(RunFolder(tmp_path).rank(0), trainer.pid)
    file.update(attempt=1, phase="generate", step=3, progress_at=9e9)
    file.close()
    assert main(["pause", str(tmp_path), "--wait", "0.1"]) == 4
    assert "no outcome within 0.1 s; the command stays with the run, which is in phase generate" in (
        capsys.readouterr().err
    )
    assert len(list(RunFolder(tmp_path).commands.glob("*.json"))) == 1


def _run(root: Path, settings: dict[str, object], *overrides: str, step: int = 4) -> RunFolder:
    """A run that has stopped with a checkpoint, which is judged by its marker."""
    folder = RunFolder(root)
    checkpoint = root / f"checkpoint-{step}"
    checkpoint.mkdir(parents=True)
    write_json(
        checkpoint / "trainer_state.json", {"global_step": step, "max_steps": 4, "num_train_epochs": 1}
    )
    write_json(checkpoint / MARKER, {"step": step, "files": {}, "settings": settings})
    spec = RunSpec(load_config(DEMO_CONFIG, list(overrides)).to_json())
    spec.write(folder.spec)
    return folder


@pytest.mark.parametrize(
    ("overrides", "asked", "refusal"),
    [
        (["max_steps=4"], [], "the run has done 4 of 4 steps; add some: --set max_steps=8"),
        (["max_steps=-1", "num_train_epochs=1"], [],
         "the run has done 4 of 4 steps; add some: --set num_train_epochs=2"),
        (["max_steps=8"], ["max_steps=3"], "the run has done 4 of 3 steps; add some: --set max_steps=8"),
        (["max_steps=8"], ["optim=adafactor"],
         "optim cannot change from adamw_torch to adafactor at a resume: checkpoint-4 holds the state of"),
        (["max_steps=8"], ["output_dir=elsewhere"], "--resume continues a run in its own folder"),
        (["max_steps=8"], ["resume_from_checkpoint=checkpoint-2"],
         "--resume names the checkpoint; leave resume_from_checkpoint out"),
    ],
)  # fmt: skip
def test_a_resume_that_could_only_pass_something_over_is_refused(
    overrides: list[str],
    asked: list[str],
    refusal: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    _run(tmp_path / "run", {"optim": "adamw_torch"}, *overrides)
    words = [word for pair in asked for word in ("--set", pair)]
    assert main(["train", str(tmp_path / "run"), "--resume", "--detach", "--quick-check", *words]) == 2
    assert refusal in capsys.readouterr().err


def test_a_resume_keeps_the_gpus_and_the_launcher_of_the_start_before_until_the_config_names_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = _run(tmp_path / "run", {}, "max_steps=8")
    remember(folder.root)
    first = RunSpec(load_config(DEMO_CONFIG, ["max_steps=8"]).to_json())
    two = ("torchrun", "--nproc_per_node", "2")
    started: list[RunSpec] = []
    monkeypatch.setattr("grpo_tui.cli.start.launch", lambda folder, spec: started.append(spec))
    monkeypatch.setattr("grpo_tui.cli.start.placed", lambda spec, config, gpus: spec)
    text = DEMO_CONFIG.read_text()
    for key, name in (("path: ", "model"), ("source: ", "rewards.py"), ("dataset: ", "task.py")):
        text = text.replace(f"{key}{name}", f"{key}{DEMO_CONFIG.with_name(name)}")
    other = tmp_path / "own.yaml"
    section = "\ngrpo_tui:\n  launcher: torchrun --nproc_per_node 4\n  gpus: [1, 2, 3, 4]\n"
    other.write_text(text.replace("\ngrpo_tui:\n", section, 1))
    same = tmp_path / "same.yaml"
    same.write_text(text.replace("\nsave_steps:", f"\noutput_dir: {folder.root}\nsave_steps:", 1))
    for words in ([str(folder.root)], [str(same)], [str(other), "--run-dir", str(folder.root)]):
        replace(first, launcher=two, gpus=("GPU-0", "GPU-1")).write(folder.spec)
        assert main(["train", *words, "--resume", "--detach", "--force", "--quick-check"]) == 0
    assert [(spec.launcher, spec.gpus) for spec in started] == [
        (two, ("GPU-0", "GPU-1")),
        (two, ("GPU-0", "GPU-1")),
        (("torchrun", "--nproc_per_node", "4"), ()),
    ]
