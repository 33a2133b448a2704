"""Findings of a run as listed and read: open ones first, then those that have ended."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from grpo_tui.core.findings import RULES, Finding, Remedy
from grpo_tui.health.remedies import with_tried
from grpo_tui.present.series import FLAT
from grpo_tui.store.read_health import closed_findings, resume_options
from grpo_tui.store.reader import RunReader
from grpo_tui.store.status import read_status

PAGE = "docs/diagnosis.md"
_CHARTS = {
    "policy.collapse": "entropy",
    "policy.truncation": "completions/clipped_ratio",
    "policy.no-end-token": "completions/clipped_ratio",
    "policy.length-runaway": "completions/mean_length",
    "policy.kl": "kl",
    "policy.mismatch": "sampling/sampling_logp_difference/mean",
    "policy.gradient-nan": "grad_norm",
    "policy.gradient-spikes": "grad_norm",
    "policy.gradient-zero": "grad_norm",
    "policy.learning-rate-ended": "learning_rate",
    "policy.held-out": "eval_reward",
    "machine.slow-step": "step_time",
    "machine.slow-reward": "step_time",
    "machine.throughput": "grpo_tui/tokens_per_second",
    "machine.memory": "step_time",
    "machine.lagging-rank": "step_time",
}
"""Rule to the metric that shows its finding. For other rules about the signal it is `FLAT`, else the reward.
"""
_AROUND = 5
"""Minimum steps before and after a finding in its chart."""


@dataclass(frozen=True, slots=True)
class RunFinding:
    """A finding, and whether it is open."""

    finding: Finding
    open: bool

    @property
    def steps(self) -> str:
        """When it began and ended."""
        first, last = self.finding.first_step or 0, self.finding.last_step or 0
        if self.open:
            return f"since step {first:,}"
        return f"step {first:,}" if first == last else f"steps {first:,} to {last:,}"

    @property
    def chart(self) -> str:
        """TRL's key of the metric that shows it."""
        rule = self.finding.id
        return _CHARTS.get(rule, FLAT if rule.startswith("signal.") else "reward")

    @property
    def span(self) -> tuple[float, float]:
        """First and last step of its chart."""
        first, last = self.finding.first_step or 0, self.finding.last_step or 0
        around = max(_AROUND, (last - first) // 4)
        return max(0, first - around), last + around

    @property
    def query(self) -> str:
        """Query that finds its completions."""
        return str(self.finding.evidence.get("completions", ""))

    @property
    def change(self) -> Remedy | None:
        """The first remedy that `set` can apply while the run trains."""
        return next((one for one in self.finding.remedies if one.live and one.field), None)

    @property
    def settings(self) -> tuple[Remedy, ...]:
        """The remedies that the config of the next run can hold."""
        return tuple(for_config(self.finding))

    @property
    def meaning(self) -> str:
        """Description of the rule; empty for a rule of a later version."""
        rule = RULES.get(self.finding.id)
        return rule.meaning if rule is not None else ""


def read_findings(root: Path, reader: RunReader) -> tuple[RunFinding, ...]:
    """Return the findings of a run: open ones, worst first, then ended ones, newest first."""
    now = [RunFinding(one, open=True) for one in with_tried(reader, read_status(root, reader).findings)]
    return (*now, *(RunFinding(one, open=False) for one in closed_findings(reader)))


def for_config(finding: Finding) -> Iterator[Remedy]:
    """Yield the remedies that a config can hold, one for each setting."""
    seen = {"resume_from_checkpoint"}
    for remedy in finding.remedies:
        if remedy.field and remedy.value is not None and remedy.field not in seen:
            seen.add(remedy.field)
            yield remedy


def to_write(finding: Finding) -> Iterable[tuple[str, str]]:
    """Yield (`config`, line of YAML) or (`resume`, options of `train RUN`) to apply in the next run."""
    for remedy in for_config(finding):
        name, value = str(remedy.field), json.dumps(remedy.value)
        function = name.removeprefix("reward_weights.")
        yield "config", f"weight: {value}  # of {function}" if function != name else f"{name}: {value}"
    options = resume_options(finding)
    if options:
        yield "resume", options
