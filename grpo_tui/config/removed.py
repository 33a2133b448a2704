"""Keys that people still write and TRL no longer knows: what each did, and what to use now.

Covers TRL 1.x and transformers 5. A key stands here only when the installed source does not define it;
`explain` is asked after that has been seen. It knows nothing of values beyond passing them on to the new
name.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from grpo_tui.config.misplaced import belongs_elsewhere
from grpo_tui.core.findings import Fix

SECTION = "grpo_tui"
"""The key of this program's own section, which can be mistyped too."""


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
        "put samples of like length together", "remove it: GRPO orders the prompts itself"
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
    "use_liger_loss": Removed(
        "computed the loss with Liger", "remove it: model_init_kwargs.use_kernels takes the Hub's kernels"
    ),
    "wandb_log_unique_prompts": Removed(
        "logged each prompt once to wandb", "it is called log_unique_prompts", "log_unique_prompts"
    ),
    "bnb_4bit_compute_dtype": Removed(
        "set the precision that 4-bit weights are computed in", "remove it: TRL takes that of dtype"
    ),
    "dataset_split": Removed(
        "chose the split to train on", "it is called dataset_train_split", "dataset_train_split"
    ),
    "include_tokens_per_second": Removed(
        "logged tokens per second", "use include_num_input_tokens_seen", "include_num_input_tokens_seen"
    ),
    "include_inputs_for_metrics": Removed(
        "gave compute_metrics the inputs", "remove it: GRPO has no compute_metrics"
    ),
    "jit_mode_eval": Removed("evaluated with TorchScript", "remove it: torch_compile is what is left"),
    "torchdynamo": Removed("compiled the model", "use torch_compile: true"),
    "use_ipex": Removed("used Intel's extension", "remove it: PyTorch has what it did"),
    "sharded_ddp": Removed("sharded the optimizer with FairScale", "use fsdp, or DeepSpeed by a launcher"),
    "xpu_backend": Removed(
        "chose the backend of distributed CPUs", "it is called ddp_backend", "ddp_backend"
    ),
    "fsdp_min_num_params": Removed("set FSDP's smallest wrapped size", "set min_num_params in fsdp_config"),
    "mp_parameters": Removed("was for SageMaker", "remove it"),
    "past_index": Removed("kept hidden states between steps", "remove it: no model here uses it"),
    "ray_scope": Removed("was for searches with Ray", "remove it"),
    "tpu_metrics_debug": Removed("printed TPU metrics", "use debug: tpu_metrics_debug"),
    "use_legacy_prediction_loop": Removed("chose the old evaluation loop", "remove it"),
    "sanity_check": Removed("tried a few rows only", "use max_steps, or `--smoke` of train"),
}

# Names of other programs or of everyday speech, and TRL's name for the same thing.
OTHER_NAMES: Mapping[str, str] = {
    "model": "model_name_or_path",
    "model_name": "model_name_or_path",
    "model_id": "model_name_or_path",
    "lr": "learning_rate",
    "batch_size": "per_device_train_batch_size",
    "train_batch_size": "per_device_train_batch_size",
    "per_device_batch_size": "per_device_train_batch_size",
    "micro_batch_size": "per_device_train_batch_size",
    "epochs": "num_train_epochs",
    "steps": "max_steps",
    "kl_coef": "beta",
    "kl_coeff": "beta",
    "group_size": "num_generations",
    "num_samples": "num_generations",
    "num_return_sequences": "num_generations",
    "rollouts": "num_generations",
    "max_new_tokens": "max_completion_length",
    "max_tokens": "max_completion_length",
    "max_length": "max_completion_length",
    "response_length": "max_completion_length",
    "clip_range": "epsilon",
    "cliprange": "epsilon",
    "clip_eps": "epsilon",
    "clip_ratio": "epsilon",
    "epsilon_low": "epsilon",
    "clip_ratio_high": "epsilon_high",
    "num_ppo_epochs": "num_iterations",
    "ppo_epochs": "num_iterations",
    "reward_functions": "reward_funcs",
    "reward_model": "reward_model_name_or_path",
    "reward_model_path": "reward_model_name_or_path",
    "grad_accum_steps": "gradient_accumulation_steps",
    "scheduler": "lr_scheduler_type",
    "use_lora": "use_peft",
    "lora": "use_peft",
    "lora_rank": "lora_r",
    "target_modules": "lora_target_modules",
    "dataset": "dataset_name",
}

