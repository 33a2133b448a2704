"""A run that forks from a checkpoint goes on as its parent did, until its settings say otherwise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from grpo_tui.store.checkpoints import copy
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.mailbox import Mailbox
from grpo_tui.train.session import Session
from tests.train.tiny import run_recorded

CYCLE = {"num_iterations": 2, "steps_per_generation": 2, "gradient_accumulation_steps": 2}
CYCLE |= {"per_device_train_batch_size": 8, "save_strategy": "steps", "save_steps": 3}


@pytest.fixture(scope="module")
def parent(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[tuple[int, dict[str, Any]]], str]:
    """A run of 6 steps whose reward weights changed at step 1, with a checkpoint within a cycle."""
    folder = tmp_path_factory.mktemp("parent")

    def at_safe_point(session: Session, trainer: Any) -> None:
        if int(trainer.state.global_step) == 1:
            Mailbox(RunFolder(folder).commands).submit("set", {"reward_weights": [1.0, 3.0]})

    rows, weights, _ = run_recorded(folder, at_safe_point=at_safe_point, **CYCLE)
    return folder, rows, weights


def forked(parent: Path, folder: Path, **settings: Any) -> tuple[list[tuple[int, dict[str, Any]]], str]:
    checkpoint = copy(parent / "checkpoint-3", folder)
    rows, weights, _ = run_recorded(folder, resume=checkpoint, **{**CYCLE, **settings})
    return rows, weights


def test_an_unchanged_fork_equals_its_parent(parent: Any, tmp_path: Path) -> None:
    folder, rows, weights = parent
    found, last = forked(folder, tmp_path / "fork")
    assert found == [row for row in rows if row[0] > 3]
    assert last == weights


def test_a_fork_with_another_setting_goes_its_own_way(parent: Any, tmp_path: Path) -> None:
    folder, rows, weights = parent
    found, last = forked(folder, tmp_path / "fork", learning_rate=5e-3)
    assert [step for step, _ in found] == [step for step, _ in rows if step > 3]
    assert last != weights
    assert (folder / "checkpoint-3" / "trainer_state.json").is_file(), "the parent keeps its own"
