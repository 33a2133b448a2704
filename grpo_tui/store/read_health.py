"""Read what the health rules need beyond metrics and groups, and the findings recorded while training."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from grpo_tui.core.conditions import ON
from grpo_tui.core.exchange import rebuilt
from grpo_tui.core.findings import SEVERITIES, Finding, Remedy, errors_first
from grpo_tui.core.records import ALONE
from grpo_tui.core.text import one_line, prompt_text, shell_word
from grpo_tui.store.reader import RunReader
from grpo_tui.store.replay import replay_of
from grpo_tui.store.values import from_json, object_from, prompt_from

MOST_FINDINGS = 64
LONGEST_NAME = 60
DAMAGED = frozenset({"policy.broke", "policy.collapse", "policy.reward-fell"})
"""Findings about weights that got worse, so that an earlier checkpoint helps."""
RESUME = "resume_from_checkpoint"
"""Field of the remedy that names this checkpoint."""


def training_groups(reader: RunReader) -> list[tuple[int, int]]:
    """Return step and number of every training group, by step. For a divided group, the first part."""
    rows = reader.all(
        "SELECT step, min(id) FROM generation_group WHERE mode = 'train' AND superseded = 0"
        " GROUP BY attempt, batch, idx ORDER BY step, min(id)"
    )
    return [(row[0], row[1]) for row in rows]


def prompt_ranges(reader: RunReader) -> list[tuple[str, int, float, float, int]]:
    """Return key, count, lowest and highest total, and one group of every prompt with known totals.

    A prompt is left out when any of its groups has no finite total.
    """
    if not reader.has("generation_group", "high"):
        return []
    rows = reader.all(
        "SELECT prompt_key, count(DISTINCT attempt || ':' || batch || ':' || idx), min(low), max(high),"
        " min(id) FROM generation_group WHERE mode = 'train' AND superseded = 0"
        " GROUP BY prompt_key HAVING count(low) = count(*) AND count(high) = count(*)"
    )
    return [(row[0], row[1], row[2], row[3], row[4]) for row in rows]


def with_prompts(reader: RunReader, finding: Finding) -> Finding:
    """Name the prompts that a finding knows by their keys, and add the query for their groups."""
    keys = finding.evidence.get("keys")
    if not isinstance(keys, list):
        return finding
    rows = [
        row
        for key in keys
        for row in reader.all(
            "SELECT min(id), prompt FROM generation_group WHERE prompt_key = ? AND mode = 'train'"
            " AND superseded = 0 HAVING count(*) > 0",
            key,
        )
    ]
    evidence = {name: value for name, value in finding.evidence.items() if name != "keys"}
    if not rows:
        return replace(finding, evidence=evidence)
    rows.sort(key=lambda row: row[0])
    names = [one_line(prompt_text(prompt_from(row[1])), LONGEST_NAME) for row in rows]
    groups = " or ".join(f"group == {row[0]}" for row in rows)
    evidence |= {"names": names, "completions": f"{evidence['completions']} and ({groups})"}
    more = "Among them" if _count(evidence.get("prompts")) > len(names) else "They are"
    return replace(finding, evidence=evidence, message=f"{finding.message} {more}: {'; '.join(names)}.")


def _count(value: Any) -> int:
    return value if isinstance(value, int) else 0


_NOT_REPEATED = (
    "NOT EXISTS (SELECT 1 FROM attempt AS later WHERE later.attempt > phase.attempt"
    " AND later.resumed_from < phase.step)"
)
"""Leaves out phases of steps that a later attempt repeated, as their metrics are superseded."""


def phase_seconds(reader: RunReader, first_step: int, width: int) -> list[tuple[int, str, float]]:
    """Return the first rank's seconds as (stretch, phase, seconds), in stretches of `width` steps."""
    rows = reader.all(
        "SELECT (step - :first) / :width, phase, sum(duration_s) FROM phase"
        f" WHERE rank = 0 AND step >= :first AND {_NOT_REPEATED} GROUP BY 1, 2",
        first=first_step,
        width=width,
    )
    return [(row[0], row[1], row[2]) for row in rows]


def rank_seconds(reader: RunReader, first_step: int, width: int) -> list[tuple[int, int, float]]:
    """Return the seconds in which each rank generated, as (stretch, rank, seconds)."""
    rows = reader.all(
        "SELECT (step - :first) / :width, rank, sum(duration_s) FROM phase"
        f" WHERE phase = :phase AND step >= :first AND {_NOT_REPEATED} GROUP BY 1, 2",
        phase=ALONE,
        first=first_step,
        width=width,
    )
    return [(row[0], row[1], row[2]) for row in rows]


def failed_calls(reader: RunReader) -> list[tuple[int, int, int]]:
    """Return step, function and number of reward calls that raised or were aborted."""
    rows = reader.all(
        "SELECT (SELECT min(g.step) FROM generation_group g"
        " WHERE g.attempt = c.attempt AND g.batch = c.batch) AS step, function, count(*)"
        " FROM reward_call c WHERE outcome != 'ok' GROUP BY 1, 2"
    )
    return [(row[0], row[1], row[2]) for row in rows if row[0] is not None]


