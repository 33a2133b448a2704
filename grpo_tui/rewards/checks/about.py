"""A finding about one function, placed at the line where it is defined. Knows no rule."""

from __future__ import annotations

from grpo_tui.core.findings import Finding, Severity
from grpo_tui.rewards.score_report import FunctionScore


def about(
    rule: str, severity: Severity, result: FunctionScore, message: str, line: int | None = None
) -> Finding:
    """A finding whose sentence begins with the function.

    Args:
        rule: the finding's id.
        severity: its severity.
        result: what the function gave.
        message: the sentence after the function's name.
        line: the line concerned; that of the function when None.
    """
    name = result.info.name
    return Finding(rule, severity, name, line or result.info.line, f"reward '{name}' {message}")
