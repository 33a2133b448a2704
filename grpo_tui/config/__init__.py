"""From a TRL config file to checked settings.

Fields read from the installed source, YAML with lines, the section `grpo_tui:`, and the one function
`load_config`.
"""

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
    # Only when asked for: of a package whose first file imports its parts, two threads that first import
    # different parts at once may find one half made.
    if name not in __all__:
        raise AttributeError(f"module {__name__} has no attribute {name}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES.get(name, 'section')}"), name)
