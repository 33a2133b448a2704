"""Advice and the checklist before training. Neither blocks a start.

An item of the checklist that was not checked is idle, never ticked.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from grpo_tui.config.batch import generation_batch_size
from grpo_tui.config.rules import row_findings
from grpo_tui.config.settings import Settings
from grpo_tui.core.findings import Finding
from grpo_tui.core.statistics import is_number
from grpo_tui.preflight.facts import DataFacts, Facts
from grpo_tui.preflight.report import ChecklistItem, Mark
from grpo_tui.present.formatting import plural, size

if TYPE_CHECKING:
    from grpo_tui.config.plan.making import Plan
    from grpo_tui.preflight.rewards import RewardLook


def advice(settings: Settings, facts: Facts, steps: int | None) -> list[Finding]:
    """Return advice, most important first.

    Args:
        steps: optimizer steps of the whole run, None when unknown.
    """
    data = facts.data if facts.data is not None and not facts.data.problem else None
    rows = data.train_rows if data is not None else None
    batch = partial(generation_batch_size, settings.get, settings.world_size or 1)
    return list(row_findings(settings, "advice", steps=steps, rows=rows, batch=batch))


# -- checklist before training ----------------------------------------------------------------------

FORMAT = "Validate dataset format (prompts as messages)"
REWARDS = "Test reward functions on sample data"
LENGTHS = "Calculate the longest prompt from the data"
GROUP = "Choose num_generations by GPU memory"
LOGGING = "Set up logging"
Told = tuple[Mark, str]
"""State of an item, and its evidence."""


def checklist(
    settings: Settings,
    findings: Sequence[Finding],
    facts: Facts,
    rewards: RewardLook | None,
    plan: Plan | None,
) -> tuple[ChecklistItem, ...]:
    """Return the items in their order.

    Args:
        rewards: None when they were not tried.
        plan: None when not planned.
    """
    told = {
        FORMAT: _format(findings, facts),
        REWARDS: _rewards(findings, rewards),
        LENGTHS: _lengths(settings, findings, facts.data),
        GROUP: _group_size(settings, plan),
        LOGGING: _logging(settings, findings),
    }
    return tuple(ChecklistItem(text, mark, evidence) for text, (mark, evidence) in told.items())


def _errors(findings: Sequence[Finding], *prefixes: str) -> list[Finding]:
    return [f for f in findings if f.severity == "error" and f.id.startswith(prefixes)]


def _format(findings: Sequence[Finding], facts: Facts) -> Told:
    data = facts.data
    if data is None:
        return "idle", "the data was not read"
    wrong = _errors(findings, "data.", "tokenizer.")
    if data.problem or wrong:
        return "no", wrong[0].message if wrong else data.problem
    rows = f"{data.looked_at:,} rows"
    if data.sampled:
        rows += f" of {data.total:,}" if data.total is not None else " of a stream"
    if data.form == "messages":
        return "yes", f"{rows}, all prompts are messages"
    quoted = next((f for f in findings if f.id == "data.quoted-messages"), None)
    if quoted is not None:
        return _mark(quoted), quoted.message
    unformatted = next((f for f in findings if f.id == "tokenizer.string-prompts"), None)
    if unformatted is not None:
        return _mark(unformatted), f"{rows}, all prompts are plain text, and the model has a chat template"
    if facts.tokenizer is not None and facts.tokenizer.has_template:
        return "yes", f"{rows}, all prompts are text that already uses the template's markers"
    return "yes", f"{rows}, all prompts are plain text, which fits a model without a chat template"


def _mark(wrong: Finding) -> Mark:
    return "no" if wrong.severity == "error" else "warning"


def _rewards(findings: Sequence[Finding], rewards: RewardLook | None) -> Told:
    wrong = _errors(findings, "rewards.") if rewards is not None else []
    if wrong:
        return "no", wrong[0].message
    if rewards is None or not rewards.looked:
        return "idle", "the rewards were not called"
    completions = plural(rewards.scored, "completion")
    return "yes", f"{', '.join(rewards.functions)}: {completions} with reference and wrong answers"


def _lengths(settings: Settings, findings: Sequence[Finding], data: DataFacts | None) -> Told:
    lengths = data.prompt_tokens if data is not None else None
    if lengths is None:
        return "idle", "no prompt was counted"
    said = f"p50 {lengths.p50:,}, p99 {lengths.p99:,}, longest {lengths.most:,} tokens"
    wrong = next((f for f in findings if f.id in ("data.too-long", "data.no-room")), None)
    if wrong is not None:
        return _mark(wrong), f"{said}: {wrong.message}"
    return "yes", f"{said}, beside max_completion_length {settings.get('max_completion_length')}"


def _group_size(settings: Settings, plan: Plan | None) -> Told:
    group = settings.get("num_generations")
    memory = plan.memory if plan is not None else None
    device = memory.device if memory is not None else None
    if memory is None or device is None or not is_number(group):
        why = "the model's sizes are unknown" if memory is None else "there is no GPU to fit it on"
        if plan is None:
            why = "not planned before the errors are fixed"
        return "idle", f"num_generations {group}; {why}"
    said = f"about {size(memory.peak_bytes)} of {size(device.room_bytes)} ({device.name})"
    return "yes" if memory.fits else "no", f"num_generations {group}: {said}"


def _logging(settings: Settings, findings: Sequence[Finding]) -> Told:
    named = settings.get("report_to") or ()
    trackers = [name for name in ([named] if isinstance(named, str) else list(named)) if name != "none"]
    wrong = [f for f in findings if f.field == "report_to" and f.severity == "error"]
    if wrong:
        return "no", wrong[0].message
    every = settings.get("logging_steps")
    kept = "every step and completion is kept in run.db"
    if not trackers:
        return "idle", f"no tracker is set; {kept}"
    return "yes", f"{', '.join(map(str, trackers))} every {every:g} steps; {kept}"
