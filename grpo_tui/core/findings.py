"""What a check found: one fault, warning or notice, with its place and the smallest fix.

Every check of a config, a dataset, a reward or a run speaks in this form, so that the command line, the panes
and other programs show the same thing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from dataclasses import field as given
from typing import Any, Literal

from grpo_tui.core.exchange import plain

Severity = Literal["error", "warning", "info"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")
"""Worst first."""


@dataclass(frozen=True, slots=True)
class Fix:
    """The smallest change that helps: set `field` to `value`; a value of None means "remove the key"."""

    field: str
    value: Any

    def __post_init__(self) -> None:
        """Take the noise of arithmetic off a number: 8e-5 / 10 is 8e-06, not 8.000000000000001e-06."""
        if isinstance(self.value, float):
            object.__setattr__(self, "value", float(f"{self.value:.15g}"))

    def to_json(self) -> dict[str, Any]:
        """Return `{"field", "value"}`."""
        return {"field": self.field, "value": self.value}


@dataclass(frozen=True, slots=True)
class Remedy:
    """One thing that helps a run: in words, and where it is a setting as `field` and `value`."""

    text: str
    field: str | None = None
    value: Any = None
    live: bool = False
    """Whether it can be applied while the run trains."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing a check has to say.

    Attributes:
        id: stable name of the rule, such as `config.unknown-key`.
        severity: an error stops a run, a warning does not, an info tells what was done.
        field: the key concerned, dotted where nested (`grpo_tui.holdout`).
        line: line in the file the key stands in, counted from 1; None when it came from elsewhere.
        message: one sentence or two for a person.
        fix: the change that would help, where there is one.
        first_step, last_step: of a finding about a run, the steps it holds for.
        evidence: of a finding about a run, the numbers it rests on; `completions` is a query that finds them.
        remedies: of a finding about a run, what helps.
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
        """Return the shape that `grpo-tui check --json` prints."""
        body = plain(self)
        for name in _OF_RUNS:
            del body[name]
        return body

    def to_alert(self) -> dict[str, Any]:
        """Return the shape that `grpo-tui doctor --json` prints."""
        body = plain(self)
        kept = {name: body[name] for name in ("id", "severity", "message")}
        return {**kept, **{name: body[name] for name in _OF_RUNS}}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Finding:
        """Rebuild a finding from what `to_json` gave."""
        fix = data.get("fix")
        return cls(
            id=data["id"],
            severity=data["severity"],
            field=data.get("field"),
            line=data.get("line"),
            message=data["message"],
            fix=Fix(fix["field"], fix["value"]) if fix is not None else None,
        )


_OF_RUNS = ("first_step", "last_step", "evidence", "remedies")


def errors_first(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings by severity, those of one severity in their order."""
    return sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity))


def errors_of(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return the findings that stop a run, in their order."""
    return tuple(finding for finding in findings if finding.severity == "error")
