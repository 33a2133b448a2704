"""From the text of a config to rows, findings, marks and the plan."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from grpo_tui.config.plan.memory import Device, MemoryPart, MemoryPlan
from grpo_tui.core.findings import Finding, Fix
from grpo_tui.present.config_evaluate import evaluate, refusal, way_of
from grpo_tui.present.config_view import (
    NO_FIELD,
    FieldRow,
    GroupRow,
    OpenConfig,
    Snapshot,
    field_of,
    form_rows,
    notes,
)
from grpo_tui.present.plan_text import plan_lines

TEXT = """\
model_name_or_path: acme/toy
dataset_name: openai/gsm8k
num_generations: 8
per_device_train_batch_size: 8
learning_rate: 1.0e-6
max_steps: 20
reward_funcs: [think_format_reward]
grpo_tui:
  holdout: 4
"""


def look(text: str, saved: str | None = TEXT, **more: object) -> OpenConfig:
    return evaluate(Snapshot(1, text, Path("/nowhere/toy.yaml"), saved, **more))  # type: ignore[arg-type]


def row(found: OpenConfig, name: str) -> FieldRow:
    return next(field for field in found.fields if field.name == name)


@pytest.mark.parametrize(
    ("name", "value", "origin"),
    [
        ("num_generations", "8", "file"),
        ("learning_rate", "5.0e-6", "edited"),
        ("max_steps", "3", "set"),
        ("temperature", "1.0", "default"),
        ("grpo_tui.holdout", "4", "file"),
        ("dataset_name", "none", "edited"),
    ],
)
def test_each_field_says_its_value_and_where_it_comes_from(name: str, value: str, origin: str) -> None:
    text = TEXT.replace("1.0e-6", "5.0e-6").replace("dataset_name: openai/gsm8k\n", "")
    found = row(look(text, overrides=("max_steps=3",)), name)
    assert (found.value, found.origin) == (value, origin)


@pytest.mark.parametrize("fault", ["num_generations: 8\n", "a: [1\n"])
def test_a_value_is_not_edited_because_the_saved_file_has_a_fault(fault: str) -> None:
    found = look(TEXT, TEXT + fault)
    assert row(found, "num_generations").origin == row(found, "dataset_name").origin == "file"
    changed = look(
        TEXT.replace("num_generations: 8", "num_generations: 4"), TEXT + "max_steps: 3\nmax_steps: 4\n"
    )
    assert row(changed, "num_generations").origin == "edited"


def test_a_path_is_shown_and_edited_as_it_is_written(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    text = TEXT.replace("acme/toy", "model").replace("1.0e-6", '"1e-6"')
    found = evaluate(Snapshot(1, text, tmp_path / "toy.yaml", text))
    assert row(found, "model_name_or_path").value == "model"
    assert way_of(found.values["model_name_or_path"]).text == "model"
    assert row(found, "learning_rate").value == "1.0e-6"


def test_a_value_of_the_preset_says_so_until_it_is_changed(tmp_path: Path) -> None:
    preset = tmp_path / "preset.yaml"
    preset.write_text(TEXT)
    found = look(TEXT.replace("num_generations: 8", "num_generations: 4"), None, preset=preset)
    assert row(found, "max_steps").origin == "preset"
    assert row(found, "num_generations").origin == "edited"
    assert found.unsaved


def test_a_finding_marks_its_field_and_its_line() -> None:
    found = look(TEXT + "loss_type: grpoo\nnum_generation: 4\n")
    assert row(found, "loss_type").severity == "error"
    assert row(found, "num_generation").group == NO_FIELD
    assert set(notes(found.findings)) == {10, 11}
    assert found.counts() == (2, 0)


def test_a_text_that_is_no_yaml_keeps_the_fields_and_says_where() -> None:
    before = look(TEXT)
    found = evaluate(replace(before.snapshot, text=TEXT + "a: [1\n"), before)
    assert found.broken is not None
    assert found.broken.line in (10, 11)
    assert found.fields == before.fields
    assert found.plan == before.plan


def test_the_form_shows_the_few_that_matter_what_is_set_and_what_was_found() -> None:
    fields = look(TEXT + "loss_type: grpoo\nwarmup_steps: 3\n").fields
    few = form_rows(fields, ())
    names = [one.name for one in few if isinstance(one, FieldRow)]
    assert "warmup_steps" in names
    assert "adam_beta1" not in names
    everything = form_rows(fields, {"Optimization"})
    assert "adam_beta1" in [one.name for one in everything if isinstance(one, FieldRow)]
    titles = {one.title: one for one in everything if isinstance(one, GroupRow)}
    assert titles["Optimization"].shown == titles["Optimization"].all
    assert titles["GRPO"].shown < titles["GRPO"].all


def test_a_search_shows_what_it_found_and_no_other_group() -> None:
    rows = form_rows(look(TEXT).fields, (), {"adam_beta1", "beta"})
    assert [one.name if isinstance(one, FieldRow) else one.title for one in rows] == [
        "Optimization", "adam_beta1", "GRPO", "beta",
    ]  # fmt: skip


def test_a_nested_finding_belongs_to_the_field_it_is_in() -> None:
    finding = Finding("x", "error", "model_init_kwargs.dtype", 3, "no", Fix("model_init_kwargs.dtype", 1))
    assert field_of(finding, {"model_init_kwargs"}) == "model_init_kwargs"
    assert field_of(replace(finding, field=None), {"model_init_kwargs"}) is None


@pytest.mark.parametrize(
    ("name", "kind", "text"),
    [
        ("gradient_checkpointing", "toggle", "true"),
        ("bf16", "choose", ""),
        ("loss_type", "choose", "dapo"),
        ("learning_rate", "line", "1.0e-6"),
        ("model_name_or_path", "line", "acme/toy"),
        ("reward_funcs", "yaml", "- think_format_reward"),
        ("grpo_tui.columns", "yaml", ""),
        ("grpo_tui.system_prompt", "text", ""),
        ("grpo_tui.holdout", "line", "4"),
    ],
)
def test_a_field_is_asked_for_in_the_way_that_fits_it(name: str, kind: str, text: str) -> None:
    way = way_of(look(TEXT).values[name])
    assert (way.kind, way.text) == (kind, text)


def test_a_mapping_and_a_list_of_one_line_are_read_as_yaml() -> None:
    assert refusal("grpo_tui.columns", "prompt: question\nanswer: gold", "yaml") == ""
    assert refusal("reward_funcs", "- think_format_reward", "yaml") == ""
    assert refusal("reward_funcs", "[a, b]", "yaml") == ""
    assert refusal("reward_funcs", "- [a", "yaml") != ""


@pytest.mark.parametrize(
    ("name", "words", "fits"),
    [
        ("num_generations", "16", True),
        ("num_generations", "many", False),
        ("learning_rate", "5e-6", True),
        ("loss_type", "grpoo", False),
        ("reward_weights", "[1, 2]", True),
        ("reward_weights", "[1, [", False),
        ("model_name_or_path", "no", True),
        ("num_generations", "", True),
    ],
)
def test_what_does_not_fit_is_refused_with_a_sentence(name: str, words: str, fits: bool) -> None:
    assert (refusal(name, words) == "") is fits


def said(found: OpenConfig) -> list[str]:
    return [
        "   ".join("".join(text for text, _ in part) for _, part in line) for line in plan_lines(found.plan)
    ]


def test_the_plan_says_completions_steps_and_what_is_missing() -> None:
    batch, steps, memory = said(look(TEXT))
    assert "8 completions a step" in batch
    assert "1 prompt × 8" in batch
    assert steps.startswith("20 steps")
    assert "memory not planned: " in " ".join(memory.split())
    assert "c counts them" in said(look(TEXT.replace("max_steps: 20\n", "")))[1]


def test_the_plan_counts_the_processes_that_the_launcher_starts() -> None:
    four = TEXT + '  launcher: "accelerate launch --multi_gpu --num_processes 4"\n'
    found = look(four)
    assert found.inspected.settings.world_size == 4
    assert "32 completions a step" in said(found)[0]
    asked = look(TEXT, launcher=("torchrun", "--nproc_per_node", "2"))
    assert asked.inspected.settings.world_size == 2
    assert "16 completions a step" in said(asked)[0]


def test_the_plan_shows_a_memory_that_is_too_small() -> None:
    plan = look(TEXT).plan
    assert plan is not None
    part = MemoryPart("weights", "weights", 90 * 10**9, ("generate", "loss", "backward", "step"), "")
    made = replace(plan, memory=MemoryPlan((part,), Device("H100", 80 * 10**9)))
    line = dict(enumerate(plan_lines(made)))[2]
    text, role = line[0][1][-1]
    assert "✗ does not fit 90.0 GB of 80.0 GB" in text
    assert role == "bad"
