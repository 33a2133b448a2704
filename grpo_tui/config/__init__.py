"""From a TRL config file to checked settings.

Fields read from the installed source, YAML with lines, the section `grpo_tui:`, and the one function
`load_config`. Knows neither torch nor TRL at run time: it reads their source as text.
"""

from __future__ import annotations

from grpo_tui.config.resolve import load_config
from grpo_tui.config.run_config import ConfigError, RunConfig
from grpo_tui.config.section import AnswerSpec, FewShot, RewardEntry, Section

__all__ = ["AnswerSpec", "ConfigError", "FewShot", "RewardEntry", "RunConfig", "Section", "load_config"]
