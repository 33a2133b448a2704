"""A run of the demo is trained again from its bundle, and what differs is said."""

from __future__ import annotations

import json
import re
import shutil
from contextlib import closing
from pathlib import Path

import pytest

from grpo_tui.core.stages import DONE
from grpo_tui.demo import DEMO_CONFIG
from grpo_tui.store.layout import BUNDLE, RunFolder
from grpo_tui.store.reader import RunReader
from tests.processes.runs import SMALL, end, grpo_tui

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundle of a run with a schedule that depends on its length."""
    folder = tmp_path_factory.mktemp("bundled")
    run = folder / "first"
    settings = ("max_steps=22", "lr_scheduler_type=linear")
    words = [word for pair in (*SMALL, *settings) for word in ("--set", pair)]
    grpo_tui("train", DEMO_CONFIG, "--run-dir", run, "--headless", *words, cwd=folder)
    grpo_tui("export", run, "--format", "bundle", "-o", "first.zip", cwd=folder)
    grpo_tui("reproduce", folder / "first.zip", check=2, cwd=folder)  # the run has taken its name
    end(run)
    shutil.rmtree(run)
    return folder / "first.zip"


def reproduced(bundle: Path, place: Path, *words: str | Path, check: int = 0) -> str:
    """What `reproduce --verify` prints in a fresh folder."""
    done = grpo_tui("reproduce", bundle, "--verify", *words, check=check, cwd=place)
    for run in (place / "outputs").glob("*"):
        end(run)
    return done.stdout + done.stderr


def test_the_first_20_steps_are_the_same_bit_for_bit_once_the_code_is_confirmed(
    bundle: Path, tmp_path: Path
) -> None:
    shutil.copy(bundle, tmp_path)
    asked = reproduced(tmp_path / bundle.name, tmp_path, "--steps", "20", check=3)
    assert "would run code that you did not write" in asked
    assert str(tmp_path / "first" / "rewards.py") in asked
    assert not (tmp_path / "outputs").exists()
    told = reproduced(tmp_path / bundle.name, tmp_path, "--steps", "20", "--trust")
    assert re.search(r"equal bit for bit: \d{3,} values of 20 steps", told)
    assert "stopped at step 20" in told


def test_a_changed_reward_is_said_and_the_first_difference_named(bundle: Path, tmp_path: Path) -> None:
    shutil.unpack_archive(bundle, tmp_path)
    rewards = tmp_path / "first" / "rewards.py"
    rewards.write_text(rewards.read_text().replace("1.0 if number", "0.5 if number"))
    words = ("--run-dir", tmp_path / "outputs" / "mine", "--steps", "2", "--trust")
    told = reproduced(tmp_path / "first", tmp_path, *words, check=1)
    assert (tmp_path / "outputs" / "mine" / "run.db").exists()
    assert "rewards.py changed since the export" in told
    assert re.search(r"differs first at step [12]: \S+ is \S+ in the bundle, \S+ here", told)


def test_other_threads_are_said_and_set_and_another_processor_compares_to_rounding(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.unpack_archive(bundle, tmp_path)
    manifest = json.loads((tmp_path / "first" / BUNDLE).read_text())
    threads = manifest["machine"]["threads"]
    manifest["machine"]["processor"] = "Another CPU"
    (tmp_path / "first" / BUNDLE).write_text(json.dumps(manifest))
    monkeypatch.setenv("OMP_NUM_THREADS", str(threads + 1))
    told = reproduced(tmp_path / "first", tmp_path, "--steps", "2", "--trust")
    assert f"threads: {threads} in the bundle, {threads + 1} here" in told
    assert f"training here with {threads} thread" in told
    assert re.search("processor: Another CPU in the bundle, .+ here", told)
    assert re.search("^processor differs: compared to rounding$", told, re.M)  # the threads are the same
    assert "equal to rounding" in told


def test_a_fork_is_made_again_from_the_checkpoint_in_its_bundle(tmp_path: Path) -> None:
    words = [word for pair in (*SMALL, "max_steps=4", "save_steps=2") for word in ("--set", pair)]
    grpo_tui("train", DEMO_CONFIG, "--run-dir", "first", "--headless", *words, cwd=tmp_path)
    changed = ("--resume", "2", "--run-dir", "fork", "--set", "learning_rate=1e-4")
    grpo_tui("train", "first", "--headless", *changed, cwd=tmp_path)
    grpo_tui("export", "fork", "--format", "bundle", "-o", "b.zip", cwd=tmp_path)
    for run in ("first", "fork"):
        end(tmp_path / run)
        shutil.rmtree(tmp_path / run)
    told = reproduced(tmp_path / "b.zip", tmp_path, "--steps", "1", "--trust")
    assert "stopped at step 3" in told
    assert re.search(r"equal bit for bit: \d{2,} values of 1 step", told)


def test_a_run_with_stages_is_made_again_stage_by_stage(tmp_path: Path) -> None:
    strict = tmp_path / "strict.py"
    strict.write_text(
        "def short(completions, **kwargs):\n    return [-len(one[0]['content']) for one in completions]\n"
    )
    hard = {"name": "hard", "steps": 3, "set": {"grpo_tui.rewards": [{"source": f"{strict}:short"}]}}
    stages = json.dumps([{"name": "easy", "steps": 2}, hard])
    words = [word for pair in (*SMALL, f"grpo_tui.stages={stages}") for word in ("--set", pair)]
    run = tmp_path / "first"
    grpo_tui("train", DEMO_CONFIG, "--run-dir", run, "--headless", *words, cwd=tmp_path)
    grpo_tui("export", run, "--format", "bundle", "-o", "first.zip", cwd=tmp_path)
    end(run)
    shutil.rmtree(run)
    strict.unlink()
    shutil.copy(tmp_path / "first.zip", tmp_path / "away.zip")
    told = reproduced(tmp_path / "away.zip", tmp_path, "--trust")
    assert "stage 2 of 2: hard" in told  # who follows the run can miss a stage of two steps
    (again,) = (tmp_path / "outputs").glob("*")
    with closing(RunReader(RunFolder(again).database)) as reader:
        assert [one.state for one in reader.attempts()] == [DONE, "finished"]
    steps = re.search(r"finished at step (\d+)", told)
    assert steps is not None, told
    assert re.search(rf"equal bit for bit: \d{{2,}} values of {steps[1]} steps", told)
    assert "compared up to step" not in told
