"""The section's stages: how they are written, and the config that each of them trains."""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from grpo_tui.cli.errors import CommandError
from grpo_tui.cli.start import _refuse_done
from grpo_tui.config.resolve import inspect_config, load_config
from grpo_tui.config.run_config import RunConfig
from grpo_tui.config.stages import next_stage, settings_changed, stage_at
from grpo_tui.core.stages import stage_from
from grpo_tui.store.checkpoints import Verdict, reference_of
from grpo_tui.store.layout import RunFolder

HEAD = """\
model_name_or_path: a/model
dataset_name: a/dataset
use_cpu: true
reward_funcs: [accuracy_reward, think_format_reward]
learning_rate: 1.0e-6
grpo_tui:
  stages:
"""
GOOD = """\
    - name: format
      set:
        reward_funcs: [think_format_reward]
        grpo_tui: {filters: {drop_null: true}}
      until: rewards/think_format_reward/mean >= 0.9 over 20 steps
      at_most: 30
    - {name: correctness, set: {learning_rate: 2.0e-6, seed: 7}, steps: 20}
    - {name: long, steps: 50}
"""


def load(folder: Path, stages: str = GOOD) -> RunConfig:
    file = folder / "my.yaml"
    file.write_text(HEAD + stages)
    return load_config(file)


def test_each_stage_trains_the_config_with_its_own_settings(tmp_path: Path) -> None:
    base = load(tmp_path)
    assert base.findings == ()
    assert base.grpo["max_steps"] == 100
    assert [stage.set for stage in base.section.stages] == [
        {"reward_funcs": ["think_format_reward"], "grpo_tui.filters": {"drop_null": True}},
        {"learning_rate": 2e-6, "seed": 7},
        {},
    ]
    assert RunConfig.from_json(json.dumps(base.to_json())) == base

    config, now = stage_at(base)
    assert now is not None
    assert (now.name, now.start, now.limit, now.later, now.is_last) == ("format", 0, 30, 70, False)
    assert config.script["reward_funcs"] == ["think_format_reward"]
    assert config.section.filters.drop_null
    assert config.grpo["max_steps"] == 30

    config, now = next_stage(now, 12, "it is so")
    assert (now.name, now.starts, now.because) == ("correctness", (0, 12), "it is so")
    assert config.script["reward_funcs"] == ["accuracy_reward", "think_format_reward"]
    assert not config.section.filters.drop_null
    assert (config.grpo["max_steps"], config.grpo["learning_rate"], config.grpo["seed"]) == (32, 2e-6, 7)
    assert stage_from(json.loads(json.dumps(now.to_fact()))) is not None
    assert "base" not in now.to_fact()


@pytest.mark.parametrize(
    ("step", "name", "starts"),
    [
        (5, "format", (0,)),
        (12, "correctness", (0, 12)),
        (31, "correctness", (0, 12)),
        (32, "long", (0, 12, 32)),
    ],
)
def test_a_checkpoint_belongs_to_the_stage_that_trains_on_from_it(
    tmp_path: Path, step: int, name: str, starts: tuple[int, ...]
) -> None:
    base = load(tmp_path)
    second = next_stage(stage_at(base)[1], 12, "")[1]  # type: ignore[arg-type]
    now = stage_at(base, second, step)[1]
    assert now is not None
    assert (now.name, now.starts) == (name, starts)


@pytest.mark.parametrize(
    ("step", "settings", "live", "name", "starts"),
    [
        (35, 30, 60, "format", (0,)),
        (60, 30, 60, "correctness", (0, 60)),
        (10, 30, 10, "correctness", (0, 10)),
        (35, 30, None, "correctness", (0, 35)),
        (35, None, 60, "format", (0,)),
        (35, 20, 60, "correctness", (0, 35)),
    ],
)
def test_a_stage_ends_where_it_was_set_to_end_while_it_trained(
    tmp_path: Path, step: int, settings: int | None, live: int | None, name: str, starts: tuple[int, ...]
) -> None:
    """The config gives stage format 30 steps; in the last case it was changed since."""
    base = load(tmp_path)
    marker = {
        part: {"max_steps": end} for part, end in (("settings", settings), ("live", live)) if end is not None
    }
    now = stage_at(base, stage_at(base)[1], step, marker=marker)[1]
    assert now is not None
    assert (now.name, now.starts) == (name, starts)


def test_the_checkpoint_that_a_stage_ended_with_does_not_end_the_next(tmp_path: Path) -> None:
    base = load(tmp_path)
    second = next_stage(stage_at(base)[1], 12, "")[1]  # type: ignore[arg-type]
    marker = {"live": {"max_steps": 12}}
    now = stage_at(base, second, 12, marker=marker)[1]
    assert now is not None
    assert now.starts == (0, 12)


@pytest.mark.parametrize(
    ("step", "live", "more"), [(60, None, 100), (70, 80, 0), (80, 80, 140), (45, 45, 100)]
)
def test_a_last_stage_is_finished_where_it_was_set_to_end(
    tmp_path: Path, step: int, live: int | None, more: int
) -> None:
    """Stage long begins after step 10 and has 50 steps."""
    base = load(tmp_path)
    now = replace(stage_at(base)[1], starts=(0, 5, 10))  # type: ignore[type-var]
    marker = {"live": {"max_steps": live}} if live is not None else {}
    config, stage = stage_at(base, now, step, marker=marker)
    said = rf"has finished its {step} steps .* --set grpo_tui.stages.2.steps={more}$"
    with pytest.raises(CommandError, match=said) if more else nullcontext():
        _refuse_done(Verdict(tmp_path, step, True), config, stage, marker, unchanged=True)


