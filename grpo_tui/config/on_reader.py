"""Parse `grpo_tui.on`, the conditions that pause or stop a run."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from grpo_tui.config.section import RULE_DOES, OnRule
from grpo_tui.core.findings import Finding, Fix

if TYPE_CHECKING:
    from grpo_tui.config.section_reader import KeyPath, SectionValues

KEY = "grpo_tui.on"
KEYS = ("when", "do")
ALIASES = {
    "action": "do",
    "condition": "when",
    "finding": "when",
    "if": "when",
    "metric": "when",
    "then": "do",
}
"""Common wrong names of the keys."""


def read_on(values: SectionValues, value: Any) -> tuple[OnRule, ...]:
    """Parse the rules and add a finding to `values` for each invalid one."""
    if value is None:
        return ()
    if not isinstance(value, list):
        values.error("section.type", ("on",), f"{KEY} must be a list of {{when, do}}")
        return ()
    return tuple(_rules(values, value))


def _rules(values: SectionValues, items: list[Any]) -> Iterator[OnRule]:
    from grpo_tui.core.conditions import ConditionError, parse

    for place, item in enumerate(items):
        path = ("on", place)
        if not isinstance(item, dict):
            values.error("section.type", path, f"{KEY}.{place} must be {{when, do}}; it is {item!r}")
            continue
        values.refuse_unknown(path, item, KEYS, ALIASES)
        missing = [key for key in KEYS if item.get(key) is None]
        if missing:
            if set(item) <= set(KEYS):
                values.error("section.missing", path, f"{KEY}.{place} needs {' and '.join(missing)}")
            continue
        when, do = str(item["when"]), str(item["do"])
        without = Fix(f"{KEY}.{place}", None)
        try:
            condition = parse(when)
        except ConditionError as error:
            fix = Fix(f"{KEY}.{place}.when", error.meant) if error.meant else without
            said = f"{KEY}.{place}.when is {when!r}, which is not a condition. {error}"
            values.error("section.choice", (*path, "when"), said, fix)
            continue
        if do not in RULE_DOES:
            near = difflib.get_close_matches(do.lower(), RULE_DOES, n=1, cutoff=0.5)
            fix = Fix(f"{KEY}.{place}.do", near[0]) if near else without
            said = f"{KEY}.{place}.do must be pause or stop; it is {do!r}"
            values.error("section.choice", (*path, "do"), said, fix)
            continue
        if condition.kind in ("metric", "gain"):
            warn_of_unknown(
                values, (*path, "when"), condition.name, "This rule never acts", "this rule only acts"
            )
        yield OnRule(when, do)


def warn_of_unknown(values: SectionValues, path: KeyPath, name: str, never: str, only: str) -> None:
    """Warn about a metric that is never logged, because nothing else would say so.

    Args:
        never: Start of a sentence, such as `This rule never acts`.
        only: The same with `only`, to continue with a condition.
    """
    from grpo_tui.core.metrics import EVALUATED, METRICS

    if name.startswith(EVALUATED):
        if not isinstance(values.written(("evaluate",)), dict):
            said = f"{never}: {name} comes from evaluations. Set grpo_tui.evaluate"
            _warn(values, path, said)
        return
    known = [metric.key for metric in METRICS if not metric.computed]
    if name.removeprefix("eval_") in known or name.startswith(("rewards/", "eval_rewards/")):
        return
    near = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.6)
    hint = f" Did you mean {near[0]}?" if near else ""
    said = f"TRL logs no metric named {name}, so {only} if a reward logs it with log_metric.{hint}"
    _warn(values, path, said)


def _warn(values: SectionValues, path: KeyPath, said: str) -> None:
    values.findings.append(
        Finding("section.metric", "warning", ".".join(["grpo_tui", *map(str, path)]), values.line(path), said)
    )
