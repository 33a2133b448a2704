"""Each rule speaks from its border on and where all that it asks for is so, and is silent beside that."""

from __future__ import annotations

from typing import Any

import pytest

from grpo_tui.config.rules_nested import nested_findings
from grpo_tui.config.rules_sharded import sharded_findings
from grpo_tui.config.rules_training import grpo_findings, lora_findings, training_findings
from grpo_tui.config.rules_vllm import (
    server_address,
    server_command,
    tensor_parallel_findings,
    vllm_findings,
)
from grpo_tui.config.section import Section
from grpo_tui.config.settings import Settings
from grpo_tui.config.trl_fields import load_fields
from grpo_tui.config.yaml_lines import YamlDocument
from grpo_tui.demo import DEMO_MODEL

HUB = {"model_name_or_path": "org/model"}
ADAPTIVE = {"use_adaptive_entropy": True}
EVALUATED = {"eval_strategy": "steps", "max_steps": 100}
BEST = {**EVALUATED, "load_best_model_at_end": True, "save_strategy": "steps"}
STREAM = {"dataset_streaming": True}
LAYERWISE = {"optim": "galore_adamw_layerwise", "optim_target_modules": ["attn"]}
VLLM = {"use_vllm": True, "vllm_mode": "colocate"}
SERVER = {"use_vllm": True, "vllm_mode": "server"}
CUT = {**VLLM, "vllm_importance_sampling_mode": "token_truncate", "vllm_importance_sampling_clip_max": None}
SHARDED = {"fsdp": True, "gradient_checkpointing": False}
ZERO3 = {"zero_optimization": {"stage": 3}}
MIN_LR = {"lr_scheduler_type": "cosine_with_min_lr"}
POLYNOMIAL = {"lr_scheduler_type": "polynomial", "learning_rate": 1e-6}


def accumulated(steps: int) -> dict[str, Any]:
    twice = {"gradient_accumulation_kwargs": {"num_steps": 4}}
    return {"accelerator_config": twice, "gradient_accumulation_steps": steps}


