"""A setting that changes in mid-run equals a run configured so and differs from the run unchanged."""

from __future__ import annotations

import math
import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from grpo_tui.config.live_settings import LIVE
from grpo_tui.core.commands import Outcome
from grpo_tui.core.records import Record
from grpo_tui.core.schedule import FACT, scheduled_from
from grpo_tui.store.checkpoints import copy
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.mailbox import Mailbox
from grpo_tui.store.reader import RunReader
from grpo_tui.train.session import Session
from grpo_tui.train.settable import SETTABLE
from grpo_tui.train.settings import LiveSettings, Refused
from tests.train.tiny import FIRST_LAYER, make_trainer, run_recorded

pytestmark = pytest.mark.slow


def _variety(completions: list[Any], **_: Any) -> list[float]:
    return [len(set(str(completion))) / 10 for completion in completions]


def _letters(completions: list[Any], **_: Any) -> list[float]:
    return [sum(map(ord, str(completion))) % 7 / 7 for completion in completions]


BASE: dict[str, Any] = {
    "rewards": [_variety, _letters],
    "per_device_train_batch_size": 8,
    "steps_per_generation": 2,
    "num_iterations": 2,
    "max_completion_length": 8,
    "beta": 0.04,
    "learning_rate": 3e-3,
    "model_init_kwargs": FIRST_LAYER,
    "max_steps": 8,
    "save_strategy": "steps",
    "save_steps": 2,
}
"""Four steps a generation: checkpoint-2 lies within one, checkpoint-4 between two."""

Rows = list[tuple[int, dict[str, Any]]]

AT_A_STEP: dict[str, Any] = {
    "max_grad_norm": 0.05,
    "beta": 0.5,
    "epsilon": 0.01,
    "epsilon_high": 0.01,
    "delta": 1.05,
    "entropy_coef": 0.05,
    "max_steps": 20,
    "lr_scheduler_type": "cosine",
}
AT_A_GENERATION: dict[str, Any] = {
    "reward_weights": [1.0, 3.0],
    "scale_rewards": False,
    "mask_truncated_completions": True,
    "temperature": 1.7,
    "top_p": 0.5,
    "top_k": 3,
    "min_p": 0.2,
    "repetition_penalty": 1.5,
    "max_completion_length": 5,
}
WITHOUT_NUMBERS = {"learning_rate", "lr_scheduler_start", "logging_steps", "save_steps", "eval_steps",
                   "probe_prompts"}  # fmt: skip
"""Tested elsewhere: the rate by its schedule, the schedule's start by transformers' own, the intervals by
when something is logged or saved, and probe prompts by what is asked.
"""


def _steps(rows: Rows, after: int) -> str:
    return repr([row for row in rows if after < row[0] <= after + 3 and "loss" in row[1]])


def _stop_after(trainer: Any, step: int) -> None:
    if trainer.state.global_step >= step:
        trainer.control.should_training_stop = True


def _set(folder: Path, asked: int, counts: int, *asks: tuple[str, dict[str, Any]]) -> Any:
    """Ask at a step, and end the training three steps after the one from which it counts."""
    left = list(asks)

    def at_safe_point(session: Session, trainer: Any) -> None:
        while left and trainer.state.global_step == asked:
            Mailbox(RunFolder(folder).commands).submit(*left.pop(0))
        _stop_after(trainer, counts + 3)

    return at_safe_point


@pytest.fixture(scope="module")
def parent(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Rows]:
    """The run unchanged: its folder with checkpoints within and between cycles, and its rows."""
    folder = tmp_path_factory.mktemp("parent") / "run"
    rows, _, _ = run_recorded(folder, **BASE)
    return folder, rows


def test_every_setting_is_in_both_tables_and_tested_here() -> None:
    assert list(LIVE) == list(SETTABLE)
    assert set(LIVE) == {*AT_A_STEP, *AT_A_GENERATION, *WITHOUT_NUMBERS}
    assert {name for name, row in LIVE.items() if row.counts == "generation"} == set(AT_A_GENERATION)


