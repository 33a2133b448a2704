"""What judging a run asks of its record beyond metrics and groups, each in one statement."""

from __future__ import annotations

from grpo_tui.store.reader import RunReader


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
