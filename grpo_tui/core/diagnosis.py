"""The rules that judge a run: what each reports, its limits, and what helps.

`diagnosis.toml` holds the texts and numbers, `health` evaluates them, and `page` renders `docs/diagnosis.md`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from grpo_tui.core.findings import Severity

__all__ = ["RULES", "Rule", "page"]


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. `reports` and `silent` are templates with the names of `limits` in braces."""

    id: str
    severity: Severity
    title: str
    meaning: str
    reports: str
    silent: str
    remedy: str
    source: str
    limits: Mapping[str, float]


def _read() -> dict[str, Rule]:
    table = tomllib.loads(Path(__file__).with_name("diagnosis.toml").read_text(encoding="utf-8"))
    for entry in table.values():
        entry["meaning"] = " ".join(entry["meaning"].split())
    return {name: Rule(name, **entry) for name, entry in table.items()}


RULES: Mapping[str, Rule] = _read()
"""By id, in page order."""


def page(rule: Rule) -> str:
    """Return the rule's section of `docs/diagnosis.md`."""
    told = {name: f"{value:g}" for name, value in rule.limits.items()}
    limits = ", ".join(f"`{name}` {value}" for name, value in told.items())
    rows = (
        ("Reports", rule.reports.format(**told)),
        ("Silent", rule.silent.format(**told)),
        ("What to do", rule.remedy),
        ("Limits", limits),
        ("Source", rule.source),
    )
    table = "\n".join(f"| {name} | {text} |" for name, text in rows)
    return (
        f"### {rule.id}\n\n**{rule.title}** ({rule.severity}). {rule.meaning}\n\n| | |\n|---|---|\n{table}\n"
    )
