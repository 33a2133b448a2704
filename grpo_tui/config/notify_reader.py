"""Parse `grpo_tui.notify`: notifications of findings and of the end of a run.

No finding may quote the webhook, which is a secret.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from grpo_tui.config.section import NOTIFY_KEYS, NOTIFY_ON, Notify
from grpo_tui.core.findings import Finding

if TYPE_CHECKING:
    from grpo_tui.config.section_reader import SectionValues

KEY = "grpo_tui.notify"
ALIASES = {"cmd": "command", "hook": "webhook", "run": "command", "slack": "webhook", "url": "webhook"}
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
    """Parse the notifications and add a finding to `values` for each invalid setting."""
    if value is None:
        return None
    if not isinstance(value, dict):
        values.error("section.type", ("notify",), f"{KEY} must be a mapping with command or webhook")
        return None
    before = len(values.findings)
    values.refuse_unknown(("notify",), value, NOTIFY_KEYS, ALIASES)
    unknown = len(values.findings) > before
    notify = Notify(
        _on(values, value),
        values.text(("notify", "command"), value.get("command")) or None,
        _webhook(values, value.get("webhook")),
    )
    if not unknown and not value.get("command") and not value.get("webhook"):
        values.error("section.missing", ("notify",), f"{KEY} needs command or webhook")
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
        said = f"{KEY}.on must be a list of {known}; it is {value['on']!r}"
        values.error("section.choice", ("notify", "on"), said)
        return Notify().on
    return tuple(dict.fromkeys(items))


def _webhook(values: SectionValues, value: Any) -> str | None:
    path = ("notify", "webhook")
    if value is None:
        return None
    if not isinstance(value, str) or not (variable_of(value) or is_web(value)):
        said = f"{KEY}.webhook must be an http or https URL, or $NAME of an environment variable"
        values.error("section.type", path, said)
        return None
    name = variable_of(value)
    if name is not None and not is_web(os.environ.get(name, "")):
        fault = "is not set" if not os.environ.get(name) else "does not hold an http or https URL"
        said = f"{KEY}.webhook: the environment variable {name} {fault}. Set it before you start the run"
        line = values.line(path)
        values.findings.append(Finding("section.webhook", "warning", f"{KEY}.webhook", line, said))
    return value
