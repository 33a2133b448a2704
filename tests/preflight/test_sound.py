"""Configs that are right: nothing is found on TRL's own examples and on the presets that are shipped."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from grpo_tui.cli.saved_run import launcher_words, own_world_size
from grpo_tui.config.resolve import inspect_config
from grpo_tui.demo import DEMO_CONFIG, DEMO_DIR, DEMO_MODEL
from grpo_tui.preflight.run import QUICK, Children, check
from grpo_tui.preflight.static import Launch
from tests.preflight.machines import A100, machine, serving

PRESETS = sorted(p for p in Path("configs").glob("*.yaml") if not p.name.endswith(".cases.yaml"))
LACKING = ("config.not-installed",)
"""What only this machine lacks: packages of a GPU's machine."""

# TRL's documentation of GRPO and its index of papers, each as a YAML on local rows.
EXAMPLES: dict[str, dict[str, Any]] = {
    "quick start": {},
    "vLLM colocated": {"use_vllm": True, "vllm_mode": "colocate"},
    "vLLM as a server": {"use_vllm": True, "vllm_mode": "server"},
    "vLLM asleep between steps": {
        "use_vllm": True,
        "vllm_enable_sleep_mode": True,
        "vllm_gpu_memory_utilization": 0.3,
        "vllm_max_model_length": 1024,
    },
    "LoRA": {
        "use_peft": True,
        "lora_r": 32,
        "lora_alpha": 16,
        "lora_target_modules": ["all-linear"],
        "learning_rate": 1.0e-5,
    },
    "QLoRA": {
        "use_peft": True,
        "load_in_4bit": True,
        "use_bnb_nested_quant": True,
        "dtype": "bfloat16",
        "lora_target_modules": ["q_proj", "v_proj"],
        "learning_rate": 1.0e-5,
    },
    "GSPO": {
        "importance_sampling_level": "sequence",
        "loss_type": "grpo",
        "beta": 0.0,
        "epsilon": 3.0e-4,
        "epsilon_high": 4.0e-4,
        "gradient_accumulation_steps": 1,
        "steps_per_generation": 4,
    },
    "DAPO": {
        "loss_type": "dapo",
        "epsilon_high": 0.28,
        "epsilon": 0.2,
        "beta": 0.0,
        "mask_truncated_completions": True,
        "num_iterations": 1,
    },
    "Dr. GRPO": {"loss_type": "dr_grpo", "scale_rewards": "none", "beta": 0.0},
    "Lite PPO": {"loss_type": "dapo", "scale_rewards": "batch"},
    "80/20": {"top_entropy_quantile": 0.2},
    "INTELLECT-2": {"delta": 4.0},
    "CISPO": {
        "loss_type": "cispo",
        "epsilon_high": 5.0,
        "scale_rewards": "none",
        "cast_lm_head_to_fp32": True,
    },
    "SAPO": {"loss_type": "sapo", "sapo_temperature_pos": 1.0, "sapo_temperature_neg": 1.1},
    "LUSPO": {
        "loss_type": "luspo",
        "importance_sampling_level": "sequence",
        "epsilon": 2.0e-3,
        "epsilon_high": 2.5e-3,
    },
    "VESPO": {
        "loss_type": "vespo",
        "use_vllm": True,
        "vllm_importance_sampling_mode": "token_truncate",
        "vllm_importance_sampling_clip_max": 2.0,
    },
    "DeepSeek-V3.2": {"off_policy_mask_threshold": 0.5, "beta": 0.001},
    "truncated importance sampling": {
        "use_vllm": True,
        "vllm_importance_sampling_correction": True,
        "vllm_importance_sampling_mode": "token_truncate",
        "vllm_importance_sampling_clip_max": 2.0,
    },
    "TR-DPO's reference": {"beta": 0.04, "sync_ref_model": True, "ref_model_sync_steps": 64},
    "adaptive entropy": {"use_adaptive_entropy": True, "entropy_target": 1.0, "entropy_coef": 0.001},
    "GDPO": {"multi_objective_aggregation": "normalize_then_sum"},
    "evaluated": {
        "eval_strategy": "steps",
        "eval_steps": 50,
        "per_device_eval_batch_size": 8,
        "load_best_model_at_end": True,
        "metric_for_best_model": "eval_reward",
        "save_steps": 100,
    },
    "kernels of the Hub": {"attn_implementation": "kernels-community/flash-attn2", "dtype": "bfloat16"},
    "flash attention": {
        "attn_implementation": "flash_attention_2",
        "dtype": "bfloat16",
        "gradient_checkpointing_kwargs": {"use_reentrant": False},
    },
    "8-bit Adam": {"optim": "paged_adamw_8bit", "lr_scheduler_type": "cosine", "warmup_steps": 10},
    "cosine with a floor": {
        "lr_scheduler_type": "cosine_with_min_lr",
        "lr_scheduler_kwargs": {"min_lr_rate": 0.1},
    },
    "continuous batching": {"use_transformers_continuous_batching": True},
    "thinking off": {"chat_template_kwargs": {"enable_thinking": False}},
    "vLLM's settings": {"use_vllm": True, "generation_kwargs": {"stop": ["</answer>"], "min_tokens": 4}},
    "generation settings": {"generation_kwargs": {"suppress_tokens": [1], "no_repeat_ngram_size": 5}},
}
BASE: dict[str, Any] = {
    "model_name_or_path": "Qwen/Qwen2-0.5B-Instruct",
    "per_device_train_batch_size": 8,
    "max_steps": 200,
    "save_steps": 100,
    "reward_funcs": ["accuracy_reward"],
}
HOST = machine(A100, accounts=("wandb",), answers=serving(BASE["model_name_or_path"]))


