"""Rules about LoRA and quantization that need no model: what is refused, and what is set for nothing.

Whether the targets exist in the model is the checker's business.
"""

from __future__ import annotations

from collections.abc import Iterator

from grpo_tui.config.rules import REMOVE, Settings
from grpo_tui.core.findings import Finding

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
            f"quantization is given twice: by {quantized} and in model_init_kwargs",
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
            f"lora_task_type must be CAUSAL_LM, for the model writes text; it is {task}",
            ("lora_task_type", "CAUSAL_LM"),
        )
