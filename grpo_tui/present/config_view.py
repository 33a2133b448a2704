"""The state of an open config as the Config pane shows it: rows of the form, findings, notes, help."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from grpo_tui.core.findings import SEVERITIES, Finding

if TYPE_CHECKING:
    from grpo_tui.config.draft import Problem
    from grpo_tui.config.fields import FieldValue
    from grpo_tui.config.plan.making import Plan
    from grpo_tui.config.resolve import Inspected
    from grpo_tui.core.findings import Finding, Severity


@dataclass(frozen=True, slots=True)
class FieldHelp:
    """Help on one field: facts in a few words each, our advice, and TRL's own text."""

    name: str
    facts: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    advice: tuple[str, ...] = ()
    help: str = ""


Origin = Literal["file", "preset", "default", "set", "edited"]
"""Where a value comes from; `edited` means that it differs from the saved file."""
NO_FIELD = "not a field of TRL or grpo_tui"


@dataclass(frozen=True, slots=True)
class FieldRow:
    """One line of the form."""

    name: str
    group: str
    value: str
    """On one line, safe to show, never truncated."""
    number: bool
    """Whether it is right-aligned, as numbers are."""
    origin: Origin
    severity: Severity | None
    leading: bool
    """Whether it is one of the important fields of its group."""


@dataclass(frozen=True, slots=True)
class GroupRow:
    """Title of a group in the form."""

    title: str
    shown: int
    all: int
    open: bool


FormRow = FieldRow | GroupRow


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The text in the editor, and where it is from.

    Attributes:
        number: Counts changes, to recognize outdated results.
        path: The file, which may not exist yet. Relative names in the config refer to its folder.
        launcher: Launcher of the command line; if empty, that of the config.
    """

    number: int
    text: str
    path: Path
    saved: str | None = None
    preset: Path | None = None
    overrides: tuple[str, ...] = ()
    launcher: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OpenConfig:
    """The state of an open config: its text, what a start would make of it, and what is found about it.

    Attributes:
        values: Every field. `values`, `fields` and `plan` are those of the last text that could be parsed.
        broken: Why the text cannot be parsed, and where; None when it can.
        lines: Line number of each field in the text, from 1.
        whole: Whether all checks that need no loading have run.
    """

    snapshot: Snapshot
    inspected: Inspected
    values: Mapping[str, FieldValue]
    fields: tuple[FieldRow, ...]
    findings: tuple[Finding, ...]
    broken: Problem | None
    lines: Mapping[str, int]
    plan: Plan | None
    whole: bool

    @property
    def unsaved(self) -> bool:
        """Whether the text differs from the file."""
        return self.snapshot.text != self.snapshot.saved

    def counts(self) -> tuple[int, int]:
        """Return the number of errors and of warnings."""
        found = [finding.severity for finding in self.findings]
        return found.count("error"), found.count("warning")


def form_rows(
    fields: Sequence[FieldRow], opened: Collection[str], found: Collection[str] | None = None
) -> list[FormRow]:
    """Return the form: groups and fields. A closed group shows what is important, set, or has findings."""
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
    """Return whether a field is shown in a closed group."""
    return field.leading or field.origin != "default" or field.severity in ("error", "warning")


def worst(findings: Sequence[Finding]) -> Severity | None:
    """Return the worst severity among findings."""
    return min((f.severity for f in findings), key=SEVERITIES.index, default=None)


def field_of(finding: Finding, names: Collection[str]) -> str | None:
    """Return the form field of a finding: `model_init_kwargs.dtype` belongs to its first part."""
    name = finding.field
    while name:
        if name in names:
            return name
        name = name.rpartition(".")[0]
    return None


def notes(findings: Sequence[Finding]) -> dict[int, tuple[str, str]]:
    """Return notes beside the text: line to severity and message of its worst finding."""
    beside: dict[int, tuple[str, str]] = {}
    for finding in sorted(findings, key=lambda f: SEVERITIES.index(f.severity)):
        if finding.line is not None and finding.severity != "info":
            beside.setdefault(finding.line, (finding.severity, finding.message))
    return beside
