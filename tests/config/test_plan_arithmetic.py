"""Prompts, steps, checkpoints and rates of a config are those that TRL and transformers make of it."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from grpo_tui.config.plan.batches import batch_sum, prompt_sum, step_sum
from grpo_tui.config.plan.making import Surroundings, plan
from grpo_tui.config.plan.time import PlannedCheckpoints, Rate, checkpoints_written, learning_rates
from grpo_tui.config.section import Evaluate, Section
from grpo_tui.config.settings import Settings
from grpo_tui.present.plan_text import plan_list
from tests.config.plan_settings import settings_of

SMALL = {"per_device_train_batch_size": 8, "num_generations": 8}


def settings(**values: Any) -> Settings:
    return settings_of({**SMALL, "model_name_or_path": "org/model", **values})


# per-device, world, accumulation, steps per generation, iterations, group, rows →
# completions a step, prompts a generation, prompts a step, steps an epoch, rows left over
BATCHES = [
    # 8 rows at once, 8 of a group: one prompt a step
    ((8, 1, 1, None, 1, 8, 7473), (8, 1, Fraction(1), 7473, 0)),
    # 8 × 4 = 32 completions = 4 prompts; 7473 = 1868 × 4 + 1
    ((8, 1, 4, None, 1, 8, 7473), (32, 4, Fraction(4), 1868, 1)),
    # over 4 processes: 8 × 4 × 2 = 64 = 8 prompts; 100 = 12 × 8 + 4
    ((8, 4, 2, None, 1, 8, 100), (64, 8, Fraction(8), 12, 4)),
    # generated for 4 micro-batches, 1 of them a step: each generation of 4 prompts serves 4 steps
    ((8, 1, 1, 4, 1, 8, 40), (8, 4, Fraction(1), 40, 0)),
    # the same completions used twice: twice the steps
    ((8, 1, 1, None, 2, 8, 40), (8, 1, Fraction(1), 80, 0)),
    # a step sees half a group
    ((4, 1, 1, 2, 1, 8, 40), (4, 1, Fraction(1, 2), 80, 0)),
    # 3 micro-batches a generation, 2 a step: 10 generations give 30, so 15 steps
    ((8, 1, 2, 3, 1, 8, 30), (16, 3, Fraction(2), 15, 0)),
    # 10 generations × 1 micro-batch, 4 accumulated: the last step of an epoch holds 2
    ((8, 1, 4, 1, 1, 8, 10), (32, 1, Fraction(4), 3, 0)),
    # fewer rows than one generation takes: nothing is trained
    ((8, 1, 8, None, 1, 8, 7), (64, 8, Fraction(8), 0, 7)),
]


@pytest.mark.parametrize(("given", "wanted"), BATCHES)
def test_batches_and_steps_by_hand(given: tuple[Any, ...], wanted: tuple[Any, ...]) -> None:
    per_device, world, accumulation, per_generation, iterations, group, rows = given
    config = settings(
        per_device_train_batch_size=per_device,
        gradient_accumulation_steps=accumulation,
        steps_per_generation=per_generation,
        num_iterations=iterations,
        num_generations=group,
        num_train_epochs=1,
    )
    made = plan(config, Surroundings(world_size=world, rows=rows))
    batches, steps = made.batches, made.steps
    assert (
        batches.completions_per_step,
        batches.prompts_per_generation,
        batches.prompts_per_step,
        steps.per_epoch,
        steps.dropped_rows,
    ) == wanted
    assert steps.total == wanted[3]


@pytest.mark.parametrize(
    ("grpo", "rows", "total", "epochs"),
    [
        ({"max_steps": 500}, 100, 500, 5.0),
        ({"max_steps": 0}, 100, 1, 0.01),  # the trainer looks after the first step
        ({"max_steps": -1, "num_train_epochs": 2.5}, 10, 25, 2.5),
        ({"max_steps": -1, "num_train_epochs": 0.25}, 10, 3, 0.3),  # rounded up
        ({"max_steps": 20}, None, 20, None),
        ({"max_steps": 20, "streaming": True}, None, 20, None),
        ({"streaming": True}, None, None, None),
        ({}, None, None, None),
    ],
)
def test_how_long_it_trains(
    grpo: dict[str, Any], rows: int | None, total: int | None, epochs: float | None
) -> None:
    steps = plan(settings(**grpo), Surroundings(rows=rows)).steps
    assert (steps.total, steps.epochs) == (total, epochs)
    assert bool(steps.reason) == (total is None)


def test_a_stream_that_has_no_end_says_what_it_needs() -> None:
    steps = plan(settings(streaming=True), Surroundings(rows=1000)).steps
    assert steps.total is None
    assert "max_steps" in steps.reason


@pytest.mark.parametrize(
    ("grpo", "world", "whole"),
    [
        ({"generation_batch_size": 32}, 1, True),
        ({"generation_batch_size": 32}, 4, True),
        ({"generation_batch_size": 32}, 3, False),  # 24 completions a micro-batch
        ({"per_device_train_batch_size": 6}, 1, False),
        ({"per_device_train_batch_size": 6}, 4, True),
    ],
)
def test_whether_processes_and_groups_divide_the_batch(grpo: dict[str, Any], world: int, whole: bool) -> None:
    made = plan(settings(**grpo), Surroundings(world_size=world))
    assert made.batches.whole is whole
    assert made.to_json()["whole_groups"] is whole
    assert ("not whole groups" in prompt_sum(made.batches)) is not whole


def test_the_sums_are_written_out() -> None:
    config = settings(gradient_accumulation_steps=2, num_iterations=2, num_train_epochs=1)
    made = plan(config, Surroundings(world_size=4, rows=100))
    assert batch_sum(made.batches) == "8 a device × 4 processes × 2 accumulated = 64 completions a step"
    assert prompt_sum(made.batches) == "64 completions a generation = 8 prompts × 8, used for 2 steps"
    assert step_sum(made.steps, made.batches) == (
        "100 rows ÷ 8 prompts a generation: 24 steps an epoch, 4 rows left over"
    )


@pytest.mark.parametrize(
    ("total", "section", "wanted"),
    [
        (120, Section(evaluate=Evaluate(every=50), holdout=100), (4, 40, 640)),  # steps 0, 50, 100, 120
        (100, Section(evaluate=Evaluate(every=50), holdout=100), (3, 40, 480)),  # step 100 is the last
        (10, Section(evaluate=Evaluate(every=50, rows=60, samples=2), holdout=20), (2, 20, 80)),
    ],
)
def test_evaluations_are_counted(total: int, section: Section, wanted: tuple[int, int, int]) -> None:
    config = replace(settings(max_steps=total, num_iterations=2), section=section)
    made = plan(config, Surroundings(rows=100))
    assert made.evaluations is not None
    assert (made.evaluations.count, made.evaluations.rows, made.evaluations.completions) == wanted
    trained = total * 8 // 2  # each completion is used twice
    assert made.evaluations.share == pytest.approx(wanted[2] / (wanted[2] + trained))
    line = next(line for line in plan_list(made) if line.startswith("evaluate"))
    assert f"= {wanted[2]:,}, " in line
    assert "not counted in the time" not in line, "there is no time without an earlier run"
    assert made.to_json()["evaluations"]["completions"] == wanted[2]
    assert plan(settings(max_steps=total), Surroundings(rows=100)).evaluations is None


def test_the_documented_shape() -> None:
    made = plan(settings(max_completion_length=100), Surroundings(rows=16, prompt_tokens=28)).to_json()
    for key in ("world_size", "generation_batch_size", "prompts_per_step", "total_steps", "dtype", "memory"):
        assert key in made
    assert made["prompts_per_step"] == 1
    assert made["total_steps"] == 48
    assert made["dtype"] == "float32"
    assert made["autocast"] == "bfloat16"  # TRL's default
    assert made["tokens_per_step_at_most"] == 8 * 128


@pytest.mark.parametrize("value", [None, "many", -3, float("nan"), True, [8], 10**400])
def test_a_value_that_is_none_gives_the_default(value: Any) -> None:
    made = plan(settings_of({"num_generations": value, "max_steps": value}), Surroundings(rows=50))
    assert made.batches.group == 8


@pytest.mark.parametrize(
    ("grpo", "total", "per_epoch", "written"),
    [
        ({"save_steps": 100}, 500, None, 5),
        ({"save_steps": 100}, 550, None, 6),  # and one at the end
        ({"save_steps": 100}, 50, None, 1),
        ({"save_steps": 0.1}, 500, None, 10),
        ({"save_strategy": "epoch"}, 50, 20, 3),
        ({"save_strategy": "no"}, 500, None, 0),
        ({"save_steps": 100}, None, None, None),
        ({"save_strategy": "best"}, 100, None, None),
        ({"save_strategy": "epoch"}, 50, None, None),
        ({"save_steps": 0}, 100, None, 0),
        ({"save_steps": 1}, 3, None, 3),
        ({"save_steps": 1}, 0, None, 0),
    ],
)
def test_checkpoints_are_counted(
    grpo: dict[str, Any], total: int | None, per_epoch: int | None, written: int | None
) -> None:
    assert checkpoints_written(settings(**grpo), total, per_epoch) == written


@pytest.mark.parametrize(
    ("written", "kept", "each", "final", "free", "total", "fits"),
    [
        (5, 2, 10, 4, 34, 34, True),  # two are kept, a third is written before one goes, and the model
        (5, 2, 10, 4, 33, 34, False),
        (2, 2, 10, None, 20, 20, True),  # nothing goes
        (0, 0, 10, 4, None, 4, None),
        (5, None, 10, 4, 100, None, None),
        (5, 2, None, 4, 100, None, None),
    ],
)
def test_checkpoints_on_disk_are_summed_with_the_one_that_is_replaced(
    written: int | None,
    kept: int | None,
    each: int | None,
    final: int | None,
    free: int | None,
    total: int | None,
    fits: bool | None,
) -> None:
    found = PlannedCheckpoints(written, kept, each, final, free)
    assert (found.total_bytes, found.fits) == (total, fits)


SCHEDULES: list[tuple[str, float, dict[str, Any]]] = [
    ("constant", 0, {}),
    ("constant_with_warmup", 10, {}),
    ("linear", 0.1, {}),
    ("linear", 1, {}),
    ("cosine", 7, {"num_cycles": 1.5}),
    ("cosine_with_restarts", 5, {"num_cycles": 3}),
    ("polynomial", 5, {"power": 2.0, "lr_end": 1e-6}),
    ("inverse_sqrt", 10, {}),
    ("inverse_sqrt", 0, {"timescale": 50}),
    ("cosine_with_min_lr", 5, {"min_lr": 1e-5}),
    ("cosine_warmup_with_min_lr", 5, {"min_lr_rate": 0.1, "warmup_lr_rate": 0.2}),
    ("cosine_warmup_with_min_lr", 5, {"min_lr_rate": 0.1}),
    ("warmup_stable_decay", 10, {"num_decay_steps": 30, "min_lr_ratio": 0.1}),
    ("warmup_stable_decay", 10, {"num_decay_steps": 30, "decay_type": "1-sqrt", "warmup_type": "cosine"}),
]


@pytest.mark.parametrize(("name", "warmup", "options"), SCHEDULES)
def test_learning_rates_are_those_of_transformers(name: str, warmup: float, options: dict[str, Any]) -> None:
    import torch
    from transformers import TrainingArguments
    from transformers.optimization import get_scheduler

    total, base = 120, 3e-4
    config = settings(
        lr_scheduler_type=name, learning_rate=base, warmup_steps=warmup, lr_scheduler_kwargs=options
    )
    points = dict(learning_rates(config, total))
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=base)
    steps = TrainingArguments.get_warmup_steps(type("", (), {"warmup_steps": warmup})(), total)
    schedule = get_scheduler(name, optimizer, steps, total, options)
    for step in range(1, total + 1):
        if step in points:
            assert points[step] == pytest.approx(schedule.get_last_lr()[0], abs=1e-12), f"step {step}"
        optimizer.step()
        schedule.step()
    assert {1, total} <= points.keys()


@pytest.mark.parametrize(
    ("name", "options", "total"),
    [
        ("reduce_lr_on_plateau", {}, 100),
        ("linear", {}, None),
        ("linear", {}, 0),
        ("warmup_stable_decay", {}, 100),  # it needs num_decay_steps
        ("polynomial", {"power": "two"}, 100),
        ("no such schedule", {}, 100),
    ],
)
def test_a_curve_that_nobody_knows_is_left_out(name: str, options: dict[str, Any], total: int | None) -> None:
    assert learning_rates(settings(lr_scheduler_type=name, lr_scheduler_kwargs=options), total) == ()


def rate(run: str, **changes: Any) -> Rate:
    known: dict[str, Any] = {
        "model": "org/model",
        "step_s": 2.0,
        "completions": 8,
        "max_completion_length": 512,
        "device": "cuda",
    }
    return Rate(run, **{**known, **changes})


@pytest.mark.parametrize(
    ("rates", "wanted"),
    [
        ([rate("a")], ("a", 2.0, 200.0, False)),
        ([rate("a", at=1.0), rate("b", at=2.0, step_s=3.0)], ("b", 3.0, 300.0, False)),  # the newer
        ([rate("a", completions=16)], ("a", 1.0, 100.0, True)),
        ([rate("a", completions=16), rate("b", step_s=5.0)], ("b", 5.0, 500.0, False)),  # the more alike
        ([rate("a", model="other")], None),
        ([rate("a", device="cpu")], None),
        ([rate("a", use_peft=True)], None),
        ([rate("a", use_vllm=True)], None),
        ([rate("a", world_size=2)], ("a", 4.0, 400.0, True)),  # twice the tokens on one process
        ([rate("a", max_completion_length=1024)], ("a", 1.0, 100.0, True)),
        ([rate("a", completions=64)], ("a", 0.25, 25.0, True)),
        ([rate("a", completions=65)], None),  # more than eight times the size
        ([rate("a", completions=8000)], None),
        ([rate("a", step_s=0.0)], None),
        ([], None),
    ],
)
def test_time_comes_from_a_run_that_is_alike(rates: list[Rate], wanted: tuple[Any, ...] | None) -> None:
    made = plan(settings(max_steps=100), Surroundings(rates=tuple(rates))).duration
    got = None if made is None else (made.run, made.step_s, made.total_s, made.scaled)
    assert got == wanted


def test_time_comes_from_the_open_run_where_others_are_as_much_alike() -> None:
    rates = (rate("open", at=1.0), rate("newest", at=2.0, step_s=3.0), rate("other", at=3.0, completions=16))
    for name, took in (("open", 2.0), ("none", 3.0), ("other", 3.0)):
        made = plan(settings(max_steps=100), Surroundings(rates=rates, run=name)).duration
        assert made is not None
        assert made.step_s == took, name


def test_time_counts_the_tokens_of_one_process() -> None:
    two = Surroundings(rates=(rate("a"), rate("b", step_s=9.0, completions=32)), world_size=2)
    made = plan(settings(max_steps=100), two).duration
    assert made is not None
    assert (made.run, made.step_s, made.scaled) == ("a", 2.0, False)
