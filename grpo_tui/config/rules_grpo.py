"""Rules of GRPOConfig and GRPOTrainer (TRL 1.16) about the loss, the reference model, sampling and logging.

What TRL raises when the trainer is built or in the first step, what it only warns of, and what one setting
makes of another without a word; adapters and quantization too, as far as they need no model. Whether LoRA's
targets exist in the model is the checker's business, vLLM's keys are `rules_vllm`'s.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from grpo_tui.config.rules import REMOVE, Settings, yaml_said
from grpo_tui.core.findings import Finding
from grpo_tui.core.statistics import is_number

_QUANTIZED = ("load_in_4bit", "load_in_8bit")


def lora_findings(settings: Settings) -> list[Finding]:
    """Return what is wrong with adapters and quantization."""
    found = list(_quantization(settings))
    found += _adapter(settings) if settings.get("use_peft") else _unused(settings)
    return found


def _quantization(s: Settings) -> Iterator[Finding]:
    quantized = next((name for name in _QUANTIZED if s.get(name)), None)
    if quantized is not None and not s.get("use_peft"):
        yield s.error(
            "lora.quantized-alone",
            quantized,
            f"{quantized} makes the weights untrainable, and use_peft is false: there is nothing left to "
            "train",
            ("use_peft", True),
        )
    if quantized is not None and "quantization_config" in s.mapping("model_init_kwargs"):
        yield s.error(
            "config.conflict",
            "model_init_kwargs.quantization_config",
            f"quantization is set twice: by {quantized} and in model_init_kwargs",
            ("model_init_kwargs.quantization_config", REMOVE),
        )
    if quantized != "load_in_4bit":
        for name in ("use_bnb_nested_quant", "bnb_4bit_quant_type", "bnb_4bit_quant_storage"):
            if s.written(name):
                yield s.unused(name, "load_in_4bit is false")


def _unused(s: Settings) -> Iterator[Finding]:
    written = [
        n for n in s.fields if (n.startswith("lora_") or n in ("use_rslora", "use_dora")) and s.written(n)
    ]
    if written:
        more = f" and {len(written) - 1} more of its keys" if len(written) > 1 else ""
        yield s.warning(
            "config.unused",
            written[0],
            f"{written[0]}{more} {'are' if len(written) > 1 else 'is'} not used: use_peft is false, so the "
            "whole model is trained",
            ("use_peft", True),
        )


def _adapter(s: Settings) -> Iterator[Finding]:
    targets = s.get("lora_target_modules")
    named = targets if isinstance(targets, list) else [targets] if targets else []
    for part in named:
        if str(part).rpartition(".")[2] == "lm_head":
            rest = [name for name in named if name != part]
            yield s.error(
                "lora.head",
                "lora_target_modules",
                "an adapter on lm_head would never be trained: TRL computes the probabilities from its "
                "weight directly",
                ("lora_target_modules", rest or REMOVE),
            )
    if targets == []:
        message = "lora_target_modules is an empty list, so no module gets an adapter"
        yield s.error("lora.no-targets", "lora_target_modules", message, ("lora_target_modules", REMOVE))
    task = s.get("lora_task_type")
    if task not in (None, "CAUSAL_LM"):
        yield s.error(
            "lora.task",
            "lora_task_type",
            f"lora_task_type must be CAUSAL_LM because the model generates text; it is {task}",
            ("lora_task_type", "CAUSAL_LM"),
        )


_WEIGHTS = ("*.safetensors", "pytorch_model*.bin")


def folder_bytes(model: str) -> int | None:
    """Return the bytes of a local model's weights; None for a Hub name and a folder without any."""
    folder = Path(model).expanduser()
    if not model or not os.path.isdir(folder):
        return None
    files = [file for pattern in _WEIGHTS for file in folder.glob(pattern)]
    return sum(file.stat().st_size for file in files) or None


HIGH_RATE = 1e-4
"""A learning rate above this spoils a whole model within steps; GRPO's own range is 1e-7 to 1e-5."""
HIGH_RATE_LORA = 2e-3
_CISPO_HIGH = 5.0
_SUMMED_PER_TOKEN = ("bnpo", "dr_grpo", "dapo", "cispo")

_ONLY_WITH: tuple[tuple[tuple[str, ...], str, str], ...] = (
    (("sapo_temperature_neg", "sapo_temperature_pos"), "loss_type", "sapo"),
    (("vespo_k_pos", "vespo_lambda_pos", "vespo_k_neg", "vespo_lambda_neg"), "loss_type", "vespo"),
)
_ONLY_WHEN: tuple[tuple[tuple[str, ...], str], ...] = (
    (("ref_model_mixup_alpha", "ref_model_sync_steps"), "sync_ref_model"),
    (
        ("entropy_coef_min", "entropy_coef_max", "entropy_coef_delta", "entropy_target"),
        "use_adaptive_entropy",
    ),
    (("log_multimodal", "num_completions_to_print", "log_unique_prompts"), "log_completions"),
    (("liger_kernel_config",), "use_liger_kernel"),
    (("transformers_continuous_batching_config",), "use_transformers_continuous_batching"),
)
"""Keys that are read only when another one is true."""