def rule_that_stopped(reader: RunReader) -> str | None:
    """Return why a rule of `grpo_tui.on` stopped the run, as it said; None when no rule did."""
    stops = [command for command, _ in reader.commands() if command.kind in ("stop", "stop_now")]
    return str(stops[-1].args.get("because") or "") if stops and stops[-1].by == ON else None


def explained(reason: str, findings: Iterable[Finding]) -> tuple[str, str | None]:
    """Add the message of the finding that a reason ends with. Return its id too, if there is one."""
    found = next((one for one in findings if reason.split(" ")[-1] == one.id), None)
    return (f"{reason}. {found.message}", found.id) if found else (reason, None)


def with_checkpoint(reader: RunReader, finding: Finding, complete: Iterable[int]) -> Finding:
    """Add the checkpoint to return to, if the finding is about a damaged policy.

    A checkpoint counts when completions of its policy, or of a later one, were still sound.
    """
    first = finding.first_step
    if finding.id not in DAMAGED or finding.severity == "info" or first is None:
        return finding
    rows = reader.all(
        "SELECT max(step) FROM generation_group WHERE mode = 'train' AND superseded = 0 AND step < ?", first
    )
    sound = first - 1 if rows[0][0] is None else rows[0][0]
    step = max((one for one in complete if one < sound), default=None)
    if step is None:
        remedy = Remedy(f"Start again: there is no complete checkpoint from before step {first:,}", RESUME)
    else:
        name = f"checkpoint-{step}"
        options = f"--resume {step}{_set_back(reader, finding)}"
        told = f"Resume from {name}, the newest one from before the change: `{options}`"
        remedy = Remedy(told, RESUME, name)
    return replace(finding, remedies=(*finding.remedies, remedy))


def resume_options(finding: Finding) -> str | None:
    """Return the `train RUN` options that return to a checkpoint from before a finding.

    Empty when there is no earlier checkpoint, None when the finding does not call for one.
    """
    back = next((one for one in finding.remedies if one.field == RESUME), None)
    return None if back is None else back.text.split("`")[1] if back.value else ""


def _set_back(reader: RunReader, finding: Finding) -> str:
    """Return the option that undoes the setting behind a finding: a resume keeps changed settings."""
    cause, live = finding.evidence.get("cause"), [one for one in finding.remedies if one.live]
    if not isinstance(cause, dict) or not any(one.field == cause["setting"] for one in live):
        return ""
    name, value = cause["setting"], cause["from"]
    earlier = [one for one in reader.lasting_settings() if one.name == name and one.step < cause["step"]]
    if name == "learning_rate" and not earlier:
        began = reader.config("grpo", name)
        value = value if began is None else began  # the schedule may have changed it
    return f" --set {shell_word(f'{name}={json.dumps(value)}')}"


def open_findings(reader: RunReader) -> tuple[Finding, ...]:
    """Return the open findings, worst first. For an ended run, those open at its end.

    In a replay, one whose text has changed since is judged again on what was recorded then. A file of an
    earlier version has none. Rows that cannot be read are left out.
    """
    if not reader.has("finding", "rule"):
        return ()
    rows = reader.all(
        "SELECT * FROM finding WHERE closed_at IS NULL ORDER BY first_step, rule LIMIT ?", MOST_FINDINGS
    )
    found = [_finding(row) for row in rows]
    moment, replay = reader.moment, replay_of(reader.path)
    later = [moment is not None and row["changed_at"] >= moment.before for row in rows]
    if any(later) and replay is not None:
        judged = {one.id: one for one in replay.judge(reader)}
        found = [
            judged.get(row["rule"]) if now else one for row, one, now in zip(rows, found, later, strict=True)
        ]
    return tuple(errors_first(finding for finding in found if finding is not None))


def closed_findings(reader: RunReader) -> tuple[Finding, ...]:
    """Return the findings that have ended, newest first."""
    if not reader.has("finding", "rule"):
        return ()
    rows = reader.all(
        "SELECT * FROM finding WHERE closed_at IS NOT NULL ORDER BY first_step DESC, rule LIMIT ?",
        MOST_FINDINGS,
    )
    return tuple(finding for finding in map(_finding, rows) if finding is not None)


def _finding(row: sqlite3.Row) -> Finding | None:
    severity = next((one for one in SEVERITIES if one == row["severity"]), None)
    steps = (row["first_step"], row["last_step"])
    remedies, evidence = from_json(row["remedies"], list), object_from(row["evidence"])
    if severity is None or remedies is None or not all(isinstance(step, int) for step in steps):
        return None
    if not _is_cause(evidence.get("cause")):
        return None
    try:
        told = tuple(rebuilt(Remedy, remedy) for remedy in remedies)
    except ValueError:
        return None
    return Finding(
        str(row["rule"]),
        severity,
        None,
        None,
        str(row["message"]),
        first_step=steps[0],
        last_step=steps[1],
        evidence=evidence,
        remedies=told,
    )


def _is_cause(value: Any) -> bool:
    """Return whether a value is the change behind a finding, or None."""
    return value is None or (
        isinstance(value, dict)
        and {"setting", "from", "to", "step"} <= value.keys()
        and isinstance(value["setting"], str)
        and isinstance(value["step"], int)
    )
