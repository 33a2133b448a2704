"""Load the model of a config as training would, and the settings it generates with.

As `GRPOTrainer` of TRL 1.16 does it without vLLM: dtype (float32 unless the config says otherwise),
attention, quantization, device map, padding, end tokens, mixed precision. A LoRA adapter is left out: at the
start of training its second matrix is zero, so that it changes nothing. It knows no rows and no rewards.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from grpo_tui.config.run_config import RunConfig
from grpo_tui.config.trl_fields import load_fields
from grpo_tui.core.text import one_line
from grpo_tui.rewards.lab_child.models import init_arguments

MOST_AT_ONCE = 64
"""Completions generated together, unless `per_device_train_batch_size` is larger."""


class PolicyError(RuntimeError):
    """The model cannot be loaded; the message is one sentence for a person."""


@dataclass(frozen=True, slots=True)
class Policy:
    """A model that can answer.

    Attributes:
        model: it, in evaluation mode.
        processor: what renders prompts: the tokenizer, or the processor of a model that sees images.
        tokenizer: the tokenizer.
        ends: ids of the tokens that end a completion.
        device: where it is, as torch names it.
        mixed: `bfloat16` or `float16` when training runs in mixed precision, else empty.
    """

    model: Any
    processor: Any
    tokenizer: Any
    ends: tuple[int, ...]
    device: str
    mixed: str


def setting_of(config: RunConfig) -> Callable[[str], Any]:
    """Return what gives a GRPOConfig field's value: the config's, else TRL's default."""
    fields = load_fields()

    def setting(name: str) -> Any:
        return config.grpo[name] if name in config.grpo else fields[name].default

    return setting


def load_policy(config: RunConfig) -> Policy:
    """Load model and tokenizer, on the first GPU that is visible, or the CPU when there is none.

    Raises:
        PolicyError: they cannot be loaded.
    """
    import torch

    setting = setting_of(config)
    on_gpu = torch.cuda.is_available() and not setting("use_cpu")
    try:
        model = _model(config, on_gpu)
        processor = _processor(config, model)
        device = "cuda:0" if on_gpu else "cpu"
        if not hasattr(model, "hf_device_map"):
            model = model.to(device)
    except Exception as error:
        raise PolicyError(f"the model {config.model} cannot be loaded: {_sentence(error)}") from error
    tokenizer = getattr(processor, "tokenizer", processor)
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    model.config.get_text_config().pad_token_id = tokenizer.pad_token_id
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    mixed = ""
    if setting("fp16"):
        mixed = "float16"
    elif setting("bf16") or setting("bf16") is None:  # TRL's own default
        mixed = "bfloat16"
    return Policy(model.eval(), processor, tokenizer, _ends(model, tokenizer), device, mixed)


def generation_settings(config: RunConfig, policy: Policy) -> dict[str, Any]:
    """Return what `GRPOTrainer` generates with: the keyword arguments of its GenerationConfig."""
    setting = setting_of(config)
    values = {
        "max_new_tokens": setting("max_completion_length"),
        "do_sample": True,
        "pad_token_id": policy.tokenizer.pad_token_id,
        "bos_token_id": policy.tokenizer.bos_token_id,
        "eos_token_id": list(policy.ends),
    }
    for name in ("temperature", "top_p", "top_k", "min_p", "repetition_penalty", "cache_implementation"):
        values[name] = setting(name)
    if policy.processor is not policy.tokenizer and hasattr(policy.model.config, "image_token_id"):
        values["suppress_tokens"] = [policy.model.config.image_token_id]
    values.update(setting("generation_kwargs") or {})
    return values


def at_once(config: RunConfig) -> int:
    """Return how many completions are generated together: as training does, at most `MOST_AT_ONCE`."""
    setting = setting_of(config)
    per_device = int(setting("per_device_train_batch_size"))
    steps = setting("steps_per_generation") or setting("gradient_accumulation_steps")
    return max(per_device, min(MOST_AT_ONCE, per_device * int(steps)))


def _model(config: RunConfig, on_gpu: bool) -> Any:
    """What `create_model_from_path` of TRL makes of the same arguments."""
    import torch
    import transformers

    arguments = init_arguments(config)
    given = config.grpo.get("model_init_kwargs") or {}
    arguments["device_map"] = given.get("device_map", "auto" if on_gpu else None)
    if arguments["dtype"] in ("bfloat16", "float16", "float32"):
        arguments["dtype"] = getattr(torch, arguments["dtype"])
    quantization = _quantization(config.model_args)
    if quantization is not None:
        arguments["quantization_config"] = quantization
    trusted = bool(arguments.get("trust_remote_code"))
    found = transformers.AutoConfig.from_pretrained(
        config.model, revision=arguments.get("revision"), trust_remote_code=trusted
    )
    own = getattr(transformers, (found.architectures or [""])[0], None)
    return (own or transformers.AutoModelForCausalLM).from_pretrained(config.model, **arguments)


def _quantization(model_args: Mapping[str, Any]) -> Any:
    """The BitsAndBytesConfig of `load_in_4bit` and `load_in_8bit`, None without them."""
    if not (model_args.get("load_in_4bit") or model_args.get("load_in_8bit")):
        return None
    from trl import ModelConfig, get_quantization_config

    return get_quantization_config(ModelConfig(**model_args))


def _processor(config: RunConfig, model: Any) -> Any:
    from transformers import AutoProcessor

    arguments = init_arguments(config)
    return AutoProcessor.from_pretrained(
        model.config._name_or_path,
        revision=arguments.get("revision"),
        truncation_side="left",
        padding_side="left",
        trust_remote_code=bool(config.grpo.get("trust_remote_code", False)),
    )


def _ends(model: Any, tokenizer: Any) -> tuple[int, ...]:
    """Every id that the model declares, and the tokenizer's own, as TRL takes them."""
    declared = model.generation_config.eos_token_id
    ends = [] if declared is None else [declared] if isinstance(declared, int) else list(declared)
    if tokenizer.eos_token_id is not None and tokenizer.eos_token_id not in ends:
        ends.insert(0, tokenizer.eos_token_id)
    return tuple(ends)


def _sentence(error: Exception) -> str:
    """The first paragraph of what an exception says, on one line."""
    first = str(error).strip().split("\n\n")[0]
    return one_line(" ".join(first.split()) or type(error).__name__, 400)
