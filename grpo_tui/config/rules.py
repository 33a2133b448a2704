"""What a rule sees of a config: every setting with its default, where it stands, and how a finding is made.

The rules themselves are in the modules `rules_*`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grpo_tui.config.resolve import Inspected
from grpo_tui.config.run_config import RunConfig
from grpo_tui.config.section import Section
from grpo_tui.config.trl_fields import FieldInfo, NoDefault, load_fields
from grpo_tui.config.yaml_lines import YamlDocument
from grpo_tui.core.findings import Finding, Fix, Severity

REMOVE = None
"""As a fix's value: remove the key."""
NAMES: Mapping[str, Any] = tomllib.loads(Path(__file__).with_name("rules.toml").read_text(encoding="utf-8"))
"""Names that the rules look for."""


@dataclass(frozen=True, slots=True)
class Settings:
    """A config for rules.

    Attributes:
        parts: coerced arguments by dataclass.
        section: the section `grpo_tui:`.
        fields: all fields of TRL, for defaults.
        document: the file, for lines.
        world_size: number of training processes; None when it is not known.
    """

    parts: Mapping[str, Mapping[str, Any]]
    section: Section
    fields: Mapping[str, FieldInfo]
    document: YamlDocument
    world_size: int | None = 1

    @classmethod
    def of(cls, inspected: Inspected, world_size: int | None) -> Settings:
        """Return what rules see of an inspected config."""
        return cls(inspected.parts, inspected.section, inspected.fields, inspected.document, world_size)

    @classmethod
    def of_config(cls, config: RunConfig, world_size: int | None = None) -> Settings:
        """Return what rules see of a checked config, without lines."""
        parts = {
            "GRPOConfig": config.grpo,
            "ModelConfig": config.model_args,
            "GRPOScriptArguments": config.script,
            "DatasetMixtureConfig": config.mixture,
        }
        return cls(parts, config.section, load_fields(), YamlDocument({}), world_size)

    def get(self, name: str) -> Any:
        """The value of a key, its default when it is not written; None where the default is computed."""
        info = self.fields.get(name)
        if info is None:
            return None
        written = self.parts.get(info.owner, {})
        if name in written:
            return written[name]
        return None if isinstance(info.default, NoDefault) else info.default

    def written(self, name: str) -> bool:
        """Whether the key has a value of its own that differs from TRL's default."""
        info = self.fields.get(name)
        if info is None or name not in self.parts.get(info.owner, {}):
            return False
        return bool(self.parts[info.owner][name] != info.default)

    @property
    def checkpointing(self) -> bool:
        """Whether gradients are checkpointed; the older name is read where the newer one is not set."""
        newer = self.get("activation_checkpointing")
        return bool(self.get("gradient_checkpointing") if newer is None else newer)

    def mapping(self, name: str) -> Mapping[str, Any]:
        """The value of a key that takes a mapping; empty for none, for a path and for other values."""
        value = self.get(name)
        return value if isinstance(value, dict) else {}

    def strategy(self, name: str) -> str:
        """One of transformers' strategies (`eval_strategy`) as text."""
        return str(self.get(name) or "no")

    def line(self, dotted: str) -> int | None:
        """The line of a dotted key, of its nearest parent where it has none."""
        return self.document.line(*_path(dotted))

    def finding(
        self, rule: str, severity: Severity, field: str, message: str, *fix: tuple[str, Any] | None
    ) -> Finding:
        """Make a finding at a key.

        Args:
            rule: the rule's name, `domain.what`.
            severity: how bad it is.
            field: the key, dotted where nested.
            message: why, with the numbers.
            fix: `(key, value)` of the smallest change; a value of None removes the key.
        """
        first = fix[0] if fix else None
        change = Fix(first[0], first[1]) if first is not None else None
        return Finding(rule, severity, field, self.line(field), message, change)

    def error(self, rule: str, field: str, message: str, *fix: tuple[str, Any] | None) -> Finding:
        """Find that a run would fail, or train nothing."""
        return self.finding(rule, "error", field, message, *fix)

    def warning(self, rule: str, field: str, message: str, *fix: tuple[str, Any] | None) -> Finding:
        """Find that a run does not do what the config says."""
        return self.finding(rule, "warning", field, message, *fix)

    def info(self, rule: str, field: str, message: str, *fix: tuple[str, Any] | None) -> Finding:
        """Find that another value would do better."""
        return self.finding(rule, "info", field, message, *fix)

    def unused(self, field: str, why: str, *fix: tuple[str, Any]) -> Finding:
        """Find that nothing reads a key; the fix removes it unless another is given."""
        return self.warning(
            "config.unused", field, f"{field} is not used: {why}", *(fix or ((field, REMOVE),))
        )


def _path(dotted: str) -> tuple[str | int, ...]:
    return tuple(int(part) if part.isdigit() else part for part in dotted.split("."))


def yaml_said(value: Any) -> str:
    """A value as it stands in a file."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.15g}"
    return "empty" if value is None else str(value)
