"""The batch arithmetic agrees with TRL, and the settings it offers are accepted by TRL."""

from __future__ import annotations

import itertools

import pytest

from grpo_tui.config.batch import batch_findings
from grpo_tui.config.section import Section
from grpo_tui.config.settings import Settings
from grpo_tui.config.trl_fields import load_fields
from grpo_tui.config.yaml_lines import YamlDocument


def findings(world_size: int = 1, **grpo: object) -> list:
    document = YamlDocument(grpo, lines={(name,): 1 for name in grpo})
    return batch_findings(Settings({"GRPOConfig": grpo}, Section(), load_fields(), document), world_size)


def accepted_by_trl(folder: str, **grpo: object) -> bool:
    from trl import GRPOConfig

    try:
        GRPOConfig(output_dir=folder, use_cpu=True, bf16=False, report_to="none", **grpo)
    except ValueError:
        return False
    return True


def test_the_check_and_trl_agree_over_many_batches_and_its_fixes_work(tmp_path) -> None:
    refused = 0
    for per_device, steps, group, explicit in itertools.product((1, 3, 6, 8), (1, 4), (1, 2, 8), (None, 12)):
        grpo = {
            "per_device_train_batch_size": per_device,
            "gradient_accumulation_steps": steps,
            "num_generations": group,
        }
        if explicit:
            grpo["generation_batch_size"] = explicit
        found = findings(**grpo)
        assert (not found) == accepted_by_trl(str(tmp_path), **grpo), grpo
        if found:
            refused += 1
            for _ in range(2):  # a batch and a group of one need two changes
                if found:
                    grpo[found[0].fix.field] = found[0].fix.value
                    found = findings(**grpo)
            assert accepted_by_trl(str(tmp_path), **grpo), grpo
    assert refused > 10


@pytest.mark.parametrize("group_eval", [None, 1, 4, 3])
@pytest.mark.parametrize("per_device", [1, 2, 8])
def test_the_evaluation_batch_is_checked_as_trl_checks_it(
    tmp_path, per_device: int, group_eval: int | None
) -> None:
    grpo = {
        "per_device_eval_batch_size": per_device,
        "num_generations_eval": group_eval,
        "eval_strategy": "steps",
    }
    found = findings(**grpo)
    assert (not found) == accepted_by_trl(str(tmp_path), **grpo, eval_steps=1)
    if found:
        fix = found[0].fix
        assert fix is not None
        assert accepted_by_trl(str(tmp_path), **{**grpo, fix.field: fix.value}, eval_steps=1)


def test_the_arithmetic_is_shown_with_the_nearest_settings() -> None:
    (found,) = findings(per_device_train_batch_size=6)
    assert (
        "6 completions (per_device_train_batch_size 6 × 1 process × gradient_accumulation_steps 1)"
        in found.message
    )
    assert "num_generations 8" in found.message
    assert "num_generations: 6" in found.message
    assert (found.fix.field, found.fix.value) == ("per_device_train_batch_size", 8)
    assert found.line == 1


def test_of_each_setting_the_nearest_value_is_offered() -> None:
    (found,) = findings(per_device_train_batch_size=12, gradient_accumulation_steps=3)
    offered = "per_device_train_batch_size: 16; gradient_accumulation_steps: 4; num_generations: 9"
    assert found.message.endswith(f"Nearest settings: {offered}")


def test_more_processes_make_a_batch_whole() -> None:
    grpo = {"per_device_train_batch_size": 1, "num_generations": 8}
    assert findings(world_size=1, **grpo)
    assert not findings(world_size=8, **grpo)


def test_a_group_of_one_and_settings_that_exclude_each_other_are_refused() -> None:
    assert "at least 2" in findings(num_generations=1)[0].message
    both = findings(generation_batch_size=16, steps_per_generation=2)
    assert "both set" in both[0].message
    assert both[0].fix.value is None


def test_a_batch_of_nothing_is_refused_before_it_divides_by_zero() -> None:
    assert "1 or more" in findings(per_device_train_batch_size=0)[0].message