@pytest.mark.parametrize(
    ("name", "asked", "counts"),
    [
        *((name, at, at) for name in AT_A_STEP for at in (2, 4)),
        *((name, 2, 4) for name in AT_A_GENERATION),
    ],
)
def test_three_steps_after_a_change_equal_those_of_a_run_configured_so(
    name: str, asked: int, counts: int, parent: tuple[Path, Rows], tmp_path: Path
) -> None:
    value = {**AT_A_STEP, **AT_A_GENERATION}[name]
    changed, configured = tmp_path / "changed", tmp_path / "configured"
    rows, _, _ = run_recorded(
        changed, at_safe_point=_set(changed, asked, counts, ("set", {name: value})), **BASE
    )
    (setting,) = RunReader(RunFolder(changed).database).settings()
    assert (setting.name, setting.step) == (name, counts)
    shutil.copytree(parent[0] / f"checkpoint-{counts}", configured / f"checkpoint-{counts}")
    again, _, _ = run_recorded(
        configured,
        resume=configured / f"checkpoint-{counts}",
        at_safe_point=lambda session, trainer: _stop_after(trainer, counts + 3),
        **{**BASE, name: value},
    )
    assert _steps(rows, counts) == _steps(again, counts)
    assert _steps(rows, counts) != _steps(parent[1], counts), "it changed nothing"
    assert _steps(rows, counts - 2) != _steps(again, counts - 2), "three steps are compared"


def _outcomes(folder: Path) -> list[Outcome]:
    return [outcome for _, outcome in RunReader(RunFolder(folder).database).commands() if outcome is not None]


def test_steps_are_added_beyond_the_epoch_and_the_schedule_is_stretched_to_them(tmp_path: Path) -> None:
    small: dict[str, Any] = {"rows": 8, "max_steps": 4, "learning_rate": 1e-3}  # two steps an epoch
    folder = tmp_path / "run"
    asks = [("set", {"max_steps": 3}), ("set", {"max_steps": 7}), ("set", {"max_steps": 10**9})]
    left = {3: asks, 7: [("set", {"max_steps": 8})]}

    def at_safe_point(session: Session, trainer: Any) -> None:
        for ask in left.pop(trainer.state.global_step, ()):
            Mailbox(RunFolder(folder).commands).submit(*ask)

    rows, _, session = run_recorded(folder, at_safe_point=at_safe_point, **small)
    rates = {step: row["learning_rate"] for step, row in rows if "loss" in row}
    assert list(rates) == [1, 2, 3, 4, 5, 6, 7, 8], "7 was the last step when the eighth was added"
    assert rates[4] == pytest.approx(1e-3 * 4 / 7)
    assert rates[7] == pytest.approx(1e-3 * 1 / 7)
    assert rates[8] == pytest.approx(1e-3 * 1 / 8)
    assert session.ended_state() == "finished"
    early, done, far, last = _outcomes(folder)
    assert (early.applied, done.applied, far.applied, last.applied) == (False, True, False, True)
    assert "3 steps are already done. To end the run, use `stop`" in early.reason
    assert "max_steps 4 → 7; learning_rate is 5.71e-4 at step 4, 1.43e-4 at step 7" in done.reason
    assert "max_steps would be 142,857,143 times the current 7. Add --yes" in far.reason
    assert RunReader(RunFolder(folder).database).attempts()[-1].total_steps == 8


