"""The fields read from source are those of the real dataclasses."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import pytest

from grpo_tui.config.section import Section
from grpo_tui.config.settings import Settings
from grpo_tui.config.trl_fields import NoDefault, load_fields
from grpo_tui.config.yaml_lines import YamlDocument


def real_dataclasses() -> dict[str, type]:
    from trl import DatasetMixtureConfig, GRPOConfig, ModelConfig
    from trl.scripts.grpo import GRPOScriptArguments

    return {
        "GRPOConfig": GRPOConfig,
        "ModelConfig": ModelConfig,
        "GRPOScriptArguments": GRPOScriptArguments,
        "DatasetMixtureConfig": DatasetMixtureConfig,
    }


@pytest.mark.parametrize(
    "owner", ["GRPOConfig", "ModelConfig", "GRPOScriptArguments", "DatasetMixtureConfig"]
)
def test_the_fields_and_literal_defaults_are_those_of_the_real_dataclass(owner: str) -> None:
    real = {field.name: field for field in dataclasses.fields(real_dataclasses()[owner]) if field.init}
    read = {name: info for name, info in load_fields().items() if info.owner == owner}
    assert set(read) == set(real)
    for name, field in real.items():
        default = read[name].default
        if default is NoDefault.COMPUTED:
            continue
        if field.default is not dataclasses.MISSING:
            assert default == field.default, name
            assert type(default) is type(field.default), name
        elif field.default_factory is not dataclasses.MISSING:
            assert default == field.default_factory(), name
        else:
            assert default is NoDefault.REQUIRED, name


def test_all_191_fields_of_grpo_config_are_read_and_only_the_optimizer_has_a_computed_default() -> None:
    assert sum(info.owner == "GRPOConfig" for info in load_fields().values()) == 191
    assert [name for name, info in load_fields().items() if info.default is NoDefault.COMPUTED] == ["optim"]


def test_nearly_every_field_has_a_help_text() -> None:
    without = [name for name, info in load_fields().items() if not info.help]
    assert without == []


@pytest.mark.parametrize(
    ("name", "choices"),
    [
        ("loss_type", {"grpo", "dr_grpo", "dapo", "bnpo", "cispo", "sapo", "luspo", "vespo"}),
        ("scale_rewards", {"group", "batch", "none"}),
        ("vllm_mode", {"server", "colocate"}),
        ("vllm_model_impl", {"vllm", "transformers"}),
        ("importance_sampling_level", {"token", "sequence"}),
        ("multi_objective_aggregation", {"sum_then_normalize", "normalize_then_sum"}),
        ("eval_strategy", {"no", "steps", "epoch"}),
        ("save_strategy", {"no", "steps", "epoch", "best"}),
        ("dtype", {"auto", "bfloat16", "float16", "float32"}),
        ("bnb_4bit_quant_type", {"fp4", "nf4"}),
    ],
)
def test_choices_come_from_enum_metadata_help_or_the_trainers_own_comparisons(
    name: str, choices: set[str]
) -> None:
    assert set(load_fields()[name].choices or ()) == choices


def test_enum_choices_are_those_of_the_real_enums() -> None:
    from transformers.trainer_utils import SchedulerType
    from transformers.training_args import OptimizerNames

    assert set(load_fields()["lr_scheduler_type"].choices or ()) == {member.value for member in SchedulerType}
    assert set(load_fields()["optim"].choices or ()) == {member.value for member in OptimizerNames}


def test_choices_that_another_module_states_are_those_of_it() -> None:
    from accelerate.utils import DynamoBackend
    from transformers.generation import configuration_utils as generation

    known = load_fields()
    assert set(known["torch_compile_backend"].choices or ()) == {one.value.lower() for one in DynamoBackend}
    kinds = ("STATIC", "DYNAMIC", "DEPRECATED_STATIC")
    caches = {name for kind in kinds for name in getattr(generation, f"{kind}_CACHE_IMPLEMENTATIONS")}
    assert set(known["cache_implementation"].choices or ()) == caches
    assert {"default", "reduce-overhead", "max-autotune"} <= set(known["torch_compile_mode"].choices or ())


def test_every_default_is_among_its_own_choices() -> None:
    for name, info in load_fields().items():
        if info.choices and isinstance(info.default, str):
            assert info.default in info.choices, name


def test_reading_the_fields_and_a_config_imports_neither_torch_nor_trl(tmp_path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("model_name_or_path: m\ndataset_name: d\nreward_funcs: [accuracy_reward]\n")
    program = (
        "import sys; from grpo_tui.config.resolve import load_config; "
        "import grpo_tui.rewards.loading, grpo_tui.data.load; "
        f"load_config({str(file)!r}); "
        "heavy = {'torch', 'transformers', 'trl', 'datasets', 'accelerate', 'peft', 'textual'}; "
        "heavy &= set(sys.modules); "
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def test_a_field_whose_default_is_computed_has_no_value_until_it_is_set() -> None:
    settings = Settings({}, Section(), dict(load_fields()), YamlDocument({}))
    computed = [name for name, info in load_fields().items() if isinstance(info.default, NoDefault)]
    assert computed
    assert {settings.get(name) for name in computed} == {None}
    assert settings.get("beta") == load_fields()["beta"].default
    assert settings.get("no_such_field") is None
