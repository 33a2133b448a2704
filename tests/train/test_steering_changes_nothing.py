"""Pause, sample, tokens and checkpoint change no later number; a resume goes on; a set equals a config."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from grpo_tui.core.commands import Outcome
from grpo_tui.demo.rewards import correctness, format_reward
from grpo_tui.rewards.library import AdaptiveWeight
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.mailbox import Mailbox
from grpo_tui.store.read_series import metric_rows
from grpo_tui.store.reader import RunReader
from grpo_tui.train.session import Session
from tests import PATIENCE_S
from tests.train.tiny import run_plain, run_recorded

pytestmark = pytest.mark.slow

CYCLE: dict[str, Any] = {
    "per_device_train_batch_size": 4,
    "steps_per_generation": 4,
    "num_iterations": 2,
    "gradient_accumulation_steps": 1,
    "max_steps": 14,
    "logging_steps": 4,
}
"""Eight steps a generation, logged every fourth: step 6 lies within both."""


def _ask(folder: Path, at: int, *asks: tuple[str, dict[str, Any]]) -> Any:
    """Submit commands when a step's safe point comes."""
    done: set[int] = set()

    def at_safe_point(session: Session, trainer: Any) -> None:
        step = trainer.state.global_step
        if step == at and step not in done:
            done.add(step)
            for kind, args in asks:
                Mailbox(RunFolder(folder).commands).submit(kind, args)

    return at_safe_point


@pytest.fixture(scope="module")
def plain_cycle(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[tuple[int, dict[str, Any]]], str]:
    """What TRL alone makes of such a run."""
    return run_plain(tmp_path_factory.mktemp("plain"), **CYCLE)


def test_pause_sample_tokens_and_checkpoint_change_no_later_number(
    plain_cycle: tuple[list[Any], str], tmp_path: Path
) -> None:
    plain_rows, plain_weights = plain_cycle
    folder = tmp_path / "steered"
    looked_at = {"group": 1, "index": 0, "prompt": "5+5=?", "text": "5+5=10", "truncated": False}

    def resume_later() -> None:
        box = Mailbox(RunFolder(folder).commands)
        end = time.monotonic() + PATIENCE_S
        while not any(c.kind == "pause" and o is not None for c, o in box.history(set())):
            assert time.monotonic() < end, "it was not paused"
            time.sleep(0.05)
        box.submit("sample", {"prompt": "5+5=?", "count": 3, "temperature": 0.5})
        box.submit("tokens", {**looked_at, "index": 1})
        box.submit("resume")

    thread = threading.Thread(target=resume_later)
    thread.start()
    before = (("sample", {"prompt": "3+4=?"}), ("tokens", looked_at), ("checkpoint", {}), ("pause", {}))
    asks = _ask(folder, 6, *before)
    rows, weights, _ = run_recorded(folder, at_safe_point=asks, **CYCLE)
    thread.join()
    assert repr(rows) == repr(plain_rows)
    assert weights == plain_weights
    outcomes = {c.kind: o for c, o in RunReader(RunFolder(folder).database).commands() if o is not None}
    assert {kind for kind, outcome in outcomes.items() if outcome.applied} == {
        "sample",
        "tokens",
        "checkpoint",
        "pause",
        "resume",
    }
    assert len(outcomes["sample"].result["completions"]) == 3
    assert (outcomes["sample"].result["prompt"], outcomes["sample"].result["temperature"]) == ("5+5=?", 0.5)
    waits = RunReader(RunFolder(folder).database)
    assert any(row["phase"] == "wait" for row in waits.all("SELECT phase FROM phase"))