@pytest.mark.parametrize(
    ("stage", "said"),
    [
        ("{name: a}", "grpo_tui.stages.0 needs steps, or until with at_most"),
        ("{name: a, steps: 0}", "grpo_tui.stages.0.steps must be 1 or more"),
        ("{steps: 5}", "grpo_tui.stages.0 needs a name"),
        ("{name: a, until: reward > 1}", "grpo_tui.stages.0 needs at_most"),
        ("{name: a, until: reward > 1, steps: 5}", "Give its limit as at_most, not as steps"),
        ("{name: a, steps: 5, at_most: 9}", "has at_most without until"),
        ("{name: a, until: 8 hours, at_most: 9}", "A stage ends by a metric"),
        ("{name: a, until: rewrd up, at_most: 9}", "is not a condition"),
        ("{name: a, steps: 5, set: [b]}", "grpo_tui.stages.0.set must be a mapping"),
        ("{name: a, steps: 5, set: {max_steps: 9}}", "max_steps has no effect in a stage"),
        ("{name: a, steps: 5, set: {use_peft: true}}", "use_peft is the same for all stages"),
        ("{name: a, steps: 5, set: {grpo_tui.gpus: [1]}}", "grpo_tui.gpus is the same for all stages"),
        ("{name: a, steps: 5, set: {hub_token: abc}}", "hub_token would be written into the run's record"),
        ("{name: a, steps: 5, set: {temperature: -1}}", "stage a: temperature must be from"),
        ("{name: a, steps: 5, set: {temprature: 1}}", "stage a: unknown key temprature"),
        (
            "{name: a, steps: 5, overrides: {beta: 0.1}}",
            "unknown key overrides in grpo_tui.stages.0. Use set",
        ),
        ("{name: a, steps: 5}\n    - {name: a, steps: 5}", "Two stages are named a"),
        ("{name: a, steps: 5, reference: stage}", "is 'stage'. Use `base` or `stage start`"),
        ("{name: a, steps: 5, optimizer: reset}", "is 'reset'. Use `kept` or `new`"),
        (
            "{name: a, steps: 5, reference: stage start}",
            "stage a: `reference: stage start` is not possible: the KL is not computed with beta 0. Set beta",
        ),
        (
            "{name: a, steps: 5, reference: stage start, set: {beta: 0.1, fsdp: true}}",
            "fsdp saves the model in parts",
        ),
    ],
)
def test_a_stage_that_cannot_train_is_refused_with_its_line(tmp_path: Path, stage: str, said: str) -> None:
    file = tmp_path / "my.yaml"
    file.write_text(f"{HEAD}    - {stage}\n")
    errors = [one for one in inspect_config(file).findings if one.severity == "error"]
    assert [one for one in errors if said in one.message], errors
    assert all(one.line in (8, 9) for one in errors), errors


def test_a_length_of_the_whole_run_and_a_metric_of_no_stage_are_warned_of(tmp_path: Path) -> None:
    file = tmp_path / "my.yaml"
    file.write_text(f"max_steps: 9\n{HEAD}    - {{name: a, until: solved > 1, at_most: 5}}\n")
    length, metric = sorted(inspect_config(file).findings, key=lambda one: one.line or 0)
    assert (length.severity, length.message) == (
        "warning", "max_steps has no effect: grpo_tui.stages sets the number of steps",
    )  # fmt: skip
    assert (length.fix and (length.fix.field, length.fix.value)) == ("max_steps", None)
    assert metric.message.startswith("TRL logs no metric named solved, so its condition only holds if")


def test_the_reference_of_a_stage_is_the_checkpoint_that_it_began_with(tmp_path: Path) -> None:
    how = "set: {beta: 0.1}, reference: stage start"
    base = load(
        tmp_path,
        f"""\
    - {{name: a, steps: 9, {how}}}
    - {{name: b, steps: 9, {how}, optimizer: new}}
    - {{name: c, steps: 9}}
    """,
    )
    now = stage_at(base)[1]
    found = [now]
    for step in (9, 18):
        now = next_stage(now, step, "")[1]  # type: ignore[arg-type]
        found.append(now)
    assert [(one.reference, one.new_optimizer) for one in found if one] == [(0, False), (9, True), (0, False)]
    assert now.references == (0, 9, 0)
    assert settings_changed(base, 1) == [("optimizer", "kept", "new")]
    assert settings_changed(base, 2) == [("beta", 0.1, 0.0), ("reference", "stage start", "base")]

    checkpoint = tmp_path / "checkpoint-9"
    with pytest.raises(LookupError, match="measures the KL from checkpoint-9, but it is gone"):
        reference_of(RunFolder(tmp_path), found[1])
    checkpoint.mkdir()
    with pytest.raises(LookupError, match="checkpoint-9, but it contains no weights"):
        reference_of(RunFolder(tmp_path), found[1])
    assert reference_of(RunFolder(tmp_path), found[2]) is None
