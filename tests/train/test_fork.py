"""A run that forks from a checkpoint goes on as its parent did, until its settings say otherwise."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from grpo_tui.core.schedule import BY_SCHEDULE, FACT, scheduled_from
from grpo_tui.store.checkpoints import copy
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.mailbox import Mailbox
from grpo_tui.store.reader import RunReader
from grpo_tui.store.spec import RunSpec
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


def test_a_fork_takes_what_its_parent_had_scheduled(tmp_path: Path) -> None:
    parent, folder = tmp_path / "parent", tmp_path / "fork"
    plan = {"2": {"temperature": 0.9}, "3": {"learning_rate": 1e-4}, "5": {"learning_rate": 2e-3}}

    def at_safe_point(session: Session, trainer: Any) -> None:
        if int(trainer.state.global_step) == 1:
            Mailbox(RunFolder(parent).commands).submit("set", {"schedule": plan})

    rows, weights, _ = run_recorded(parent, at_safe_point=at_safe_point, **CYCLE)
    checkpoint = copy(parent / "checkpoint-3", folder)
    RunSpec({}, forked_from=str(parent / "checkpoint-3")).write(RunFolder(folder).spec)
    found, last, _ = run_recorded(folder, resume=checkpoint, **CYCLE)
    assert found == [row for row in rows if row[0] > 3]
    assert last == weights
    with closing(RunReader(RunFolder(folder).database)) as reader:
        made = [(change.step, change.name) for change in reader.settings() if change.by == BY_SCHEDULE]
        states = [one.state for one in scheduled_from(reader.fact(FACT))]
    assert made == [(3, "learning_rate"), (5, "learning_rate")], "the one of step 2 is in the checkpoint"
    assert states == ["applied", "applied"]


def test_what_the_parent_took_back_or_changed_since_is_no_plan_of_a_fork(tmp_path: Path) -> None:
    parent, folder = tmp_path / "parent", tmp_path / "fork"
    plan = {"4": {"learning_rate": 1e-4}, "5": {"temperature": 0.9}}

    def at_safe_point(session: Session, trainer: Any) -> None:
        mailbox, step = Mailbox(RunFolder(parent).commands), int(trainer.state.global_step)
        if step == 1:
            mailbox.submit("set", {"schedule": plan})
        if step == 2:
            mailbox.submit("undo", {"count": 1})
        if step == 5:
            mailbox.submit("set", {"learning_rate": 3e-4})

    run_recorded(parent, at_safe_point=at_safe_point, **CYCLE)
    checkpoint = copy(parent / "checkpoint-3", folder)
    RunSpec({}, forked_from=str(parent / "checkpoint-3")).write(RunFolder(folder).spec)
    run_recorded(folder, resume=checkpoint, **CYCLE)
    with closing(RunReader(RunFolder(folder).database)) as reader:
        assert not [change for change in reader.settings() if change.by == BY_SCHEDULE]


def test_a_new_optimizer_begins_empty_at_this_step_of_the_schedule(tmp_path: Path) -> None:
    settings = {**CYCLE, "warmup_steps": 2, "weight_decay": 0.1}
    parent, folder = tmp_path / "parent", tmp_path / "fork"

    def halve(session: Session, trainer: Any) -> None:
        if int(trainer.state.global_step) == 2:
            Mailbox(RunFolder(parent).commands).submit("set", {"learning_rate": 2e-4})

    rows, weights, _ = run_recorded(parent, at_safe_point=halve, **settings)
    counts: list[set[int]] = []

    def look(session: Session, trainer: Any) -> None:
        counts.append({int(state["step"]) for state in trainer.optimizer.state.values()})

    checkpoint = copy(parent / "checkpoint-3", folder, optimizer=False)
    found, last, _ = run_recorded(folder, resume=checkpoint, at_safe_point=look, **settings)
    rates = {step: row["learning_rate"] for step, row in rows if "loss" in row}
    assert {step: row["learning_rate"] for step, row in found if "loss" in row} == {
        step: rate for step, rate in rates.items() if step > 3
    }
    assert all(rate > 0 for step, rate in rates.items() if step > 3)
    assert counts[0] == {1}, "Adam counts its steps from zero, and with them its moments"
    assert last != weights
    with closing(RunReader(RunFolder(folder).database)) as reader:
        assert [c.name for c in reader.settings() if c.name == "learning_rate"] == []
        notes = reader.fact("resumed/1")
    assert "the optimizer starts without state, at this step of the schedule" in notes


SHAPE: dict[str, Any] = {
    "steps_per_generation": 2,
    "gradient_accumulation_steps": 2,
    "save_strategy": "steps",
}


@pytest.mark.parametrize(
    ("before", "after", "last"),
    [
        ({}, {"per_device_train_batch_size": 4}, 9),
        ({"num_iterations": 2}, {"per_device_train_batch_size": 8, "num_generations": 8}, 11),
        ({}, {"per_device_train_batch_size": 10}, 5),
    ],
    ids=["half the batch", "other groups, within a cycle", "no multiple of what was seen"],
)
def test_no_prompt_comes_again_in_an_epoch_after_the_batch_shape_changed(
    before: dict[str, Any], after: dict[str, Any], last: int, tmp_path: Path
) -> None:
    asked: list[str] = []

    def note(prompts: list[Any], completions: list[Any], **columns: Any) -> list[float]:
        asked.extend(dict.fromkeys(map(str, prompts)))
        return [float(len(str(completion))) for completion in completions]

    settings = {**SHAPE, "rewards": [note], "rows": 24, "per_device_train_batch_size": 8, "save_steps": 3}
    run_recorded(tmp_path / "parent", **{**settings, **before, "max_steps": 4})
    del asked[12:]  # of the first three steps
    seen = 8 if "num_iterations" in before else 12
    del asked[seen:]
    checkpoint = copy(tmp_path / "parent" / "checkpoint-3", tmp_path / "fork")
    settings |= {**after, "max_steps": last, "save_steps": 4}
    run_recorded(tmp_path / "fork", resume=checkpoint, **settings)
    whole = len(asked)
    assert len(set(asked)) == whole == (22 if last == 5 else 24)
    if last < 9:
        return
    del asked[seen + 2 :]  # it goes on from its first own checkpoint
    rest = len(asked)
    run_recorded(tmp_path / "fork", resume=tmp_path / "fork" / "checkpoint-4", **settings)
    assert len(set(asked)) == len(asked) == whole
    assert rest < whole
