"""A resume ignores and undoes nothing: what changed counts, what was set stays, and it is said."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from grpo_tui.core.commands import Outcome
from grpo_tui.demo.rewards import correctness, format_reward
from grpo_tui.store.checkpoints import MARKER, held
from grpo_tui.store.json_file import read_object, write_json
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.mailbox import Mailbox
from grpo_tui.store.reader import RunReader
from grpo_tui.train import compat
from grpo_tui.train.session import Session
from grpo_tui.train.settings import Refused, short
from tests.train.tiny import run_plain, run_recorded

pytestmark = pytest.mark.slow

CYCLE: dict[str, Any] = {
    "per_device_train_batch_size": 4,
    "steps_per_generation": 4,
    "max_steps": 6,
    "save_strategy": "steps",
    "save_steps": 2,
}
"""Four steps a generation: checkpoint-2 lies within one."""


def _ask(folder: Path, asks: dict[int, list[tuple[str, dict[str, Any]]]]) -> Any:
    """Submit commands, once each, when the safe point of their step comes."""

    def at_safe_point(session: Session, trainer: Any) -> None:
        for kind, args in asks.pop(trainer.state.global_step, ()):
            Mailbox(RunFolder(folder).commands).submit(kind, args)

    return at_safe_point


def _copy(run: Path, to: Path) -> Path:
    shutil.copytree(run, to)
    return to


def _losses(rows: list[tuple[int, dict[str, Any]]], after: int) -> list[tuple[int, float]]:
    return [(step, row["loss"]) for step, row in rows if step > after and "loss" in row]


def _rates(rows: list[tuple[int, dict[str, Any]]]) -> dict[int, float]:
    return {step: row["learning_rate"] for step, row in rows if "loss" in row}


def _train_loss(rows: list[tuple[int, dict[str, Any]]]) -> float:
    return next(row["train_loss"] for _, row in rows if "train_loss" in row)


@pytest.fixture(scope="module")
def cycle(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[tuple[int, dict[str, Any]]]]:
    """A whole run with checkpoints within and between its generation cycles, and its rows."""
    folder = tmp_path_factory.mktemp("cycle") / "run"
    rows, _, _ = run_recorded(folder, **CYCLE)
    return folder, rows


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Callable[[dict[str, Any]], Path]:
    """A finished run with some arguments, trained once."""
    made: dict[str, Path] = {}

    def one(arguments: dict[str, Any]) -> Path:
        key = repr(arguments)
        if key not in made:
            made[key] = tmp_path_factory.mktemp("finished") / "run"
            run_recorded(made[key], **arguments)
        return made[key]

    return one


def test_settings_that_transformers_takes_from_a_checkpoint_are_those_of_the_config(
    cycle: tuple[Path, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = _copy(cycle[0], tmp_path / "run")
    for name in ("checkpoint-4", "checkpoint-6"):
        shutil.rmtree(run / name)
    changes = {"save_steps": 3, "logging_steps": 2, "weight_decay": 0.3, "adam_beta2": 0.9,
               "adam_epsilon": 1e-6, "learning_rate": 1e-4, "max_steps": 8}  # fmt: skip
    used: dict[str, Any] = {}

    def look(session: Session, trainer: Any) -> None:
        group = trainer.optimizer.param_groups[0]
        used.update({key: group[key] for key in ("weight_decay", "betas", "eps")})

    rows, _, _ = run_recorded(run, resume=run / "checkpoint-2", at_safe_point=look, **{**CYCLE, **changes})
    assert used == {"weight_decay": 0.3, "betas": (0.9, 0.9), "eps": 1e-6}
    assert sorted(path.name for path in run.glob("checkpoint-*")) == [f"checkpoint-{n}" for n in (2, 3, 6, 8)]
    rates = _rates(rows)
    assert list(rates) == [4, 6, 8]
    assert rates[4] == pytest.approx(1e-4 * (1 - 3 / 8))
    assert rates[8] == pytest.approx(1e-4 * (1 - 7 / 8))
    said = capsys.readouterr().out
    for name, value in (("save_steps", "3"), ("weight_decay", "0.3"), ("learning_rate", "1e-4")):
        assert f"{name} is {value}, as the config says; it was " in said
    reader = RunReader(RunFolder(run).database)
    assert {s.name for s in reader.settings() if s.by == "config"} == set(changes)
    assert any("weight_decay is 0.3" in note for note in reader.fact("resumed/2"))


@pytest.mark.parametrize(
    "changes",
    [
        {"beta": 0.04},
        {"num_generations": 2},
        {"steps_per_generation": 2},
        {"temperature": 0.7},
        {"max_completion_length": 8},
        {"reward_weights": [1.0, 3.0]},
        {"rows": 64},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_a_batch_that_a_changed_setting_would_have_made_otherwise_is_not_trained_on(
    changes: dict[str, Any], cycle: tuple[Path, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = _copy(cycle[0], tmp_path / "run")
    rows, _, _ = run_recorded(run, resume=run / "checkpoint-2", **{**CYCLE, **changes, "max_steps": 5})
    (name,) = changes
    said = capsys.readouterr().out
    assert "step 3 generates a new batch: the one in checkpoint-2 was made with another " in said
    assert {"rows": "dataset"}.get(name, name) in said.split("was made with another ")[1].splitlines()[0]
    groups = RunReader(RunFolder(run).database).iter_groups(first_step=3)
    generated = sorted({g.step for g in groups if g.attempt == 2})
    every = 2 if name == "steps_per_generation" else 4
    # With another batch shape the data continues with the next batch, else where it was.
    begun = 3 if name in ("num_generations", "steps_per_generation") else 1
    expected = [3, *(step for step in (4, 5) if (step - begun) % every == 0)]
    assert generated == expected, "at once, and then whenever the data changes"
    assert _losses(rows, 2) != _losses(cycle[1], 2)[:3]


def test_an_unchanged_resume_keeps_the_batch_and_says_nothing_of_it(
    cycle: tuple[Path, list[tuple[int, dict[str, Any]]]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = _copy(cycle[0], tmp_path / "run")
    rows, _, _ = run_recorded(run, resume=run / "checkpoint-2", **CYCLE)
    assert _losses(rows, 2) == _losses(cycle[1], 2)
    assert _rates(rows) == {step: rate for step, rate in _rates(cycle[1]).items() if step > 2}
    assert _train_loss(rows) == _train_loss(cycle[1]), "over all steps, not only those of this attempt"
    said = [line for line in capsys.readouterr().out.splitlines() if line.startswith("grpo-tui:")]
    assert said == ["grpo-tui: resuming at step 2 from checkpoint-2"]
    reader = RunReader(RunFolder(run).database)
    assert reader.settings() == []
    assert reader.fact("resumed/2") is None
    rows, _, _ = run_recorded(run, resume=run / "checkpoint-4", **CYCLE)
    assert _losses(rows, 4) == _losses(cycle[1], 4)
    assert _train_loss(rows) == _train_loss(cycle[1]), "the same after a second resume"


@pytest.mark.parametrize(
    ("before", "after", "rates"),
    [
        ({}, {"max_steps": 6}, [5e-4 * 2 / 6, 5e-4 * 1 / 6]),
        ({}, {"max_steps": 6, "learning_rate": 9e-3}, [9e-3 * 2 / 6, 9e-3 / 6]),
        ({"lr_scheduler_type": "cosine"}, {"max_steps": 8}, None),
        ({"lr_scheduler_type": "constant"}, {"max_steps": 6}, [5e-4, 5e-4]),
        ({}, {"max_steps": 6, "lr_scheduler_type": "constant_with_warmup"}, [5e-4, 5e-4]),
        ({"max_steps": -1, "num_train_epochs": 1, "rows": 16}, {"num_train_epochs": 2}, [5e-4 / 2, None]),
    ],
    ids=["linear", "linear, another rate", "cosine", "constant", "another schedule", "epochs"],
)
def test_a_finished_run_is_extended(
    before: dict[str, Any],
    after: dict[str, Any],
    rates: list[float | None] | None,
    finished: Callable[[dict[str, Any]], Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    first = {"max_steps": 4, "save_strategy": "steps", "save_steps": 4, **before}
    run = _copy(finished(first), tmp_path / "run")
    rows, _, session = run_recorded(run, resume=run / "checkpoint-4", **{**first, **after})
    total = after.get("max_steps", 8)
    assert session.ended_state() == "finished"
    done = _rates(rows)
    assert list(done) == list(range(5, total + 1))
    assert min(done.values()) > 0
    for rate, expected in zip(done.values(), rates or [], strict=False):
        assert expected is None or rate == pytest.approx(expected)
    if rates is None:
        assert done[5] == pytest.approx(5e-4 * 0.5)
    said = capsys.readouterr().out
    if after.get("lr_scheduler_type", before.get("lr_scheduler_type")) in (None, "linear", "cosine"):
        ahead = f"at step 5, {short(done[total])} at step {total}"
        assert f"grpo-tui: learning_rate is {short(done[5])} {ahead}" in said


def test_a_run_that_has_made_all_its_steps_is_not_finished_again(
    cycle: tuple[Path, Any], tmp_path: Path
) -> None:
    run = _copy(cycle[0], tmp_path / "run")
    with pytest.raises(Exception, match=r"finished its 6 steps\. Add more: --set max_steps=12"):
        run_recorded(run, resume=run / "checkpoint-6", **CYCLE)
    assert RunReader(RunFolder(run).database).attempts()[-1].state == "failed"


def test_what_was_set_counts_after_every_resume_at_whichever_step_it_was_asked(tmp_path: Path) -> None:
    """Set at a step that is saved already, saved again, resumed, changed by the config, resumed once more."""
    run = tmp_path / "run"
    arguments = {**CYCLE, "max_steps": 8}
    asks = {
        4: [
            ("set", {"learning_rate": 1e-4, "temperature": 0.9, "reward_weights": [1.0, 3.0]}),
            ("checkpoint", {}),
            ("stop", {}),
        ]
    }
    run_recorded(run, at_safe_point=_ask(run, asks), **arguments)
    outcomes = [o for _, o in RunReader(RunFolder(run).database).commands()]
    assert all(isinstance(o, Outcome) and o.applied for o in outcomes)
    live = (read_object(run / "checkpoint-4" / MARKER) or {})["live"]
    assert (live["temperature"], live["reward_weights"]) == (0.9, [1.0, 3.0]), "saved again with the change"

    seen: dict[str, Any] = {}

    def stop_at(step: int) -> Any:
        def look(session: Session, trainer: Any) -> None:
            if trainer.state.global_step == step:
                seen.update(session.settings.current(), base=trainer.lr_scheduler.base_lrs[0])
                Mailbox(RunFolder(run).commands).submit("stop", {})

        return look

    # Within a cycle, at a step of the attempt before and one of this attempt.
    rows, _, _ = run_recorded(run, resume=run / "checkpoint-4", at_safe_point=stop_at(6), **arguments)
    assert (seen["temperature"], seen["reward_weights"]) == (0.9, [1.0, 3.0])
    assert _rates(rows)[5] == pytest.approx(1e-4)
    base = seen["base"]
    again = _copy(run, tmp_path / "again")
    for attempt, checkpoint in enumerate(("checkpoint-6", "checkpoint-2", "checkpoint-2"), 3):
        rows, _, _ = run_recorded(again, resume=again / checkpoint, at_safe_point=None, **arguments)
        assert _rates(rows)[7] == pytest.approx(1e-4 * 2 / 4), (attempt, checkpoint)
        current = [s for s in RunReader(RunFolder(again).database).settings() if s.attempt == attempt]
        assert not [s for s in current if s.new not in (0.9, [1.0, 3.0]) and s.name != "learning_rate"]
    assert ("learning_rate", "resume") in [(s.name, s.by) for s in current]

    # The record was lost: the checkpoint itself says what was in force.
    bare = _copy(run, tmp_path / "without its record")
    for file in bare.glob("run.db*"):
        file.unlink()
    seen.clear()
    rows, _, _ = run_recorded(
        bare,
        resume=bare / "checkpoint-6",
        before_train=None,
        at_safe_point=lambda session, trainer: seen.update(session.settings.current()),
        **arguments,
    )
    assert (seen["temperature"], seen["reward_weights"]) == (0.9, [1.0, 3.0])
    assert _rates(rows)[7] == pytest.approx(1e-4 * 2 / 4)
    assert base == pytest.approx(2e-4)

    # Another config at a resume wins, and goes on winning at the next resume without it.
    changed = {**arguments, "temperature": 1.2, "learning_rate": 3e-4}
    run_recorded(run, resume=run / "checkpoint-6", at_safe_point=stop_at(7), **changed)
    for checkpoint in ("checkpoint-7", "checkpoint-2"):
        again = _copy(run, tmp_path / f"after the config, from {checkpoint}")
        seen.clear()
        rows, _, _ = run_recorded(
            again,
            resume=again / checkpoint,
            at_safe_point=lambda session, trainer: seen.update(session.settings.current()),
            **changed,
        )
        assert seen["temperature"] == 1.2, checkpoint
        assert seen["reward_weights"] == [1.0, 3.0], checkpoint
        assert _rates(rows)[8] == pytest.approx(3e-4 / 8), checkpoint


@pytest.fixture(scope="module")
def set_weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was stopped at step 4, where a rate and weights were set."""
    run = tmp_path_factory.mktemp("set") / "run"
    asks = {
        4: [
            ("set", {"learning_rate": 1e-4, "reward_weights": [2.0, 1.0]}),
            ("checkpoint", {}),
            ("stop", {}),
        ]
    }
    run_recorded(run, at_safe_point=_ask(run, asks), **CYCLE)
    return run