_LORA = {
    "r": "lora_r",
    "rank": "lora_r",
    "lora_alpha": "lora_alpha",
    "alpha": "lora_alpha",
    "lora_dropout": "lora_dropout",
    "dropout": "lora_dropout",
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


Fits = Callable[[str, Any], bool]
"""Whether a value can be what a key takes; both as written."""


def explain(
    key: str,
    value: Any,
    known: Iterable[str],
    section_keys: Iterable[str],
    *,
    present: Container[str] = (),
    fits: Fits = lambda name, value: True,
) -> tuple[str, Fix | None]:
    """Say why a key is refused and what to write instead.

    Args:
        key: the key as written, unknown to the installed TRL.
        value: its value, passed on to the fix where a new name takes it.
        known: every key that is allowed at this level.
        section_keys: the keys of the section `grpo_tui:`.
        present: the keys that are written at this level; the value of one of them is not replaced.
        fits: whether a value can stand behind another key; one that cannot is not moved there.
    """
    message, fix = _explained(key, value, list(known), section_keys, fits)
    if fix is None or fix.value is None or fix.field == key:
        return message, fix
    if fix.field in present:
        joined = message if message.endswith("?") else f"{message};"
        return f"{joined} {fix.field} is set here already, so this one goes", Fix(key, None)
    return message, fix


def _explained(
    key: str, value: Any, known: list[str], section_keys: Iterable[str], fits: Fits
) -> tuple[str, Fix | None]:
    if key in REMOVED:
        gone = REMOVED[key]
        name = gone.renamed_to if gone.renamed_to in known else None
        moves = name is not None and fits(name, value)
        fix = Fix(name, value) if name is not None and moves else Fix(key, None)
        return f"{key} is no longer in TRL; it {gone.did}. Now: {gone.now}", fix
    underscored = key.strip().lstrip("-").replace("-", "_").replace(" ", "_")
    if underscored != key and underscored in known:
        how = "hyphens" if "-" in key else "blanks"
        return f"{key} is written with {how}; in a file it is {underscored}", Fix(underscored, value)
    if key in LAUNCHER_KEYS:
        message = (
            f"{key} belongs to accelerate, not to the training: give it to the launcher, "
            f"as --launcher 'accelerate launch --{key} …'"
        )
        return message, Fix(key, None)
    if key in section_keys:
        return f"{key} belongs under `grpo_tui:`", Fix(f"grpo_tui.{key}", value)
    inside = list(_inside(key, value, known))
    if inside:
        return inside[0][1], inside[0][2]
    if (elsewhere := belongs_elsewhere(underscored.lower(), value)) is not None:
        return f"{key} {elsewhere[0]}", elsewhere[1] or Fix(key, None)
    if OTHER_NAMES.get(key) in known and fits(OTHER_NAMES[key], value):
        return f"{key} is no key of TRL; it is called {OTHER_NAMES[key]} there", Fix(OTHER_NAMES[key], value)
    for near in difflib.get_close_matches(underscored.lower(), [*known, SECTION], n=3, cutoff=0.7):
        if near == SECTION or fits(near, value):
            return f"{key} is no key of TRL or grpo_tui. Did you mean {near}?", Fix(near, value)
    if isinstance(value, dict) and value:
        names = ", ".join(map(str, list(value)[:4]))
        message = f"{key} is no key of TRL, whose keys stand at the left margin, and neither is what it holds"
        return f"{message} ({names})", Fix(key, None)
    return f"{key} is no key of TRL or grpo_tui, and nothing has a like name", Fix(key, None)


def others_inside(key: str, value: Any, known: Iterable[str]) -> list[tuple[str, str, Fix]]:
    """What else stands in a mapping that is no key of TRL: dotted key, sentence and fix of each.

    The first one is what `explain` tells; without these it alone would be moved, and the others lost.
    """
    return list(_inside(key, value, list(known)))[1:]


def _inside(key: str, value: Any, known: list[str]) -> Iterator[tuple[str, str, Fix]]:
    """TRL's settings in a mapping that is no key of TRL, each with the place where it belongs."""
    if not isinstance(value, dict):
        return
    if key in _LORA_MAPPINGS:
        names = ", ".join(f"{_LORA[k]}: {v}" for k, v in value.items() if k in _LORA)
        beside = f", with {names}" if names else ""
        message = f"{key} is no key of a TRL file; LoRA is use_peft: true at the left margin{beside}"
        yield key, message, Fix("use_peft", True)
        for inner, given in value.items():
            if inner in _LORA:
                name = f"{key}.{inner}"
                yield name, f"{name} is called {_LORA[inner]} in a TRL file", Fix(_LORA[inner], given)
        return
    nested = _nested(value, known)
    for path, (name, given) in nested.items():
        message = (
            f"{key} is no key of TRL, and its keys are flat: move "
            f"{', '.join(dict.fromkeys(n for n, _ in nested.values()))} to the left margin, without {key}"
        )
        first = path == next(iter(nested))
        where = key if first else ".".join((key, *path))
        yield (
            where,
            message if first else f"{name} stands at the left margin, without {key}",
            Fix(name, given),
        )


def nearest(word: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """Return the known word most like `word`, or None when none is near."""
    found = difflib.get_close_matches(word.lower(), list(known), n=1, cutoff=cutoff)
    return found[0] if found else None


def _nested(value: dict[Any, Any], known: Iterable[str]) -> dict[tuple[str, ...], tuple[str, Any]]:
    """Known keys at any depth of a mapping, with their values, by where they stand."""
    found: dict[tuple[str, ...], tuple[str, Any]] = {}
    allowed = set(known)
    waiting: list[tuple[tuple[str, ...], dict[Any, Any]]] = [((), value)]
    while waiting:
        path, mapping = waiting.pop(0)
        for key, inner in mapping.items():
            name = key.replace("-", "_") if isinstance(key, str) else ""
            if name in allowed and name not in {n for n, _ in found.values()}:
                found[(*path, key)] = (name, inner)
            elif isinstance(inner, dict):
                waiting.append(((*path, str(key)), inner))
    return found
