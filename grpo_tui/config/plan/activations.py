"""Bytes of a forward pass that wait for the backward pass, per token and layer.

Counted from what autograd saves in a decoder layer of transformers 5.24 (`LlamaDecoderLayer`; Qwen, Mistral
and Gemma differ by a norm): after Korthikanti et al. 2022, "Reducing Activation Recomputation in Large
Transformer Models", section 4, for RMSNorm, a gated MLP and an attention kernel that keeps no scores. Knows
sizes and widths only.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from grpo_tui.config.plan.model_shape import ModelShape


@dataclass(frozen=True, slots=True)
class Widths:
    """Bytes of a number.

    Attributes:
        weights: of the weights, and so of the residual stream.
        compute: of what goes through matrix products, another than `weights` under autocast.
        adapter_input: of what a LoRA adapter keeps of its input: the autocast dtype, else its own.
        dropout: of what dropout before an adapter keeps of each value: a truth value on a GPU, the noise
            itself on the CPU; 0 without dropout.
    """

    weights: int
    compute: int
    adapter_input: int = 0
    dropout: int = 0

    @property
    def mixed(self) -> bool:
        """Whether autocast runs matrix products in another dtype."""
        return self.weights != self.compute


def layer_bytes(shape: ModelShape, widths: Widths, adapted: Collection[str] = ()) -> int:
    """Bytes one token leaves in one layer for the backward pass.

    Two norms, each: the input in float32, and for the gradient of their weight the normalised values,
    `(4 + w)·h`; norms of queries and keys likewise, in the dtype of products. Linear layers keep their input,
    once where several share it, but once each under autocast, which casts it for each. Attention keeps
    queries, keys and values (repeated to all heads by `sdpa_attention_forward` when there is a padding mask),
    its output twice and four bytes a head. The gated MLP keeps gate, its activation, up and their product.
    Frozen weights keep nothing for their own gradient; an adapter on a layer keeps its own input, and what
    its dropout drew.

    A test holds it against what autograd saves.

    Args:
        shape: the model.
        widths: bytes of a number.
        adapted: names of the linear layers that carry LoRA; empty when all weights are trained.
    """
    hidden, query, width = shape.hidden, shape.query_width, shape.intermediate
    w, c = widths.weights, widths.compute
    headed = query + shape.kv_width if shape.qk_norm else 0
    norms = 4 * (2 * hidden + headed)
    attention = 5 * query * c + 4 * shape.heads
    active = max(1, shape.active_experts)
    mlp = 3 * width * c * active
    if not adapted:
        inputs = (3 + 2) * hidden * c if widths.mixed else 2 * hidden * w
        norms += w * 2 * hidden + c * headed
        return norms + attention + mlp + inputs + width * c * active
    return norms + attention + mlp + _adapter_inputs(shape, widths, adapted)


def _adapter_inputs(shape: ModelShape, widths: Widths, adapted: Collection[str]) -> int:
    into = {"o_proj": shape.query_width, "down_proj": shape.intermediate}
    kept = widths.adapter_input + widths.dropout
    return sum(into.get(name, shape.hidden) * kept for name in adapted)


def working_bytes(shape: ModelShape, widths: Widths) -> int:
    """Bytes a token needs while one layer goes back: gradients of the MLP's values and of the stream."""
    active = max(1, shape.active_experts)
    return 3 * shape.intermediate * widths.compute * active + 3 * shape.hidden * max(4, widths.weights)


def score_bytes(shape: ModelShape, widths: Widths) -> int:
    """Bytes of attention scores for each pair of positions, for `attn_implementation: eager`.

    Scores, their softmax in float32 and back in the compute dtype (`eager_attention_forward`).
    """
    return shape.heads * (2 * widths.compute + 4)
