"""What a pre-flight found, as one value: findings, plan, checklist, advice. The shape of `check --json`.

Sorts and counts; finds nothing itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from grpo_tui.config.run_config import RunConfig
from grpo_tui.core.exchange import finite_json
from grpo_tui.core.findings import Finding, errors_first, errors_of
from grpo_tui.preflight.facts import Facts

Part = Literal["static", "model", "data", "rewards", "plan"]
PARTS: tuple[Part, ...] = ("static", "model", "data", "rewards", "plan")
"""In the order they are looked at: what costs nothing first."""

Mark = Literal["yes", "warning", "no", "idle"]
"""Whether an item of the checklist holds: `no` stops a start, `idle` was not looked at or does not apply."""


@dataclass(frozen=True, slots=True)
class ChecklistItem:
    """One item of the list to go through before training.

    Attributes:
        text: what is to be done.
        mark: whether it holds.
        evidence: how that is known, with its numbers.
    """

    text: str
    mark: Mark
    evidence: str

    def evidence_beside(self, findings: Iterable[Finding]) -> str:
        """Return the evidence as it stands below findings: what one of them says is not said again."""
        said = next((f for f in findings if f.message and f.message in self.evidence), None)
        return (
            self.evidence
            if said is None
            else self.evidence.replace(said.message, f"see the {said.severity} above")
        )


@dataclass(frozen=True, slots=True)
class Preflight:
    """Everything known of a config before it starts.

    Attributes:
        config: what would start; None when the file leaves no config.
        findings: errors first; those of one severity by line.
        advice: what would do well, with its reason; never in the way of a start.
        resolved: the value of every field of TRL, by name, defaults among them.
        plan: steps, batches, memory, as `check --json` prints it; None while nothing is known.
        checklist: what is to be done before training.
        notes: commands and sentences for a person, such as how the vLLM server is started.
        facts: what is known of model, tokenizer and data.
        done: the parts that were looked at.
        world_size: number of training processes the check was made for; None when it is not known.
    """

    config: RunConfig | None
    findings: tuple[Finding, ...] = ()
    advice: tuple[Finding, ...] = ()
    resolved: Mapping[str, Any] = field(default_factory=dict)
    plan: Mapping[str, Any] | None = None
    checklist: tuple[ChecklistItem, ...] = ()
    notes: tuple[str, ...] = ()
    facts: Facts = field(default_factory=Facts)
    done: tuple[Part, ...] = ()
    world_size: int | None = 1

    @property
    def ok(self) -> bool:
        """Whether nothing stops a start."""
        return not errors_of(self.findings)

    @property
    def can_be_forced(self) -> bool:
        """Whether there is a config that a person could start in spite of the errors."""
        return self.config is not None

    def to_json(self) -> dict[str, Any]:
        """Return the shape that `grpo-tui check --json` prints."""
        return finite_json(
            {
                "ok": self.ok,
                "findings": [finding.to_json() for finding in self.findings],
                "resolved": dict(self.resolved),
                "plan": dict(self.plan) if self.plan is not None else None,
                "checklist": [asdict(item) for item in self.checklist],
                "advice": [finding.to_json() for finding in self.advice],
                "notes": list(self.notes),
                "parts": list(self.done),
            }
        )


def in_order(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return findings without repetition, errors first, then by line; those without a line come last."""
    seen: dict[tuple[str, str | None, str], Finding] = {}
    for finding in findings:
        seen.setdefault((finding.id, finding.field, finding.message), finding)
    by_line = sorted(seen.values(), key=lambda f: (f.line is None, f.line or 0))
    return tuple(errors_first(by_line))
