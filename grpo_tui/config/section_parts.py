"""Parse the parts of the section with rules of their own: `evaluate`, `health`, `notify` and `on`."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from grpo_tui.config.meant import nearest
from grpo_tui.config.section import (
    EVALUATE_KEYS,
    NOTIFY_KEYS,
    NOTIFY_ON,
    RULE_DOES,
    Evaluate,
    Notify,
    OnRule,
    Section,
)
from grpo_tui.core.findings import RULES, Finding, Fix
from grpo_tui.core.statistics import FEWEST_PROMPTS

if TYPE_CHECKING:
    from grpo_tui.config.section_reader import KeyPath, SectionValues

MOST_STEPS = 50
"""Number of steps that a run's state keeps individually (`health.course.RECENT`)."""


def read_health(values: SectionValues, value: Any) -> dict[str, dict[str, float] | None]:
    """Parse limits by rule and add a finding to `values` for each invalid one.

    A rule is written `policy.kl: {ratio: 10}`, or nested as `policy: {kl: {ratio: 10}}`, which `--set`
    produces.
    """
    if value is False:
        return dict.fromkeys(RULES)
    what = "must map rules to limits, such as `policy.truncation: {share: 0.7}`"
    value = values.mapping(("health",), value, what) or {}
    before = len(values.findings)
    found: dict[str, dict[str, float] | None] = {}
    for path, name, limits in _health_rules(value):
        if name not in RULES:
            near = nearest(name, RULES, cutoff=0.5)
            hint = f"Did you mean {near}?" if near else "docs/diagnosis.md lists the rules"
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


def _health_rules(value: Mapping[Any, Any]) -> Iterator[tuple[KeyPath, str, Any]]:
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


NOTIFY = "grpo_tui.notify"
NOTIFY_ALIASES = {"cmd": "command", "hook": "webhook", "run": "command", "slack": "webhook", "url": "webhook"}
"""Common wrong names of the keys."""
_VARIABLE = re.compile(r"\$(\w+)|\$\{(\w+)\}")


def variable_of(webhook: str) -> str | None:
    """Return the environment variable that `$NAME` names, None for a URL."""
    named = _VARIABLE.fullmatch(webhook)
    return (named[1] or named[2]) if named is not None else None


def is_web(url: str) -> bool:
    """Return whether a text is an http or https URL."""
    return re.fullmatch(r"https?://[^\s/?#]+\S*", url, re.IGNORECASE) is not None


def read_notify(values: SectionValues, value: Any) -> Notify | None:
    """Parse the notifications and add a finding to `values` for each invalid setting.

    No finding may quote the webhook, which is a secret.
    """
    value = values.mapping(("notify",), value, "must be a mapping with command or webhook")
    if value is None:
        return None
    before = len(values.findings)
    values.refuse_unknown(("notify",), value, NOTIFY_KEYS, NOTIFY_ALIASES)
    unknown = len(values.findings) > before
    notify = Notify(
        _on(values, value),
        values.text(("notify", "command"), value.get("command")) or None,
        _webhook(values, value.get("webhook")),
    )
    if not unknown and not value.get("command") and not value.get("webhook"):
        values.error("section.missing", ("notify",), f"{NOTIFY} needs command or webhook")
    # The fix for a misnamed key would show the URL.
    values.findings[before:] = [replace(finding, fix=None) for finding in values.findings[before:]]
    return notify


def _on(values: SectionValues, value: Mapping[Any, Any]) -> tuple[str, ...]:
    if value.get("on") is None:
        return Notify().on
    items = value["on"] if isinstance(value["on"], list) else [value["on"]]
    wrong = [item for item in items if item not in NOTIFY_ON]
    if wrong or not items:
        known = ", ".join(NOTIFY_ON)
        said = f"{NOTIFY}.on must be a list of {known}; it is {value['on']!r}"
        values.error("section.choice", ("notify", "on"), said)
        return Notify().on
    return tuple(dict.fromkeys(items))


def _webhook(values: SectionValues, value: Any) -> str | None:
    path = ("notify", "webhook")
    if value is None:
        return None
    if not isinstance(value, str) or not (variable_of(value) or is_web(value)):
        said = f"{NOTIFY}.webhook must be an http or https URL, or $NAME of an environment variable"
        values.error("section.type", path, said)
        return None
    name = variable_of(value)
    if name is not None and not is_web(os.environ.get(name, "")):
        fault = "is not set" if not os.environ.get(name) else "does not hold an http or https URL"
        said = f"{NOTIFY}.webhook: the environment variable {name} {fault}. Set it before you start the run"
        values.warn("section.webhook", path, said)
    return value


EVALUATE = "grpo_tui.evaluate"
EVALUATE_ALIASES = {
    "count": "samples",
    "interval": "every",
    "num_generations": "samples",
    "pass_at": "k",
    "prompts": "rows",
    "steps": "every",
}
"""Common wrong names of the keys."""
COUNTED = {"every": "steps", "rows": "rows", "samples": "completions", "k": "completions"}


