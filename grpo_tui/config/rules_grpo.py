"""Rules about GRPO in TRL 1.16: loss, reference model, sampling, logging, adapters and quantization.

They cover what TRL raises late, only warns about, or changes silently. The rules need no model. Whether
LoRA's targets exist in the model is checked elsewhere, vLLM's keys in `rules_vllm`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from grpo_tui.config.rules import row_findings
from grpo_tui.config.settings import REMOVE, Settings
from grpo_tui.core.findings import Finding


def lora_findings(settings: Settings) -> list[Finding]:
    """Return findings about adapters and quantization."""
    found = list(row_findings(settings, "lora"))
    found += _on_the_head(settings) if settings.get("use_peft") else _unused(settings)
    return found


def _unused(s: Settings) -> Iterator[Finding]:
    written = [
        n for n in s.fields if (n.startswith("lora_") or n in ("use_rslora", "use_dora")) and s.written(n)
    ]
    if written:
        why = "use_peft is false, so the whole model is trained"
        yield s.unused_together(written, why, ("use_peft", True))


def _on_the_head(s: Settings) -> Iterator[Finding]:
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


_WEIGHTS = ("*.safetensors", "pytorch_model*.bin")


def folder_bytes(model: str) -> int | None:
    """Return the size in bytes of a local model's weights, None for a Hub name or a folder without any."""
    folder = Path(model).expanduser()
    if not model or not os.path.isdir(folder):
        return None
    files = [file for pattern in _WEIGHTS for file in folder.glob(pattern)]
    return sum(file.stat().st_size for file in files) or None


def grpo_findings(settings: Settings) -> list[Finding]:
    """Return findings about GRPO's own settings."""
    size = folder_bytes(str(settings.get("model_name_or_path") or ""))
    small = size is not None and size < 50_000_000
    return [*row_findings(settings, "grpo", small_model=small), *_without_weight(settings)]


def _without_weight(s: Settings) -> Iterator[Finding]:
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