def test_a_value_given_again_at_a_resume_wins_over_what_was_set(set_weights: Path, tmp_path: Path) -> None:
    run = _copy(set_weights, tmp_path / "run")
    seen: dict[str, Any] = {}

    def look(session: Session, trainer: Any) -> None:
        seen.update(session.settings.current())
        with pytest.raises(Refused, match="there is no change to undo"):
            session.settings.undo(1)

    rows, _, _ = run_recorded(
        run,
        resume=run / "checkpoint-4",
        overridden=("learning_rate", "grpo_tui.rewards.0.weight"),
        at_safe_point=look,
        **CYCLE,
    )
    assert seen["reward_weights"] == [1.0, 1.0]
    assert _rates(rows)[5] == pytest.approx(5e-4 * 2 / 6)


def _lengths(completions: list[Any], **_: Any) -> list[float]:
    return [float(len(str(completion))) / 100 for completion in completions]


@pytest.mark.parametrize("rewards", [[correctness, _lengths], [correctness, format_reward, _lengths]])
def test_weights_that_were_set_for_other_reward_functions_are_not_put_back(
    set_weights: Path, rewards: list[Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = _copy(set_weights, tmp_path / "run")
    seen: dict[str, Any] = {}
    run_recorded(
        run,
        resume=run / "checkpoint-4",
        rewards=rewards,
        at_safe_point=lambda session, trainer: seen.update(session.settings.current()),
        **{**CYCLE, "max_steps": 5},
    )
    assert seen["reward_weights"] == [1.0] * len(rewards)
    said = capsys.readouterr().out
    assert "the reward functions changed: reward_weights are those of the config" in said
    assert "reward_weights is" not in said


def test_a_resume_within_a_cycle_goes_on_at_the_temperature_of_its_batch(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Set at 4, at a boundary; the next one, asked at 5, waits for 8: a resume at 6 knows both."""
    arguments = {**CYCLE, "max_steps": 9, "beta": 0.04, "sync_ref_model": True}
    asks = {4: [("set", {"temperature": 0.8})], 5: [("set", {"temperature": 1.3})]}
    whole, _, _ = run_recorded(tmp_path / "whole", at_safe_point=_ask(tmp_path / "whole", asks), **arguments)
    settings = RunReader(RunFolder(tmp_path / "whole").database).settings()
    assert [(s.step, s.new) for s in settings] == [(4, 0.8), (8, 1.3)]
    assert "sync_ref_model" not in capsys.readouterr().out
    rows, _, _ = run_recorded(tmp_path / "whole", resume=tmp_path / "whole" / "checkpoint-6", **arguments)
    assert _losses(rows, 6) == _losses(whole, 6)
    assert "sync_ref_model: the reference model starts from the base model again" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("changes", "refusal"),
    [
        ({"optim": "adafactor"}, "optim cannot change from adamw_torch_fused to adafactor at a resume"),
        ({"lr_scheduler_type": "greedy", "evaluate": True, "eval_strategy": "steps"},
         "lr_scheduler_type cannot change from linear to greedy at a resume"),
    ],
)  # fmt: skip
def test_a_change_that_the_checkpoint_cannot_take_is_refused(
    changes: dict[str, Any], refusal: str, cycle: tuple[Path, Any], tmp_path: Path
) -> None:
    run = _copy(cycle[0], tmp_path / "run")
    with pytest.raises(Exception, match=refusal):
        run_recorded(run, resume=run / "checkpoint-2", **{**CYCLE, **changes})


def test_a_checkpoint_that_does_not_say_what_its_batch_was_made_with_has_it_made_again(
    cycle: tuple[Path, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = _copy(cycle[0], tmp_path / "run")
    marker = read_object(run / "checkpoint-2" / MARKER) or {}
    write_json(
        run / "checkpoint-2" / MARKER, {k: marker[k] for k in ("step", "saved_at", "requested", "files")}
    )
    rows, _, _ = run_recorded(run, resume=run / "checkpoint-2", **{**CYCLE, "weight_decay": 0.3})
    said = capsys.readouterr().out
    assert "step 3 generates a new batch" in said
    assert "weight_decay is 0.3, as the config says; it was 0" in said
    groups = RunReader(RunFolder(run).database).iter_groups(first_step=3)
    assert sorted({g.step for g in groups if g.attempt == 2}) == [3, 5]
    assert _losses(rows, 2) != _losses(cycle[1], 2)


def test_another_seed_draws_other_prompts_and_completions(
    cycle: tuple[Path, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = _copy(cycle[0], tmp_path / "run")
    run_recorded(run, resume=run / "checkpoint-4", **{**CYCLE, "seed": 8, "max_steps": 5})
    reader = RunReader(RunFolder(run).database)
    groups = list(reader.iter_groups(first_step=5, last_step=5, superseded=True))
    prompts = [{g.prompt_key for g in groups if g.attempt == attempt} for attempt in (1, 2)]
    assert prompts[1]
    assert prompts[0] != prompts[1]
    assert "the prompts continue at step 5 in a new order (seed changed)" in capsys.readouterr().out


def test_what_the_first_step_uses_otherwise_is_an_alert(
    cycle: tuple[Path, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an optimizer would that keeps its own copy of what was written over it."""
    from grpo_tui.store.live import read_rank
    from grpo_tui.store.status import _alerts

    run = _copy(cycle[0], tmp_path / "run")

    def undo(session: Session, trainer: Any) -> None:
        def around(original: Any) -> Any:
            def step(*args: Any, **kwargs: Any) -> Any:
                for group in trainer.optimizer.param_groups:
                    group["weight_decay"] = 0.0
                return original(*args, **kwargs)

            return step

        compat.wrap(trainer, "training_step", around)

    run_recorded(run, resume=run / "checkpoint-4", before_train=undo, **{**CYCLE, "weight_decay": 0.3})
    rank = read_rank(RunFolder(run).rank(0))
    (alert,) = _alerts(rank, 5)
    assert alert["id"] == "resume.differs"
    assert alert["message"] == "after the resume weight_decay is 0, the config says 0.3"


def test_a_rate_set_while_it_warms_up_is_told_with_what_the_schedule_makes_of_it(tmp_path: Path) -> None:
    asks: dict[int, Any] = {2: [("set", {"learning_rate": 1e-4})]}
    rows, _, _ = run_recorded(tmp_path, at_safe_point=_ask(tmp_path, asks), warmup_steps=4, max_steps=6)
    (_, outcome), *_ = RunReader(RunFolder(tmp_path).database).commands()
    assert outcome is not None
    rates = _rates(rows)
    assert rates[3] == pytest.approx(1e-4)
    assert outcome.reason == "learning_rate 2.5e-4 → 1e-4 at step 3, 2e-4 at step 5, 1e-4 at step 6"
    assert (rates[5], rates[6]) == (pytest.approx(2e-4), pytest.approx(1e-4))


def test_a_checkpoint_a_person_asked_for_is_never_rotated_away(tmp_path: Path) -> None:
    """Asked for on a step just saved, in a folder renamed since, and one that a resume saves again.

    Nor is the one being saved, where a clock that was ahead makes a later step look newer.
    """
    arguments = {"save_strategy": "steps", "save_steps": 1, "save_total_limit": 1}
    begun, run = tmp_path / "begun", tmp_path / "renamed"
    ask = _ask(begun, {2: [("checkpoint", {})]})

    def at_safe_point(session: Session, trainer: Any) -> None:
        ask(session, trainer)
        if trainer.state.global_step == 3 and begun.exists():
            begun.rename(run)

    run_recorded(begun, at_safe_point=at_safe_point, max_steps=4, **arguments)

    def left() -> list[str]:
        return sorted(path.name for path in run.glob("checkpoint-*"))

    assert left() == ["checkpoint-2", "checkpoint-4"]
    shutil.copytree(run / "checkpoint-2", run / "checkpoint-1")
    state = read_object(run / "checkpoint-1" / "trainer_state.json") or {}
    write_json(run / "checkpoint-1" / "trainer_state.json", {**state, "global_step": 1})
    (run / "checkpoint-1" / MARKER).unlink()
    os.utime(run / "checkpoint-4", (time.time() + 3600,) * 2)
    run_recorded(run, resume=run / "checkpoint-1", max_steps=4, **arguments)
    assert left() == ["checkpoint-2", "checkpoint-4"]
    assert (read_object(run / "checkpoint-2" / MARKER) or {})["requested"] is True


def test_a_checkpoint_that_is_held_is_rotated_away_only_afterwards(tmp_path: Path) -> None:
    arguments = {"save_strategy": "steps", "save_steps": 1, "save_total_limit": 1}
    left: list[list[str]] = []
    with ExitStack() as stack:

        def at_safe_point(session: Session, trainer: Any) -> None:
            left.append(sorted(path.name for path in tmp_path.glob("*checkpoint-*")))
            if trainer.state.global_step == 1:
                stack.enter_context(held(tmp_path / "checkpoint-1"))
            elif trainer.state.global_step == 3:
                stack.close()

        run_recorded(tmp_path, at_safe_point=at_safe_point, max_steps=4, **arguments)
    assert left[2] == [".checkpoint-1.held", "checkpoint-1", "checkpoint-3"]
    assert left[3] == ["checkpoint-4"]


def test_a_whole_run_of_plain_trl_has_the_same_train_loss(
    cycle: tuple[Path, list[tuple[int, dict[str, Any]]]], tmp_path: Path
) -> None:
    rows, _ = run_plain(tmp_path, **CYCLE)
    assert _train_loss(rows) == _train_loss(cycle[1])
