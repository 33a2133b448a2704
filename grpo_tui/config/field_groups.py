"""The fields of a config grouped as a person thinks, the few that matter first.

Names of the section `grpo_tui:` are dotted and stand with TRL's own that mean the same. A field that no group
names (a newer TRL's) falls into one by its name and its class; it shows no values and gives no advice.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

from grpo_tui.config.trl_fields import FieldInfo


@dataclass(frozen=True, slots=True)
class FieldGroup:
    """One heading of the form.

    Attributes:
        id: short name, stable.
        title: the heading.
        about: one sentence on what is decided here.
        first: the fields that matter, in the order in which a person decides them.
        others: the rest, in a sensible order.
    """

    id: str
    title: str
    about: str
    first: tuple[str, ...]
    others: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """All fields named here, those that matter first."""
        return (*self.first, *self.others)


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


GROUPS: tuple[FieldGroup, ...] = (
    FieldGroup(
        "model",
        "Model",
        "Which model is trained, in which precision, with which attention.",
        _words("model_name_or_path dtype attn_implementation"),
        _words(
            "model_revision trust_remote_code model_init_kwargs disable_dropout cast_lm_head_to_fp32 "
            "router_aux_loss_coef ignore_bias_buffers use_cache"
        ),
    ),
    FieldGroup(
        "data",
        "Data",
        "Where prompts come from, what becomes of them, which rows are never trained on.",
        _words(
            "dataset_name grpo_tui.dataset grpo_tui.columns grpo_tui.system_prompt grpo_tui.answer "
            "grpo_tui.holdout grpo_tui.filters"
        ),
        _words(
            "dataset_config dataset_train_split dataset_test_split grpo_tui.eval_dataset grpo_tui.few_shot "
            "grpo_tui.chat chat_template_kwargs shuffle_dataset data_seed datasets test_split_size streaming "
            "dataset_streaming remove_unused_columns train_sampling_strategy length_column_name "
            "dataloader_num_workers dataloader_pin_memory dataloader_persistent_workers "
            "dataloader_prefetch_factor dataloader_drop_last dataloader_multiprocessing_context "
            "dataloader_in_order label_names ignore_data_skip"
        ),
    ),
    FieldGroup(
        "generation",
        "Generation",
        "How many completions a prompt gets, how long they may be, how they are sampled.",
        _words("num_generations max_completion_length temperature"),
        _words(
            "top_p top_k min_p repetition_penalty generation_kwargs steps_per_generation "
            "generation_batch_size num_generations_eval max_tool_calling_iterations "
            "pad_to_multiple_of cache_implementation use_transformers_continuous_batching "
            "transformers_continuous_batching_config use_transformers_paged"
        ),
    ),
    FieldGroup(
        "rewards",
        "Rewards",
        "What a completion is worth.",
        _words("grpo_tui.rewards reward_funcs reward_weights"),
        _words("reward_model_name_or_path multi_objective_aggregation"),
    ),
    FieldGroup(
        "optimisation",
        "Optimisation",
        "How far a step goes, how many there are, what they cost in memory.",
        _words(
            "learning_rate per_device_train_batch_size gradient_accumulation_steps max_steps "
            "num_train_epochs gradient_checkpointing optim"
        ),
        _words(
            "lr_scheduler_type warmup_steps max_grad_norm weight_decay bf16 fp16 adam_beta1 adam_beta2 "
            "adam_epsilon seed lr_scheduler_kwargs optim_args optim_target_modules "
            "gradient_checkpointing_kwargs activation_checkpointing activation_checkpointing_kwargs tf32 "
            "torch_compile torch_compile_backend torch_compile_mode use_liger_kernel liger_kernel_config "
            "torch_empty_cache_steps auto_find_batch_size average_tokens_across_devices "
            "label_smoothing_factor neftune_noise_alpha full_determinism"
        ),
    ),
    FieldGroup(
        "grpo",
        "GRPO",
        "The loss: what of a completion counts, how far the policy may move from itself.",
        _words("loss_type beta scale_rewards importance_sampling_level epsilon epsilon_high"),
        _words(
            "num_iterations mask_truncated_completions top_entropy_quantile delta off_policy_mask_threshold "
            "use_bias_correction_kl sync_ref_model ref_model_sync_steps ref_model_mixup_alpha entropy_coef "
            "use_adaptive_entropy entropy_target entropy_coef_min entropy_coef_max entropy_coef_delta "
            "sapo_temperature_pos sapo_temperature_neg vespo_k_pos vespo_lambda_pos vespo_k_neg "
            "vespo_lambda_neg"
        ),
    ),
    FieldGroup(
        "vllm",
        "vLLM",
        "Faster generation, on the training GPUs or on a server of its own.",
        _words("use_vllm vllm_mode vllm_gpu_memory_utilization vllm_max_model_length"),
        _words(
            "vllm_enable_sleep_mode vllm_tensor_parallel_size vllm_server_host vllm_server_port "
            "vllm_server_base_url vllm_server_timeout vllm_group_port vllm_importance_sampling_correction "
            "vllm_importance_sampling_mode vllm_importance_sampling_clip_max "
            "vllm_importance_sampling_clip_min vllm_structured_outputs_regex vllm_model_impl "
            "vllm_importance_sampling_cap"
        ),
    ),
    FieldGroup(
        "lora",
        "LoRA and quantization",
        "Training a small adapter instead of the weights, on a base of fewer bits.",
        _words("use_peft lora_r lora_alpha lora_target_modules load_in_4bit"),
        _words(
            "lora_dropout load_in_8bit lora_modules_to_save lora_target_parameters use_rslora use_dora "
            "lora_task_type bnb_4bit_quant_type use_bnb_nested_quant bnb_4bit_quant_storage"
        ),
    ),
    FieldGroup(
        "logging",
        "Logging and saving",
        "Where the run goes, what is kept of it, when it is evaluated.",
        _words("output_dir logging_steps save_steps save_total_limit report_to eval_strategy"),
        _words(
            "grpo_tui.probe_prompts run_name save_strategy eval_steps per_device_eval_batch_size "
            "save_only_model resume_from_checkpoint logging_strategy logging_first_step log_completions "
            "num_completions_to_print log_unique_prompts log_multimodal log_completions_hub_repo "
            "logging_nan_inf_filter log_level log_level_replica log_on_each_node disable_tqdm "
            "include_num_input_tokens_seen project trackio_space_id trackio_bucket_id "
            "trackio_static_space_id eval_on_start eval_delay eval_accumulation_steps prediction_loss_only "
            "eval_do_concat_batches eval_use_gather_object batch_eval_metrics include_for_metrics "
            "bf16_full_eval fp16_full_eval load_best_model_at_end metric_for_best_model greater_is_better "
            "save_on_each_node enable_jit_checkpoint restore_callback_states_from_checkpoint push_to_hub "
            "hub_model_id hub_strategy hub_private_repo hub_token hub_always_push hub_revision "
            "skip_memory_metrics do_train do_eval do_predict"
        ),
    ),
    FieldGroup(
        "distributed",
        "Machine and distribution",
        "Which GPUs, how many processes, what they share.",
        _words("grpo_tui.launcher grpo_tui.gpus deepspeed fsdp"),
        _words(
            "fsdp_config ds3_gather_for_generation accelerator_config parallelism_config use_cpu env "
            "ddp_backend ddp_timeout ddp_find_unused_parameters ddp_bucket_cap_mb ddp_broadcast_buffers "
            "ddp_static_graph local_rank debug"
        ),
    ),
)

_BY_NAME: tuple[tuple[str, str], ...] = (
    ("vllm", r"vllm"),
    ("lora", r"\w*lora|peft|bnb|quant(?!ile)|load_in_|\w*dora"),
    ("rewards", r"reward"),
    ("distributed", r"ddp|fsdp|deepspeed|ds3|tensor_parallel|parallelism|launcher|gpus?$|rank|nccl"),
    (
        "logging",
        r"log|save|eval|hub|report|metric|checkpoint_(dir|format)|resume|trackio|wandb|tqdm|completions_to",
    ),
    ("data", r"dataset|dataloader|column|prompt|row|split|stream|shuffle|template|filter|few_shot|answer"),
    ("generation", r"generat|completion|sampl|top_[pk]|min_p|temperature|penalty|token|tool|cache"),
    ("optimisation", r"lr_|learning|optim|adam|grad|batch|epoch|steps|warmup|fp16|bf16|fp8|compile|kernel"),
    ("model", r"model|dtype|attn|attention|weights|dropout|lm_head|router"),
)
_BY_CLASS = {
    "GRPOConfig": "grpo",
    "ModelConfig": "model",
    "ScriptArguments": "data",
    "GRPOScriptArguments": "rewards",
    "DatasetMixtureConfig": "data",
    "_BaseConfig": "optimisation",
    "TrainingArguments": "optimisation",
}
_SECTION = "grpo_tui."


@lru_cache(maxsize=1)
def _placed() -> dict[str, str]:
    return {name: group.id for group in GROUPS for name in group.names}


@lru_cache(maxsize=1)
def form_order() -> Mapping[str, int]:
    """Return the place of every named field in the form, from 0; one that no group names comes last."""
    return MappingProxyType(
        {name: n for n, name in enumerate(name for each in GROUPS for name in each.names)}
    )


def group_of(name: str, info: FieldInfo | None = None) -> str:
    """Return the id of the group a field stands in; one that no group names is placed by its name and class.

    Args:
        name: the key; one of the section is dotted (`grpo_tui.holdout`), and so is anything below a key.
        info: the field, where it is one of TRL's.
    """
    placed = _placed()
    if name in placed:
        return placed[name]
    top = ".".join(name.split(".")[: 2 if name.startswith(_SECTION) else 1])
    if top in placed:
        return placed[top]
    word = top.removeprefix(_SECTION)
    for group, pattern in _BY_NAME:
        if re.search(rf"(?:^|_)(?:{pattern})", word):
            return group
    return _BY_CLASS.get(info.defined_in, "optimisation") if info is not None else "data"


def grouped(names: Iterable[str], fields: dict[str, FieldInfo] | None = None) -> dict[str, tuple[str, ...]]:
    """Sort names into groups: `{group id: names}`, every group there, each in the order of the form."""
    order = form_order()
    found: dict[str, list[str]] = {group.id: [] for group in GROUPS}
    for name in names:
        found[group_of(name, (fields or {}).get(name))].append(name)
    return {key: tuple(sorted(each, key=lambda n: order.get(n, len(order)))) for key, each in found.items()}


def matters(name: str) -> bool:
    """Whether a field is among the few that a person decides first."""
    return any(name in group.first for group in GROUPS)


def neighbours(name: str, present: Sequence[str], info: FieldInfo | None = None) -> list[str]:
    """Return the keys of a file behind which a new one may stand, the best first.

    The nearest one before it of its own group comes first, then the others of the group, then the last ones
    of the groups before.

    Args:
        name: the new key, at the top of the file.
        present: the keys at the top of the file, in its order.
        info: the field, where it is one of TRL's.
    """
    ids = [group.id for group in GROUPS]
    order = form_order()
    mine, own = ids.index(group_of(name, info)), order.get(name, len(order))
    others = [key for key in present if key != "grpo_tui"]
    same = [key for key in others if ids.index(group_of(key)) == mine]
    before = sorted((k for k in same if order.get(k, len(order)) <= own), key=lambda k: -order.get(k, 0))
    earlier = [key for key in reversed(others) if ids.index(group_of(key)) < mine]
    earlier.sort(key=lambda key: -ids.index(group_of(key)))
    return [*before, *reversed([key for key in same if key not in before]), *earlier, *reversed(others)]