@pytest.mark.parametrize(
    ("name", "arguments", "at"),
    [
        ("within a generation cycle and between two logged steps", CYCLE, 6),
        ("with evaluation and an epoch's end", {"evaluate": True, "eval_strategy": "steps", "eval_steps": 2,
                                                "rows": 12, "max_steps": 8}, 5),
        ("between two epochs", {"rows": 12, "max_steps": 8}, 6),
        ("with KL and gradient accumulation", {"per_device_train_batch_size": 8, "beta": 0.04,
                                               "gradient_accumulation_steps": 2}, 3),
    ],
)  # fmt: skip
def test_a_resume_goes_on_as_if_nothing_had_happened(
    name: str, arguments: dict[str, Any], at: int, plain_cycle: tuple[list[Any], str], tmp_path: Path
) -> None:
    plain = plain_cycle if arguments is CYCLE else run_plain(tmp_path / "plain", **arguments)
    plain_rows, plain_weights = plain
    folder = tmp_path / "stopped"
    first, _, session = run_recorded(folder, at_safe_point=_ask(folder, at, ("stop", {})), **arguments)
    assert session.ended_state() == "stopped"
    checkpoint = folder / f"checkpoint-{at}"
    second, weights, _ = run_recorded(folder, resume=checkpoint, **arguments)
    assert weights == plain_weights
    known = [row for row in plain_rows if "train_loss" not in row[1]]
    ours = [row for row in first + second if "train_loss" not in row[1]]
    assert repr(ours) == repr(known)
    groups = list(RunReader(RunFolder(folder).database).iter_groups(mode="train"))
    keys = [(g.attempt, g.batch, g.index) for g in groups]
    assert len(set(keys)) == len(keys)


def test_what_a_reward_has_learned_comes_back_after_a_resume(tmp_path: Path) -> None:
    def adaptive() -> list[Any]:
        return [AdaptiveWeight(correctness, up=1.5, down=0.5, success=1.0), format_reward]

    plain_rows, plain_weights = run_plain(tmp_path / "plain", rewards=adaptive(), max_steps=4)
    folder = tmp_path / "stopped"
    asks = _ask(folder, 2, ("stop", {}))
    first, _, _ = run_recorded(folder, at_safe_point=asks, rewards=adaptive(), max_steps=4)
    second, weights, _ = run_recorded(folder, resume=folder / "checkpoint-2", rewards=adaptive(), max_steps=4)
    ours = [row["weight/correctness"] for _, row in first + second if "weight/correctness" in row]
    assert ours == [row["weight/correctness"] for _, row in plain_rows if "weight/correctness" in row]
    assert len(set(ours)) > 2
    assert weights == plain_weights


def test_steps_done_again_after_a_resume_supersede_the_first_ones(tmp_path: Path) -> None:
    asks = _ask(tmp_path, 2, ("checkpoint", {}))
    run_recorded(tmp_path, at_safe_point=asks)
    run_recorded(tmp_path, resume=tmp_path / "checkpoint-2", max_steps=6)
    reader = RunReader(RunFolder(tmp_path).database)
    steps = [(step, "reward" in values) for _, step, values in metric_rows(reader)]
    assert [s for s, reward in steps if reward] == [1, 2, 3, 4, 5, 6]
    assert {g.attempt for g in reader.iter_groups(first_step=3)} == {2}
    assert {g.attempt for g in reader.iter_groups(first_step=3, superseded=True)} == {1, 2}
    assert reader.completion_count() == 6 * 16
    assert reader.completion_count(superseded=True) == 10 * 16


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"beta": 0.04},
        # accelerate wraps `forward` for mixed precision
        {"beta": 0.04, "bf16": True, "gradient_checkpointing": True},
    ],
    ids=["float32", "reference", "bf16"],
)
def test_a_temperature_set_in_mid_run_equals_a_run_configured_so(
    arguments: dict[str, Any], tmp_path: Path
) -> None:
    """Three steps after the change equal those of a run resumed with the temperature in its config."""
    changed = tmp_path / "changed"
    asks = _ask(changed, 3, ("checkpoint", {}), ("set", {"temperature": 1.7}))
    rows, weights, _ = run_recorded(changed, at_safe_point=asks, **arguments)
    again, weights_again, _ = run_recorded(
        tmp_path / "configured", resume=changed / "checkpoint-3", temperature=1.7, **arguments
    )
    assert repr([r for r in rows if r[0] > 3 and "loss" in r[1]]) == repr(
        [r for r in again if "loss" in r[1]]
    )
    assert weights == weights_again
    setting = RunReader(RunFolder(changed).database).settings()[0]
    assert (setting.name, setting.old, setting.new, setting.step) == ("temperature", 1.0, 1.7, 3)


