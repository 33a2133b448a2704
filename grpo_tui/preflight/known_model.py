"""Rules of TRL that need the model's own config: what only a mixture takes, what its context allows.

The weights are not needed. What is wrong with the model itself is said in `model_findings`.
"""

from __future__ import annotations

from collections.abc import Iterator

from grpo_tui.config.rules import REMOVE, Settings
from grpo_tui.config.rules_vllm import tensor_parallel_findings
from grpo_tui.core.findings import Finding
from grpo_tui.core.statistics import is_number
from grpo_tui.preflight.facts import Facts, ModelFacts


def facts_findings(settings: Settings, facts: Facts) -> list[Finding]:
    """Return what the config asks of a model that it cannot give; nothing while it is not known."""
    model = facts.model
    if model is None or model.problem or not model.architecture:
        return []
    heads = model.heads or 0
    split = tensor_parallel_findings(settings, heads, model.kv_heads or heads) if heads else []
    return [*_mixture(settings, model), *_context(settings, model), *split]


def _mixture(s: Settings, model: ModelFacts) -> Iterator[Finding]:
    weight = s.get("router_aux_loss_coef")
    if is_number(weight) and weight and not model.experts:
        message = (
            f"router_aux_loss_coef {weight:g} weighs a loss of the router, and "
            f"{model.architecture} has no experts"
        )
        fix = ("router_aux_loss_coef", REMOVE)
        yield s.finding("model.no-router", "error", "router_aux_loss_coef", message, fix)


def _context(s: Settings, model: ModelFacts) -> Iterator[Finding]:
    asked = s.get("vllm_max_model_length")
    if s.get("use_vllm") and is_number(asked) and model.context and asked > model.context:
        message = (
            f"vllm_max_model_length {asked} is beyond the model's context of {model.context}, "
            "which vLLM refuses"
        )
        fix = ("vllm_max_model_length", model.context)
        yield s.finding("model.context", "error", "vllm_max_model_length", message, fix)
