"""The plan of known models on known cards, whole: its lines, and every number of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from grpo_tui.config.plan.making import Plan, Surroundings, plan
from grpo_tui.config.plan.memory import CARDS, card
from grpo_tui.config.plan.model import published_shapes, read_shape
from grpo_tui.config.plan.time import Rate
from grpo_tui.present.plan_text import PlanLine, memory_bar, plan_lines, plan_list
from tests.config.plan_settings import settings_of
from tests.stable import beside, stable

Stored = Callable[[str, str], None]
SMALL, LARGE = "Qwen/Qwen2.5-0.5B-Instruct", "Qwen/Qwen2.5-7B-Instruct"
USUAL = {
    "max_completion_length": 256, "per_device_train_batch_size": 8, "num_generations": 8, "dtype": "bfloat16",
    "max_steps": 200, "save_steps": 50, "bf16": True,
}  # fmt: skip
FULL = {"fsdp": "full_shard", "fsdp_config": {"version": 2}}
PLANS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "small": (SMALL, {}, {}),
    "small in float32": (SMALL, {"dtype": "float32", "bf16": False}, {}),
    "a reference": (SMALL, {"beta": 0.04}, {}),
    "a reference kept in step": (SMALL, {"beta": 0.04, "sync_ref_model": True}, {}),
    "LoRA": (LARGE, {"use_peft": True, "lora_r": 16, "lora_target_modules": ["all-linear"]}, {}),
    "QLoRA": (LARGE, {"use_peft": True, "load_in_4bit": True, "beta": 0.04}, {"card": "RTX 4090"}),
    "8 bits": (LARGE, {"use_peft": True, "load_in_8bit": True}, {"card": "RTX 4090"}),
    "vLLM beside": (SMALL, {"use_vllm": True, "vllm_mode": "colocate"}, {}),
    "vLLM asleep": (SMALL, {"use_vllm": True, "vllm_mode": "colocate", "vllm_enable_sleep_mode": True}, {}),
    "vLLM elsewhere": (SMALL, {"use_vllm": True, "vllm_mode": "server"}, {}),
    "vLLM over two": (
        LARGE, {"use_vllm": True, "vllm_mode": "colocate", "vllm_tensor_parallel_size": 2}, {"world_size": 2},
    ),
    "FSDP": (LARGE, FULL, {"world_size": 4}),
    "FSDP offloaded": (LARGE, {"fsdp": "full_shard offload", "fsdp_config": {"version": 1}},
    {"world_size": 4}),
    "ZeRO 2": (LARGE, {"deepspeed": {"zero_optimization": {"stage": 2}}}, {"world_size": 8}),
    "ZeRO 3": (LARGE, {"deepspeed": {"zero_optimization": {"stage": 3}}}, {"world_size": 8}),
    "DDP": (SMALL, {}, {"world_size": 2}),
    "without checkpointing": (SMALL, {"gradient_checkpointing": False}, {}),
    "8-bit states": (SMALL, {"optim": "adamw_8bit"}, {}),
    "paged states": (SMALL, {"optim": "paged_adamw_32bit"}, {}),
    "SGD": (SMALL, {"optim": "sgd"}, {}),
    "Liger": (SMALL, {"use_liger_kernel": True}, {}),
    "long": (SMALL, {"max_completion_length": 8192}, {"prompt_tokens": 1000}),
    "many at once": (SMALL, {"per_device_train_batch_size": 64, "gradient_accumulation_steps": 4}, {}),
    "several iterations": (SMALL, {"num_iterations": 2, "steps_per_generation": 4}, {}),
    "epochs": (SMALL, {"max_steps": -1, "num_train_epochs": 2.0}, {"rows": 100}),
    "epochs of too few rows": (SMALL, {"max_steps": -1, "num_train_epochs": 1.0, "num_generations": 4},
    {"rows": 1}),
    "warm-up": (SMALL, {"warmup_steps": 20, "learning_rate": 1e-5, "lr_scheduler_type": "cosine"}, {}),
    "constant": (SMALL, {"lr_scheduler_type": "constant_with_warmup", "warmup_steps": 0.1}, {}),
    "polynomial": (SMALL, {"lr_scheduler_type": "polynomial", "learning_rate": 1e-5}, {}),
    "kept checkpoints": (SMALL, {"save_total_limit": 2}, {"free_bytes": 10 << 30}),
    "models alone": (SMALL, {"save_only_model": True, "save_strategy": "epoch"}, {"rows": 400}),
    "a small card": (LARGE, {}, {"card": "T4"}),
    "known time": (SMALL, {}, {"rates": (Rate("first", SMALL, 2.0, 64, 256, device="NVIDIA H100"),)}),
    "no model": ("acme/unknown", {}, {}),
    "no card": (SMALL, {}, {"card": None}),
}  # fmt: skip


def planned(model: str, changes: dict[str, Any], around: dict[str, Any]) -> Plan:
    given = dict(around)
    name = given.pop("card", "H100")
    device = None if name is None else card(name)
    settings = settings_of({"model_name_or_path": model, **USUAL, **changes})
    given = {"rows": 1_000, "prompt_tokens": 128, **given}
    return plan(settings, Surroundings(model=read_shape(model), device=device, **given))


def in_words(line: PlanLine) -> str:
    """A line of the pane: each part with its rank, its words and their roles."""
    return " ".join(
        f"[{rank} {' '.join(f'{words!r}{role[0]}' for words, role in part)}]" for rank, part in line
    )


def lines_of(made: Plan, unread: set[str]) -> list[str]:
    """All that is said and known of a plan."""
    said = [*plan_list(made), *map(in_words, plan_lines(made))]
    if made.memory is not None:
        said += [memory_bar(made.memory, 40)]
        said += [f"{part.name} {part.bytes} {part.moments} {part.movable}" for part in made.memory.parts]
    return [*said, *(f"{key}: {value}" for key, value in made.to_json().items() if key not in unread)]


def test_a_plan_is_what_is_stored(stored: Stored) -> None:
    first: dict[str, list[str]] = {}
    said = []
    for name, words in PLANS.items():
        unread = {"memory"} if "lr_scheduler_type" in words[1] else {"memory", "learning_rate"}
        lines = lines_of(planned(*words), unread)
        said += [f"== {name}", *beside(first.get(words[0], []), lines), ""]
        first.setdefault(words[0], lines)
    stored("plans", stable("\n".join(said)))


def test_the_sizes_and_the_peak_of_known_models_are_what_is_stored(stored: Stored) -> None:
    said = []
    for name, shape in published_shapes().items():
        peaks = [
            planned(name, changes, {}).memory for changes in ({}, PLANS["QLoRA"][1], PLANS["vLLM beside"][1])
        ]
        said.append(f"{name} {shape.parameters} {[None if one is None else one.peak_bytes for one in peaks]}")
    said += [f"{name} {card(name)} {card('nvidia ' + name.lower())}" for name in CARDS]
    said += [
        f"{text!r} {card(text)}"
        for text in ("24GB", "24 gb", "24GiB", "80", "512 MiB", "0", "x", "GeForce RTX 4090", "4090")
    ]
    stored("sizes", "\n".join(said) + "\n")
