"""Real LoRA adapters on the shipped model, as PEFT saves them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from grpo_tui.demo import DEMO_MODEL


def make_adapter(folder: Path, std: float = 0.1, base: Path = DEMO_MODEL, **settings: Any) -> Path:
    """Save an adapter whose second matrix is random, as after training: always the same one."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    config = LoraConfig(
        task_type="CAUSAL_LM", r=4, lora_alpha=8, **{"target_modules": "all-linear", **settings}
    )
    plain = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    with torch.random.fork_rng(devices=()), torch.no_grad():
        torch.manual_seed(1)
        model = get_peft_model(plain, config)
        for name, parameter in model.named_parameters():
            if any(part in name for part in ("lora_B", "lora_embedding_A", "modules_to_save")):
                parameter.add_(torch.randn(parameter.shape) * std)
    model.save_pretrained(folder)
    return folder
