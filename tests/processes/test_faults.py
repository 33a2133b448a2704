"""The faults of the demonstration, met as a person meets them."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest

from grpo_tui.demo.faults import CRASH_AT, HANG_AT
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.live import read_rank
from grpo_tui.store.read_series import metric_rows
from grpo_tui.store.reader import RunReader
from tests import PATIENCE_S
from tests.family import gone
from tests.processes.runs import at_step, command, grpo_tui, state, until

pytestmark = pytest.mark.slow


def demo(run: Path, fault: str, steps: int, check: int) -> str:
    done = grpo_tui(
        "demo", "--fault", fault, "--steps", str(steps), "--run-dir", run, "--headless", check=check
    )
    assert f"fault {fault}:" in done.stderr
    return done.stdout


def test_a_hung_reward_is_found_by_name_and_aborted_and_the_run_goes_on(run: Path) -> None:
    said: list[str] = []
    follower = threading.Thread(target=lambda: said.append(demo(run, "hung-reward", HANG_AT + 1, 0)))
    follower.start()
    rank = RunFolder(run).rank(0)
    until(lambda: (r := read_rank(rank)) and r.reward_function == "judge" and r.step == HANG_AT - 1, "judge")
    assert '"reward_func": "judge"' in grpo_tui("status", run, "--json").stdout
    assert command(run, "abort-reward")["applied"]
    follower.join(timeout=PATIENCE_S)
    assert f"finished at step {HANG_AT + 1}" in said[0]
    assert state(run, "finished").step == HANG_AT + 1
    reader = RunReader(RunFolder(run).database)
    judge = [function.name for function in reader.reward_functions()].index("judge")
    aborted = reader.groups(first_step=HANG_AT, last_step=HANG_AT)
    assert aborted
    assert all(c.rewards[judge] is None for g in aborted for c in g.completions)
    assert "nothing is left" in grpo_tui("abort-reward", run, check=3).stderr


def test_a_killed_run_says_so_and_its_resume_passes_the_place(run: Path) -> None:
    said = demo(run, "crash", CRASH_AT + 2, 1)
    assert f"crashed at step {CRASH_AT - 1}" in said
    assert "--resume` continues" in said
    ended, killed = state(run, "crashed"), read_rank(RunFolder(run).rank(0))
    assert ended.error is not None
    assert "SIGKILL" in ended.error["message"]
    assert killed is not None
    until(lambda: gone(killed.pid), "the end of the trainer")

    spec = RunFolder(run).spec.read_bytes()
    wrong = "grpo_tui.rewards.0.source=rewards.py:missing"
    failed = grpo_tui("train", run, "--resume", "--headless", "--set", wrong, check=1)
    assert "there is no missing in it" in failed.stdout
    assert RunFolder(run).spec.read_bytes() == spec, "what makes a resume fail does not stay"

    grpo_tui("train", run, "--resume", "--detach", "--set", "max_steps=4000")
    before = at_step(run, CRASH_AT + 2).step
    rank = read_rank(RunFolder(run).rank(0))
    assert rank is not None
    os.kill(rank.pid, signal.SIGHUP)  # which does nothing
    at_step(run, before + 1)
    os.kill(rank.pid, signal.SIGTERM)  # which saves and stops
    stopped = state(run, "stopped")
    until(lambda: not RunFolder(run).earlier_spec.exists(), "the end of what was kept for a failure")
    assert stopped.step in [c.step for c in stopped.checkpoints if c.complete]
    reader = RunReader(RunFolder(run).database)
    steps = [step for _, step, values in metric_rows(reader, limit=100_000) if "reward" in values]
    assert steps == list(range(1, stopped.step + 1)), "redone steps supersede the lost ones"
