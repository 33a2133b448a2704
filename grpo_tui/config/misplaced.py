"""Keys at the left margin that belong elsewhere: into a mapping, the environment, another trainer.

It is asked about keys that TRL does not know, and judges no value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from grpo_tui.core.findings import Fix

_HOMES: Mapping[str, tuple[str, ...]] = {
    "gradient_checkpointing_kwargs": ("use_reentrant", "preserve_rng_state"),
    "accelerator_config": (
        "dispatch_batches",
        "even_batches",
        "non_blocking",
        "split_batches",
        "use_seedable_sampler",
    ),
    "chat_template_kwargs": ("enable_thinking", "reasoning_effort"),
    "generation_kwargs": ("bad_words_ids", "no_repeat_ngram_size", "stop_strings", "suppress_tokens"),
    "model_init_kwargs": ("cache_dir", "device_map", "local_files_only", "use_kernels"),
    "fsdp_config": ("transformer_layer_cls_to_wrap",),
}
"""Mappings of a TRL config, and keys that stand in them."""
_IN = {key: home for home, keys in _HOMES.items() for key in keys}
_IN_ANOTHER_NAME = {
    "gradient_checkpointing_use_reentrant": "gradient_checkpointing_kwargs.use_reentrant",
}

_ENVIRONMENT = (
    "hf_home",
    "hf_hub_offline",
    "tensorboard_logging_dir",
    "tokenizers_parallelism",
    "wandb_entity",
    "wandb_log_model",
    "wandb_mode",
    "wandb_project",
    "wandb_run_group",
    "wandb_watch",
)
_SECRETS = {"hf_token": "hf auth login", "wandb_api_key": "wandb login"}

_OF_OTHERS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "SFT": (
        (
            "assistant_only_loss",
            "completion_only_loss",
            "dataset_kwargs",
            "dataset_num_proc",
            "dataset_text_field",
            "eval_packing",
            "formatting_func",
            "max_seq_length",
            "packing",
        ),
        "GRPO reads the column prompt as it is and bounds only the answer, by max_completion_length",
    ),
    "DPO": (
        ("label_smoothing", "precompute_ref_log_probs", "reference_free", "rpo_alpha", "truncation_mode"),
        "GRPO learns from rewards of its own completions",
    ),
    "PPO": (
        (
            "cliprange_value",
            "gamma",
            "lam",
            "local_rollout_forward_batch_size",
            "missing_eos_penalty",
            "num_mini_batches",
            "total_episodes",
            "value_model",
            "vf_coef",
            "whiten_rewards",
        ),
        "GRPO has no value model: a completion is measured against its group",
    ),
}
_UNSLOTH = ("fast_inference", "max_lora_rank", "use_gradient_checkpointing", "finetune_language_layers")
"""Arguments of Unsloth's loader, which a config cannot start."""
_TRAINERS = {key: (trainer, why) for trainer, (keys, why) in _OF_OTHERS.items() for key in keys}

_TOLD = {
    "cuda_visible_devices": "is a variable of the environment: grpo_tui.gpus puts the run on chosen GPUs",
    "tokenizer_name": "is no key of TRL: the tokenizer is that of model_name_or_path",
    "tokenizer_name_or_path": "is no key of TRL: the tokenizer is that of model_name_or_path",
    "dr_grpo": "is no key of TRL: it is loss_type: dr_grpo with scale_rewards: none",
    "gspo": "is no key of TRL: it is loss_type: grpo with importance_sampling_level: sequence",
    "min_lr": "belongs into lr_scheduler_kwargs, and only lr_scheduler_type cosine_with_min_lr takes it",
    "min_lr_rate": "belongs into lr_scheduler_kwargs, and only lr_scheduler_type cosine_with_min_lr takes it",
    "num_cycles": "belongs into lr_scheduler_kwargs of a schedule that has cycles, as cosine_with_restarts",
    "do_sample": "is no key of TRL: completions are always sampled, for equal ones teach nothing",
    "num_beams": "is no key of TRL: completions are sampled, not searched for",
}


def belongs_elsewhere(key: str, value: Any) -> tuple[str, Fix | None] | None:
    """Say where a key belongs, after its name; the fix moves it, and None leaves only its removal."""
    home = _IN_ANOTHER_NAME.get(key) or (f"{_IN[key]}.{key}" if key in _IN else None)
    if home is not None:
        mapping, _, name = home.partition(".")
        return f"stands in {mapping}, as {name}", Fix(home, value)
    if key in _ENVIRONMENT:
        variable = key.upper()
        words = "is a variable of the environment: write it under `env:`"
        return f"{words}, as {variable}", Fix(f"env.{variable}", str(value))
    if key in _SECRETS:
        return f"has no place in a file that others read: `{_SECRETS[key]}` keeps it on this machine", None
    if key in _TRAINERS:
        trainer, why = _TRAINERS[key]
        return f"belongs to {trainer}: {why}", None
    if key in _UNSLOTH:
        return (
            "belongs to Unsloth, which is used in a script of its own; grpo_tui.monitor(trainer) joins it",
            None,
        )
    if key in _TOLD:
        return _TOLD[key], None
    return None
