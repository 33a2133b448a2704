"""Evaluate the text of an open config for the Config pane, and format and parse field values.

A pure function of a snapshot, so that a thread can run it while the user keeps typing. It loads neither model
nor data. The pane itself imports only `config_view`: importing all of `config` would delay its first paint.
"""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from grpo_tui.config.accelerate_file import AccelerateFileError, ranks_of
from grpo_tui.config.coerce import CoerceError, kinds_of
from grpo_tui.config.document import UnreadableError, parse_document
from grpo_tui.config.draft import Draft, value_of_words
from grpo_tui.config.fields import GROUPS, SECTION, FieldValue, all_fields, grouped, top_field
from grpo_tui.config.plan.making import Plan, Surroundings, plan
from grpo_tui.config.plan.memory import Device
from grpo_tui.config.plan.model import ModelShape
from grpo_tui.config.resolve import Inspected
from grpo_tui.config.section import Section
from grpo_tui.config.trl_fields import FieldsUnavailableError, NoDefault
from grpo_tui.config.yaml_edit import get_value, split_key
from grpo_tui.config.yaml_edit_values import block_lines, inline
from grpo_tui.core.findings import Finding, errors_first
from grpo_tui.core.statistics import is_number
from grpo_tui.core.text import one_line
from grpo_tui.present.config_view import NO_FIELD, FieldRow, OpenConfig, Origin, Snapshot, worst

Kind = Literal["toggle", "choose", "line", "text", "yaml"]


@dataclass(frozen=True, slots=True)
class Way:
    """How one field is edited."""

    kind: Kind
    text: str
    choices: tuple[str, ...] = ()


def as_written(value: FieldValue) -> Any:
    """Return a field's value as the user would write it. Text that is parsed as another type is converted."""
    if value.origin == "default" or (isinstance(value.written, str) and not isinstance(value.value, str)):
        return value.value
    return value.written  # for example a path that a start would make absolute


def way_of(value: FieldValue) -> Way:
    """Return how a field is edited, given its current value."""
    kinds = kinds_of(value.info.annotation)
    now = as_written(value)
    if kinds == {"bool"}:
        return Way("toggle", words_of(now))
    several = "dict" in kinds or any(kind.startswith("list") for kind in kinds)
    if value.choices and not several:
        return Way("choose", words_of(now), value.choices)
    if several or isinstance(now, list | dict):
        block = isinstance(now, list | dict) and now
        return Way("yaml", "\n".join(block_lines(now, 0, 2)) if block else words_of(now))
    long = isinstance(now, str) and "\n" in now
    if long or value.name == "grpo_tui.system_prompt":
        return Way("text", now if isinstance(now, str) else "")
    return Way("line", words_of(now))


def words_of(value: Any) -> str:
    """Return a value as the user would type it; empty for None."""
    if value is None or isinstance(value, NoDefault):
        return ""
    return value if isinstance(value, str) else inline(value)


def in_lines(text: str) -> str:
    """Indent multi-line YAML as it would be below its key."""
    return "\n".join(f"  {line}" if line.strip() else "" for line in text.split("\n")) + "\n"


def refusal(name: str, words: str, kind: Kind = "line") -> str:
    """Return why the typed text is invalid for a field; empty when it is valid. No text is the default."""
    if not words.strip():
        return ""
    try:
        value_of_words(name, in_lines(words) if kind == "yaml" else words)
    except CoerceError as error:
        return str(error)
    return ""


TAKEN = ("folder.run", "folder.live")
"""Rules about a folder that holds a run. Their fix is the next free name beside it."""


