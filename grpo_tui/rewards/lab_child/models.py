"""Reward models for scoring, loaded and called as in GRPOTrainer, but on the CPU.

Follows `GRPOTrainer.__init__` and `_calculate_rewards` in TRL 1.16.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from grpo_tui.config.run_config import RunConfig


class RewardModels:
    """Cache of reward models, which a reload of the rewards does not change."""

    def __init__(self) -> None:
        self._loaded: dict[str, tuple[Any, Any]] = {}

    def load(self, source: Any, config: RunConfig) -> tuple[Any, Any]:
        """Return model and tokenizer.

        Args:
            source: id or folder, or the model itself.
            config: its `model_init_kwargs`, `dtype` and revision apply to reward models too.
        """
        arguments = init_arguments(config)
        key = f"{source} {sorted(arguments.items(), key=str)}" if isinstance(source, str) else ""
        if key and key in self._loaded:
            return self._loaded[key]
        from transformers import AutoModelForSequenceClassification, AutoTokenizer, PreTrainedModel

        model = source
        if isinstance(source, str):
            model = AutoModelForSequenceClassification.from_pretrained(source, num_labels=1, **arguments)
        tokenizer = None
        if isinstance(model, PreTrainedModel):
            name = model.config._name_or_path
            revision = arguments.get("revision") if isinstance(source, str) else None
            tokenizer = AutoTokenizer.from_pretrained(
                name, revision=revision, trust_remote_code=bool(arguments.get("trust_remote_code"))
            )
            if tokenizer.pad_token_id is None:
                tokenizer.pad_token = tokenizer.eos_token
            # The score is read at the last token that is not padding, so the model must know that token.
            model.config.get_text_config().pad_token_id = tokenizer.pad_token_id
            model = model.to("cpu").eval()
        if key:
            self._loaded[key] = (model, tokenizer)
        return model, tokenizer


def init_arguments(config: RunConfig) -> dict[str, Any]:
    """Return the keyword arguments for loading a model, as TRL passes them for policy and reward models."""
    given = config.model_args
    arguments = {
        "revision": given.get("model_revision", "main"),
        "trust_remote_code": bool(config.grpo.get("trust_remote_code", False)),
        "attn_implementation": given.get("attn_implementation"),
        "dtype": given.get("dtype", "float32"),
        **(config.grpo.get("model_init_kwargs") or {}),
    }
    arguments.pop("device_map", None)
    return arguments


def score(
    model: Any,
    tokenizer: Any,
    prompts: Sequence[Any],
    completions: Sequence[Any],
    template_arguments: Mapping[str, Any],
    mixed: str,
) -> list[float]:
    """Return the model's first logit for each prompt with its completion.

    Args:
        prompts, completions: texts, or lists of messages.
        mixed: `bfloat16` or `float16` if training uses mixed precision, which applies to reward models too.
    """
    import torch

    if isinstance(prompts[0], str):
        texts = [p + c for p, c in zip(prompts, completions, strict=True)]
    else:
        from trl.data_utils import apply_chat_template

        texts = [
            apply_chat_template({"messages": p + c}, tokenizer, **template_arguments)["text"]
            for p, c in zip(prompts, completions, strict=True)
        ]
    inputs = tokenizer(
        text=texts, return_tensors="pt", padding=True, padding_side="right", add_special_tokens=False
    )
    dtype = torch.bfloat16 if mixed == "bfloat16" else torch.float16
    with torch.inference_mode(), torch.autocast("cpu", dtype=dtype, enabled=bool(mixed)):
        logits = model(**inputs).logits.float()
    return logits[:, 0].tolist()
