"""Apply every rule at every step, and track when each finding began and ended."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from grpo_tui.config.live_settings import WHOLE
from grpo_tui.core.findings import RULES, Finding, Remedy, errors_first
from grpo_tui.core.records import SettingChanged
from grpo_tui.core.stages import SETTING as STAGE
from grpo_tui.core.statistics import is_number
from grpo_tui.health import machine_rules, policy_rules, signal_rules
from grpo_tui.health.facts import Observation, Settings, Visits
from grpo_tui.health.state import Found, Limits, RunState

HOLD = 3
"""Consecutive steps for which a rule must hold before it is reported."""
AT_ONCE = frozenset({"policy.gradient-nan", "policy.broke"})
"""Rules that are reported at the first step. `policy.broke` looks at each of several steps itself."""
WHOLE_RUN = frozenset({"signal.prompts-unsolved", "signal.prompts-solved"})
"""Rules about every prompt of the run. Applied when findings are requested, not at each step."""
CHECKED = 64
"""Prompts for which they may look per step while a run trains, so that a step costs the same in any run."""
EVERY = 10
"""Least number of steps between two times."""
CLEAR = 10
"""Consecutive steps for which a rule must not hold before its finding ends."""
NEAR = 10
"""A finding that begins within this many steps of a changed setting is attributed to it."""
IMPLIED: Mapping[str, tuple[str, ...]] = {
    "policy.broke": (
        "policy.reward-fell", "policy.collapse", "policy.truncation", "policy.length-runaway",
        "policy.repetition", "policy.no-end-token", "policy.kl", "policy.gradient-spikes", "policy.held-out",
        "policy.noise",
        "signal.all-wrong", "signal.identical", "signal.equal",
    ),
    "policy.collapse": ("policy.reward-fell", "signal.identical"),
    "policy.no-end-token": ("policy.truncation",),
    "signal.masked": ("policy.truncation", "policy.no-end-token", "signal.reward-stuck"),
    "signal.constant": ("signal.reward-stuck",),
    "signal.prompt-only": ("signal.all-wrong", "signal.all-correct", "signal.equal"),
    "machine.slow-step": ("machine.throughput",),
    "signal.not-finite": ("policy.gradient-nan", "signal.constant", "signal.equal", "signal.unscored"),
}  # fmt: skip
"""Findings that follow from another one and are hidden while that one is open."""

CHECKS: Mapping[str, Callable[[RunState, Limits], Found | None]] = {
    **signal_rules.RULES,
    **policy_rules.RULES,
    **machine_rules.RULES,
}


COUNTS = frozenset({
    "calls", "completions", "count", "evaluations", "flat", "groups", "least", "prompts", "repeats",
    "retries", "rows", "steps", "visits",
})  # fmt: skip
"""Limits that count what a rule looks at. Below 1 they mean 1: a rule says nothing of what is not there."""


@dataclass(slots=True)
class _Episode:
    first_step: int
    last_step: int
    found: Found
    held: int = 1
    missed: int = 0


class Doctor:
    """Judges a run step by step.

    Args:
        limits: By rule, limits that replace those in the table. None turns the rule off.
        prompts: Totals of every prompt when known in advance; None to count them from the groups.
    """

    def __init__(
        self,
        settings: Settings,
        limits: Mapping[str, Mapping[str, float] | None] | None = None,
        prompts: Mapping[str, Visits] | None = None,
    ) -> None:
        self.state = RunState(settings, prompts)
        changed = limits or {}
        self._limits = {
            name: {
                key: max(1.0, limit) if key in COUNTS else limit
                for key, limit in {**rule.limits, **(changed.get(name) or {})}.items()
            }
            for name, rule in RULES.items()
            if changed.get(name, {}) is not None
        }
        self._at_each = {name: limits for name, limits in self._limits.items() if name not in WHOLE_RUN}
        self.changes: list[SettingChanged] = []
        self._due = EVERY
        self._open: dict[str, _Episode] = {}
        self._ended: dict[str, _Episode] = {}

    def see(self, step: Observation) -> None:
        """Take the next step and apply every rule."""
        self.state.see(step)
        for name, limits in self._at_each.items():
            found = CHECKS[name](self.state, limits)
            episode = self._open.get(name)
            if found is not None:
                steps = limits.get("steps", 1)
                if episode is None:
                    self._open[name] = _Episode(self.state.began(found, steps), step.step, found)
                else:
                    if not self._reported(name, episode):  # more of the new level is known now
                        episode.first_step = self.state.turned(found) or episode.first_step
                    episode.last_step, episode.found, episode.missed = step.step, found, 0
                    episode.held += 1
            elif episode is not None:
                episode.missed += 1
                if not self._reported(name, episode):
                    del self._open[name]
                elif episode.missed >= CLEAR:
                    self._ended[name] = self._open.pop(name)

    def findings(self) -> list[Finding]:
        """Return open findings, worst first, then those that have ended, as info."""
        shown, implied = self._shown()
        past = [
            self._finding(name, one, ended=True)
            for name, one in self._ended.items()
            if name not in shown and name not in implied
        ]
        now = [*self.open_findings(), *self._about_prompts()]
        return [*errors_first(sorted(now, key=_first)), *sorted(past, key=_first)]

    def prompt_findings(self) -> list[Finding] | None:
        """Return the findings of the rules in `WHOLE_RUN` when it is time to look again, else None."""
        if self.state.observations < self._due:
            return None
        self._due = self.state.observations + max(EVERY, len(self.state.prompts) // CHECKED)
        return self._about_prompts()

    def _about_prompts(self) -> list[Finding]:
        checked = [
            (name, CHECKS[name](self.state, self._limits[name]))
            for name in sorted(WHOLE_RUN & set(self._limits))
        ]
        return [
            self._finding(name, _Episode(1, self.state.step, found), ended=False)
            for name, found in checked
            if found
        ]

    def open_findings(self) -> list[Finding]:
        """Return open findings, worst first, without the rules in `WHOLE_RUN`."""
        shown, implied = self._shown()
        now = [self._finding(name, one, ended=False) for name, one in shown.items() if name not in implied]
        return errors_first(sorted(now, key=_first))

    def _shown(self) -> tuple[dict[str, _Episode], set[str]]:
        shown = {name: one for name, one in self._open.items() if self._reported(name, one)}
        return shown, {other for name in shown for other in IMPLIED.get(name, ())}

    @staticmethod
    def _reported(name: str, episode: _Episode) -> bool:
        return name in AT_ONCE or episode.held >= HOLD

    def _finding(self, name: str, episode: _Episode, *, ended: bool) -> Finding:
        rule, found = RULES[name], episode.found
        cause = self._cause(name, episode.first_step)
        evidence = {key: value for key, value in found.evidence.items() if value is not None}
        steps = f"step {episode.first_step}..{episode.last_step}"
        evidence["completions"] = f"{steps} and {found.query}" if found.query else steps
        last = f" It ended at step {episode.last_step}." if ended else ""
        severity = "info" if ended else found.severity or rule.severity
        why, remedies = "", (Remedy(rule.remedy), *found.remedies)
        if cause is not None:
            old, new = _value(cause.old), _value(cause.new)
            why = f" Likely cause: {cause.name} was changed from {old} to {new} at step {cause.step}."
            evidence["cause"] = {
                "setting": cause.name, "from": cause.old, "to": cause.new, "step": cause.step,
            }  # fmt: skip
            remedies = tuple(one for one in remedies if one.field != cause.name)
            if cause.name != STAGE and not self._is_back(cause):
                back = Remedy(f"Set {cause.name} back to {old}", cause.name, cause.old, live=True)
                remedies = (back, *remedies)
        return Finding(
            name, severity, None, None, f"{rule.title}.{why} {found.message}{last}",
            first_step=episode.first_step, last_step=episode.last_step, evidence=evidence, remedies=remedies,
        )  # fmt: skip

    def _cause(self, name: str, first_step: int) -> SettingChanged | None:
        """Return the newest change of a setting shortly before the finding that may have caused it."""
        if name.startswith("machine."):
            return None
        near = (one for one in reversed(self.changes) if 0 < first_step - one.step <= NEAR)
        return next((one for one in near if _can_harm(one)), None)

    def _is_back(self, cause: SettingChanged) -> bool:
        newest = [one.new for one in self.changes if one.name == cause.name]
        return newest[-1] == cause.old


def _can_harm(change: SettingChanged) -> bool:
    """Return False for settings that do not affect the policy, and for a lowered learning rate."""
    if change.name in WHOLE:
        return False
    if change.name != "learning_rate":
        return True
    return is_number(change.old) and is_number(change.new) and change.new > change.old


def _value(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _first(finding: Finding) -> int:
    return finding.first_step or 0