def test_intervals_change_and_everything_is_in_force_again_after_a_resume(
    parent: tuple[Path, Rows], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    wanted = {"save_steps": 1, "logging_steps": 2, "max_steps": 7, "beta": 0.0, "epsilon": 0.1, "delta": 1.5,
              "lr_scheduler_type": "constant", "top_k": 5}  # fmt: skip
    run_recorded(folder, at_safe_point=_set(folder, 4, 2, ("set", wanted)), **BASE)
    assert sorted(int(path.name.split("-")[1]) for path in folder.glob("checkpoint-*")) == [2, 4, 5]
    for checkpoint in ("checkpoint-5", "checkpoint-2"):
        again = tmp_path / checkpoint
        shutil.copytree(folder, again)
        seen: dict[int, Any] = {}

        def look(session: Session, trainer: Any, seen: dict[int, Any] = seen) -> None:
            values = session.settings.current()
            seen[trainer.state.global_step] = {name: values[name] for name in wanted}

        capsys.readouterr()
        rows, _, _ = run_recorded(again, resume=again / checkpoint, at_safe_point=look, **BASE)
        assert seen[7] == wanted, checkpoint
        assert ("top_k is 5 again" in capsys.readouterr().out) == (checkpoint == "checkpoint-2")
        logged = {step: row for step, row in rows if "loss" in row}
        assert list(logged) == [step for step in (4, 6) if step > int(checkpoint[-1])]
        assert {row["learning_rate"] for row in logged.values()} == {3e-3}
    given = tmp_path / "given"
    shutil.copytree(folder, given)
    changed = {"max_steps": 6, "epsilon": 0.3}
    seen.clear()
    resumed = {"resume": given / "checkpoint-5", "overridden": tuple(changed), "at_safe_point": look}
    run_recorded(given, **{**BASE, **changed, **resumed})
    assert seen[6] == {**wanted, "max_steps": 6, "epsilon": 0.3}, "what is given at a resume wins"


def test_evaluations_come_at_another_interval_from_the_next_step_on(tmp_path: Path) -> None:
    at_safe_point = _at(tmp_path, {1: [("set", {"eval_steps": 2})]}, 5)
    evaluated: dict[str, Any] = {"evaluate": True, "eval_strategy": "steps", "eval_steps": 5, "max_steps": 5}
    rows, _, _ = run_recorded(tmp_path, at_safe_point=at_safe_point, **evaluated)
    assert [step for step, row in rows if "eval_reward" in row] == [2, 4, 5], "5 is the last step"


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        ("linear", {}),
        ("cosine", {}),
        ("cosine_with_restarts", {"num_cycles": 2}),
        ("polynomial", {"power": 2.0}),
        ("inverse_sqrt", {"timescale": 4}),
        ("cosine_with_min_lr", {"min_lr": 1e-4}),
    ],
)
def test_a_restarted_schedule_is_that_of_transformers_for_the_remaining_steps(
    kind: str, more: dict[str, Any], tmp_path: Path
) -> None:
    import torch
    from transformers import get_scheduler

    def coming(optimizer: Any, scheduler: Any, steps: int) -> list[float]:
        rates = []
        for _ in range(steps):
            rates.append(float(optimizer.param_groups[0]["lr"]))
            optimizer.step()
            scheduler.step()
        return rates

    def fresh(warmup: int, steps: int) -> tuple[Any, Any]:
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=5e-4)
        return optimizer, get_scheduler(kind, optimizer, warmup, steps, more)

    trainer = make_trainer(tmp_path, lr_scheduler_type=kind, warmup_steps=2, lr_scheduler_kwargs=more)
    trainer.create_optimizer_and_scheduler(num_training_steps=12)
    trainer.state.max_steps, settings = 12, LiveSettings(trainer, list[Record]().append, 1)
    whole = coming(*fresh(2, 12), 12)
    assert coming(trainer.optimizer, trainer.lr_scheduler, 5) == pytest.approx(whole[:5])
    trainer.state.global_step = 5
    settings.apply({"lr_scheduler_start": "now"})
    assert settings.value("lr_scheduler_start") == 5
    rest = coming(*fresh(0, 7), 7)
    assert coming(trainer.optimizer, trainer.lr_scheduler, 3) == pytest.approx(rest[:3])
    settings.undo(1)
    assert coming(trainer.optimizer, trainer.lr_scheduler, 1) == pytest.approx(whole[8:9])
    trainer.state.global_step = 9
    settings.apply({"lr_scheduler_start": 10, "max_steps": 14})
    assert coming(trainer.optimizer, trainer.lr_scheduler, 1) == pytest.approx(coming(*fresh(2, 14), 10)[9:])
    assert coming(trainer.optimizer, trainer.lr_scheduler, 4) == pytest.approx(coming(*fresh(0, 4), 4))


def _rates(rows: Rows) -> dict[int, float]:
    return {step: row["learning_rate"] for step, row in rows if "loss" in row}


