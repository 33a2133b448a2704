"""What a layer is said to keep for the backward pass is what autograd keeps of it."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from grpo_tui.config.plan.model import Widths, layer_bytes, shape_of

SIZES = {
    "hidden_size": 256,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "intermediate_size": 768,
    "vocab_size": 128,
    "max_position_embeddings": 512,
    "tie_word_embeddings": True,
}
BATCH, LENGTH = 4, 128
WITHIN = 0.03


def saved_bytes(family: str, layers: int, dtype: str, autocast: bool, lora: bool) -> int:
    """Bytes of all storages but the weights that a forward pass saves for the backward pass."""
    import torch
    import transformers

    torch.manual_seed(0)
    config = getattr(transformers, f"{family}Config")(**SIZES, num_hidden_layers=layers)
    model: Any = getattr(transformers, f"{family}ForCausalLM")(config).to(getattr(torch, dtype))
    backbone = model.model
    if lora:
        from peft import LoraConfig, get_peft_model

        wrapped = get_peft_model(model, LoraConfig(r=1, target_modules="all-linear", lora_dropout=0.05))
        wrapped.enable_input_require_grads()
        backbone = wrapped.base_model.model.model
    backbone.train()
    weights = {parameter.untyped_storage().data_ptr() for parameter in backbone.parameters()}
    found: dict[int, int] = {}
    kept = []  # so that no address is used twice

    def pack(tensor: Any) -> Any:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            found[storage.data_ptr()] = storage.nbytes()
        kept.append(tensor)
        return tensor

    ids = torch.randint(0, 128, (BATCH, LENGTH))
    mask = torch.ones(BATCH, LENGTH, dtype=torch.long)
    mask[0, :9] = 0
    cast = torch.autocast("cpu", torch.bfloat16) if autocast else contextlib.nullcontext()
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor), cast:
        backbone(input_ids=ids, attention_mask=mask, use_cache=False)
    return sum(found.values())


@pytest.mark.parametrize("lora", [False, True])
@pytest.mark.parametrize(
    ("family", "dtype", "autocast"),
    [
        ("Llama", "float32", False),
        ("Llama", "float32", True),
        ("Llama", "bfloat16", True),
        ("Llama", "bfloat16", False),
        ("Qwen2", "bfloat16", True),
        ("Qwen3", "float32", True),
        ("Qwen3", "bfloat16", True),
    ],
)
def test_a_layer_keeps_what_autograd_keeps(family: str, dtype: str, autocast: bool, lora: bool) -> None:
    two, three = (saved_bytes(family, layers, dtype, autocast, lora) for layers in (2, 3))
    shape = shape_of({**SIZES, "num_hidden_layers": 3, "model_type": family.lower()})
    assert shape is not None
    width = 4 if dtype == "float32" else 2
    compute = 2 if autocast else width
    widths = Widths(width, compute, 0, 0)
    if lora:  # an adapter of rank 1 keeps its input, and the noise of its dropout in its own dtype
        widths = Widths(width, compute, 2 if autocast else 4, 4)
    planned = BATCH * LENGTH * layer_bytes(shape, widths, tuple(shape.linears) if lora else ())
    if widths.mixed:  # the copies of the weights are a part of their own
        planned += compute * sum(a * b for pairs in shape.linears.values() for a, b in pairs) // 3
    assert planned == pytest.approx(three - two, rel=WITHIN)