BORDERS: dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]]]] = {
    "grpo.loss-level": (
        [
            {"loss_type": "luspo"},
            *(
                {"loss_type": loss, "importance_sampling_level": "sequence"}
                for loss in ("bnpo", "dr_grpo", "dapo", "cispo", "vespo")
            ),
        ],
        [
            {"loss_type": loss, "importance_sampling_level": level}
            for loss, level in (
                ("luspo", "sequence"),
                ("vespo", "token"),
                ("grpo", "sequence"),
                ("sapo", "sequence"),
                ("dapo", "token"),
            )
        ],
    ),
    "grpo.cispo-cap": (
        [{"loss_type": "cispo"}, {"loss_type": "cispo", "epsilon_high": 0.99}],
        [{"loss_type": "cispo", "epsilon_high": 1.0}, {"loss_type": "grpo", "epsilon_high": 0.99}],
    ),
    "grpo.clip-order": (
        [{"epsilon": 0.2, "epsilon_high": 0.19}],
        [{"epsilon": 0.2, "epsilon_high": 0.2}, {"epsilon_high": 0.1, "loss_type": "sapo"}]
        + [{"epsilon_high": 0.1, "loss_type": loss} for loss in ("vespo", "cispo")],
    ),
    "grpo.delta": (
        [{"delta": 1.2}, {"delta": 1.28, "epsilon_high": 0.28}],
        [{"delta": 1.21}, {"delta": 1.29, "epsilon_high": 0.28}, {"delta": 1.0, "loss_type": "sapo"}],
    ),
    "grpo.no-reference": (
        [{"sync_ref_model": True}, {"sync_ref_model": True, "beta": 0.04, "use_peft": True}],
        [{"sync_ref_model": True, "beta": 0.04}, {"beta": 0.04, "use_peft": True}, {"beta": 0.0}],
    ),
    "grpo.entropy-bounds": (
        [{**ADAPTIVE, "entropy_coef_min": 1.1, "entropy_coef_max": 1.0}],
        [
            {**ADAPTIVE, "entropy_coef_min": 1.0, "entropy_coef_max": 1.0},
            {"entropy_coef_min": 1.1, "entropy_coef_max": 1.0},
        ],
    ),
    "grpo.off-policy": ([{"off_policy_mask_threshold": 0.0}], [{"off_policy_mask_threshold": 1e-6}]),
    "grpo.no-weight": (
        [{"reward_funcs": ["a", "b"], "reward_weights": [0.0, 0.0]}],
        [
            {"reward_funcs": ["a", "b"], "reward_weights": [0.0, 1.0]},
            {"reward_funcs": ["a", "b"], "reward_weights": [0.0]},
            {"reward_funcs": ["a"], "reward_model_name_or_path": "m", "reward_weights": [0.0]},
        ],
    ),
    "grpo.rate-high": (
        [
            {**HUB, "learning_rate": 1.1e-4},
            {**HUB, "learning_rate": 2.1e-3, "use_peft": True},
            {"model_name_or_path": str(DEMO_MODEL), "learning_rate": 1.1e-2},
        ],
        [
            {**HUB, "learning_rate": 1e-4},
            {**HUB, "learning_rate": 2e-3, "use_peft": True},
            {"model_name_or_path": str(DEMO_MODEL), "learning_rate": 1e-2},
        ],
    ),
    "grpo.rate-zero": ([{"learning_rate": 0.0}], [{"learning_rate": 1e-9}]),
    "grpo.no-clipping": ([{"max_grad_norm": 0.0}], [{"max_grad_norm": 0.01}]),
    "grpo.no-length": ([{"max_completion_length": None}], [{"max_completion_length": 1}]),
    "grpo.completions-not-logged": (
        [{"log_completions_hub_repo": "me/x"}],
        [{"log_completions_hub_repo": "me/x", "log_completions": True}],
    ),
    "grpo.liger-fused": (
        [{"use_liger_kernel": True, "liger_kernel_config": {"fused_linear_cross_entropy": True}}],
        [
            {"use_liger_kernel": True, "liger_kernel_config": {"fused_linear_cross_entropy": False}},
            {"liger_kernel_config": {"fused_linear_cross_entropy": True}},
        ],
    ),
    "lora.quantized-alone": (
        [{"load_in_4bit": True}, {"load_in_8bit": True}],
        [{"load_in_4bit": True, "use_peft": True}],
    ),
    "lora.head": (
        [{"use_peft": True, "lora_target_modules": ["q_proj", "model.lm_head"]}],
        [{"use_peft": True, "lora_target_modules": ["q_proj"]}],
    ),
    "lora.no-targets": (
        [{"use_peft": True, "lora_target_modules": []}],
        [{"use_peft": True}, {"use_peft": True, "lora_target_modules": ["q_proj"]}],
    ),
    "lora.task": (
        [{"use_peft": True, "lora_task_type": "SEQ_CLS"}],
        [{"use_peft": True, "lora_task_type": "CAUSAL_LM"}],
    ),
    "training.best-metric": (
        [{**EVALUATED, "save_strategy": "best"}],
        [
            {**EVALUATED, "save_strategy": "best", "metric_for_best_model": "eval_reward"},
            {**EVALUATED, "save_strategy": "best", "load_best_model_at_end": True},
        ],
    ),
    "training.best-without-eval": (
        [{"save_strategy": "best", "metric_for_best_model": "eval_reward"}],
        [{**EVALUATED, "save_strategy": "best", "metric_for_best_model": "eval_reward"}],
    ),
    "training.best-model": (
        [
            {**BEST, "eval_steps": 30, "save_steps": 45},
            {**BEST, "eval_steps": 30, "save_steps": 0.5},
            {**BEST, "eval_steps": 0.5, "save_steps": 1},
            {**BEST, "save_strategy": "epoch"},
            {**BEST, "eval_strategy": "no"},
        ],
        [
            {**BEST, "eval_steps": 30, "save_steps": 60},
            {**BEST, "eval_steps": 0.25, "save_steps": 0.5},
            {**BEST, "eval_steps": 1, "save_steps": 1},
            {**BEST, "eval_steps": 30, "save_steps": 0},
            {**BEST, "save_strategy": "epoch", "eval_strategy": "epoch"},
            {**BEST, "save_strategy": "epoch", "eval_strategy": "epoch", "eval_steps": 30, "save_steps": 45},
            {**BEST, "save_strategy": "best", "eval_steps": 30, "save_steps": 45},
            {**BEST, "save_strategy": "best"},
        ],
    ),
    "training.whole-steps": (
        [{"logging_steps": 1.5}, {"save_steps": 2.5}, {**EVALUATED, "eval_steps": 1.5}],
        [
            {"logging_steps": 1},
            {"logging_steps": 0.5},
            {"logging_steps": 2.0},
            {"eval_steps": 1.5},
            {"save_steps": 2.5, "save_strategy": "no"},
        ],
    ),
    "training.precision": (
        [
            {"fp16": True, "bf16": True},
            {"fp16_full_eval": True, "bf16_full_eval": True},
            {"fp16": True, "dtype": "float16", "bf16": False},
            {"fp16": True, "dtype": "bfloat16", "bf16": False},
        ],
        [
            {"fp16": True, "bf16": False, "dtype": "float32"},
            {"bf16": True, "dtype": "float16"},
            {"fp16": True, "bf16": False, "dtype": "float16", "use_peft": True},
            {"fp16_full_eval": True, "bf16": True},
        ],
    ),
    "training.schedule-needs-eval": (
        [{"lr_scheduler_type": "reduce_lr_on_plateau"}],
        [{**EVALUATED, "lr_scheduler_type": "reduce_lr_on_plateau"}, {"lr_scheduler_type": "cosine"}],
    ),
    "training.no-warmup": (
        [{"lr_scheduler_type": "constant", "warmup_steps": 1}],
        [
            {"lr_scheduler_type": "constant", "warmup_steps": 0},
            {"lr_scheduler_type": "constant_with_warmup", "warmup_steps": 1},
        ],
    ),
    "training.warmup-too-long": (
        [{"warmup_steps": 100, "max_steps": 100}, {"warmup_steps": 1, "max_steps": 1}],
        [{"warmup_steps": 99, "max_steps": 100}, {"warmup_steps": 99, "max_steps": -1}],
    ),
    "training.eval-on-start": ([{"eval_on_start": True}], [{**EVALUATED, "eval_on_start": True}]),
    "training.never-evaluates": (
        [{**EVALUATED, "eval_steps": 101}, {**EVALUATED, "logging_steps": 101}],
        [
            {**EVALUATED, "eval_steps": 100},
            {**EVALUATED, "eval_steps": 101, "max_steps": -1},
            {**EVALUATED, "eval_steps": 101, "eval_strategy": "epoch"},
        ],
    ),
    "training.optimizer-targets": ([{"optim": "galore_adamw"}, {"optim": "apollo_adamw"}], [LAYERWISE]),
    "training.optim-args": (
        [{"optim_args": "rank"}, {"optim_args": "rank=1,b"}],
        [{"optim_args": "rank=1,b=2"}, {"optim_args": ""}],
    ),
    "training.layerwise": (
        [{**LAYERWISE, "gradient_accumulation_steps": 2}],
        [{**LAYERWISE, "gradient_accumulation_steps": 1}, {"gradient_accumulation_steps": 2}],
    ),
    "training.prefetch": (
        [{"dataloader_prefetch_factor": 2}],
        [{"dataloader_prefetch_factor": 2, "dataloader_num_workers": 1}, {"dataloader_num_workers": 1}],
    ),
    "training.columns-removed": ([{"remove_unused_columns": True}], [{"remove_unused_columns": False}]),
    "training.stream-workers": (
        [{**STREAM, "dataloader_num_workers": 1}],
        [STREAM, {"dataloader_num_workers": 1}],
    ),
    "training.stream-without-end": (
        [{**STREAM, "max_steps": -1}],
        [{**STREAM, "max_steps": 5}, {"max_steps": -1}],
    ),
    "training.debug": ([{"debug": "odd"}], [{"debug": "underflow_overflow"}, {"debug": ""}]),
    "training.trackers": (
        [{"report_to": ["none", "wandb"]}, {"report_to": ["all", "wandb"]}],
        [{"report_to": ["none"]}, {"report_to": ["tensorboard", "wandb"]}],
    ),
    "vllm.clip-order": (
        [{"vllm_importance_sampling_clip_min": 2.0, "vllm_importance_sampling_clip_max": 2.0}],
        [{"vllm_importance_sampling_clip_min": 1.9, "vllm_importance_sampling_clip_max": 2.0}],
    ),
    "vllm.clip-missing": (
        [CUT, {**CUT, "vllm_importance_sampling_mode": "sequence_truncate"}],
        [
            {**CUT, "vllm_importance_sampling_clip_min": 0.5},
            {**CUT, "vllm_importance_sampling_clip_max": 2.0},
            {**CUT, "vllm_importance_sampling_correction": False},
            {**CUT, "vllm_importance_sampling_mode": "token_mask"},
            {**CUT, "use_vllm": False},
        ],
    ),
    "vllm.vespo-mode": (
        [{**VLLM, "loss_type": "vespo", "vllm_importance_sampling_mode": "sequence_mask"}],
        [
            {**VLLM, "loss_type": "vespo", "vllm_importance_sampling_mode": "token_mask"},
            {**VLLM, "loss_type": "vespo", "vllm_importance_sampling_mode": "token_truncate"},
            {**VLLM, "loss_type": "grpo", "vllm_importance_sampling_mode": "sequence_mask"},
            {**VLLM, "loss_type": "vespo", "vllm_importance_sampling_correction": False},
        ],
    ),
    "vllm.truncated-sampling": (
        [{**VLLM, "top_p": 0.99}, {**VLLM, "top_k": 1}, {**VLLM, "min_p": 0.01}],
        [{**VLLM, "top_p": 1.0, "top_k": 0, "min_p": 0.0}, {"top_p": 0.9}],
    ),
    "vllm.tensor-parallel": (
        [{**VLLM, "vllm_tensor_parallel_size": 2}],
        [{**VLLM, "vllm_tensor_parallel_size": 1}, {**SERVER, "vllm_tensor_parallel_size": 2}],
    ),
    "vllm.context": (
        [{**VLLM, "vllm_max_model_length": 512, "max_completion_length": 512}],
        [{**VLLM, "vllm_max_model_length": 513, "max_completion_length": 512}],
    ),
    "vllm.quantized": ([{**VLLM, "load_in_8bit": True}], [{**VLLM, "load_in_4bit": True}]),
    "vllm.cpu": ([{**VLLM, "use_cpu": True}], [VLLM, {**SERVER, "use_cpu": True}]),
    "vllm.address": (
        [{**SERVER, "vllm_server_base_url": "host:8000"}],
        [{**SERVER, "vllm_server_base_url": "https://host"}, {**VLLM, "vllm_server_base_url": "host:8000"}],
    ),
    "nested.more-completions": (
        [{"generation_kwargs": {"num_return_sequences": 2}}],
        [{"generation_kwargs": {"num_return_sequences": 1}}],
    ),
    "nested.beams": ([{"generation_kwargs": {"num_beams": 2}}], [{"generation_kwargs": {"num_beams": 1}}]),
    "nested.greedy": (
        [{"generation_kwargs": {"do_sample": False}}],
        [{"generation_kwargs": {"do_sample": True}}],
    ),
    "nested.whole-number": (
        [{"generation_kwargs": {"temperature": 2}}, {"generation_kwargs": {"repetition_penalty": 2}}],
        [
            {"generation_kwargs": {"temperature": 2.0}},
            {"generation_kwargs": {"temperature": 1}},
            {"use_vllm": True, "generation_kwargs": {"temperature": 2}},
        ],
    ),
    "nested.schedule": (
        [
            MIN_LR,
            {**MIN_LR, "lr_scheduler_kwargs": {"min_lr": 1e-8, "min_lr_rate": 0.1}},
            {**POLYNOMIAL, "lr_scheduler_kwargs": {"lr_end": 1e-6}},
        ],
        [
            {**MIN_LR, "lr_scheduler_kwargs": {"min_lr": 1e-8}},
            {**MIN_LR, "lr_scheduler_kwargs": {"min_lr_rate": 0.1}},
            {**POLYNOMIAL, "lr_scheduler_kwargs": {"lr_end": 0.9e-6}},
        ],
    ),
    "nested.dispatch": (
        [{**STREAM, "accelerator_config": {"dispatch_batches": True}}],
        [{"accelerator_config": {"dispatch_batches": True}}, STREAM],
    ),
    "nested.split": (
        [{"accelerator_config": {"split_batches": True}}],
        [{"accelerator_config": {"split_batches": False}}],
    ),
    "config.conflict": (
        [
            accumulated(2),
            {**SHARDED, "deepspeed": {"train_batch_size": "auto"}},
            {"fsdp": True, "gradient_checkpointing": True, "fsdp_config": {"activation_checkpointing": True}},
            {"load_in_4bit": True, "use_peft": True, "model_init_kwargs": {"quantization_config": {}}},
            {**SHARDED, "save_only_model": True, "load_best_model_at_end": True},
            {"deepspeed": ZERO3, "save_only_model": True, "load_best_model_at_end": True},
            {**SHARDED, "save_only_model": True, "fsdp_config": {"state_dict_type": "SHARDED_STATE_DICT"}},
        ],
        [
            {"save_only_model": True, "load_best_model_at_end": True},
            {**SHARDED, "save_only_model": True},
            {**SHARDED, "load_best_model_at_end": True},
            {**SHARDED, "fsdp_config": {"state_dict_type": "SHARDED_STATE_DICT"}},
            {**SHARDED, "save_only_model": True, "fsdp_config": {"state_dict_type": "FULL_STATE_DICT"}},
            accumulated(1),
            SHARDED,
            {"use_peft": True, "model_init_kwargs": {"quantization_config": {}}},
            {**SHARDED, "fsdp_config": {"activation_checkpointing": True}},
        ],
    ),
    "sharded.zero3-quantized": (
        [{"deepspeed": ZERO3, "load_in_4bit": True}, {"deepspeed": ZERO3, "load_in_8bit": True}],
        [{"deepspeed": ZERO3}, {"deepspeed": {"zero_optimization": {"stage": 2}}, "load_in_4bit": True}],
    ),
    "sharded.deepspeed-file": ([{"deepspeed": "none.json"}, {"deepspeed": __file__}], [{"deepspeed": ZERO3}]),
    "sharded.deepspeed-value": (
        [{"deepspeed": {"gradient_accumulation_steps": 4}, "gradient_accumulation_steps": 2}],
        [
            {"deepspeed": {"gradient_accumulation_steps": 2}, "gradient_accumulation_steps": 2},
            {"deepspeed": {"gradient_accumulation_steps": "auto"}, "gradient_accumulation_steps": 2},
        ],
    ),
    "sharded.fsdp-value": (
        [{**SHARDED, "fsdp_config": {"state_dict_type": "odd"}}],
        [{**SHARDED, "fsdp_config": {"auto_wrap_policy": "NO_WRAP"}}, SHARDED],
    ),
    "sharded.fsdp-word": (
        [{"fsdp": "odd"}, {"fsdp": "hybrid_shard"}],
        [{"fsdp": "full_shard"}, {"fsdp": "hybrid_shard", "fsdp_config": {"version": 1}}],
    ),
}
"""Of each rule: settings on which it speaks, and settings on which it does not."""


