"""A run that has finished, followed without a terminal: what it prints, shows and refuses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.processes.runs import end, grpo_tui, start, state

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """A run and what following it printed, line by line."""
    run = tmp_path_factory.mktemp("finished") / "a run, ünïcode"
    start(run, "max_steps=3")
    yield run, grpo_tui("attach", run).stdout
    end(run)


def test_without_a_terminal_attach_follows_line_by_line(followed: tuple[Path, str]) -> None:
    run, printed = followed
    assert state(run, "finished").step == 3
    steps = [line.split()[1] for line in printed.splitlines() if line.startswith("step")]
    assert steps == ["1", "2", "3"]
    assert "first mean reward" in printed


def test_an_ended_run_refuses_commands_and_names_the_way_on(followed: tuple[Path, str]) -> None:
    run, _ = followed
    refused = grpo_tui("resume", run, check=3)
    assert "train" in refused.stderr
    assert "--resume" in refused.stderr
    assert "nothing is left to pause" in grpo_tui("pause", run, check=3).stderr


def test_status_prints_the_documented_shape(followed: tuple[Path, str]) -> None:
    run, _ = followed
    body = json.loads(grpo_tui("status", run, "--json").stdout)
    assert set(body) == {
        "state", "step", "total_steps", "phase", "phase_s", "reward_func", "heartbeat_age_s", "pid", "ranks",
        "attempt", "metrics", "dropped", "checkpoints", "error", "alerts", "hardware", "forced",
    }  # fmt: skip
    assert (body["state"], body["step"], body["total_steps"], body["dropped"]) == ("finished", 3, 3, 0)
