"""From the facts of a model to the sizes that a plan is made from.

Knows both shapes; computes nothing but the width of an expert, which the facts do not hold.
"""

from __future__ import annotations

from grpo_tui.config.plan import ModelShape
from grpo_tui.config.plan.model_shape import QK_NORM
from grpo_tui.preflight.facts import ModelFacts


def shape_of_facts(facts: ModelFacts | None) -> ModelShape | None:
    """The sizes of a model whose parameters were counted; None when they were not."""
    if facts is None or facts.parameters is None:
        return None
    layers, hidden, heads, vocab = facts.layers, facts.hidden, facts.heads, facts.vocab
    if not (layers and hidden and heads and vocab):
        return None
    blocks = [kind for kind in facts.linears if kind.name != "lm_head"]
    linears: dict[str, tuple[tuple[int, int], ...]] = {}
    for kind in blocks:
        linears[kind.name] = (*linears.get(kind.name, ()), *((kind.inputs, kind.outputs),) * kind.count)
    lora = facts.lora
    return ModelShape(
        parameters=facts.parameters.total,
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=facts.kv_heads or heads,
        head_dim=facts.head_dim or hidden // heads,
        intermediate=_width(facts, layers, hidden),
        vocab=vocab,
        context=facts.context,
        tied=bool(facts.tied),
        experts=facts.experts,
        active_experts=facts.experts_per_token,
        dtype=facts.stored_dtype or facts.dtype,
        linears=linears,
        exact=True,
        qk_norm=facts.model_type.startswith(QK_NORM),
        adapted=lora.names if lora is not None and not lora.problem else None,
    )


def _width(facts: ModelFacts, layers: int, hidden: int) -> int:
    """Width of the MLP; of one expert in a mixture, whose gate, up and down are hidden × width each."""
    if facts.experts and facts.parameters is not None and facts.parameters.experts:
        return max(1, facts.parameters.experts // (layers * facts.experts * 3 * hidden))
    return facts.intermediate or 4 * hidden
