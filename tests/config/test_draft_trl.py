"""Whatever valid values a form writes, TRL's own parser reads them equal.

The values come from a seeded generator over every field of the installed TRL that may be set freely; what
they must equal is the dataclass built from them directly.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from grpo_tui.config.coerce import kinds_of
from grpo_tui.config.draft import Draft
from grpo_tui.config.trl_fields import FieldInfo, load_fields

START = """\
# A config as a person wrote it.
model_name_or_path: some/model   # the policy
use_cpu: true
bf16: false

# --- data
dataset_name: 'some/data'
reward_funcs:
  - accuracy_reward   # TRL's
learning_rate: 1e-5   # text for YAML 1.1
output_dir: {folder}
"""

NOT_FREE = {
    "bf16", "fp16", "tf32", "use_cpu", "bf16_full_eval", "fp16_full_eval", "output_dir",
    # sizes that have to fit each other
    "num_generations", "num_generations_eval", "generation_batch_size", "steps_per_generation",
    "per_device_train_batch_size", "per_device_eval_batch_size", "gradient_accumulation_steps",
    # refused, or needing a package, a device or each other
    "auto_find_batch_size", "enable_jit_checkpoint", "deepspeed", "fsdp", "fsdp_config",
    "accelerator_config", "parallelism_config", "torch_compile", "torch_compile_backend",
    "torch_compile_mode", "use_liger_kernel", "load_best_model_at_end", "eval_strategy",
    "save_strategy", "logging_strategy", "log_completions_hub_repo", "optim", "lr_scheduler_type",
    "report_to", "debug", "push_to_hub", "hub_token", "local_rank", "optim_args",
    "dataloader_prefetch_factor", "activation_checkpointing", "activation_checkpointing_kwargs",
    "datasets", "load_in_8bit", "load_in_4bit", "use_transformers_paged",
    "vllm_importance_sampling_cap", "project", "resume_from_checkpoint", "trackio_static_space_id",
    "include_num_input_tokens_seen", "full_determinism", "logging_steps", "save_steps",
    "eval_steps", "torch_empty_cache_steps", "pad_to_multiple_of", "log_level", "log_level_replica",
    "lora_target_modules", "prediction_loss_only", "eval_delay", "test_split_size",
    "gradient_checkpointing",
}  # fmt: skip
TEXTS = [
    "a", "no", "on", "1e-5", "null", "true", "0x1f", "it's", 'say "x"', "a: b", "a #b", "名", "- x", "x/y",
    "2024-01-01", "[a]", "{{x}}", "a, b", "~x", "*a", "C:\\d",
]  # fmt: skip
NUMBERS = [1e-6, 5e-6, 1e-5, 0.1, 0.25, 0.5, 1.0, 3e-7, 0.28]


@pytest.fixture(scope="module")
def trl() -> Any:
    """TRL's script, imported once: it takes seconds."""
    from trl.scripts import grpo

    return grpo


def _free_fields() -> Iterator[FieldInfo]:
    for info in load_fields().values():
        if info.name not in NOT_FREE and kinds_of(info.annotation) - {"none"}:
            yield info


def _value(info: FieldInfo, rng: random.Random) -> Any:
    kinds = kinds_of(info.annotation)
    if info.choices:
        return rng.choice(info.choices)
    if "list[str]" in kinds:
        return rng.sample(["a", "no", "q_proj", "1e-5", "x, y", "null"], rng.randint(1, 4))
    if "list[float]" in kinds:
        return [rng.choice(NUMBERS) for _ in range(rng.randint(1, 3))]
    if "dict" in kinds:
        return {"a": rng.choice(TEXTS), "no": rng.choice(NUMBERS), "deep": {"x": [1, rng.choice(TEXTS)]}}
    if "bool" in kinds:
        return rng.random() < 0.5
    if "int" in kinds:
        return rng.randint(1, 500)
    if "float" in kinds:
        return rng.choice(NUMBERS)
    return rng.choice(TEXTS)


def _case(seed: int) -> dict[str, Any]:
    rng = random.Random(seed)
    fields = rng.sample(list(_free_fields()), 10)
    return {info.name: _value(info, rng) for info in fields}


def _built(trl: Any, values: Mapping[str, Any]) -> list[Any] | None:
    """The dataclasses from the values directly; None when TRL refuses them together."""
    from trl import GRPOConfig, ModelConfig
    from trl.scripts.utils import DatasetMixtureConfig

    classes = (trl.GRPOScriptArguments, GRPOConfig, ModelConfig, DatasetMixtureConfig)
    fields = load_fields()
    try:
        return [
            each(**{k: v for k, v in values.items() if fields[k].owner == each.__name__}) for each in classes
        ]
    except (ValueError, ImportError):
        return None


def test_any_valid_values_survive_form_edit_save_and_trls_parser(trl: Any, tmp_path: Path) -> None:
    seen: set[str] = set()
    refused = 0
    fixed = {
        "model_name_or_path": "some/model", "use_cpu": True, "bf16": False, "dataset_name": "some/data",
        "reward_funcs": ["accuracy_reward"], "learning_rate": 1e-5, "output_dir": str(tmp_path),
    }  # fmt: skip
    for seed in range(40):
        values = {**fixed, **_case(seed)}
        wanted = _built(trl, values)
        if wanted is None:
            refused += 1
            continue
        path = tmp_path / f"{seed}.yaml"
        draft = Draft.new(START.format(folder=tmp_path), path)
        for name, value in values.items():
            if name != "learning_rate" or value != 1e-5:
                draft.set(name, value)
        draft.save()
        read = trl.make_parser().parse_args_and_config(["--config", str(path)], fail_with_unknown_args=True)
        for name in values:
            owners = [place for place, part in enumerate(wanted) if name in vars(part)]
            assert owners, name
            for place in owners:
                told = (seed, name, values[name], path.read_text())
                assert getattr(read[place], name) == getattr(wanted[place], name), told
        for name, value in values.items():
            if value != "null":  # which a start reads as no value, and says so
                assert draft.values()[name].value == value, (seed, name)
        assert "# --- data" in draft.text
        assert "# TRL's" in draft.text
        seen |= set(values)
    assert refused < 10
    assert len(seen) > 120