_RENAMED = {
    "use_transformers_paged": (
        "use_transformers_continuous_batching",
        "Rename use_transformers_paged to use_transformers_continuous_batching: TRL 2 removes it",
    ),
    "vllm_importance_sampling_cap": (
        "vllm_importance_sampling_clip_max",
        "Rename vllm_importance_sampling_cap to vllm_importance_sampling_clip_max: TRL 2 removes it",
    ),
}


def grpo_findings(settings: Settings) -> list[Finding]:
    """Return what is wrong with GRPO's own settings together."""
    found = list(_loss(settings))
    found += _clipping(settings)
    found += _reference(settings)
    found += _entropy(settings)
    found += _rewards(settings)
    found += _rate(settings)
    found += _length(settings)
    found += _logging(settings)
    found += _conditional(settings)
    return found


def _loss(s: Settings) -> Iterator[Finding]:
    loss, level = s.get("loss_type"), s.get("importance_sampling_level")
    if loss == "luspo" and level != "sequence":
        yield s.warning(
            "grpo.loss-level",
            "loss_type",
            f"loss_type luspo needs importance_sampling_level sequence; it is {level}",
            ("importance_sampling_level", "sequence"),
        )
    elif loss == "vespo" and level != "token":
        yield s.warning(
            "grpo.loss-level",
            "importance_sampling_level",
            "loss_type vespo weights sequences itself, so importance_sampling_level must be token",
            ("importance_sampling_level", "token"),
        )
    elif level == "sequence" and loss in _SUMMED_PER_TOKEN:
        default = "" if s.written("loss_type") else ", TRL's default,"
        yield s.warning(
            "grpo.loss-level",
            "importance_sampling_level",
            f"importance_sampling_level sequence (GSPO) with loss_type {loss}{default} weights each "
            "completion by its length. GSPO uses loss_type grpo",
            ("loss_type", "grpo"),
        )


def _clipping(s: Settings) -> Iterator[Finding]:
    loss, low, high, delta = (s.get(name) for name in ("loss_type", "epsilon", "epsilon_high", "delta"))
    if loss == "cispo" and (high is None or (is_number(high) and high < 1)):
        said = f"epsilon_high is {high:g}" if is_number(high) else f"epsilon_high is not set, so it is {low}"
        yield s.warning(
            "grpo.cispo-cap",
            "loss_type" if high is None else "epsilon_high",
            f"loss_type cispo caps the ratio at epsilon_high, and {said}: no token can count for more. "
            f"The paper uses {_CISPO_HIGH:g}",
            ("epsilon_high", _CISPO_HIGH),
        )
    elif loss not in ("cispo", "sapo", "vespo") and is_number(high) and is_number(low) and high < low:
        yield s.warning(
            "grpo.clip-order",
            "epsilon_high",
            f"epsilon_high {high:g} is below epsilon {low:g}: good answers are held back more than bad ones",
            ("epsilon_high", max(0.28, low)),
        )
    if is_number(delta) and is_number(high if high is not None else low):
        bound = 1 + (high if high is not None else low)
        if loss in ("cispo", "sapo", "vespo"):
            yield s.unused("delta", f"loss_type {loss} has no two-sided clipping")
        elif delta <= bound:
            yield s.warning(
                "grpo.delta",
                "delta",
                f"delta {delta:g} is not above 1 + epsilon_high = {bound:g}, so it clips ratios that are "
                "not clipped yet",
                ("delta", 4.0),
            )


def _reference(s: Settings) -> Iterator[Finding]:
    beta = s.get("beta")
    if not s.get("sync_ref_model"):
        return
    if beta == 0:
        yield s.error(
            "grpo.no-reference",
            "sync_ref_model",
            "sync_ref_model needs a reference model, but with beta 0 there is none",
            ("sync_ref_model", False),
        )
    elif s.get("use_peft"):
        yield s.error(
            "grpo.no-reference",
            "sync_ref_model",
            "sync_ref_model needs a separate reference model; with LoRA the reference is the model without "
            "its adapter, which cannot be synchronized",
            ("sync_ref_model", False),
        )


def _entropy(s: Settings) -> Iterator[Finding]:
    least, most = s.get("entropy_coef_min"), s.get("entropy_coef_max")
    if s.get("use_adaptive_entropy") and is_number(least) and is_number(most) and least > most:
        yield s.error(
            "grpo.entropy-bounds",
            "entropy_coef_min",
            f"entropy_coef_min {least:g} is above entropy_coef_max {most:g}",
            ("entropy_coef_min", 0.0),
        )
    threshold = s.get("off_policy_mask_threshold")
    if is_number(threshold) and threshold <= 0:
        yield s.error(
            "grpo.off-policy",
            "off_policy_mask_threshold",
            f"off_policy_mask_threshold must be above 0; it is {threshold:g} and would mask every answer "
            "below the group's mean",
            ("off_policy_mask_threshold", 0.5),
        )


