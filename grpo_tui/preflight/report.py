"""Result of a preflight: findings, plan, checklist, advice. Also the shape of `check --json`."""

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

Mark = Literal["yes", "warning", "no", "idle"]
"""State of a checklist item. `no` blocks a start, `idle` was not checked or does not apply."""


@dataclass(frozen=True, slots=True)
class ChecklistItem:
    """Item of the checklist before training.

    Attributes:
        evidence: how its state is known, with numbers.
    """

    text: str
    mark: Mark
    evidence: str

    def evidence_beside(self, findings: Iterable[Finding]) -> str:
        """Return the evidence for display below findings, without repeating one of them."""
        said = next((f for f in findings if f.message and f.message in self.evidence), None)
        if said is None:
            return self.evidence
        return self.evidence.replace(said.message, f"see the {said.severity} above")


@dataclass(frozen=True, slots=True)
class Preflight:
    """Result of checking a config before it starts.

    Attributes:
        config: None when the file has no usable config.
        findings: errors first, then by line.
        advice: suggestions with reasons, which never block a start.
        resolved: value of every TRL field by name, including defaults.
        plan: steps, batches, memory, as `check --json` prints it. None while unknown.
        notes: commands and sentences for the user, such as how to start the vLLM server.
        world_size: assumed number of training processes, None when unknown.
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
        """Whether nothing blocks a start."""
        return not errors_of(self.findings)

    @property
    def can_be_forced(self) -> bool:
        """Whether there is a config that could be started despite errors."""
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
    """Return findings without duplicates, errors first, then by line. Those without a line come last."""
    seen: dict[tuple[str, str | None, str], Finding] = {}
    for finding in findings:
        seen.setdefault((finding.id, finding.field, finding.message), finding)
    by_line = sorted(seen.values(), key=lambda f: (f.line is None, f.line or 0))
    return tuple(errors_first(by_line))
