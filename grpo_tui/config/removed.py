"""Keys that people still write and TRL no longer knows: what each did, and what to use now.

Covers TRL 1.x and transformers 5. A key stands here only when the installed source does not define it;
`explain` is asked after that has been seen. It knows nothing of values beyond passing them on to the new
name.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from grpo_tui.core.findings import Fix


@dataclass(frozen=True, slots=True)
class Removed:
    """A key that is gone: what it did, what to do now, and the key that takes its value unchanged, if any."""

    did: str
    now: str
    renamed_to: str | None = None


_PROMPT_LENGTH = Removed(
    "cut prompts to this many tokens",
    "TRL no longer truncates prompts: filter long ones out of the dataset, and remove this key",
)

REMOVED: Mapping[str, Removed] = {
    "max_prompt_length": _PROMPT_LENGTH,
    "warmup_ratio": Removed(
        "warmed the learning rate up over this share of the steps",
        "warmup_steps takes a share below 1 as well as a number of steps",
        "warmup_steps",
    ),
    "overwrite_output_dir": Removed(
        "let a run write into a folder that is not empty",
        "remove it: a run folder is continued with --resume, a new run takes another folder with --run-dir",
    ),
    "evaluation_strategy": Removed("said when to evaluate", "it is called eval_strategy", "eval_strategy"),
    "logging_dir": Removed(
        "was TensorBoard's folder",
        "set the environment variable TENSORBOARD_LOGGING_DIR, under `env:` in this file if you like",
    ),
    "vllm_device": Removed(
        "chose the GPU for vLLM",
        "vLLM shares the training GPUs (vllm_mode: colocate) or runs as a server of its own (vllm_mode: "
        "server)",
    ),
    "vllm_dtype": Removed("set vLLM's precision", "vLLM takes the model's dtype: set dtype", "dtype"),
    "vllm_guided_decoding_regex": Removed(
        "constrained completions to a regular expression",
        "it is called vllm_structured_outputs_regex",
        "vllm_structured_outputs_regex",
    ),
    "vllm_max_model_len": Removed(
        "set vLLM's context window", "it is called vllm_max_model_length", "vllm_max_model_length"
    ),
    "vllm_enable_prefix_caching": Removed(
        "cached common prefixes in vLLM", "remove it: vLLM does this by default"
    ),
    "vllm_init_kwargs": Removed("passed arguments to vLLM", "use the keys that begin with vllm_"),
    "torch_dtype": Removed("set the precision the model is loaded in", "it is called dtype", "dtype"),
    "no_cuda": Removed("kept the run off the GPU", "it is called use_cpu", "use_cpu"),
    "per_gpu_train_batch_size": Removed(
        "set the batch of each GPU", "it is called per_device_train_batch_size", "per_device_train_batch_size"
    ),
    "per_gpu_eval_batch_size": Removed(
        "set the evaluation batch of each GPU",
        "it is called per_device_eval_batch_size",
        "per_device_eval_batch_size",
    ),
    "group_by_length": Removed(
        "put samples of like length together", "use train_sampling_strategy: group_by_length"
    ),
    "push_to_hub_model_id": Removed("named the Hub repository", "it is called hub_model_id", "hub_model_id"),
    "push_to_hub_organization": Removed(
        "named the Hub organisation", "write it into hub_model_id: organisation/name"
    ),
    "push_to_hub_token": Removed("was the Hub token", "it is called hub_token", "hub_token"),
    "fp16_backend": Removed("chose the mixed-precision backend", "remove it: there is one backend now"),
    "half_precision_backend": Removed(
        "chose the mixed-precision backend", "remove it: there is one backend now"
    ),
    "fp16_opt_level": Removed("was Apex's level", "remove it: Apex is no longer used"),
    "save_safetensors": Removed(
        "chose the safetensors format", "remove it: checkpoints are always safetensors"
    ),
    "adafactor": Removed("chose the Adafactor optimizer", "use optim: adafactor"),
    "tpu_num_cores": Removed("set the number of TPU cores", "the launcher sets this"),
    "use_mps_device": Removed("chose Apple's GPU", "remove it: it is found by itself"),
    "fsdp_transformer_layer_cls_to_wrap": Removed(
        "named FSDP's layer class", "set transformer_layer_cls_to_wrap in fsdp_config"
    ),
    "log_on_each_step": Removed("logged every step", "use logging_steps: 1"),
    "use_vllm_server": Removed("used a vLLM server", "use use_vllm: true with vllm_mode: server"),
}

# Names of other programs or of everyday speech, and TRL's name for the same thing.
OTHER_NAMES: Mapping[str, str] = {
    "model": "model_name_or_path",
    "model_name": "model_name_or_path",
    "model_id": "model_name_or_path",
    "lr": "learning_rate",
    "batch_size": "per_device_train_batch_size",
    "train_batch_size": "per_device_train_batch_size",
    "epochs": "num_train_epochs",
    "steps": "max_steps",
    "kl_coef": "beta",
    "kl_coeff": "beta",
    "group_size": "num_generations",
    "num_samples": "num_generations",
    "max_new_tokens": "max_completion_length",
    "max_tokens": "max_completion_length",
    "max_length": "max_completion_length",
    "clip_range": "epsilon",
    "reward_functions": "reward_funcs",
    "grad_accum_steps": "gradient_accumulation_steps",
    "scheduler": "lr_scheduler_type",
    "lora_rank": "lora_r",
    "target_modules": "lora_target_modules",
    "dataset": "dataset_name",
}

_LORA = {
    "r": "lora_r",
    "lora_alpha": "lora_alpha",
    "lora_dropout": "lora_dropout",
    "target_modules": "lora_target_modules",
    "modules_to_save": "lora_modules_to_save",
    "task_type": "lora_task_type",
    "use_rslora": "use_rslora",
    "use_dora": "use_dora",
}
"""Keys of PEFT's LoraConfig, and what a TRL file calls them."""
_LORA_MAPPINGS = ("peft_config", "lora_config", "peft", "lora")

