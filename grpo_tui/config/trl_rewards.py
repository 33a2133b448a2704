"""The rewards that the installed TRL has under short names. It imports none of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Names that `trl grpo` itself knows; the factory's arguments are those of trl/scripts/grpo.py.
SCRIPT_NAMES: Mapping[str, dict[str, Any] | None] = {
    "accuracy_reward": None,
    "reasoning_accuracy_reward": None,
    "think_format_reward": None,
    "get_soft_overlong_punishment": {"max_completion_len": 1280, "soft_punish_cache": 256},
}
FACTORIES = ("get_soft_overlong_punishment", "get_cosine_scaled_reward", "get_repetition_penalty_reward")
"""Called with their params, they give the reward."""
TRL_NAMES = (*SCRIPT_NAMES, "get_cosine_scaled_reward", "get_repetition_penalty_reward")
NAMES_OF_FACTORIES: Mapping[str, str] = {
    "get_soft_overlong_punishment": "soft_overlong_punishment_reward",
    "get_cosine_scaled_reward": "cosine_scaled_reward",
    "get_repetition_penalty_reward": "repetition_penalty_reward",
}
"""The names TRL logs for what the factories make."""