def settings(given: dict[str, Any], world_size: int = 1) -> Settings:
    fields = load_fields()
    parts: dict[str, dict[str, Any]] = {}
    for name, value in given.items():
        parts.setdefault(fields[name].owner, {})[name] = value
    return Settings(parts, Section(), fields, YamlDocument({}), world_size)


def ids(given: dict[str, Any], world_size: int = 1) -> list[str]:
    s = settings(given, world_size)
    every = (
        grpo_findings,
        lora_findings,
        training_findings,
        vllm_findings,
        nested_findings,
        sharded_findings,
    )
    return [found.id for rule in every for found in rule(s)]


@pytest.mark.parametrize("rule", BORDERS)
def test_a_rule_speaks_from_its_border_on_and_not_beside_it(rule: str) -> None:
    speaking, silent = BORDERS[rule]
    assert [given for given in speaking if rule not in ids(given)] == []
    assert [given for given in silent if rule in ids(given)] == []


@pytest.mark.parametrize(
    ("given", "world_size", "rule", "speaks"),
    [
        ({"fsdp": True}, 1, "sharded.one-process", True),
        ({"fsdp": True}, 2, "sharded.one-process", False),
        (LAYERWISE, 2, "training.layerwise", True),
        (LAYERWISE, 1, "training.layerwise", False),
        ({**VLLM, "vllm_tensor_parallel_size": 2}, 4, "vllm.tensor-parallel", False),
        ({**VLLM, "vllm_tensor_parallel_size": 3}, 4, "vllm.tensor-parallel", True),
        ({"model_init_kwargs": {"device_map": "auto"}}, 2, "config.unused", True),
        ({"model_init_kwargs": {"device_map": "auto"}}, 1, "config.unused", False),
    ],
)
def test_a_rule_about_processes_counts_them(
    given: dict[str, Any], world_size: int, rule: str, speaks: bool
) -> None:
    assert (rule in ids(given, world_size)) is speaks


