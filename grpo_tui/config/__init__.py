"""Read a TRL config file and validate its settings."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from grpo_tui.config.resolve import load_config
    from grpo_tui.config.run_config import ConfigError, RunConfig
    from grpo_tui.config.section import AnswerSpec, FewShot, RewardEntry, Section

__all__ = ["AnswerSpec", "ConfigError", "FewShot", "RewardEntry", "RunConfig", "Section", "load_config"]

_HOMES = {"load_config": "resolve", "ConfigError": "run_config", "RunConfig": "run_config"}


def __getattr__(name: str) -> Any:
    # Imported lazily: if the package imported its modules here, two threads that import different ones at
    # once could find one half initialized.
    if name not in __all__:
        raise AttributeError(f"module {__name__} has no attribute {name}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES.get(name, 'section')}"), name)