def test_a_restarted_schedule_holds_at_a_resume_and_in_a_fork_and_is_taken_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cosine = {**BASE, "lr_scheduler_type": "cosine", "warmup_steps": 2}
    unchanged = _rates(run_recorded(tmp_path / "unchanged", **cosine)[0])
    folder = tmp_path / "run"
    asks = {3: [("set", {"lr_scheduler_start": "now", "because": "a new reward"})]}
    rows, weights, _ = run_recorded(folder, at_safe_point=_at(folder, asks, 8), **cosine)
    rates = _rates(rows)
    assert [rates[step] for step in (1, 2, 3)] == [unchanged[step] for step in (1, 2, 3)]
    assert [rates[step] for step in range(4, 9)] == pytest.approx(
        [3e-3 * (1 + math.cos(math.pi * done / 5)) / 2 for done in range(5)]
    )
    (done,) = _outcomes(folder)
    assert "lr_scheduler_start 0 → 3; learning_rate is 0.003 at step 4, 2.86e-4 at step 8" in done.reason
    for step, forks in ((2, False), (4, False), (4, True)):
        again = tmp_path / f"{step}-{forks}"
        if forks:
            copy(folder / f"checkpoint-{step}", again)
        else:
            shutil.copytree(folder, again)
        capsys.readouterr()
        found, same, _ = run_recorded(again, resume=again / f"checkpoint-{step}", **cosine)
        assert same == weights
        assert _rates(found) == {at: rate for at, rate in rates.items() if at > step}
        assert "lr_scheduler_start is 3 again" in capsys.readouterr().out
    later = tmp_path / "later"
    shutil.copytree(folder, later)
    undo = _at(later, {6: [("undo", {})]}, 8)
    found, _, _ = run_recorded(later, resume=later / "checkpoint-4", at_safe_point=undo, **cosine)
    want = {5: rates[5], 6: rates[6], 7: unchanged[7], 8: unchanged[8]}
    assert _rates(found) == pytest.approx(want)
    planned = tmp_path / "planned"
    plan = {1: [("set", {"schedule": {"3": {"lr_scheduler_start": "now"}}})]}
    found, same, _ = run_recorded(planned, at_safe_point=_at(planned, plan, 8), **cosine)
    assert (_rates(found), same) == (rates, weights)
    assert _changes(planned) == [("lr_scheduler_start", 3, 3, "schedule")]


@pytest.mark.parametrize(
    ("arguments", "name", "value", "reason"),
    [
        ({}, "epsilon", 0.3, "no effect in this run: each batch is trained on in one update"),
        ({}, "delta", 2.0, "no effect in this run: each batch is trained on in one update"),
        ({"num_iterations": 2, "loss_type": "sapo"}, "epsilon_high", 0.3, "loss_type sapo does not read it"),
        ({"num_iterations": 2}, "delta", 0.9, "which then have no gradient"),
        ({"multi_objective_aggregation": "normalize_then_sum"}, "scale_rewards", "batch", "does not read it"),
        ({"generation_kwargs": {"top_p": 0.9}}, "top_p", 0.5, "generation_kwargs sets top_p"),
        ({"use_adaptive_entropy": True}, "entropy_coef", 0.1, "use_adaptive_entropy sets it"),
        ({}, "save_steps", 5, "save_strategy is no, so save_steps is not read"),
        ({}, "max_completion_length", 5000, "the model has 256 positions"),
        ({}, "lr_scheduler_type", "greedy", "the schedule greedy is not a function of the step"),
        ({"lr_scheduler_type": "cosine"}, "lr_scheduler_type", "cosine_with_restarts", "would be the same"),
        (
            {},
            "lr_scheduler_start",
            "soon",
            "the step after which the schedule restarts, or now, not 'soon'",
        ),
        ({}, "lr_scheduler_start", 0, "the learning rate of the remaining steps would be the same"),
        ({"lr_scheduler_type": "constant"}, "lr_scheduler_start", 2, "would be the same"),
        (
            {"lr_scheduler_type": "greedy", "evaluate": True, "eval_strategy": "steps", "eval_steps": 2},
            "lr_scheduler_start",
            2,
            "greedy is not a function of the step",
        ),
        ({}, "scale_rewards", "sometimes", "Choices: batch, group, none"),
        ({}, "top_k", 2.5, "must be a whole number"),
        ({}, "top_p", 0, "top_p must be above 0 and at most 1"),
        ({}, "beta", -1, "beta must be 0 or more"),
        ({}, "max_grad_norm", "inf", "takes a finite number"),
        ({}, "logging_steps", 2.5, "whole number of steps"),
        ({"evaluate": True, "eval_strategy": "steps", "eval_steps": 2}, "eval_steps", None, "not null"),
    ],
)
def test_what_cannot_change_here_is_refused_with_the_reason_and_changes_nothing(
    arguments: dict[str, Any], name: str, value: Any, reason: str, tmp_path: Path
) -> None:
    trainer = make_trainer(tmp_path, **arguments)
    trainer.create_optimizer_and_scheduler(num_training_steps=4)
    trainer.state.max_steps = 4
    records: list[Record] = []
    settings = LiveSettings(trainer, records.append, 1)
    before = settings.current()
    with pytest.raises(Refused, match=reason):
        settings.apply({"max_grad_norm": 0.3, name: value} if name != "max_grad_norm" else {name: value})
    assert settings.current() == before
    assert records == []