@pytest.mark.parametrize(
    ("given", "heads", "key_value_heads", "offered"),
    [
        ({**VLLM, "vllm_tensor_parallel_size": 2}, 14, 2, None),
        ({**VLLM, "vllm_tensor_parallel_size": 4}, 14, 2, 2),
        ({**VLLM, "vllm_tensor_parallel_size": 4}, 16, 2, None),
        ({**VLLM, "vllm_tensor_parallel_size": 4}, 16, 3, 1),
        ({**VLLM, "vllm_tensor_parallel_size": 1}, 15, 7, None),
        ({**SERVER, "vllm_tensor_parallel_size": 4}, 14, 2, None),
        ({"vllm_mode": "colocate", "vllm_tensor_parallel_size": 4}, 14, 2, None),
    ],
)
def test_heads_that_do_not_split_over_the_gpus_are_told_with_a_number_that_does(
    given: dict[str, Any], heads: int, key_value_heads: int, offered: int | None
) -> None:
    found = tensor_parallel_findings(settings(given, 4), heads, key_value_heads)
    assert [one.fix.value for one in found if one.fix] == ([] if offered is None else [offered])


@pytest.mark.parametrize(
    ("given", "field", "used"),
    [
        ({"sapo_temperature_neg": 1.2}, "sapo_temperature_neg", {"loss_type": "sapo"}),
        ({"vespo_k_pos": 3.0}, "vespo_k_pos", {"loss_type": "vespo"}),
        ({"ref_model_sync_steps": 7}, "ref_model_sync_steps", {"sync_ref_model": True, "beta": 0.1}),
        ({"entropy_target": 1.5}, "entropy_target", ADAPTIVE),
        ({"log_unique_prompts": True}, "log_unique_prompts", {"log_completions": True}),
        ({"use_bias_correction_kl": False}, "use_bias_correction_kl", {"beta": 0.1}),
        ({"lora_r": 7}, "lora_r", {"use_peft": True}),
        ({"bnb_4bit_quant_type": "fp4"}, "bnb_4bit_quant_type", {"load_in_4bit": True, "use_peft": True}),
        ({"eval_steps": 7}, "eval_steps", EVALUATED),
        ({"per_device_eval_batch_size": 16}, "per_device_eval_batch_size", EVALUATED),
        ({"num_train_epochs": 2.0, "max_steps": 1}, "num_train_epochs", {"max_steps": -1}),
        (
            {"gradient_checkpointing_kwargs": {"a": 1}, "gradient_checkpointing": False},
            "gradient_checkpointing_kwargs",
            {"gradient_checkpointing": True},
        ),
        (
            {"gradient_checkpointing": False, "activation_checkpointing": True},
            "gradient_checkpointing",
            {"activation_checkpointing": False},
        ),
        ({**VLLM, "vllm_server_port": 8001}, "vllm_server_port", SERVER),
        ({**SERVER, "vllm_gpu_memory_utilization": 0.7}, "vllm_gpu_memory_utilization", VLLM),
        ({**VLLM, "cache_implementation": "static"}, "cache_implementation", {"use_vllm": False}),
        ({"delta": 4.0, "loss_type": "sapo"}, "delta", {"loss_type": "grpo"}),
        (
            {"multi_objective_aggregation": "normalize_then_sum", "scale_rewards": "batch"},
            "scale_rewards",
            {"multi_objective_aggregation": "sum_then_normalize"},
        ),
        (
            {"lr_scheduler_type": "constant", "lr_scheduler_kwargs": {"a": 1}},
            "lr_scheduler_kwargs",
            {"lr_scheduler_type": "cosine"},
        ),
        ({"fsdp_config": {"version": 2}}, "fsdp_config", SHARDED),
        (
            {"deepspeed": ZERO3, "use_peft": True, "gradient_checkpointing_kwargs": {"use_reentrant": False}},
            "gradient_checkpointing_kwargs.use_reentrant",
            {"use_peft": False},
        ),
        (
            {**SHARDED, "fsdp_config": {"forward_prefetch": True}},
            "fsdp_config.forward_prefetch",
            {"fsdp_config": {"forward_prefetch": True, "version": 1}},
        ),
    ],
)
def test_a_key_that_nothing_reads_is_told_until_something_does(
    given: dict[str, Any], field: str, used: dict[str, Any]
) -> None:
    every = (
        grpo_findings,
        lora_findings,
        training_findings,
        vllm_findings,
        nested_findings,
        sharded_findings,
    )

    def unused(change: dict[str, Any]) -> list[str | None]:
        s = settings(change)
        return [found.field for rule in every for found in rule(s) if found.id == "config.unused"]

    assert field in unused(given)
    assert field not in unused({**given, **used})


