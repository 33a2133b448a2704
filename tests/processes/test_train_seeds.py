"""`train --seeds` trains one config with several seeds, one run after the other, and continues later."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from grpo_tui.demo import DEMO_CONFIG
from grpo_tui.present.seed_sets import read_seed_run, sets_of
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.spec import read_spec
from tests import PATIENCE_S
from tests.processes.runs import PACED, SMALL, grpo_tui, state, until

pytestmark = pytest.mark.slow

SETTINGS = [word for pair in (*SMALL, "max_steps=2") for word in ("--set", pair)]


def seed(run: Path, number: int) -> Path:
    return run.with_name(f"{run.name}-seed-{number}")


FAILS_ONCE = """\
from pathlib import Path

def fails_once(completions, **kwargs):
    if Path({broken!r}).exists():
        Path({broken!r}).unlink()
        raise ValueError("broken on purpose")
    return [1.0] * len(completions)
"""


def test_seeds_train_one_after_the_other_though_one_fails_and_complete_ones_are_skipped(
    tmp_path: Path,
) -> None:
    run, rewards, broken = tmp_path / "first", tmp_path / "rewards.py", tmp_path / "broken"
    broken.touch()
    rewards.write_text(FAILS_ONCE.format(broken=str(broken)))
    words = ("--set", f"grpo_tui.rewards=['{rewards}:fails_once']")
    command = ("train", DEMO_CONFIG, "--run-dir", run, *SETTINGS, *words)
    done = grpo_tui(*command, "--seeds", "1,2", check=1)
    assert done.stdout.index("seed 1 (1 of 2)") < done.stdout.index("broken on purpose")
    assert done.stdout.index("broken on purpose") < done.stdout.index("seed 2 (2 of 2)")
    assert "seed 1: failed" in done.stdout
    assert "seed 2: complete" in done.stdout
    assert not RunFolder(run).exists()

    again = grpo_tui(*command, "--seeds", "2,3")
    assert again.stdout.count("skipped") == 1
    assert "seed 3: complete" in again.stdout
    assert f"grpo-tui seeds {seed(run, 2)} {seed(run, 3)}" in again.stdout
    (both,) = sets_of([read_seed_run(seed(run, number), f"first-seed-{number}") for number in (2, 3)])
    assert (both.name, both.seeds) == ("first", (2, 3))
    assert all(one.complete for one in both.runs)

    other = grpo_tui(*command, "--seeds", "3,4", "--set", "learning_rate=0.5", check=2)
    assert f"{seed(run, 3)} holds a run with other settings (learning_rate)" in other.stderr
    assert not seed(run, 4).exists()


def test_one_seed_trains_on_each_visible_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    run = tmp_path / "first"
    settings = (*SETTINGS, "--set", "use_cpu=false")
    done = grpo_tui("train", DEMO_CONFIG, "--run-dir", run, *settings, "--seeds", "1,2")
    assert [read_spec(RunFolder(seed(run, n)).spec).gpus for n in (1, 2)] == [("0",), ("1",)]
    assert "seed 1: finished at step 2" in done.stdout
    assert "seed 2: finished at step 2" in done.stdout
    assert done.stdout.index("seed 2 (2 of 2)") < done.stdout.index("seed 1: finished")


def test_ctrl_c_starts_no_other_seed_and_the_same_command_goes_on_in_the_background(
    tmp_path: Path,
) -> None:
    run = tmp_path / "first"
    paced = (*SMALL, "max_steps=20", "save_steps=5", f"grpo_tui.rewards.0.source={PACED}")
    long = [word for pair in paced for word in ("--set", pair)]
    words = [str(word) for word in ("train", DEMO_CONFIG, "--run-dir", run, "--quick-check", *long)]
    command = [sys.executable, "-m", "grpo_tui", *words, "--seeds", "1,2"]
    queue = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    state(seed(run, 1), "training")
    queue.send_signal(signal.SIGINT)
    out, err = queue.communicate(timeout=PATIENCE_S)
    assert queue.returncode == 130
    assert "training continues" in err
    assert "seed 1: still training" in out
    assert "seed 2: not started" in out
    assert not seed(run, 2).exists()

    grpo_tui("stop", seed(run, 1))
    state(seed(run, 1), "stopped")
    grpo_tui(*words, "--seeds", "1,2", "--detach")
    until(lambda: "seed 2: complete" in run.with_name("first-seeds.log").read_text(), "the end of the queue")
    both = [read_seed_run(seed(run, number), str(number)) for number in (1, 2)]
    assert [(one.state, one.step) for one in both] == [("finished", 20)] * 2
