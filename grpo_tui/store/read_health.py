"""What judging a run asks of its record beyond metrics and groups, and what was found while it trained."""

from __future__ import annotations

import sqlite3

from grpo_tui.core.exchange import rebuilt
from grpo_tui.core.findings import SEVERITIES, Finding, Remedy, errors_first
from grpo_tui.store.reader import RunReader
from grpo_tui.store.values import from_json, object_from

MOST_FINDINGS = 64


def training_groups(reader: RunReader) -> list[tuple[int, int]]:
    """Return step and number of every training group, by step; of one divided over ranks its first part."""
    rows = reader.all(
        "SELECT step, min(id) FROM generation_group WHERE mode = 'train' AND superseded = 0"
        " GROUP BY attempt, batch, idx ORDER BY step, min(id)"
    )
    return [(row[0], row[1]) for row in rows]


def prompt_ranges(reader: RunReader) -> list[tuple[str, int, float, float, int]]:
    """Return key, visits, lowest and highest total, and one group of every prompt whose totals are known.

    A prompt with a group that has no finite total is left out.
    """
    if not reader.has("generation_group", "high"):
        return []
    rows = reader.all(
        "SELECT prompt_key, count(DISTINCT attempt || ':' || batch || ':' || idx), min(low), max(high),"
        " min(id) FROM generation_group WHERE mode = 'train' AND superseded = 0"
        " GROUP BY prompt_key HAVING count(low) = count(*) AND count(high) = count(*)"
    )
    return [(row[0], row[1], row[2], row[3], row[4]) for row in rows]


def phase_seconds(reader: RunReader, first_step: int, width: int) -> list[tuple[int, str, float]]:
    """Return the seconds of the first rank by phase and stretch; stretches of so many steps begin at one."""
    rows = reader.all(
        "SELECT (step - :first) / :width, phase, sum(duration_s) FROM phase"
        " WHERE rank = 0 AND step >= :first GROUP BY 1, 2",
        first=first_step,
        width=width,
    )
    return [(row[0], row[1], row[2]) for row in rows]


def failed_calls(reader: RunReader) -> list[tuple[int, int, int]]:
    """Return step, function and number of the reward calls that raised or were aborted."""
    rows = reader.all(
        "SELECT (SELECT min(g.step) FROM generation_group g"
        " WHERE g.attempt = c.attempt AND g.batch = c.batch) AS step, function, count(*)"
        " FROM reward_call c WHERE outcome != 'ok' GROUP BY 1, 2"
    )
    return [(row[0], row[1], row[2]) for row in rows if row[0] is not None]


def open_findings(reader: RunReader) -> tuple[Finding, ...]:
    """Return the findings that are open, worst first; of an ended run those that were open at its end.

    A file of an earlier version has none, and a row of which a part cannot be read is left out.
    """
    if not reader.has("finding", "rule"):
        return ()
    rows = reader.all(
        "SELECT * FROM finding WHERE closed_at IS NULL ORDER BY first_step, rule LIMIT ?", MOST_FINDINGS
    )
    found = [_finding(row) for row in rows]
    return tuple(errors_first(finding for finding in found if finding is not None))


def _finding(row: sqlite3.Row) -> Finding | None:
    severity = next((one for one in SEVERITIES if one == row["severity"]), None)
    steps = (row["first_step"], row["last_step"])
    remedies = from_json(row["remedies"], list)
    if severity is None or remedies is None or not all(isinstance(step, int) for step in steps):
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
        evidence=object_from(row["evidence"]),
        remedies=told,
    )
