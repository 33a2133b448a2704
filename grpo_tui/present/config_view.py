"""What the pane Config says of an open config: rows of the form, findings, notes, a field in words."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from grpo_tui.core.findings import SEVERITIES, Finding

if TYPE_CHECKING:
    from grpo_tui.config.draft import Problem
    from grpo_tui.core.findings import Finding, Severity


@dataclass(frozen=True, slots=True)
class FieldHelp:
    """What is said of one field.

    Attributes:
        name: the field.
        facts: type, choices and default, each a few words.
        findings: what was found of it, errors first.
        advice: what we would do, and why.
        help: TRL's own text.
    """

    name: str
    facts: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    advice: tuple[str, ...] = ()
    help: str = ""


Origin = Literal["file", "preset", "default", "set", "edited"]
"""Where a value comes from; `edited` is one that differs from the saved file."""
NO_FIELD = "not a field of TRL or grpo_tui"
"""The group of keys that nobody knows."""


@dataclass(frozen=True, slots=True)
class FieldRow:
    """One line of the form."""

    name: str
    group: str
    value: str
    """On one line, safe to show, never cut."""
    number: bool
    """Whether it is set at the right, as numbers are."""
    origin: Origin
    severity: Severity | None
    """The worst that was found of it."""
    leading: bool
    """One of the few of its group that matter."""


@dataclass(frozen=True, slots=True)
class GroupRow:
    """The title of a group in the form."""

    title: str
    shown: int
    all: int
    open: bool
    """Whether every field of it shows."""


FormRow = FieldRow | GroupRow


@dataclass(frozen=True, slots=True)
class ConfigView:
    """An open config.

    Attributes:
        title: the file's name, or what it is made from.
        path: the file; None for a config that was never saved.
        fields: every field, in the order of groups.
        findings: all that was found, errors first.
        unsaved: whether it differs from the file.
        broken: why the text cannot be read, with its place; None when it can.
        lines: line of a field in the text, from 1, for those that stand in it.
        whole: whether everything that is found at once was looked for.
    """

    title: str
    path: Path | None
    fields: tuple[FieldRow, ...]
    findings: tuple[Finding, ...]
    unsaved: bool
    broken: Problem | None
    lines: Mapping[str, int]
    whole: bool = True

    def counts(self) -> tuple[int, int]:
        """Errors and warnings."""
        found = [finding.severity for finding in self.findings]
        return found.count("error"), found.count("warning")


def form_rows(
    fields: Sequence[FieldRow], opened: Collection[str], found: Collection[str] | None = None
) -> list[FormRow]:
    """The lines of the form: groups and their fields.

    Args:
        fields: every field, in the order of groups.
        opened: groups that show all of their fields; the others show the few that matter, what is set, and
            what something was found of.
        found: names that a search has found; only these show, all groups open.
    """
    rows: list[FormRow] = []
    for title in dict.fromkeys(row.group for row in fields):
        whole = [row for row in fields if row.group == title]
        if found is not None:
            kept = [row for row in whole if row.name in found]
        elif title in opened:
            kept = whole
        else:
            kept = [row for row in whole if shows(row)]
        if kept or found is None:
            rows.append(GroupRow(title, len(kept), len(whole), title in opened))
            rows += kept
    return rows


def shows(field: FieldRow) -> bool:
    """Whether a field shows in a group that is not open."""
    return field.leading or field.origin != "default" or field.severity in ("error", "warning")


def worst(findings: Sequence[Finding]) -> Severity | None:
    """The worst severity among findings."""
    return min((f.severity for f in findings), key=SEVERITIES.index, default=None)


def field_of(finding: Finding, names: Collection[str]) -> str | None:
    """The field of the form that a finding is about: `model_init_kwargs.dtype` belongs to its first word."""
    name = finding.field
    while name:
        if name in names:
            return name
        name = name.rpartition(".")[0]
    return None


def notes(findings: Sequence[Finding]) -> dict[int, tuple[str, str]]:
    """What to write beside the lines of the text: line to severity and sentence, the worst of each line."""
    beside: dict[int, tuple[str, str]] = {}
    for finding in sorted(findings, key=lambda f: SEVERITIES.index(f.severity)):
        if finding.line is not None and finding.severity != "info":
            beside.setdefault(finding.line, (finding.severity, finding.message))
    return beside
