"""The list to go through before training, each item held against what was found.

The five items are those of the practice the project follows; an item that could not be looked at is idle,
never ticked. Knows the result so far, and looks at nothing itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from grpo_tui.config.plan import Plan
from grpo_tui.config.rules import Settings
from grpo_tui.core.findings import Finding
from grpo_tui.core.statistics import is_number
from grpo_tui.preflight.facts import DataFacts, Facts
from grpo_tui.preflight.report import ChecklistItem, Mark
from grpo_tui.preflight.rewards import RewardLook
from grpo_tui.present.formatting import plural, size

FORMAT = "Validate dataset format (prompts as messages)"
REWARDS = "Test reward functions on sample data"
LENGTHS = "Calculate the longest prompt from the data"
GROUP = "Choose num_generations by GPU memory"
LOGGING = "Set up logging"
_ROW_RULES = ("data.", "tokenizer.")


def checklist(
    settings: Settings,
    findings: Sequence[Finding],
    facts: Facts,
    rewards: RewardLook | None,
    plan: Plan | None,
) -> tuple[ChecklistItem, ...]:
    """Return the items in their order.

    Args:
        settings: the config.
        findings: everything found so far.
        facts: what is known of the data; its part is None when it was not looked at.
        rewards: the look at the rewards, None when there was none.
        plan: what the run comes to.
    """
    return (
        _format(findings, facts),
        _rewards(findings, rewards),
        _lengths(settings, findings, facts.data),
        _group(settings, plan),
        _logging(settings, findings),
    )


def _item(text: str, mark: Mark, evidence: str) -> ChecklistItem:
    return ChecklistItem(text, mark, evidence)


def _errors(findings: Sequence[Finding], *prefixes: str) -> list[Finding]:
    return [f for f in findings if f.severity == "error" and f.id.startswith(prefixes)]


def _format(findings: Sequence[Finding], facts: Facts) -> ChecklistItem:
    data = facts.data
    if data is None:
        return _item(FORMAT, "idle", "the data was not read")
    wrong = _errors(findings, *_ROW_RULES)
    if data.problem or wrong:
        return _item(FORMAT, "no", wrong[0].message if wrong else data.problem)
    rows = f"{data.looked_at:,} rows"
    if data.sampled:
        rows += f" of {data.total:,}" if data.total is not None else " of a stream"
    if data.form == "messages":
        return _item(FORMAT, "yes", f"{rows}, all prompts are messages")
    quoted = next((f for f in findings if f.id == "data.quoted-messages"), None)
    if quoted is not None:
        return _item(FORMAT, "no", quoted.message)
    if any(f.id == "tokenizer.string-prompts" for f in findings):
        return _item(FORMAT, "no", f"{rows}, all prompts are plain text, and the model has a chat template")
    if facts.tokenizer is not None and facts.tokenizer.has_template:
        return _item(FORMAT, "yes", f"{rows}, all prompts are text written with the template's own marks")
    return _item(FORMAT, "yes", f"{rows}, all prompts are plain text, which a model without a template takes")


def _rewards(findings: Sequence[Finding], rewards: RewardLook | None) -> ChecklistItem:
    if rewards is None:
        return _item(REWARDS, "idle", "the rewards were not called")
    wrong = _errors(findings, "rewards.")
    if wrong:
        return _item(REWARDS, "no", wrong[0].message)
    if not rewards.looked:
        return _item(REWARDS, "idle", "the rewards were not called")
    names = ", ".join(rewards.functions)
    return _item(
        REWARDS, "yes", f"{names}: {plural(rewards.scored, 'completion')} with gold and wrong answers"
    )


def _lengths(settings: Settings, findings: Sequence[Finding], data: DataFacts | None) -> ChecklistItem:
    lengths = data.prompt_tokens if data is not None else None
    if lengths is None:
        return _item(LENGTHS, "idle", "no prompt was counted")
    said = f"p50 {lengths.p50:,}, p99 {lengths.p99:,}, longest {lengths.most:,} tokens"
    wrong = [f for f in findings if f.id in ("data.too-long", "data.no-room")]
    if wrong:
        return _item(LENGTHS, "no", f"{said}: {wrong[0].message}")
    return _item(
        LENGTHS, "yes", f"{said}, beside max_completion_length {settings.get('max_completion_length')}"
    )


def _group(settings: Settings, plan: Plan | None) -> ChecklistItem:
    group = settings.get("num_generations")
    memory = plan.memory if plan is not None else None
    device = memory.device if memory is not None else None
    if memory is None or device is None or not is_number(group):
        why = "the model's sizes are not known here" if memory is None else "there is no GPU to fit it on"
        return _item(GROUP, "idle", f"num_generations {group}; {why}")
    said = (
        f"num_generations {group}: about {size(memory.peak_bytes)} of {size(device.room_bytes)} "
        f"({device.name})"
    )
    return _item(GROUP, "yes" if memory.fits else "no", said)


def _logging(settings: Settings, findings: Sequence[Finding]) -> ChecklistItem:
    named = settings.get("report_to") or ()
    trackers = [name for name in ([named] if isinstance(named, str) else list(named)) if name != "none"]
    wrong = [f for f in findings if f.field == "report_to" and f.severity == "error"]
    if wrong:
        return _item(LOGGING, "no", wrong[0].message)
    every = settings.get("logging_steps")
    kept = "every step and completion is kept in run.db"
    if not trackers:
        return _item(LOGGING, "yes", kept)
    return _item(LOGGING, "yes", f"{', '.join(map(str, trackers))} every {every:g} steps; {kept}")
