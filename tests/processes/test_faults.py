"""The faults of the demonstration, met as a person meets them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from grpo_tui.demo.faults import CRASH_AT, HANG_AT
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.live import read_rank
from grpo_tui.store.read_series import metric_rows
from grpo_tui.store.reader import RunReader
from tests import PATIENCE_S
from tests.processes.runs import command, grpo_tui, state, until

pytestmark = pytest.mark.slow


def demo(run: Path, fault: str, steps: int, check: int) -> str:
    done = grpo_tui(
        "demo", "--fault", fault, "--steps", str(steps), "--run-dir", run, "--headless", check=check
    )
    assert f"fault {fault}:" in done.stderr
    return done.stdout


def rows(run: Path) -> list[dict[str, Any]]:
    reader = RunReader(RunFolder(run).database)
    try:
        return [values for _, _, values in metric_rows(reader) if "reward" in values]
    finally:
        reader.close()


def test_a_hung_reward_is_found_by_name_and_aborted(run: Path) -> None:
    import threading

    said: list[str] = []
    follower = threading.Thread(target=lambda: said.append(demo(run, "hung-reward", HANG_AT + 1, 0)))
    follower.start()
    rank = RunFolder(run).rank(0)
    until(lambda: (r := read_rank(rank)) and r.reward_function == "judge" and r.step == HANG_AT - 1, "judge")
    assert command(run, "abort-reward")["applied"]
    follower.join(timeout=PATIENCE_S)
    assert f"finished at step {HANG_AT + 1}" in said[0]


def test_a_killed_run_says_so_and_its_resume_passes_the_place(run: Path) -> None:
    said = demo(run, "crash", CRASH_AT + 2, 1)
    assert f"crashed at step {CRASH_AT - 1}" in said
    assert "--resume` goes on" in said
    grpo_tui("train", run, "--resume", "--headless")
    assert state(run, "finished").step == CRASH_AT + 2
    assert len(rows(run)) == CRASH_AT + 2


def test_flat_rewards_teach_nothing_while_their_spread_over_the_batch_looks_alive(run: Path) -> None:
    demo(run, "flat-rewards", 3, 0)
    found = rows(run)
    assert all(row["frac_reward_zero_std"] == 1 and row["grad_norm"] == 0 for row in found)
    assert max(row["reward_std"] for row in found) > 0.1


def test_truncated_completions_teach_nothing_while_no_group_is_called_flat(run: Path) -> None:
    demo(run, "truncated", 3, 0)
    found = rows(run)
    assert all(row["completions/clipped_ratio"] == 1 and row["grad_norm"] == 0 for row in found)
    assert all(row["frac_reward_zero_std"] < 1 for row in found)


def test_a_learning_rate_too_high_destroys_the_policy(run: Path) -> None:
    demo(run, "lr-too-high", 4, 0)
    found = rows(run)
    assert found[-1]["reward"] < found[0]["reward"] / 5
    assert found[-1]["completions/clipped_ratio"] > found[0]["completions/clipped_ratio"] + 0.5
