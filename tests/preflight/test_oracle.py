"""TRL and transformers as the judge: what they refuse, at once or late, is found before they are imported."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from grpo_tui.config.resolve import inspect_config
from grpo_tui.demo import DEMO_MODEL
from grpo_tui.preflight.static import Launch, static_check
from tests import PATIENCE_S
from tests.preflight.machines import A100, machine

MACHINE = machine(A100, bitsandbytes=None)

# What GRPOConfig itself raises on; each value is what is changed of a config that it takes.
REFUSED: dict[str, tuple[str, dict[str, Any]]] = {
    "batch": ("per_device_train_batch_size", {"per_device_train_batch_size": 6}),
    "batch and accumulation": (
        "per_device_train_batch_size",
        {"per_device_train_batch_size": 1, "gradient_accumulation_steps": 4},
    ),
    "a group of one": ("num_generations", {"num_generations": 1}),
    "generation batch": (
        "generation_batch_size",
        {"generation_batch_size": 12, "per_device_train_batch_size": 8},
    ),
    "batch twice": ("generation_batch_size", {"generation_batch_size": 8, "steps_per_generation": 1}),
    "eval batch": ("per_device_eval_batch_size", {"per_device_eval_batch_size": 3, "eval_strategy": "steps"}),
    "eval group": ("per_device_eval_batch_size", {"num_generations_eval": 3, "eval_strategy": "steps"}),
    "auto batch": ("auto_find_batch_size", {"auto_find_batch_size": True}),
    "hub repo": ("log_completions_hub_repo", {"log_completions_hub_repo": "me/completions"}),
    "clip bounds": (
        "vllm_importance_sampling_clip_min",
        {
            "use_vllm": True,
            "vllm_importance_sampling_clip_min": 3.0,
            "vllm_importance_sampling_clip_max": 2.0,
        },
    ),
    "no clip bound": (
        "vllm_importance_sampling_clip_max",
        {
            "use_vllm": True,
            "vllm_importance_sampling_mode": "token_truncate",
            "vllm_importance_sampling_clip_max": None,
        },
    ),
    "two precisions": ("fp16", {"fp16": True, "bf16": True}),
    "two precisions in eval": ("fp16_full_eval", {"fp16_full_eval": True, "bf16_full_eval": True}),
    "best without eval": ("load_best_model_at_end", {"load_best_model_at_end": True}),
    "best between evals": (
        "save_steps",
        {"load_best_model_at_end": True, "eval_strategy": "steps", "eval_steps": 30, "save_steps": 100},
    ),
    "best by share and number": (
        "save_steps",
        {"load_best_model_at_end": True, "eval_strategy": "steps", "eval_steps": 0.1, "save_steps": 100},
    ),
    "half a step logged": ("logging_steps", {"logging_steps": 2.5}),
    "half a step saved": ("save_steps", {"save_steps": 10.5}),
    "half a step evaluated": ("eval_steps", {"eval_steps": 10.5, "eval_strategy": "steps"}),
    "no logging steps": ("logging_steps", {"logging_steps": 0}),
    "plateau": ("lr_scheduler_type", {"lr_scheduler_type": "reduce_lr_on_plateau"}),
    "greedy schedule": ("lr_scheduler_type", {"lr_scheduler_type": "greedy"}),
    "negative warm-up": ("warmup_steps", {"warmup_steps": -1}),
    "prefetch": ("dataloader_prefetch_factor", {"dataloader_prefetch_factor": 2}),
    "empty cache": ("torch_empty_cache_steps", {"torch_empty_cache_steps": 0}),
    "scheduler name": ("lr_scheduler_type", {"lr_scheduler_type": "cosinus"}),
    "optimizer name": ("optim", {"optim": "adamw_hf"}),
    "strategy name": ("save_strategy", {"save_strategy": "stepz"}),
    "hub strategy": ("hub_strategy", {"hub_strategy": "always"}),
    "accelerator key": ("accelerator_config.split_batch", {"accelerator_config": {"split_batch": True}}),
    "removed key": ("max_prompt_length", {"max_prompt_length": 512}),
    "renamed key": ("evaluation_strategy", {"evaluation_strategy": "steps"}),
    "mistyped key": ("learning_rte", {"learning_rte": 1.0e-5}),
    "wrap policy": (
        "fsdp_config.auto_wrap_policy",
        {"fsdp": True, "fsdp_config": {"auto_wrap_policy": "SOME_WRAP"}},
    ),
    "fsdp word": ("fsdp", {"fsdp": "half_shard"}),
    "tf32 on the CPU": ("tf32", {"tf32": True}),
}
# What only the trainer raises on, when it is built or when it makes its schedule.
REFUSED_LATE: dict[str, tuple[str, dict[str, Any]]] = {
    "no reference to synchronise": ("sync_ref_model", {"sync_ref_model": True}),
    "no reference with LoRA": ("sync_ref_model", {"sync_ref_model": True, "beta": 0.04, "use_peft": True}),
    "adapter on the head": (
        "lora_target_modules",
        {"use_peft": True, "lora_target_modules": ["q_proj", "lm_head"]},
    ),
    "weights for two": ("reward_weights", {"reward_weights": [1.0, 2.0]}),
    "mistyped argument of the model": (
        "model_init_kwargs.attn_implementaton",
        {"model_init_kwargs": {"attn_implementaton": "sdpa"}},
    ),
    "renamed argument of the model": (
        "model_init_kwargs.use_flash_attention_2",
        {"model_init_kwargs": {"use_flash_attention_2": True}},
    ),
    "attention's name": (
        "model_init_kwargs.attn_implementation",
        {"model_init_kwargs": {"attn_implementation": "flash-attn"}},
    ),
    "fused by Liger": (
        "liger_kernel_config.fused_linear_cross_entropy",
        {"use_liger_kernel": True, "liger_kernel_config": {"fused_linear_cross_entropy": True}},
    ),
    "batching's key": (
        "transformers_continuous_batching_config.num_block",
        {
            "use_transformers_continuous_batching": True,
            "transformers_continuous_batching_config": {"num_block": 8},
        },
    ),
    "accumulated twice": (
        "accelerator_config.gradient_accumulation_kwargs.num_steps",
        {
            "gradient_accumulation_steps": 2,
            "accelerator_config": {"gradient_accumulation_kwargs": {"num_steps": 4}},
        },
    ),
    "checkpointing's key": (
        "gradient_checkpointing_kwargs.use_reentrent",
        {"gradient_checkpointing_kwargs": {"use_reentrent": False}},
    ),
    "8-bit Adam without its package": ("optim", {"optim": "adamw_8bit"}),
    "GaLore without targets": ("optim", {"optim": "galore_adamw"}),
    "schedule's key": (
        "lr_scheduler_kwargs.num_cycle",
        {"lr_scheduler_type": "cosine", "lr_scheduler_kwargs": {"num_cycle": 1}},
    ),
    "schedule without its floor": ("lr_scheduler_type", {"lr_scheduler_type": "cosine_with_min_lr"}),
    "schedule without its decay": ("lr_scheduler_type", {"lr_scheduler_type": "warmup_stable_decay"}),
    "schedule's shape": (
        "lr_scheduler_kwargs.decay_type",
        {
            "lr_scheduler_type": "warmup_stable_decay",
            "lr_scheduler_kwargs": {"num_decay_steps": 10, "decay_type": "steep"},
        },
    ),
    "schedule's end": (
        "lr_scheduler_kwargs.lr_end",
        {"lr_scheduler_type": "polynomial", "lr_scheduler_kwargs": {"lr_end": 1.0}},
    ),
}
SOUND: dict[str, Any] = {
    "per_device_train_batch_size": 8,
    "per_device_eval_batch_size": 8,
    "max_steps": 400,
    "save_steps": 100,
    "use_cpu": True,
    "bf16": False,
}
JUDGE = """
import json, sys, logging, warnings
warnings.simplefilter("ignore"); logging.disable(logging.WARNING)
from datasets import Dataset
from peft import LoraConfig
from trl import GRPOConfig, GRPOTrainer
folder, model = sys.argv[1:]
asked, rows = json.load(sys.stdin), Dataset.from_list([{"prompt": "1+1="}] * 40)
said = {}
def build(values, late):
    values = dict(values)
    peft, targets = values.pop("use_peft", False), values.pop("lora_target_modules", None)
    args = GRPOConfig(output_dir=folder, report_to="none", **values)
    if not late:
        return
    lora = LoraConfig(task_type="CAUSAL_LM", target_modules=targets) if peft else None
    reward = lambda completions, **kwargs: [0.0] * len(completions)
    trainer = GRPOTrainer(model, reward, args=args, train_dataset=rows, peft_config=lora)
    trainer.create_optimizer_and_scheduler(100)
    if args.gradient_checkpointing_kwargs:
        trainer.train()
