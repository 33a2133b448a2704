"""Settings of a config that was never written, for tests of plans."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from grpo_tui.config.section import Section
from grpo_tui.config.settings import Settings
from grpo_tui.config.trl_fields import load_fields


def settings_of(values: Mapping[str, Any]) -> Settings:
    """Return the settings of a config with these values, each in the dataclass that has it."""
    fields, parts = load_fields(), {}
    for name, value in values.items():
        parts.setdefault(fields[name].owner, {})[name] = value
    return Settings(parts, Section(), fields)