LAUNCHER_KEYS = frozenset(
    {
        "accelerate_config",
        "dynamo_backend",
        "gpu_ids",
        "machine_rank",
        "main_process_ip",
        "main_process_port",
        "mixed_precision",
        "multi_gpu",
        "num_machines",
        "num_processes",
        "rdzv_backend",
        "same_network",
        "use_deepspeed",
        "use_fsdp",
        "zero_stage",
    }
)


def explain(
    key: str, value: Any, known: Iterable[str], section_keys: Iterable[str]
) -> tuple[str, Fix | None]:
    """Say why a key is refused and what to write instead.

    Args:
        key: the key as written, unknown to the installed TRL.
        value: its value, passed on to the fix where a new name takes it.
        known: every key that is allowed at this level.
        section_keys: the keys of the section `grpo_tui:`.
    """
    known = list(known)
    if key in REMOVED:
        gone = REMOVED[key]
        to_known = gone.renamed_to is not None and gone.renamed_to in known
        fix = Fix(gone.renamed_to, value) if to_known and gone.renamed_to else Fix(key, None)
        return f"{key} is no longer in TRL; it {gone.did}. Now: {gone.now}", fix
    underscored = key.replace("-", "_")
    if underscored != key and underscored in known:
        return f"{key} is written with hyphens; in a file it is {underscored}", Fix(underscored, value)
    if key in LAUNCHER_KEYS:
        message = (
            f"{key} belongs to accelerate, not to the training: give it to the launcher, "
            f"as --launcher 'accelerate launch --{key} …'"
        )
        return message, Fix(key, None)
    if key in section_keys:
        return f"{key} belongs under `grpo_tui:`", Fix(f"grpo_tui.{key}", value)
    if key in _LORA_MAPPINGS and isinstance(value, dict):
        names = ", ".join(f"{_LORA[k]}: {v}" for k, v in value.items() if k in _LORA)
        beside = f", with {names}" if names else ""
        message = f"{key} is no key of a TRL file; LoRA is use_peft: true at the left margin{beside}"
        return message, Fix("use_peft", True)
    nested = _nested(value, known)
    if nested:
        message = (
            f"{key} is no key of TRL, and its keys are flat: move {', '.join(nested)} to the left margin, "
            f"without {key}"
        )
        return message, Fix(*next(iter(nested.items())))
    if key in OTHER_NAMES and OTHER_NAMES[key] in known:
        return f"{key} is no key of TRL; it is called {OTHER_NAMES[key]} there", Fix(OTHER_NAMES[key], value)
    near = nearest(underscored, known)
    if near is not None:
        return f"{key} is no key of TRL or grpo_tui. Did you mean {near}?", Fix(near, value)
    return f"{key} is no key of TRL or grpo_tui, and nothing has a like name", Fix(key, None)


def nearest(word: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """Return the known word most like `word`, or None when none is near."""
    found = difflib.get_close_matches(word.lower(), list(known), n=1, cutoff=cutoff)
    return found[0] if found else None


def _nested(value: Any, known: Iterable[str]) -> dict[str, Any]:
    """Known keys at any depth of a mapping, with their values."""
    found: dict[str, Any] = {}
    allowed = set(known)
    waiting = [value] if isinstance(value, dict) else []
    while waiting:
        for key, inner in waiting.pop(0).items():
            if isinstance(key, str) and key in allowed:
                found.setdefault(key, inner)
            elif isinstance(inner, dict):
                waiting.append(inner)
    return found
