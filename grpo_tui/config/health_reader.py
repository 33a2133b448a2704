"""Parse `grpo_tui.health`: limits of the rules that judge a run, and rules that are turned off."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from grpo_tui.config.section_reader import KeyPath, SectionValues

MOST_STEPS = 50
"""Number of steps that a run's state keeps individually (`health.course.RECENT`)."""


def read_health(values: SectionValues, value: Any) -> dict[str, dict[str, float] | None]:
    """Parse limits by rule and add a finding to `values` for each invalid one.

    A rule is written `policy.kl: {ratio: 10}`, or nested as `policy: {kl: {ratio: 10}}`, which `--set`
    produces.
    """
    if value is None:
        return {}
    from grpo_tui.core.diagnosis import RULES

    if value is False:
        return dict.fromkeys(RULES)
    if not isinstance(value, dict):
        example = "`policy.truncation: {share: 0.7}`"
        values.error(
            "section.type", ("health",), f"grpo_tui.health must map rules to limits, such as {example}"
        )
        return {}
    before = len(values.findings)
    found: dict[str, dict[str, float] | None] = {}
    for path, name, limits in _rules(value):
        if name not in RULES:
            near = difflib.get_close_matches(name.lower(), RULES, n=1, cutoff=0.5)
            hint = f"Did you mean {near[0]}?" if near else "docs/diagnosis.md lists the rules"
            values.error("section.unknown-key", path, f"unknown rule {name} in grpo_tui.health. {hint}")
        elif limits is False:
            found[name] = None
        elif isinstance(limits, dict):
            found[name] = _limits(values, path, limits, RULES[name].limits)
        elif limits is not None and limits is not True:
            told = f"grpo_tui.health: {name} must be a mapping of limits, or false; it is {limits!r}"
            values.error("section.type", path, told)
    # No fixes: a fix names its key with dots, which rule names contain too.
    values.findings[before:] = [replace(finding, fix=None) for finding in values.findings[before:]]
    return found


def _rules(value: Mapping[Any, Any]) -> Iterator[tuple[KeyPath, str, Any]]:
    for key, limits in value.items():
        if "." not in str(key) and isinstance(limits, dict):
            for name, inner in limits.items():
                yield ("health", key, name), f"{key}.{name}", inner
        else:
            yield ("health", key), str(key), limits


def _limits(
    values: SectionValues, path: KeyPath, written: Mapping[Any, Any], known: Mapping[str, float]
) -> dict[str, float]:
    values.refuse_unknown(path, written, tuple(known))
    found: dict[str, float] = {}
    for key, value in written.items():
        limit = values.number((*path, key), value) if key in known else None
        if limit is None:
            continue
        least, most = (1, MOST_STEPS) if key == "steps" else (0, math.inf)
        if least <= limit <= most and math.isfinite(limit):
            found[key] = limit
            continue
        said = f"1 to {MOST_STEPS}" if key == "steps" else "0 or more"
        where = ".".join(map(str, ("grpo_tui", *path, key)))
        values.error("section.range", (*path, key), f"{where} must be {said}; it is {value!r}")
    return found
