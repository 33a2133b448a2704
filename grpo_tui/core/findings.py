"""A finding: one error, warning or notice of a check, with its location and the smallest fix.

All checks of configs, datasets, rewards and runs return findings. The command line, the panes and the JSON
output show the same ones. Of the rules that judge a run, `diagnosis.toml` holds texts and limits, `health`
evaluates them, and `page` renders `docs/diagnosis.md`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from dataclasses import field as given
from pathlib import Path
from typing import Any, Literal

Severity = Literal["error", "warning", "info"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")
"""Most severe first."""


@dataclass(frozen=True, slots=True)
class Fix:
    """The smallest change that helps: set `field` to `value`. None removes the key."""

    field: str
    value: Any

    def __post_init__(self) -> None:
        """Round away floating-point noise: 8e-5 / 10 becomes 8e-06, not 8.000000000000001e-06."""
        if isinstance(self.value, float):
            object.__setattr__(self, "value", float(f"{self.value:.15g}"))

    def to_json(self) -> dict[str, Any]:
        """Return `{"field", "value"}`."""
        return {"field": self.field, "value": self.value}


@dataclass(frozen=True, slots=True)
class Remedy:
    """A remedy for a run. `field` and `value` are set when it is a setting."""

    text: str
    field: str | None = None
    value: Any = None
    live: bool = False
    """Whether it can be applied while the run is training."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One result of a check.

    Attributes:
        id: Stable name of the rule, such as `config.unknown-key`.
        severity: An error stops a run. A warning does not. An info reports a change that was made.
        field: The key, dotted where nested (`grpo_tui.holdout`).
        line: Line of the key in the file, from 1. None when it is not from a file.
        message: One or two sentences for the user.
        first_step, last_step: Steps that a finding about a run covers.
        evidence: Numbers behind a finding about a run. `completions` is a query that finds examples.
    """

    id: str
    severity: Severity
    field: str | None
    line: int | None
    message: str
    fix: Fix | None = None
    first_step: int | None = None
    last_step: int | None = None
    evidence: Mapping[str, Any] = given(default_factory=dict, hash=False)
    remedies: tuple[Remedy, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the object that `grpo-tui check --json` prints."""
        body = asdict(self)
        for name in _OF_RUNS:
            del body[name]
        return body

    def to_alert(self) -> dict[str, Any]:
        """Return the object that `grpo-tui doctor --json` prints."""
        body = asdict(self)
        return {name: body[name] for name in ("id", "severity", "message", *_OF_RUNS)}


_OF_RUNS = ("first_step", "last_step", "evidence", "remedies")


def errors_first(findings: Iterable[Finding]) -> list[Finding]:
    """Sort findings by severity. The order within a severity stays."""
    return sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity))


def errors_of(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return only the errors."""
    return tuple(finding for finding in findings if finding.severity == "error")


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