@pytest.mark.parametrize(
    ("given", "command"),
    [
        ({}, "--host 0.0.0.0 --port 8000"),
        ({"vllm_server_host": "h", "vllm_server_port": 9}, "--host h --port 9"),
        ({"vllm_server_base_url": "http://h:81/"}, "--port 81"),
        ({"vllm_server_base_url": "http://h"}, "--port 8000"),
        ({"model_revision": "v2"}, "--revision v2 --host 0.0.0.0 --port 8000"),
        (
            {"dtype": "bfloat16", "trust_remote_code": True},
            "--host 0.0.0.0 --port 8000 --dtype bfloat16 --trust_remote_code true",
        ),
        ({"dtype": "float32"}, "--host 0.0.0.0 --port 8000"),
        (
            {"vllm_tensor_parallel_size": 2, "vllm_max_model_length": 99, "vllm_gpu_memory_utilization": 0.4},
            "--host 0.0.0.0 --port 8000 --tensor_parallel_size 2 --max_model_len 99",
        ),
    ],
)
def test_the_command_of_a_server_says_what_the_config_says(given: dict[str, Any], command: str) -> None:
    s = settings({**HUB, **given})
    assert server_command(s) == f"trl vllm-serve --model org/model {command}"
    base = given.get("vllm_server_base_url", "http://0.0.0.0:8000")
    if "vllm_server_port" not in given:
        assert server_address(s) == base.rstrip("/")
