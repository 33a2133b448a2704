"""Exit codes and lines of a run that is followed, steered or resumed, read from real run folders."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from grpo_tui.cli import headless, start
from grpo_tui.cli.main import main
from grpo_tui.config.resolve import load_config
from grpo_tui.core import records as r
from grpo_tui.demo import DEMO_CONFIG
from grpo_tui.preflight.static import Launch
from grpo_tui.store.checkpoints import MARKER
from grpo_tui.store.connection import open_writer
from grpo_tui.store.json_file import write_json
from grpo_tui.store.layout import RunFolder, remember
from grpo_tui.store.live import RankFile
from grpo_tui.store.read_series import last_metric_row_id
from grpo_tui.store.reader import RunReader
from grpo_tui.store.spec import RunSpec
from grpo_tui.store.writer import Writer


def _written(root: Path, *records: r.Record) -> Writer:
    root.mkdir(parents=True, exist_ok=True)
    writer = Writer(open_writer(RunFolder(root).database))
    writer.write(list(records))
    return writer


def _lives(root: Path, phase: str = "update", step: int = 0) -> None:
    """Let the run of a folder live, in this process."""
    file = RankFile(RunFolder(root).rank(0), os.getpid())
    file.update(attempt=1, phase=phase, step=step, progress_at=9e9)
    file.close()


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
    row, attempt = start.known(RunFolder(tmp_path))
    assert (row, attempt) == (last_metric_row_id(reader), 1)
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
    process = subprocess.Popen(["sleep", "600"])
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
    assert "no outcome within 0.1 s. The command is still waiting; the run is in phase generate" in (
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
        (["max_steps=4"], [],
         "the run has finished its 4 steps (checkpoint of step 4). Add more: --set max_steps=8"),
        (["max_steps=-1", "num_train_epochs=1"], [],
         "the run has finished its 4 steps (checkpoint of step 4). Add more: --set num_train_epochs=2"),
        (["max_steps=8"], ["max_steps=3"],
         "the run has finished its 3 steps (checkpoint of step 4). Add more: --set max_steps=8"),
        (["max_steps=8"], ["optim=adafactor"],
         "optim cannot change from adamw_torch to adafactor at a resume: checkpoint-4 holds the state of"),
        (["max_steps=8"], ["output_dir=elsewhere"], "--resume continues a run in its own folder"),
        (["max_steps=8"], ["resume_from_checkpoint=checkpoint-2"],
         "--resume names the checkpoint. Leave out resume_from_checkpoint"),
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


def test_a_fork_begins_with_the_checkpoint_of_another_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    parent = _run(tmp_path / "run", {}, "max_steps=8")
    remember(parent.root)
    started: list[RunSpec] = []
    monkeypatch.setattr("grpo_tui.cli.start.launch", lambda folder, spec: started.append(spec))
    fork = RunFolder(tmp_path / "fork")
    words = ["--run-dir", str(fork.root), "--detach", "--quick-check"]
    assert main(["train", str(parent.root), "--resume", "4", *words, "--set", "learning_rate=1e-3"]) == 0
    (spec,) = started
    checkpoint = parent.root / "checkpoint-4"
    assert (spec.resume, spec.forked_from) == (str(fork.root / "checkpoint-4"), str(checkpoint))
    assert (spec.config["grpo"]["learning_rate"], spec.overridden) == (1e-3, ("learning_rate",))
    names = ["grpo_tui.json", "trainer_state.json"]
    assert sorted(path.name for path in (fork.root / "checkpoint-4").iterdir()) == names
    assert sorted(path.name for path in checkpoint.iterdir()) == names
    assert f"forking from {checkpoint}" in capsys.readouterr().err

    replace(spec, new_optimizer=True).write(fork.spec)
    assert main(["train", str(parent.root), "--resume", *words]) == 2, "it holds a run now"
    assert "already holds a run" in capsys.readouterr().err
    remember(fork.root)
    _written(fork.root, r.AttemptStarted(1, 0.0, "here", 2**22, 4)).close()
    shutil.rmtree(parent.root)
    assert main(["train", str(fork.root), "--resume", "--detach", "--quick-check"]) == 0
    kept = (started[-1].forked_from, started[-1].new_optimizer)
    assert kept == (str(checkpoint), True), "its origin stays on the record"
    capsys.readouterr()
    assert main(["status", str(fork.root)]) == 0
    assert f"forked from {checkpoint}" in capsys.readouterr().out


def test_a_fork_with_a_new_optimizer_leaves_its_state_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    parent = _run(tmp_path / "run", {"optim": "adamw_torch"}, "max_steps=8")
    remember(parent.root)
    for name in ("optimizer.pt", "scheduler.pt", "model.safetensors"):
        (parent.root / "checkpoint-4" / name).write_bytes(b"numbers")
    started: list[RunSpec] = []
    monkeypatch.setattr("grpo_tui.cli.start.launch", lambda folder, spec: started.append(spec))
    words = ["train", str(parent.root), "--resume", "4", "--detach", "--quick-check", "--set", "optim=sgd"]
    assert main([*words, "--run-dir", str(tmp_path / "kept")]) == 2
    assert "fork the run with --run-dir FOLDER --optimizer new" in capsys.readouterr().err
    assert main([*words, "--run-dir", str(tmp_path / "new"), "--optimizer", "new"]) == 0
    assert "checkpoint-4 with a new optimizer" in capsys.readouterr().err
    assert [spec.new_optimizer for spec in started] == [True]
    there = sorted(path.name for path in (tmp_path / "new" / "checkpoint-4").iterdir())
    assert there == ["grpo_tui.json", "model.safetensors", "trainer_state.json"]
    assert (parent.root / "checkpoint-4" / "optimizer.pt").is_file()
    (parent.root / "checkpoint-4" / "latest").write_text("global_step4")
    assert main([*words, "--run-dir", str(tmp_path / "deep"), "--optimizer", "new"]) == 2
    assert "DeepSpeed loads the optimizer together with the model" in capsys.readouterr().err
    assert not (tmp_path / "deep").exists()


def test_a_fork_that_was_killed_before_its_run_began_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(folder: RunFolder, spec: RunSpec) -> None:
        raise KeyboardInterrupt

    parent, fork = _run(tmp_path / "run", {}, "max_steps=8"), tmp_path / "fork"
    remember(parent.root)
    (parent.root / "checkpoint-4" / "optimizer.pt").write_bytes(b"numbers")
    words = ["train", str(parent.root), "--resume", "--run-dir", str(fork), "--detach", "--quick-check"]
    monkeypatch.setattr("grpo_tui.cli.start.launch", killed)
    main(words)
    assert (fork / "checkpoint-4" / "optimizer.pt").is_file()
    monkeypatch.setattr("grpo_tui.cli.start.launch", lambda folder, spec: None)
    assert main([*words, "--optimizer", "new"]) == 0
    assert not (fork / "checkpoint-4" / "optimizer.pt").exists()
    (fork / "checkpoint-4" / "trainer_state.json").unlink()  # a link to that of the parent
    (fork / "checkpoint-4" / "trainer_state.json").write_text('{"global_step": 4}')
    assert main(words) == 2, "a checkpoint of another run stays"
    shutil.rmtree(fork)
    fork.mkdir()
    (fork / "checkpoint-4").symlink_to(parent.root / "checkpoint-4")
    assert main(words) == 2
    assert (parent.root / "checkpoint-4" / "trainer_state.json").is_file(), "a link to it is not removed"


def test_a_checkpoint_that_cannot_be_copied_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object, **__: object) -> None:
        raise shutil.Error("no space left for model.safetensors")

    parent = _run(tmp_path / "run", {}, "max_steps=8")
    remember(parent.root)
    monkeypatch.setattr("grpo_tui.cli.start.copy", full)
    fork = tmp_path / "fork"
    words = ["train", str(parent.root), "--resume", "--run-dir", str(fork), "--detach", "--quick-check"]
    assert main(words) == 2
    told = f"{fork}: no space left for model.safetensors. Choose another folder with --run-dir"
    assert told in capsys.readouterr().err


@pytest.mark.usefixtures("no_yes")
def test_a_fork_of_a_foreign_run_asks_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("grpo_tui.cli.start.launch", lambda folder, spec: pytest.fail("was started"))
    parent = _run(tmp_path / "run", {}, "max_steps=8")
    words = ["--run-dir", str(tmp_path / "fork"), "--detach", "--quick-check"]
    assert main(["train", str(parent.root), "--resume", *words]) == 3
    assert f"from the run {parent.root}" in capsys.readouterr().err
    assert not (tmp_path / "fork").exists()


@pytest.mark.parametrize(
    ("forked_from", "resume", "made", "forks"),
    [
        ("/other/checkpoint-4", "checkpoint-4", "", True),
        ("/other/checkpoint-4", "checkpoint-4", "checkpoint", True),
        ("/other/checkpoint-4", "checkpoint-4", "run", True),
        ("/other/checkpoint-4", "checkpoint-4", "checkpoint run", False),
        (None, "checkpoint-4", "", False),
        ("/other/checkpoint-4", None, "", False),
    ],
)
def test_a_run_forks_until_its_folder_holds_the_checkpoint_and_a_record(
    forked_from: str | None, resume: str | None, made: str, forks: bool, tmp_path: Path
) -> None:
    if "checkpoint" in made:
        (tmp_path / "checkpoint-4").mkdir()
    if "run" in made:
        RunFolder(tmp_path).database.touch()
    spec = RunSpec({}, resume=resume and str(tmp_path / resume), forked_from=forked_from)
    assert start._forks(spec) is forks


def test_a_run_that_still_trains_can_be_forked(
    trainer: subprocess.Popen[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent = _run(tmp_path / "run", {}, "max_steps=8")
    remember(parent.root)
    _written(parent.root, r.AttemptStarted(1, 0.0, socket.gethostname(), trainer.pid)).close()
    file = RankFile(parent.rank(0), trainer.pid)
    file.update(attempt=1, phase="generate", step=5, progress_at=9e9)
    file.close()
    started: list[RunSpec] = []
    monkeypatch.setattr("grpo_tui.cli.start.launch", lambda folder, spec: started.append(spec))
    assert main(["train", str(parent.root), "--resume", "--detach", "--quick-check"]) == 2
    words = ["--run-dir", str(tmp_path / "fork"), "--detach", "--quick-check"]
    assert main(["train", str(parent.root), "--resume", *words]) == 0
    assert len(started) == 1


def test_a_resume_says_what_it_passes_over_and_keeps_what_the_start_before_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = _run(tmp_path / "run", {}, "max_steps=8", step=2)
    remember(folder.root)
    RunSpec(load_config(DEMO_CONFIG, ["max_steps=8"]).to_json()).write(folder.spec)
    (folder.root / "checkpoint-4").mkdir()
    _written(folder.root, r.AttemptStarted(1, 0.0, "here", 2**22), _row(1, 4, reward=1.0)).close()
    started: list[RunSpec] = []
    followed: list[object] = []
    monkeypatch.setattr("grpo_tui.cli.start.launch", lambda folder, spec: started.append(spec))
    monkeypatch.setattr(headless, "follow", lambda root, **after: followed.append((root, after)) or 0)
    words = ["train", str(folder.root), "--resume", "--quick-check", "--headless"]
    assert main([*words, "--set", "learning_rate=1e-5", "--set", "grpo_tui.rewards.0.weight=1"]) == 0
    passed = "skipped checkpoint-4: trainer_state.json is missing or incomplete, so the save did not finish"
    assert [(Path(str(s.resume)).name, s.overridden, s.notes) for s in started] == [
        ("checkpoint-2", ("learning_rate", "grpo_tui.rewards.0.weight"), (passed,))
    ]
    assert followed == [(folder.root, {"after_row": 1, "after_attempt": 1})]
    assert capsys.readouterr().err.splitlines()[-2:] == [f"note: {passed}", "resuming from checkpoint-2"]


@pytest.mark.parametrize(
    ("ended", "step", "completions", "free"),
    [("failed", 0, 0, True), ("failed", 3, 0, False), ("failed", 0, 1, False), (None, 0, 0, False)],
)
def test_only_a_run_that_ended_before_it_made_anything_is_begun_again_in_its_folder(
    ended: str | None, step: int, completions: int, free: bool, tmp_path: Path
) -> None:
    group = r.Group(0, "2+2?", {}, (r.Completion(0, "4", (1.0,), 1.0, 0.0, 1, False),) * completions)
    writer = _written(
        tmp_path,
        r.AttemptStarted(1, 0.0, socket.gethostname(), os.getpid()),
        *([r.GenerationBatch(1, 1, 0, "train", 1, 1, 0.0, (group,))] if completions else []),
        *([r.AttemptEnded(1, 1.0, ended, step, None, None)] if ended else []),
    )
    writer.close()
    if ended is None:
        _lives(tmp_path)
    assert start._made_nothing(RunFolder(tmp_path)) is free


def test_a_start_is_checked_with_what_set_changes_and_keeps_what_was_forced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    started: list[RunSpec] = []
    monkeypatch.setattr("grpo_tui.cli.start.launch", lambda folder, spec: started.append(spec))
    wrong = ("--set", "remove_unused_columns=true", "--set", "grpo_tui.rewards=[rewards.py:format_reward]")
    root = tmp_path / "run"
    words = ["train", str(DEMO_CONFIG), "--run-dir", str(root), "--detach", "--quick-check", *wrong]
    assert main(words) == 2
    assert "1 error to fix before the run can start" in capsys.readouterr().err
    assert not started
    unused = f"grpo_tui.eval_dataset={DEMO_CONFIG.with_name('task.py')}:train_rows"
    assert main([*words, "--force", "--set", unused]) == 0
    said = capsys.readouterr()
    assert f"training in {root}. Watch it with `grpo-tui attach {root}`" in said.out
    assert said.err.count("grpo_tui.eval_dataset is not used") == 1, "what the config told is not told again"
    assert [[error.partition(": ")[0] for error in spec.forced] for spec in started] == [
        ["training.columns-removed"]
    ]


def test_a_start_in_a_folder_that_holds_a_run_is_refused_with_the_way_to_go_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(*words: str) -> str:
        assert main(["train", *words, "--detach", "--quick-check"]) == 2
        return capsys.readouterr().err

    folder = _run(tmp_path / "run", {}, "max_steps=8")
    remember(folder.root)
    name = str(folder.root)
    assert f"no checkpoint 9 in {name}; there are: 4" in refused(name, "--resume", "9")
    writer = _written(folder.root, r.AttemptStarted(1, 0.0, socket.gethostname(), os.getpid()))
    _lives(folder.root)
    anew = (str(DEMO_CONFIG), "--run-dir", name)
    attach = f"a run is training in {name}. Watch it with `grpo-tui attach {name}`"
    assert f"{attach}, or start another with --run-dir FOLDER" in refused(*anew)
    assert f"{attach}\n" in refused(name, "--resume")
    _lives(folder.root, "wait")
    assert f"the run in {name} is paused. Continue it with `grpo-tui resume {name}`" in refused(*anew)
    writer.write([r.AttemptEnded(1, 1.0, "failed", 4, None, None)])
    writer.close()
    assert f"Continue it with `grpo-tui train {name} --resume`" in refused(*anew)
    (folder.root / "checkpoint-4" / "trainer_state.json").unlink()
    reason = "trainer_state.json is missing or incomplete, so the save did not finish"
    assert "without a checkpoint to resume from" in refused(*anew)
    assert f"checkpoint-4 cannot be resumed: {reason}" in refused(name, "--resume", "4")
    assert f"no complete checkpoint in {name}\n  checkpoint-4: {reason}" in refused(name, "--resume")
    empty = str(tmp_path / "empty")
    assert ". Leave out --resume to start from the beginning" in refused(
        str(DEMO_CONFIG), "--run-dir", empty, "--resume"
    )


@pytest.mark.parametrize(
    ("raised", "of_a_live_run", "of_an_ended_one"),
    [(KeyboardInterrupt, 130, 130), (headless._Terminated, 143, 143), (BrokenPipeError, 141, 1)],
)
def test_who_leaves_early_is_told_of_the_run_and_gets_the_code_of_the_signal(
    raised: type[BaseException],
    of_a_live_run: int,
    of_an_ended_one: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def leave(*_: object) -> int:
        raise raised

    monkeypatch.setattr(headless, "_follow", leave)
    monkeypatch.setattr(headless, "drop_output", lambda: None)
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    writer = _written(tmp_path, r.AttemptStarted(1, 0.0, socket.gethostname(), os.getpid()))
    _lives(tmp_path)
    assert headless.follow(tmp_path) == of_a_live_run
    assert f"Watch it with `grpo-tui attach {tmp_path}`" in capsys.readouterr().err
    writer.write([r.AttemptEnded(1, 1.0, "failed", 3, None, None)])
    writer.close()
    assert headless.follow(tmp_path) == of_an_ended_one
    assert f"See `grpo-tui status {tmp_path}`" in capsys.readouterr().err
    assert signal.signal(signal.SIGTERM, before) is signal.SIG_DFL


def test_a_standstill_is_said_once_and_the_end_sums_up_the_newest_ten_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pid = os.getpid()
    writer = _written(
        tmp_path,
        r.AttemptStarted(1, 0.0, socket.gethostname(), pid),
        *(_row(1, step, reward=float(step)) for step in range(1, 15)),
    )
    looks = [14, 15]

    def wait(_: float) -> None:
        if looks:
            _lives(tmp_path, "wait", looks.pop(0))
        else:
            writer.write([r.AttemptEnded(1, 1.0, "stopped", 14, None, None)])

    wait(0.0)
    monkeypatch.setattr(headless.time, "sleep", wait)
    assert headless.follow(tmp_path) == 3
    lines = [line for line in capsys.readouterr().out.splitlines() if not line.startswith("step")]
    assert lines[0] == f"paused at step 14; continue with `grpo-tui resume {tmp_path}`"
    assert lines[1] == (
        "first mean reward 1.000 (step 1)   last mean reward 9.500 (mean of the last 10 steps)   gain +8.500"
    )


def test_the_summary_of_a_run_of_one_step_says_so(tmp_path: Path) -> None:
    _written(tmp_path, r.AttemptStarted(1, 0.0, "here", 1), _row(1, 1, reward=0.5)).close()
    with closing(RunReader(RunFolder(tmp_path).database)) as reader:
        said = list(headless._summary(tmp_path, reader, "stopped", [(1, 0.5)]))
    assert said[0].endswith("last mean reward 0.500 (mean of 1 step)   gain +0.000")


def test_the_data_of_a_run_that_began_is_not_checked_again_and_that_of_a_new_one_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = _run(tmp_path / "run", {}, "max_steps=8")
    remember(folder.root)
    asked: list[tuple[str, bool, bool]] = []

    def check(
        inspected: object, launch: Launch, path: Path, *, quick: bool, force: bool, told: object
    ) -> list[str]:
        assert launch.resume, "the folder was looked at already"
        asked.append((str(launch.root), quick, force))
        return []

    monkeypatch.setattr("grpo_tui.cli.check.before_start", check)
    monkeypatch.setattr("grpo_tui.cli.start.launch", lambda folder, spec: None)
    fork, new = str(tmp_path / "fork"), str(tmp_path / "new")
    for words in (
        [str(folder.root), "--resume"],
        [str(folder.root), "--resume", "--force"],
        [str(folder.root), "--resume", "--run-dir", fork],
        [str(DEMO_CONFIG), "--run-dir", new],
        [str(DEMO_CONFIG), "--run-dir", new, "--quick-check"],
    ):
        assert main(["train", *words, "--detach"]) == 0
    root = str(folder.root)
    assert asked == [
        (root, True, False), (root, True, True), (fork, True, False), (new, False, False), (new, True, False)
    ]  # fmt: skip