def _rewards(s: Settings) -> Iterator[Finding]:
    if s.get("multi_objective_aggregation") == "normalize_then_sum" and s.written("scale_rewards"):
        yield s.warning(
            "config.unused",
            "scale_rewards",
            f"scale_rewards {s.get('scale_rewards')} is not used: multi_objective_aggregation "
            "normalize_then_sum scales each reward itself",
            ("scale_rewards", REMOVE),
        )
    weights = [entry.weight for entry in s.section.rewards if entry.weight is not None]
    weights += list(s.get("reward_weights") or ())
    count = (
        len(s.section.rewards) + len(s.get("reward_funcs") or ()) + bool(s.get("reward_model_name_or_path"))
    )
    if count and len(weights) == count and all(weight == 0 for weight in weights):
        field = "reward_weights" if s.get("reward_weights") else "grpo_tui.rewards.0.weight"
        yield s.error(
            "grpo.no-weight",
            field,
            "every reward has the weight 0, so every completion gets the reward 0 and nothing is learned",
            (field, [1.0] * count if s.get("reward_weights") else 1.0),
        )


def _rate(s: Settings) -> Iterator[Finding]:
    rate, clip = s.get("learning_rate"), s.get("max_grad_norm")
    if not is_number(rate):
        return
    lora = bool(s.get("use_peft"))
    limit, usual = (HIGH_RATE_LORA, 1e-5) if lora else (HIGH_RATE, 1e-6)
    small = _small_model(s)
    if rate > (HIGH_RATE_LORA * 5 if small else limit):
        yield s.warning(
            "grpo.rate-high",
            "learning_rate",
            f"learning_rate {rate:g} is far above the usual range for GRPO "
            f"({'1e-5 to 1e-4 for LoRA' if lora else '1e-7 to 1e-5'}"
            "): the KL explodes within steps, and the rewards fall to 0",
            ("learning_rate", usual),
        )
    elif rate == 0:
        yield s.warning(
            "grpo.rate-zero",
            "learning_rate",
            "learning_rate is 0, so nothing is learned",
            ("learning_rate", usual),
        )
    if clip == 0:
        yield s.warning(
            "grpo.no-clipping",
            "max_grad_norm",
            "max_grad_norm 0 turns clipping off: one bad batch can turn the weights into NaN, which "
            "shows only in the next generation",
            ("max_grad_norm", 1.0),
        )


def _small_model(s: Settings) -> bool:
    """A model of a few million parameters, as the demonstration's, bears rates that spoil a real one."""
    size = folder_bytes(str(s.get("model_name_or_path") or ""))
    return size is not None and size < 50_000_000


def _length(s: Settings) -> Iterator[Finding]:
    key = "max_completion_length"
    if s.get(key) is None:
        message = f"{key} is empty, so completions get only the few tokens that generation allows by default"
        yield s.warning("grpo.no-length", key, message, (key, 512))


def _logging(s: Settings) -> Iterator[Finding]:
    if s.get("log_completions_hub_repo") is not None and not s.get("log_completions"):
        yield s.error(
            "grpo.completions-not-logged",
            "log_completions_hub_repo",
            "log_completions_hub_repo uploads what log_completions writes, but log_completions is false",
            ("log_completions", True),
        )
    if s.get("use_liger_kernel"):
        fused = s.mapping("liger_kernel_config").get("fused_linear_cross_entropy")
        if fused:
            yield s.error(
                "grpo.liger-fused",
                "liger_kernel_config.fused_linear_cross_entropy",
                "fused_linear_cross_entropy replaces the model's forward, which TRL patches itself",
                ("liger_kernel_config.fused_linear_cross_entropy", False),
            )
        yield s.warning(
            "config.deprecated",
            "use_liger_kernel",
            "TRL 2 removes use_liger_kernel. Use kernels from the Hub instead",
            ("model_init_kwargs.use_kernels", True),
        )
    for old, (new, message) in _RENAMED.items():
        if s.written(old):
            yield s.warning("config.deprecated", old, message, (new, s.get(old)))


def _can_be(s: Settings, switch: str) -> bool:
    """Whether a switch can be true beside the other settings, so that it is worth offering."""
    if switch == "sync_ref_model":
        return s.get("beta") != 0 and not s.get("use_peft")
    if switch == "use_transformers_continuous_batching":
        return not s.get("use_vllm")
    return switch != "use_liger_kernel"  # it goes in TRL 2


def _conditional(s: Settings) -> Iterator[Finding]:
    for names, key, value in _ONLY_WITH:
        for name in names:
            if s.written(name) and s.get(key) != value:
                yield s.unused(name, f"{key} is {s.get(key)}, and only {value} uses it")
    for names, key in _ONLY_WHEN:
        for name in names:
            if s.written(name) and not s.get(key):
                fix = (key, True) if _can_be(s, key) else (name, REMOVE)
                yield s.unused(name, f"{key} is {yaml_said(s.get(key))}", fix)
    if s.written("use_bias_correction_kl") and s.get("beta") == 0:
        yield s.unused("use_bias_correction_kl", "beta is 0, so there is no KL term")