def read_evaluate(values: SectionValues, value: Any) -> Evaluate | None:
    """Parse the settings and add a finding to `values` for each invalid one."""
    path = ("evaluate",)
    value = values.mapping(path, None if value is False else value, "must be a mapping, such as `every: 50`")
    if value is None:
        return None
    before = len(values.findings)
    values.refuse_unknown(path, value, EVALUATE_KEYS, EVALUATE_ALIASES)
    found = Evaluate(**values.counts(path, value, COUNTED, ("samples", "k")))
    if any(finding.severity == "error" for finding in values.findings[before:]):
        return None
    if found.pass_k > found.samples:
        said = (
            f"{EVALUATE}.k is {found.k}, but each prompt gets {found.samples} completions. Lower k, or raise "
            "samples"
        )
        values.error("section.conflict", ("evaluate", "k"), said, Fix(f"{EVALUATE}.samples", found.pass_k))
        return None
    return found


def judge_evaluate(values: SectionValues, section: Section) -> None:
    """Add findings about conflicts between `evaluate` and the rest of the section."""
    wanted = section.evaluate
    if wanted is None:
        return
    top = values.document.values
    tested = str(top.get("eval_strategy", "no")) not in ("no", "False")
    if not section.holdout and section.eval_dataset is None and not tested:
        said = (
            f"{EVALUATE} asks held-out rows, and the config has none. Set grpo_tui.holdout to "
            f"{max(40, wanted.rows)} or so, or grpo_tui.eval_dataset"
        )
        values.error("section.conflict", ("evaluate",), said, Fix("grpo_tui.holdout", max(40, wanted.rows)))
        return
    if section.holdout and wanted.rows > section.holdout:
        said = (
            f"{EVALUATE}.rows is {wanted.rows}, but only {section.holdout} rows are held out, so "
            f"{section.holdout} are asked. Raise grpo_tui.holdout"
        )
        _warn_of_evaluate(values, "rows", said, Fix("grpo_tui.holdout", wanted.rows))
    asked = min(wanted.rows, section.holdout) if section.holdout else wanted.rows
    if asked < FEWEST_PROMPTS:
        said = (
            f"{EVALUATE} asks {asked} rows. No gain is shown on fewer than {FEWEST_PROMPTS}: raise rows, and "
            "grpo_tui.holdout with it"
        )
        _warn_of_evaluate(values, "rows", said)


def _warn_of_evaluate(values: SectionValues, key: str, said: str, fix: Fix | None = None) -> None:
    path = ("evaluate", key) if values.written(("evaluate", key)) is not None else ("evaluate",)
    found = Finding("section.evaluate", "warning", f"{EVALUATE}.{key}", values.line(path), said, fix)
    values.findings.append(found)


ON = "grpo_tui.on"
ON_KEYS = ("when", "do")
ON_ALIASES = {
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
    return tuple(_on_rules(values, values.listed(("on",), value, "must be a list of {when, do}")))


def _on_rules(values: SectionValues, items: list[Any]) -> Iterator[OnRule]:
    for place, item in enumerate(items):
        path = ("on", place)
        if not isinstance(item, dict):
            values.wrong(path, f"must be {{when, do}}; it is {item!r}")
            continue
        values.refuse_unknown(path, item, ON_KEYS, ON_ALIASES)
        missing = [key for key in ON_KEYS if item.get(key) is None]
        if missing:
            if set(item) <= set(ON_KEYS):
                values.error("section.missing", path, f"{ON}.{place} needs {' and '.join(missing)}")
            continue
        when, do = str(item["when"]), str(item["do"])
        condition = values.condition((*path, "when"), when, f"{ON}.{place}")
        if condition is None:
            continue
        if do not in RULE_DOES:
            near = nearest(do, RULE_DOES, cutoff=0.5)
            fix = Fix(f"{ON}.{place}.do", near) if near else Fix(f"{ON}.{place}", None)
            said = f"{ON}.{place}.do must be pause or stop; it is {do!r}"
            values.error("section.choice", (*path, "do"), said, fix)
            continue
        if condition.kind in ("metric", "gain"):
            never = "This rule never acts"
            warn_of_unknown(values, (*path, "when"), condition.name, never, "this rule only acts")
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
            values.warn("section.metric", path, said)
        return
    known = [metric.key for metric in METRICS if not metric.computed]
    if name.removeprefix("eval_") in known or name.startswith(("rewards/", "eval_rewards/")):
        return
    near = nearest(name, known)
    hint = f" Did you mean {near}?" if near else ""
    said = f"TRL logs no metric named {name}, so {only} if a reward logs it with log_metric.{hint}"
    values.warn("section.metric", path, said)