def test_kl_begins_in_mid_run_only_for_a_new_adapter_and_with_the_next_generation(tmp_path: Path) -> None:
    from peft import LoraConfig

    folder = tmp_path / "run"
    asks = ("set", {"beta": 0.5}), ("set", {"beta": 0.0}), ("set", {"beta": 0.4})
    left = dict(zip((2, 5, 6), asks, strict=True))

    def at_safe_point(session: Session, trainer: Any) -> None:
        if ask := left.pop(trainer.state.global_step, None):
            Mailbox(RunFolder(folder).commands).submit(*ask)

    without = {**BASE, "beta": 0.0, "save_strategy": "no"}
    rows, _, _ = run_recorded(
        folder, at_safe_point=at_safe_point, peft_config=LoraConfig(r=2, target_modules=["q_proj"]), **without
    )
    changes = RunReader(RunFolder(folder).database).settings()
    assert [(s.step, s.new) for s in changes] == [(4, 0.5), (5, 0.0), (6, 0.4)]
    assert [step for step, row in rows if "kl" in row] == [5, 7, 8]


def _at(folder: Path, asks: dict[int, list[tuple[str, dict[str, Any]]]], last: int) -> Any:
    """Ask at several steps, and end the training after the last one."""

    def at_safe_point(session: Session, trainer: Any) -> None:
        for ask in asks.pop(trainer.state.global_step, ()):
            Mailbox(RunFolder(folder).commands).submit(*ask)
        _stop_after(trainer, last)

    return at_safe_point


