"""What a judgement of facts sees of a config: settings with their defaults, lines, how a finding is made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grpo_tui.config.batch import LineOf, generation_batch_size
from grpo_tui.config.run_config import RunConfig
from grpo_tui.config.yaml_lines import YamlError, parse_mapping
from grpo_tui.core.findings import Finding, Fix, Severity
from grpo_tui.core.text import safe
from grpo_tui.rewards.generate_child.policy import setting_of


@dataclass(frozen=True, slots=True)
class Judged:
    """A config whose facts are judged.

    Attributes:
        config: the run's.
        setting: gives a GRPOConfig field's value, TRL's default where it is not written.
        line_of: gives the line of a dotted key in the file, None when it has none.
        world_size: number of training processes; None when it is not known.
    """

    config: RunConfig
    setting: Callable[[str], Any]
    line_of: LineOf
    world_size: int | None = 1

    @classmethod
    def of(cls, config: RunConfig, line_of: LineOf | None = None, world_size: int | None = 1) -> Judged:
        """Return what is needed to judge; without `line_of` the lines are those of the config's file."""
        return cls(config, setting_of(config), line_of or lines_of(config.path), world_size)

    def found(
        self, rule: str, severity: Severity, field: str | None, message: str, fix: Fix | None = None
    ) -> Finding:
        """Make a finding; the message may hold text of files and of the hub."""
        line = self.line_of(field) if field is not None else None
        return Finding(rule, severity, field, line, safe(message), fix)

    @property
    def data_key(self) -> str:
        """The key that names the data."""
        if self.config.section.dataset is not None:
            return "grpo_tui.dataset"
        return "datasets" if self.config.mixture.get("datasets") else "dataset_name"

    @property
    def prompts_at_once(self) -> int | None:
        """Prompts of a generation batch; fewer rows make no step. None while the processes are not known."""
        if self.world_size is None:
            return None
        group = int(self.setting("num_generations") or 1)
        return max(1, generation_batch_size(self.setting, self.world_size) // group)


def lines_of(path: Path | None) -> LineOf:
    """Return what gives the lines of a file's keys; of no key when the file cannot be read."""
    try:
        document = parse_mapping(path.read_text(encoding="utf-8")) if path is not None else None
    except (OSError, UnicodeDecodeError, YamlError):
        document = None

    def line(key: str) -> int | None:
        if document is None:
            return None
        return document.line(*(int(part) if part.isdigit() else part for part in key.split(".")))

    return line