def start_beside(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return the findings for a start in a free folder beside a run: its error becomes a warning."""
    return tuple(_beside(found) if found.id in TAKEN else found for found in findings)


def _beside(found: Finding) -> Finding:
    folder = free_folder((found,))
    if folder is None:
        return found
    return replace(found, severity="warning", message=f"{found.message}. R starts in {folder.name} beside it")


def free_folder(findings: Iterable[Finding]) -> Path | None:
    """Return the free folder beside the run that is in the way; None without such a run."""
    fixes = [found.fix for found in findings if found.id in TAKEN and found.fix is not None]
    return next((Path(str(fix.value)) for fix in fixes), None)


MOST_VALUE = 400

Judge = Callable[[Snapshot, Inspected], Iterable[Finding]]
"""Returns findings about a config beyond those of parsing it."""
Planner = Callable[[Snapshot, Inspected], "Plan | None"]


def evaluate(
    snapshot: Snapshot,
    before: OpenConfig | None = None,
    judge: Judge | None = None,
    planner: Planner | None = None,
) -> OpenConfig:
    """Evaluate a snapshot.

    Args:
        before: The previous state. Its fields are kept if the text cannot be parsed.
        judge: Adds findings beyond those of parsing.
        planner: Plans for a machine. Without it the plan is based on the config alone.
    """
    draft = read(snapshot)
    problem, inspected = draft.problem, draft.inspected
    found = judge(snapshot, inspected) if judge is not None and problem is None else inspected.findings
    findings = tuple(errors_first(found))
    try:
        values = draft.values()
    except FieldsUnavailableError:
        values = {}
    if problem is None:
        fields = _rows(snapshot, inspected, values, findings)
        planned = planner(snapshot, inspected) if planner is not None else None
        planned = planned or plan_of_parts(inspected)
    elif before is not None:
        values, fields, planned = before.values, before.fields, before.plan
    else:
        fields, planned = (), None
    return OpenConfig(
        snapshot=snapshot,
        inspected=inspected,
        values=values,
        fields=fields,
        findings=findings,
        broken=problem,
        lines=_lines(inspected),
        plan=planned,
        whole=judge is not None or problem is not None,
    )


def read(snapshot: Snapshot) -> Draft:
    """Parse the text for as many processes as the launcher starts."""

    def ranks(section: Section) -> int | None:
        try:
            return ranks_of(launcher_of(snapshot, section))
        except AccelerateFileError:  # reported by the check of the launcher
            return None

    return Draft(
        snapshot.text,
        snapshot.path,
        preset=snapshot.preset,
        overrides=snapshot.overrides,
        world_size=ranks,
    )


def launcher_of(snapshot: Snapshot, section: Section) -> tuple[str, ...]:
    """Return the command that starts the training processes; empty for one process."""
    return snapshot.launcher or tuple(shlex.split(section.launcher or ""))


def plan_of_parts(
    inspected: Inspected, shape: ModelShape | None = None, device: Device | None = None
) -> Plan | None:
    """Return the plan of a config that may be incomplete: invalid values count as defaults."""
    settings = inspected.settings
    if not settings.fields:
        return None
    try:
        return plan(settings, Surroundings(settings.world_size or 1, model=shape, device=device))
    except (ArithmeticError, ValueError, TypeError):
        return None


def _lines(inspected: Inspected) -> dict[str, int]:
    return {
        ".".join(map(str, path)): line
        for path, line in inspected.settings.document.lines.items()
        if len(path) < 3 and all(isinstance(part, str) for part in path)
    }


def _rows(
    snapshot: Snapshot,
    inspected: Inspected,
    values: Mapping[str, FieldValue],
    findings: tuple[Finding, ...],
) -> tuple[FieldRow, ...]:
    saved = {} if snapshot.saved is None else _values(snapshot.saved)
    said: dict[str, list[Finding]] = {}
    for finding in findings:
        if finding.field:
            said.setdefault(top_field(finding.field), []).append(finding)
    rows = [
        FieldRow(name, NO_FIELD, shown(value), False, "file", worst(said.get(name, [])), True)
        for name, value in _unknown(inspected.settings.document.values, values)
    ]
    titles = {group.id: group.title for group in GROUPS}
    for group, members in grouped(values, {name: value.info for name, value in values.items()}).items():
        for name in members:
            value = values[name]
            written = value.origin != "default"
            rows.append(
                FieldRow(
                    name=name,
                    group=titles[group],
                    value=shown(as_written(value)) if written else value.default,
                    number=is_number(as_written(value)) if written else is_number(value.info.default),
                    origin=_origin(value, inspected, saved, new=snapshot.saved is None),
                    severity=worst(said.get(name, [])),
                    leading=value.matters,
                )
            )
    return tuple(rows)


def _unknown(values: Mapping[str, Any], known: Mapping[str, FieldValue]) -> list[tuple[str, Any]]:
    section = values.get(SECTION)
    found = [(str(key), value) for key, value in values.items() if key != SECTION]
    if isinstance(section, Mapping):
        found += [(f"{SECTION}.{key}", value) for key, value in section.items()]
    elif section is not None:
        found.append((SECTION, section))
    return [(key, value) for key, value in found if key not in known]


def _origin(value: FieldValue, inspected: Inspected, saved: Mapping[str, Any] | None, *, new: bool) -> Origin:
    """Return where a value comes from. `saved` is None when the file on disk cannot be read as YAML."""
    if value.origin == "--set":
        return "set"
    if saved is None:
        return value.origin
    if new:
        return "edited" if value.origin == "file" else value.origin
    absent = object()
    path = split_key(value.name)
    now = get_value(inspected.settings.document.values, path, absent)
    before = get_value(saved, path, absent)
    return "edited" if now != before else value.origin


@lru_cache(maxsize=8)
def _values(text: str) -> Mapping[str, Any] | None:
    try:
        return parse_document(text, loose=True).values
    except UnreadableError:
        return None


def shown(value: Any) -> str:
    """Format a value on one line, as it would appear in a file."""
    if value is None:
        return "none"
    if isinstance(value, str):
        return one_line(value[: 2 * MOST_VALUE], MOST_VALUE) if value else "''"
    return one_line(inline(value), MOST_VALUE)


def read_fields() -> None:
    """Read TRL's fields from its source in advance, so that the first config does not wait for it."""
    with contextlib.suppress(FieldsUnavailableError):
        all_fields()
