"""Our advice on the fields of a config: what to choose, why, when something else, what it costs.

The words are in `advice_loss`, `advice_run` and `advice_machine`, written for TRL 1.16; a test holds that
every field and choice named there is one of the installed TRL's. It knows no config: whether a value is wrong
is the checks' business.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from grpo_tui.config.advice_entry import Advice, Choice
from grpo_tui.config.advice_loss import LOSS
from grpo_tui.config.advice_machine import DISTRIBUTED, LORA, MODEL, VLLM
from grpo_tui.config.advice_run import DATA, GENERATION, LOGGING, OPTIMISATION, REWARDS

__all__ = ["ADVICE", "Advice", "Choice", "advice_on", "choice_advice"]

ADVICE: Mapping[str, Advice] = MappingProxyType(
    {
        **MODEL,
        **DATA,
        **GENERATION,
        **REWARDS,
        **OPTIMISATION,
        **LOSS,
        **VLLM,
        **LORA,
        **LOGGING,
        **DISTRIBUTED,
    }
)
"""Advice by field; those of the section are dotted."""


def advice_on(name: str) -> Advice | None:
    """Return the advice on a field; None where there is nothing to say."""
    return ADVICE.get(name)


def choice_advice(name: str, value: str) -> Choice | None:
    """Return what is said on one value of an enumerated field; None where nothing is."""
    advice = ADVICE.get(name)
    return advice.choices.get(value) if advice is not None else None