def test_a_change_is_taken_back_where_it_could_have_been_made_and_after_a_resume_too(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    both = {"beta": 0.5, "learning_rate": 1e-3, "because": "KL has doubled"}
    asks = {1: [("set", both)], 2: [("set", {"top_p": 0.5})], 5: [("undo", {"because": "no use"})]}
    run_recorded(folder, at_safe_point=_at(folder, asks, 8), **BASE)
    history = RunReader(RunFolder(folder).database).settings()
    assert [(s.name, s.step, s.new, s.because, s.undoes) for s in history] == [
        ("beta", 1, 0.5, "KL has doubled", 0),
        ("learning_rate", 1, 1e-3, "KL has doubled", 0),
        ("top_p", 4, 0.5, "", 0),
        ("top_p", 8, 1.0, "no use", 1),
    ]
    again = tmp_path / "again"
    shutil.copytree(folder, again)
    seen: dict[str, Any] = {}

    def look(session: Session, trainer: Any) -> None:
        seen.update(session.settings.current())

    undo = _at(again, {2: [], 3: [("undo", {}), ("undo", {}), ("undo", {"count": 0})]}, 6)
    rows, _, _ = run_recorded(
        again,
        resume=again / "checkpoint-2",
        at_safe_point=lambda session, trainer: (undo(session, trainer), look(session, trainer)),
        **BASE,
    )
    assert (seen["beta"], seen["top_p"]) == (0.04, 1.0)
    rates = {step: row["learning_rate"] for step, row in rows if "loss" in row}
    assert rates[3] == pytest.approx(1e-3 * (6 / 8) / (7 / 8)), "as set"
    assert rates[4] == pytest.approx(3e-3 * 5 / 8), "as if it had never been set"
    assert [outcome.reason for outcome in _outcomes(again)[-2:]] == 2 * ["there is no change to undo"]


def test_several_changes_are_taken_back_as_one(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    first, last = {"beta": 0.5}, {"beta": 0.2, "epsilon": 0.1}
    asks = {1: [("set", first)], 2: [("set", last), ("set", {"delta": 3})], 3: [("undo", {"count": 4}),
            ("undo", {"count": 3})]}  # fmt: skip
    seen: dict[str, Any] = {}
    ask = _at(folder, asks, 4)
    run_recorded(
        folder,
        at_safe_point=lambda session, trainer: (
            ask(session, trainer),
            seen.update(session.settings.current()),
        ),
        **BASE,
    )
    assert (seen["beta"], seen["epsilon"], seen["epsilon_high"], seen["delta"]) == (0.04, 0.2, None, None)
    *_, refused, done = _outcomes(folder)
    assert refused.reason == "3 changes can be undone, not 4"
    assert done.applied
    assert set(done.result) == {"beta", "epsilon", "delta"}


@pytest.mark.parametrize(
    ("first", "second"), [("stop", "set"), ("set", "stop")], ids=["stop first", "max_steps first"]
)
def test_a_stop_at_the_last_step_holds_also_when_steps_are_added_there(
    tmp_path: Path, first: str, second: str
) -> None:
    ask = {"stop": ("stop", {}), "set": ("set", {"max_steps": 9})}
    asks = {3: [ask[first], ask[second]]}
    rows, _, session = run_recorded(tmp_path, at_safe_point=_at(tmp_path, asks, 9), max_steps=3)
    assert [outcome.applied for outcome in _outcomes(tmp_path)] == [True, True]
    assert max(step for step, row in rows if "loss" in row) == 3
    assert session.ended_state() == "stopped"


def _planned(folder: Path) -> list[tuple[int, str, str]]:
    with closing(RunReader(RunFolder(folder).database)) as reader:
        return [(one.step, one.state, one.reason) for one in scheduled_from(reader.fact(FACT))]


def _changes(folder: Path) -> list[tuple[str, int, Any, str]]:
    with closing(RunReader(RunFolder(folder).database)) as reader:
        return [(s.name, s.step, s.new, s.by) for s in reader.settings()]


def test_scheduled_changes_are_made_at_their_step_as_if_they_were_set_there(tmp_path: Path) -> None:
    by_hand = {3: [("set", {"beta": 0.5})], 4: [("set", {"top_p": 0.5})], 5: [("set", {"beta": 0.1})]}
    wanted, weights, _ = run_recorded(
        tmp_path / "hand", at_safe_point=_at(tmp_path / "hand", by_hand, 8), **BASE
    )
    folder = tmp_path / "planned"
    schedule = {"3": {"beta": 0.5}, "4": {"top_p": 0.5}, "5": {"beta": 0.1}}
    asks = {1: [("set", {"schedule": schedule, "because": "a plan"})]}
    rows, same, _ = run_recorded(folder, at_safe_point=_at(folder, asks, 8), **BASE)
    assert (repr(rows), same) == (repr(wanted), weights)
    assert _planned(folder) == [(3, "applied", ""), (4, "applied", ""), (5, "applied", "")]
    assert _changes(folder) == [
        ("beta", 3, 0.5, "schedule"),
        ("top_p", 4, 0.5, "schedule"),
        ("beta", 5, 0.1, "schedule"),
    ]
    (outcome,) = _outcomes(folder)
    assert (
        outcome.reason == "beta 0.5 waits for step 3; top_p 0.5 waits for step 4; beta 0.1 waits for step 5"
    )


def test_a_schedule_that_cannot_be_kept_is_refused_as_a_whole(tmp_path: Path) -> None:
    asks = [
        ("set", {"beta": 0.3, "schedule": {"1": {"beta": 0.5}}}),
        ("set", {"schedule": {"8": {"beta": 0.5}}}),
        ("set", {"schedule": {"5": {"beta": -1}}}),
        ("set", {"schedule": {"5": {"betta": 0.5}}}),
        ("set", {"schedule": {"soon": {"beta": 0.5}}}),
        ("set", {"schedule": {"9": {"beta": 0.5}, "7": {"max_steps": 12}}}),
        ("undo", {}),
        ("set", {"max_steps": 9, "schedule": {"8": {"entropy_coef": 0.1}}}),
    ]
    run_recorded(tmp_path, at_safe_point=_at(tmp_path, {2: asks}, 3), **BASE)
    said = [outcome.reason for outcome in _outcomes(tmp_path)]
    assert said[0] == "step 1 has passed: the run is at step 2. Leave out @step:1 to change it now"
    assert said[1] == (
        "a change at step 8 would have no effect: the run ends at step 8. Raise max_steps first"
    )
    assert "beta must be 0 or more, not -1" in said[2]
    assert "did you mean beta?" in said[3]
    assert "schedule takes step → name → value" in said[4]
    assert said[5:7] == [
        "max_steps 12 waits for step 7; beta 0.5 waits for step 9",
        "beta 0.5 at step 9 is canceled",
    ]
    assert "max_steps 8 → 9" in said[7]
    assert "entropy_coef 0.1 waits for step 8" in said[7]
    assert _changes(tmp_path) == [("max_steps", 2, 9, "you")]


def test_a_waiting_change_is_canceled_by_undo_and_a_made_one_taken_back(tmp_path: Path) -> None:
    asks = {
        1: [("set", {"schedule": {"2": {"beta": 0.5}, "6": {"beta": 0.7}}}), ("set", {"epsilon": 0.1})],
        3: [("undo", {"count": 2}), ("undo", {"count": 2})],
    }
    run_recorded(tmp_path, at_safe_point=_at(tmp_path, asks, 7), **BASE)
    _, _, both, rest = _outcomes(tmp_path)
    assert both.applied
    assert both.reason == "beta 0.5 → 0.04; epsilon 0.1 → 0.2"
    assert rest.reason == "1 change can be undone, not 2"
    assert _planned(tmp_path) == [(2, "applied", ""), (6, "applied", "")]
    again = tmp_path / "again"
    asks = {1: [("set", {"schedule": {"2": {"beta": 0.5}, "6": {"beta": 0.7}}})], 3: [("undo", {"count": 2})]}
    run_recorded(again, at_safe_point=_at(again, asks, 7), **BASE)
    assert _outcomes(again)[-1].reason == "beta 0.5 → 0.04; beta 0.7 at step 6 is canceled"
    assert _planned(again) == [(2, "applied", ""), (6, "canceled", "")]
    assert [(name, step, new) for name, step, new, _ in _changes(again)] == [
        ("beta", 2, 0.5),
        ("beta", 3, 0.04),
    ]


def test_a_schedule_survives_a_stop_and_a_resume_also_from_before_a_change_that_was_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ask = {1: [("set", {"schedule": {"3": {"beta": 0.5}, "6": {"beta": 0.1, "top_p": 0.5}}})]}
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    rows, weights, _ = run_recorded(whole, at_safe_point=_at(whole, dict(ask), 8), **BASE)
    run_recorded(stopped, at_safe_point=_at(stopped, {**ask, 5: [("stop", {})]}, 8), **BASE)
    assert _planned(stopped) == [(3, "applied", ""), (6, "waiting", "")]
    early = tmp_path / "early"
    shutil.copytree(stopped, early)
    for folder, step in ((stopped, 5), (early, 2)):
        again, same, _ = run_recorded(folder, resume=folder / f"checkpoint-{step}", **BASE)
        assert same == weights, folder.name
        assert repr([row for row in again if "loss" in row[1]]) == repr(
            [row for row in rows if row[0] > step and "loss" in row[1]]
        )
        assert _planned(folder) == [(3, "applied", ""), (6, "applied", "")]
    assert "beta 0.5 at step 3 still waits" in capsys.readouterr().out
    assert [step for _, step, _, _ in _changes(early)] == [3, 3, 8, 8]


def test_a_refusal_names_the_command_that_restarts_this_run_or_says_where_a_script_sets_it(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "a run"
    asks = {1: [("set", {"num_generations": 8})], 2: [("set", {"num_generations": 8})]}
    ask = _at(folder, asks, 2)

    def at_safe_point(session: Session, trainer: Any) -> None:
        if trainer.state.global_step == 2:  # only `grpo-tui train` writes it
            RunFolder(folder).spec.write_text("{}", encoding="utf-8")
        ask(session, trainer)

    run_recorded(folder, at_safe_point=at_safe_point, max_steps=2)
    why = "num_generations cannot change while the run trains. "
    assert [outcome.reason for outcome in _outcomes(folder)] == [
        f"{why}Set it in the script and start the script again",
        f"{why}Restart the run with it: `grpo-tui train '{folder}' --resume --set num_generations=8`",
    ]


def test_the_documentation_has_every_setting_and_says_from_when_it_counts() -> None:
    text = (Path(__file__).parents[2] / "docs" / "run-folder.md").read_text(encoding="utf-8")
    told = {}
    for line in text.split("## Changing settings during a run")[1].split("\n## ")[0].splitlines():
        if line.startswith("| `"):
            names, counts, _ = (cell.strip() for cell in line.strip("|").split("|"))
            told |= dict.fromkeys(names.replace("`", "").split(", "), counts)
    assert told == {name: row.from_when.removeprefix("from the ") for name, row in LIVE.items()}