for late, configs in asked:
    for name, values in configs.items():
        try:
            build(values, late)
            said[name] = None
        except Exception as error:
            said[name] = f"{type(error).__name__}: {error}"
print(json.dumps(said))
"""


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str | None]:
    """What GRPOConfig and GRPOTrainer say of each config, all in one process."""

    def whole(table: dict[str, tuple[str, dict[str, Any]]]) -> dict[str, dict[str, Any]]:
        return {name: {**SOUND, **change} for name, (_, change) in table.items()}

    asked = [(False, whole(REFUSED)), (True, {**whole(REFUSED_LATE), "sound": SOUND})]
    done = subprocess.run(
        [sys.executable, "-c", JUDGE, str(tmp_path_factory.mktemp("out")), str(DEMO_MODEL)],
        input=json.dumps(asked), capture_output=True, text=True, timeout=PATIENCE_S, check=True,
    )  # fmt: skip
    said: dict[str, str | None] = json.loads(done.stdout.splitlines()[-1])
    return said


def config(folder: Path, values: dict[str, Any]) -> Path:
    body = {"model_name_or_path": str(DEMO_MODEL), "grpo_tui": {
        "dataset": str(folder / "rows.jsonl"), "rewards": ["accuracy_reward"]}, **values}  # fmt: skip
    (folder / "rows.jsonl").write_text('{"prompt": "q", "solution": "1"}\n' * 40)
    file = folder / "c.yaml"
    file.write_text(yaml.safe_dump(body, sort_keys=False))
    return file


def test_the_judge_takes_the_sound_config(judged: dict[str, str | None], tmp_path: Path) -> None:
    assert judged["sound"] is None
    found = static_check(inspect_config(config(tmp_path, SOUND)), Launch(root=tmp_path / "run"), MACHINE)
    assert [f for f in found.findings if f.severity != "info"] == []


@pytest.mark.parametrize("name", [*REFUSED, *REFUSED_LATE])
def test_what_trl_refuses_is_found_with_its_key(
    name: str, judged: dict[str, str | None], tmp_path: Path
) -> None:
    field, change = {**REFUSED, **REFUSED_LATE}[name]
    assert judged[name] is not None, "TRL takes it; the rule has to go"
    found = static_check(
        inspect_config(config(tmp_path, {**SOUND, **change})), Launch(root=tmp_path / "run"), MACHINE
    )
    errors = [f for f in found.findings if f.severity == "error"]
    assert not found.ok
    assert field in {f.field for f in errors}, (judged[name], errors)
    assert all(f.fix is not None and f.line is not None for f in errors if f.field == field)