@pytest.mark.parametrize("name", EXAMPLES)
def test_nothing_is_found_on_an_example_of_trl(name: str, tmp_path: Path) -> None:
    rows = [{"prompt": [{"role": "user", "content": f"{i} + 1?"}], "solution": str(i + 1)} for i in range(80)]
    for file in ("rows.jsonl", "more.jsonl"):
        (tmp_path / file).write_text("".join(json.dumps(row) + "\n" for row in rows))
    section = {"dataset": "rows.jsonl"}
    if "eval_strategy" in EXAMPLES[name]:
        section["eval_dataset"] = "more.jsonl"
    file = tmp_path / "example.yaml"
    file.write_text(yaml.safe_dump({**BASE, **EXAMPLES[name], "grpo_tui": section}))
    found = check(inspect_config(file), Launch(root=tmp_path / "run"), parts=QUICK, machine=HOST)
    assert [f for f in found.findings if f.id not in LACKING] == []


@pytest.mark.parametrize("preset", PRESETS, ids=lambda path: path.stem)
def test_a_preset_is_clean_but_for_what_the_machine_lacks(preset: Path, tmp_path: Path) -> None:
    inspected = inspect_config(preset, world_size=own_world_size)
    settings = inspected.settings
    host = machine(
        *(A100,) * max(8, settings.world_size or 1), accounts=("wandb",), answers=serving(settings.model)
    )
    start = Launch(launcher_words(settings.section.launcher), tmp_path / "run")
    found = check(inspected, start, parts=QUICK, machine=host)
    assert [f for f in found.findings if f.id not in LACKING and f.severity != "info"] == []


def test_the_demonstration_is_clean_with_its_model_data_and_rewards(
    children: Children, tmp_path: Path
) -> None:
    found = check(inspect_config(DEMO_CONFIG), Launch(root=tmp_path / "run"), children=children)
    assert [f for f in found.findings if f.severity != "info"] == []
    assert found.done == ("static", "model", "data", "rewards", "plan")
    assert [item.mark for item in found.checklist] == ["yes"] * 4 + ["idle"]  # no tracker is set
    assert found.plan is not None
    assert found.plan["total_steps"] == 120
    assert found.plan["rows"] == 360


def test_a_plain_config_on_the_demo_model_is_clean_with_its_rows(children: Children, tmp_path: Path) -> None:
    rows = [
        {"prompt": [{"role": "user", "content": f"What is {i} + 1?"}], "solution": f"{i + 1}"}
        for i in range(60)
    ]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "own.py").write_text(
        "def right(completions, solution, **kwargs):\n"
        "    return [float(s in c[0]['content']) for c, s in zip(completions, solution)]\n"
    )
    file = tmp_path / "own.yaml"
    file.write_text(
        f"model_name_or_path: {DEMO_MODEL}\nuse_cpu: true\nbf16: false\nmax_steps: 20\nsave_steps: 10\n"
        "max_completion_length: 40\n"
        "grpo_tui:\n  dataset: rows.jsonl\n  rewards: [{name: right, source: own.py:right}]\n"
    )
    found = check(inspect_config(file), Launch(root=tmp_path / "run"), children=children)
    assert [f for f in found.findings if f.severity != "info"] == []


def test_a_reward_model_is_not_loaded_and_said_to_be_left_out(children: Children, tmp_path: Path) -> None:
    text = (
        DEMO_CONFIG.read_text()
        .replace(": model ", f": {DEMO_MODEL} ")
        .replace("source: ", f"source: {DEMO_DIR}/")
    )
    text = text.replace("dataset: task", f"dataset: {DEMO_DIR}/task")
    file = tmp_path / "judged.yaml"
    file.write_text(f"reward_model_name_or_path: {tmp_path}\n{text}")
    found = check(
        inspect_config(file), Launch(root=tmp_path / "run"), children=children, parts=("static", "rewards")
    )
    assert [f for f in found.findings if f.severity != "info"] == []
    left = [f for f in found.advice if f.id == "rewards.model"]
    assert [(f.field, f.line) for f in left] == [("reward_model_name_or_path", 1)]
    assert [item.evidence for item in found.checklist][1].startswith("correctness, format, incremental: 8")
