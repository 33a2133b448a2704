"""Generate with vLLM where the config trains with it and it is installed beside a GPU.

The engine runs in this process and takes the adapter unmerged. Every completion has its own seed, so its text
does not depend on what else is generated. Quantized models are left to transformers, which quantizes as
training does.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from grpo_tui.config.run_config import RunConfig
from grpo_tui.rewards.generate_child.policy import (
    Policy,
    PolicyError,
    ends_of,
    processor_of,
    sentence,
)
from grpo_tui.rewards.lab_child.loaded import init_arguments, mixed_of
from grpo_tui.store.json_file import read_object

RANKS = (8, 16, 32, 64, 128, 256, 512)
"""Values that vLLM accepts as the largest rank of an adapter."""
OF_FREE = 0.9
"""Fraction of the free GPU memory that the engine may use. A training run may hold the rest."""


def wanted(config: RunConfig) -> bool:
    """Return whether the config wants vLLM and it can run here."""
    quantized = config.model_args.get("load_in_4bit") or config.model_args.get("load_in_8bit")
    if not config.setting("use_vllm") or config.setting("use_cpu") or quantized or find_spec("vllm") is None:
        return False
    import torch

    return bool(torch.cuda.is_available())


def load_policy(config: RunConfig, adapter: str = "", tokenizer: str = "") -> Policy:
    """Load a model into vLLM, with the arguments of `policy.load_policy`.

    Raises:
        PolicyError: it cannot be loaded.
    """
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    import torch
    from transformers import GenerationConfig
    from vllm import LLM
    from vllm.lora.request import LoRARequest

    given = init_arguments(config)
    free, total = torch.cuda.mem_get_info()
    lora = {"enable_lora": True, "max_lora_rank": _rank(adapter)} if adapter else {}
    try:
        processor = processor_of(config, tokenizer or config.model)
        model = LLM(
            model=config.model,
            tokenizer=tokenizer or config.model,
            revision=given.get("revision"),
            dtype=mixed_of(config) or str(given["dtype"]).removeprefix("torch."),
            max_model_len=config.setting("vllm_max_model_length"),
            gpu_memory_utilization=OF_FREE * free / total,
            trust_remote_code=bool(given.get("trust_remote_code")),
            seed=0,
            **lora,
        )
        try:
            declared = GenerationConfig.from_pretrained(config.model).eos_token_id
        except OSError:  # no generation_config.json
            declared = None
    except Exception as error:
        raise PolicyError(
            f"the model {config.model} cannot be loaded into vLLM: {sentence(error)}. To generate with "
            "transformers: --set use_vllm=false"
        ) from error
    known = getattr(processor, "tokenizer", processor)
    ends = ends_of(declared, known)
    request = LoRARequest("policy", 1, adapter) if adapter else None
    return Policy(model, processor, known, ends, "cuda:0", "", "vllm", request)


def _rank(adapter: str) -> int:
    told = read_object(Path(adapter, "adapter_config.json")) or {}
    patterns = told.get("rank_pattern") or {}
    rank = max([int(told.get("r") or 0), *map(int, patterns.values())])
    return next((known for known in RANKS if known >= rank), rank)


def generate(
    policy: Policy, prompts: Sequence[list[int]], settings: Mapping[str, Any], seeds: Sequence[int]
) -> list[list[int]]:
    """Return a completion's ids for each prompt, including the end token."""
    from vllm import SamplingParams

    names = ("temperature", "top_p", "top_k", "repetition_penalty")
    ours = {
        **{name: settings[name] for name in names},
        "min_p": settings["min_p"] or 0.0,
        "max_tokens": settings["max_new_tokens"],
        "stop_token_ids": list(policy.ends),
        **settings["generation_kwargs"],
    }
    asked = [SamplingParams(**{**ours, "seed": seed}) for seed in seeds]
    given = [{"prompt_token_ids": ids} for ids in prompts]
    found = policy.model.generate(given, asked, lora_request=policy.lora, use_tqdm=False)
    return [list(output.outputs[0].token_ids) for output in found]
