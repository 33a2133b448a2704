"""What of a model is trained: all of it, or LoRA adapters; how many parameters, and how wide they are.

The rules are those of `GRPOTrainer.__init__` in TRL 1.16 and of PEFT: adapters are float32 beside weights of
two bytes (`autocast_adapter_dtype`), bfloat16 on a quantized model and under ZeRO-3. Knows no memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from grpo_tui.config.plan.activations import Widths
from grpo_tui.config.plan.model_shape import ModelShape
from grpo_tui.config.plan.settings import PlanSettings
from grpo_tui.config.plan.sharding import Sharding

BYTES: Mapping[str, int] = {
    "float32": 4, "float16": 2, "bfloat16": 2, "float64": 8,
    "F32": 4, "F16": 2, "BF16": 2, "F64": 8,
}  # fmt: skip
NF4 = 0.5 + 4 / 64
"""Bytes of a 4-bit weight: half, and its share of a float32 maximum for each block of 64 (bitsandbytes)."""
NF4_NESTED = 0.5 + 1 / 64 + 4 / (64 * 256)
"""The same with the maxima quantized again (`use_bnb_nested_quant`)."""


@dataclass(frozen=True, slots=True)
class Trained:
    """What is trained.

    Attributes:
        parameters: trained ones.
        width: bytes of each.
        adapted: linear layers that carry LoRA, by name; empty when everything is trained.
        embeddings: trained parameters of embedding and LM head.
        widths: bytes of weights, products and adapters.
        stored: bytes of the weights of the whole model as loaded.
    """

    parameters: int
    width: int
    adapted: tuple[str, ...]
    embeddings: int
    widths: Widths
    stored: int

    @property
    def is_adapter(self) -> bool:
        """Whether only adapters are trained."""
        return bool(self.adapted)


def what_is_trained(settings: PlanSettings, shape: ModelShape, sharding: Sharding) -> Trained:
    """What a config trains of a model."""
    dtype = settings.dtype if settings.dtype != "auto" else shape.dtype or "float32"
    width = BYTES.get(dtype, 4)
    autocast = settings.autocast
    if sharding.deepspeed and autocast is not None:
        width = 2  # the engine turns the model into its dtype
    compute = 2 if autocast is not None else width
    bits = 4 if settings.flag("load_in_4bit") else 8 if settings.flag("load_in_8bit") else 0
    stored = _stored(settings, shape, width, bits)
    if not settings.flag("use_peft"):
        return Trained(
            shape.parameters, width, (), shape.embedding_parameters, Widths(width, compute), stored
        )
    adapted = adapted_layers(settings, shape)
    rank = settings.whole("lora_r")
    pairs = [pair for name in adapted for pair in shape.linears.get(name, ())]
    count = sum(rank * (a + b) for a, b in pairs)
    if settings.flag("use_dora"):
        count += sum(b for _, b in pairs)
    kept = [str(name) for name in settings("lora_modules_to_save") or ()]
    embeddings = shape.vocab * shape.hidden * sum(name in kept for name in ("embed_tokens", "lm_head"))
    count += embeddings + sum(a * b for name in kept for a, b in shape.linears.get(name, ()))
    low = bool(bits) or sharding.kind == "zero3"
    adapter = 2 if bits else width if low else 4
    noise = 0 if settings.number("lora_dropout") == 0 else adapter if settings.flag("use_cpu") else 1
    widths = Widths(width, compute, compute if autocast is not None else adapter, noise)
    return Trained(count, adapter, adapted, embeddings, widths, stored)


def adapted_layers(settings: PlanSettings, shape: ModelShape) -> tuple[str, ...]:
    """Names of the linear layers that get an adapter.

    Without `lora_target_modules` PEFT takes queries and values of most decoders (peft/utils/constants.py).
    """
    if shape.adapted is not None:
        return shape.adapted
    asked = settings("lora_target_modules")
    names = [asked] if isinstance(asked, str) else list(asked or ("q_proj", "v_proj"))
    if "all-linear" in names:
        return tuple(shape.linears)
    wanted = {str(name).rpartition(".")[2] for name in names}
    return tuple(name for name in shape.linears if name in wanted) or ("q_proj", "v_proj")


def _stored(settings: PlanSettings, shape: ModelShape, width: int, bits: int) -> int:
    """Bytes of the weights: quantized linear layers of the blocks, everything else in the dtype."""
    if not bits:
        return shape.parameters * width
    linear = sum(a * b for pairs in shape.linears.values() for a, b in pairs)
    linear = min(linear, shape.parameters)
    nested = NF4_NESTED if settings.flag("use_bnb_nested_quant") else NF4
    return round(linear * (nested if bits == 4 else 1.0)) + (shape.parameters - linear) * width
