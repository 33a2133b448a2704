"""Findings from what a function takes: TRL's call would fail, or a parameter stays empty without a word.

The rules are `contract.signature_faults`, which training applies too. It calls no reward.
"""

from __future__ import annotations

from collections.abc import Collection

from grpo_tui.config.removed import nearest
from grpo_tui.core.findings import Finding, Fix
from grpo_tui.rewards.checks.source_text import RewardSource
from grpo_tui.rewards.contract import ALWAYS, NOT_PASSED, near_column, signature_faults
from grpo_tui.rewards.score_report import BLANK, FunctionInfo


def signature_findings(info: FunctionInfo, columns: Collection[str]) -> list[Finding]:
    """Return what is wrong with a function's parameters for data with these columns.

    Args:
        info: the function as loaded.
        columns: columns of the dataset, or of the samples where there is no dataset.
    """
    if info.parameters is None:
        return []
    parameters = {p.name: p for p in info.parameters}
    found = [
        Finding(
            f"rewards.{fault.rule}",
            "error" if fault.fatal else "warning",
            info.name,
            info.line,
            fault.message,
            Fix("grpo_tui.columns", {fault.parameter: fault.near}) if fault.near else None,
        )
        for fault in signature_faults(info.name, parameters, columns, _place(info))
    ]
    found += [_near_finding(info, name, near) for name, near in _near_defaults(info, columns)]
    return found + _unfilled_keys(info, columns)


def _unfilled_keys(info: FunctionInfo, columns: Collection[str]) -> list[Finding]:
    """Keys it reads from its keyword arguments that TRL does not pass, while a column may be meant."""
    if not info.file_text:
        return []
    others = [column for column in columns if column not in NOT_PASSED]
    found = []
    for key, line in RewardSource(info.file_text, info.line).keys_of_kwargs().items():
        near = None if key in others or key in ALWAYS else near_column(key, columns)
        if near is not None:
            message = (
                f"reward '{info.name}' reads {key} from its keyword arguments, but the dataset has no such "
                f"column; the nearest is {near}"
            )
            fix = Fix("grpo_tui.columns", {key: near})
            found.append(Finding("rewards.unfilled-default", "warning", info.name, line, message, fix))
    return found


def _near_defaults(info: FunctionInfo, columns: Collection[str]) -> list[tuple[str, str]]:
    """Parameters with a default of their own, not from the config, whose name is almost that of a column."""
    others = [column for column in columns if column not in NOT_PASSED]
    found = []
    for p in info.parameters or ():
        if p.default in (..., BLANK) and p.name not in others and p.name not in info.params:
            blank = p.default == BLANK
            near = near_column(p.name, columns) if blank else nearest(p.name, others, cutoff=0.75)
            if near is not None:
                found.append((p.name, near))
    return found


def _near_finding(info: FunctionInfo, parameter: str, near: str) -> Finding:
    return Finding(
        "rewards.unfilled-default",
        "warning",
        info.name,
        info.line,
        f"reward '{info.name}': its parameter {parameter} keeps its default, for the dataset has no such "
        f"column; the nearest is {near}",
        Fix("grpo_tui.columns", {parameter: near}),
    )


def _place(info: FunctionInfo) -> str:
    return f" ({info.file.rpartition('/')[2]}:{info.line})" if info.file and info.line else ""
