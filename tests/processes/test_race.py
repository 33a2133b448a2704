"""`race` continues a checkpoint with several settings, and compares the branches."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from grpo_tui.demo import DEMO_CONFIG
from grpo_tui.store.checkpoints import newest_usable
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.read_series import metric_rows
from grpo_tui.store.reader import RunReader
from grpo_tui.store.spec import read_spec
from grpo_tui.store.status import read_status
from tests.processes.runs import PACED, SMALL, at_step, end, grpo_tui, kill_all, left, until

pytestmark = pytest.mark.slow

SETTINGS = (*SMALL, "save_steps=2", "max_steps=6", "lr_scheduler_type=linear", "grpo_tui.holdout=8")


def rates(run: Path, steps: range) -> list[float]:
    with closing(RunReader(RunFolder(run).database)) as reader:
        rows = {step: values for _, step, values in metric_rows(reader) if "loss" in values}
    return [rows[step]["learning_rate"] for step in steps]


def attempts(run: Path) -> int:
    with closing(RunReader(RunFolder(run).database)) as reader:
        return len(reader.attempts())


HELD = """\
import os, time
calls = []
def held(completions, **kwargs):
    calls.append(1)
    if len(calls) == 2:
        open({there!r}, "a").close()
    while len(calls) == 2 and not os.path.exists({gate!r}):
        time.sleep(0.05)
    return [0.5] * len(completions)
"""
"""A reward that waits in its second call until it is let go."""
KILLED = """\
import os, signal, sys
from grpo_tui.cli import start
from grpo_tui.cli.main import main
start.launch = lambda folder, spec: os.kill(os.getpid(), signal.SIGKILL)
main(sys.argv[1:])
"""
"""A start that is killed once the checkpoint is copied."""


@pytest.fixture(scope="module")
def parent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of 6 steps, whose folder nobody writes into any more."""
    run = tmp_path_factory.mktemp("parent") / "first"
    settings = [word for pair in SETTINGS for word in ("--set", pair)]
    grpo_tui("train", DEMO_CONFIG, "--run-dir", run, *settings)
    left(run)
    return run


def contents(run: Path) -> dict[str, bytes | list[str]]:
    """Return every file of a run but kept comparisons, and what its database holds.

    Its bytes move from the write-ahead log into the file when the last reader leaves.
    """
    found: dict[str, bytes | list[str]] = {}
    for path in run.rglob("*"):
        name = str(path.relative_to(run))
        if path.is_file() and not name.startswith(("compare/", "run.db")):
            found[name] = path.read_bytes()
    with closing(sqlite3.connect(RunFolder(run).database)) as database:
        found["run.db"] = list(database.iterdump())
    return found


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    """The file that lets `rewards.py:held` go; `there` beside it says that the reward waits."""
    path = tmp_path / "gate"
    (tmp_path / "rewards.py").write_text(HELD.format(gate=str(path), there=str(tmp_path / "there")))
    return path


def held_by(gate: Path, run: Path, step: int) -> None:
    """Wait until a process is in the reward of the second step after its start, with this step done."""
    until(gate.with_name("there").exists, "a reward that waits")
    gate.with_name("there").unlink()
    at_step(run, step)


def test_a_killed_race_goes_on_with_the_same_command(parent: Path, gate: Path) -> None:
    before, held = contents(parent), parent.with_name("first-4-held")
    branch = f"held: grpo_tui.rewards=['{gate.parent}/rewards.py:held']"
    words = ("race", f"{parent}@4", "--steps", "2", "--rows", "8", "--samples", "2", "--branch", branch)

    def killed() -> None:
        """Start a race, and kill it while it waits for its second branch."""
        command = [sys.executable, "-m", "grpo_tui", *words]
        race = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        held_by(gate, held, 5)
        race.kill()
        race.wait()

    try:
        killed()
        assert read_status(held).live, "a branch outlives its race"
        kill_all(held)
        killed()
        gate.touch()  # the branch trains on by itself, and the race finds it alive or done
        body = json.loads(grpo_tui(*words, "--json", check=None).stdout)
    finally:
        end(held)
    assert [(one["name"], one["end"], one["error"]) for one in body["branches"]] == [
        ("control", "complete", None),
        ("held", "complete", None),
    ]
    assert [attempts(parent.with_name(f"first-4-{name}")) for name in ("control", "held")] == [1, 2]
    assert rates(held, range(5, 7)) == rates(parent, range(5, 7))
    assert contents(parent) == before