def test_a_temperature_waits_for_the_next_generation(tmp_path: Path) -> None:
    run_recorded(tmp_path, at_safe_point=_ask(tmp_path, 2, ("set", {"temperature": 1.5})), **CYCLE)
    setting = RunReader(RunFolder(tmp_path).database).settings()[0]
    assert setting.step == 8, "a generation serves steps 1 to 8"


def test_a_learning_rate_keeps_the_shape_of_the_schedule(tmp_path: Path) -> None:
    plain_rows, _ = run_plain(tmp_path / "plain")
    folder = tmp_path / "changed"
    rows, _, _ = run_recorded(folder, at_safe_point=_ask(folder, 3, ("set", {"learning_rate": 1e-4})))
    before = {s: v["learning_rate"] for s, v in plain_rows if "loss" in v}
    after = {s: v["learning_rate"] for s, v in rows if "loss" in v}
    # A row holds the rate its step used; the change at step 3 counts from step 4 on.
    scale = after[4] / before[4]
    assert after[4] == pytest.approx(1e-4)
    for step in (1, 2, 3):
        assert after[step] == before[step]
    for step in (4, 5, 6):
        assert after[step] == pytest.approx(before[step] * scale)


def test_settings_come_back_after_a_resume(tmp_path: Path) -> None:
    asks = [
        _ask(tmp_path, 2, ("checkpoint", {})),
        _ask(tmp_path, 4, ("set", {"learning_rate": 1e-4, "temperature": 1.3, "reward_weights": [1.0, 3.0]})),
    ]

    def both(session: Session, trainer: Any) -> None:
        for ask in asks:
            ask(session, trainer)

    run_recorded(tmp_path, at_safe_point=both)
    seen: dict[str, Any] = {}

    def look(session: Session, trainer: Any) -> None:
        seen.setdefault("settings", session.settings.current())
        seen.setdefault("factor", trainer.lr_scheduler.base_lrs[0] / 5e-4)

    run_recorded(tmp_path, resume=tmp_path / "checkpoint-2", at_safe_point=look)
    history = RunReader(RunFolder(tmp_path).database).settings()
    first = next(s for s in history if s.name == "learning_rate")
    assert seen["settings"]["temperature"] == 1.3
    assert seen["settings"]["reward_weights"] == [1.0, 3.0]
    assert seen["factor"] == pytest.approx(first.new / first.old)
    assert sorted(s.name for s in history if s.by == "resume") == [
        "learning_rate",
        "reward_weights",
        "temperature",
    ]


SENSELESS: list[tuple[dict[str, Any], str]] = [
    ({"temperature": 0}, "from 0.01 to 100"),
    ({"temperature": "warm"}, "takes a number"),
    ({"learning_rate": float("nan")}, "finite"),
    ({"beta": 0.1}, "beta cannot be 0.1 in this run: the run began with beta 0, so no reference model"),
    ({"reward_weights": [1.0]}, "takes 2 numbers, in the order correctness, format"),
    ({"reward_weights.speed": 2}, "unknown reward function speed"),
    ({"learning_rate": 1e-4, "temperature": -1}, "from 0.01 to 100"),
    ({}, "nothing to set; the settings are learning_rate, lr_scheduler_type, lr_scheduler_start"),
]


def test_a_setting_that_makes_no_sense_is_refused_and_nothing_changes(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    asks = [("set", args) for args, _ in SENSELESS]
    run_recorded(folder, at_safe_point=_ask(folder, 1, *asks), max_steps=2)
    reader = RunReader(RunFolder(folder).database)
    commands = reader.commands()
    assert repr([command.args for command, _ in commands]) == repr([args for args, _ in SENSELESS])
    for (_, why), (_, outcome) in zip(SENSELESS, commands, strict=True):
        assert isinstance(outcome, Outcome)
        assert (outcome.applied, outcome.step) == (False, 1)
        assert why in outcome.reason
    assert reader.settings() == []
    assert RunReader(RunFolder(folder).database).settings() == []