def test_a_fork_goes_on_after_a_kill_before_it_starts_and_in_mid_run(
    parent: Path, gate: Path, run: Path
) -> None:
    before, reward = contents(parent), f"grpo_tui.rewards=['{gate.parent}/rewards.py:held']"
    words = ("train", parent, "--resume", "2", "--run-dir", run, "--detach", "--set", reward)
    command = [sys.executable, "-c", KILLED, *map(str, words), "--quick-check"]
    killed = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert [path.name for path in run.glob("checkpoint-*")] == ["checkpoint-2"]
    grpo_tui(*words)
    held_by(gate, run, 3)
    kill_all(run)
    told = grpo_tui(*words, check=2).stderr
    assert "already holds a run" in told, "what it has trained is kept"
    assert "--resume" in told
    gate.touch()
    assert "finished at step 6" in grpo_tui("train", run, "--resume", "--headless").stdout
    assert attempts(run) == 2
    assert rates(run, range(3, 7)) == rates(parent, range(3, 7))
    assert contents(parent) == before


def test_branches_keep_the_schedule_a_failure_has_its_row_and_complete_ones_are_not_trained_again(
    parent: Path, tmp_path: Path
) -> None:
    run, rewards = parent, tmp_path / "rewards.py"
    rewards.write_text("def broken(completions, **kwargs):\n    raise ValueError('broken on purpose')\n")
    broken = f"bad: grpo_tui.rewards=['{rewards}:broken']"
    options = ("--rows", "8", "--samples", "2", "--branch", broken, "--branch", "fast: learning_rate=0.01")
    words = ("race", f"{run}@2", "--steps", "2", *options)
    done = grpo_tui(*words, check=2)
    control, bad, fast = (run.with_name(f"first-2-{name}") for name in ("control", "bad", "fast"))
    assert rates(control, range(3, 5)) == rates(run, range(3, 5)), "the schedule of the whole run"
    assert rates(fast, range(3, 5)) == pytest.approx([50 * rate for rate in rates(run, range(3, 5))])
    table = done.stdout[done.stdout.index("\nBranches") :]
    told = " ".join(table.split())  # lines are wrapped at a place that the path decides
    assert "from step 2 to step 4" in told
    assert "fast: learning_rate=0.01" in told
    assert "bad failed: " in told
    assert "ValueError: broken on purpose" in told
    assert "8 held-out prompts × 2 completions" in told
    assert " --resume" in table.splitlines()[-1]

    body = json.loads(grpo_tui(*words, "--json", check=2).stdout)
    assert [(one["name"], one["end"], one["word"] is None) for one in body["branches"]] == [
        ("control", "complete", True),
        ("bad", "failed", True),
        ("fast", "complete", False),
    ]
    assert (body["step"], body["until"], body["reproducible"]) == (2, 4, True)
    assert [one["name"] for one in body["comparison"]["policies"]] == ["control", "fast"]
    assert [attempts(one) for one in (control, bad, fast)] == [1, 2, 1]

    grpo_tui("train", control, "--resume")
    newest = newest_usable(RunFolder(control))[0]
    assert newest is not None
    assert newest.step == 6, "a branch goes on to the end of the plan"
    assert read_spec(RunFolder(control).spec).stop_after is None


def test_a_branch_that_a_rule_stops_or_pauses_does_not_hold_up_the_others(tmp_path: Path) -> None:
    run, rule = tmp_path / "first", "grpo_tui.on=[{when: 'reward > -9', do: %s}]"
    more = ("max_steps=200", f"grpo_tui.rewards.0.source={PACED}", rule % "stop")
    settings = [word for pair in (*SMALL, *more) for word in ("--set", pair)]
    grpo_tui("train", DEMO_CONFIG, "--run-dir", run, *settings, check=3)
    branches = ("--branch", "ruled: learning_rate=0.001", "--branch", f'paused: "{rule % "pause"}"')
    done = grpo_tui("race", run, "--steps", "150", "--no-control", *branches, check=2)
    told = " ".join(done.stdout.split())
    assert "ruled stopped: reward is " in told
    assert "paused failed: grpo_tui.on paused the run: reward is " in told
    assert [read_status(path).state for path in sorted(run.parent.glob("first-*-*"))] == [
        "stopped",
        "stopped",
    ]
    body = json.loads(
        grpo_tui("race", run, "--steps", "150", "--no-control", *branches[:2], "--json", check=3).stdout
    )
    (ruled,) = body["branches"]
    assert (ruled["end"], ruled["error"].split(" is ")[0]) == ("stopped", "reward")
