"""From the text of an open config to what the pane says of it, and how a value is asked for and shown.

A pure function of a snapshot, so that a thread can make it while the user types on. It loads neither model
nor data. The pane itself imports only `config_view`: all of `config` would hold up its first paint.
"""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from grpo_tui.config.accelerate_file import AccelerateFileError, ranks_of
from grpo_tui.config.coerce import CoerceError, kinds_of
from grpo_tui.config.document import UnreadableError, parse_document
from grpo_tui.config.draft import Draft, value_of_words
from grpo_tui.config.fields import GROUPS, SECTION, FieldValue, all_fields, grouped, top_field
from grpo_tui.config.plan import Device, ModelShape, Plan, PlanSettings, Surroundings, plan
from grpo_tui.config.resolve import Inspected
from grpo_tui.config.trl_fields import FieldsUnavailableError, NoDefault
from grpo_tui.config.yaml_edit import get_value, split_key
from grpo_tui.config.yaml_edit_values import block_lines, inline
from grpo_tui.core.findings import Finding, errors_first
from grpo_tui.core.statistics import is_number
from grpo_tui.core.text import one_line
from grpo_tui.present.config_view import NO_FIELD, ConfigView, FieldRow, Origin, worst

Kind = Literal["toggle", "choose", "line", "text", "yaml"]


@dataclass(frozen=True, slots=True)
class Way:
    """How one field is edited.

    Attributes:
        kind: in which form it is asked for: at once, from a list, on one line, as a text of several lines, as
            YAML.
        text: what to begin with.
        choices: what can be chosen.
    """

    kind: Kind
    text: str
    choices: tuple[str, ...] = ()


def as_written(value: FieldValue) -> Any:
    """A field's value as a person would write it: as it stands, but for a text that is read as a number."""
    if value.origin == "default" or (isinstance(value.written, str) and not isinstance(value.value, str)):
        return value.value
    return value.written  # a path, say, which a start would use in full


def way_of(value: FieldValue) -> Way:
    """How a field is edited, now."""
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
    """A value as a person would type it; nothing for none."""
    if value is None or isinstance(value, NoDefault):
        return ""
    return value if isinstance(value, str) else inline(value)


def in_lines(text: str) -> str:
    """YAML that was typed over lines as words of a field: set in, as it would stand below the key."""
    return "\n".join(f"  {line}" if line.strip() else "" for line in text.split("\n")) + "\n"


def refusal(name: str, words: str, kind: Kind = "line") -> str:
    """Why words do not fit a field, empty when they do; no words are the default."""
    if not words.strip():
        return ""
    try:
        value_of_words(name, in_lines(words) if kind == "yaml" else words)
    except CoerceError as error:
        return str(error)
    return ""


TAKEN = ("folder.run", "folder.live")
"""Rules about a folder that holds a run; their fix is the next free name beside it."""


def start_beside(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return the findings as they are for a start that goes beside a run: no error, and where it goes."""
    return tuple(_beside(found) if found.id in TAKEN else found for found in findings)


def _beside(found: Finding) -> Finding:
    folder = free_folder((found,))
    if folder is None:
        return found
    return replace(found, severity="warning", message=f"{found.message}. R starts in {folder.name} beside it")


def free_folder(findings: Iterable[Finding]) -> Path | None:
    """Return the free folder beside the run that is in the way; None when none is."""
    fixes = [found.fix for found in findings if found.id in TAKEN and found.fix is not None]
    return next((Path(str(fix.value)) for fix in fixes), None)


MOST_VALUE = 400
"""Characters of a value that the form holds; no form is wider."""

Judge = Callable[[Inspected, "ConfigRanks"], Iterable[Finding]]
"""What is found of a config beyond its reading."""
Planner = Callable[[Inspected, "ConfigRanks"], "Plan | None"]


@dataclass(frozen=True, slots=True)
class ConfigRanks:
    """The training processes of a config.

    Attributes:
        launcher: the words that start them, none for one process.
        count: how many, None when the words do not say.
    """

    launcher: tuple[str, ...] = ()
    count: int | None = 1


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A config as it stands in the editor.

    Attributes:
        number: counts the changes, so that an old answer is known.
        text: the text.
        path: the file it is or will be; names in it are looked up beside it.
        saved: the text of the file, None when there is none yet.
        preset: the preset it began as, None when it began otherwise.
        title: what it is called while it has no file.
        overrides: `K=V` words of the command line.
        launcher: words of the command line that start the processes; those of the config when there are none.
    """

    number: int
    text: str
    path: Path
    saved: str | None = None
    preset: Path | None = None
    title: str = ""
    overrides: tuple[str, ...] = ()
    launcher: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A snapshot, looked at; `values` are those of the last text that could be read."""

    snapshot: Snapshot
    view: ConfigView
    inspected: Inspected
    values: Mapping[str, FieldValue] = field(default_factory=dict)
    plan: Plan | None = None
    ranks: ConfigRanks = field(default_factory=ConfigRanks)


def evaluate(
    snapshot: Snapshot,
    before: Evaluation | None = None,
    judge: Judge | None = None,
    planner: Planner | None = None,
) -> Evaluation:
    """Look at a snapshot.

    Args:
        snapshot: what stands in the editor.
        before: the evaluation before; a text that cannot be read keeps its fields.
        judge: finds more than the reading does.
        planner: plans on a machine; without it the plan knows the config alone.
    """
    draft, ranks = _read(snapshot)
    problem, inspected = draft.problem, draft.inspected
    found = judge(inspected, ranks) if judge is not None and problem is None else inspected.findings
    findings = tuple(errors_first(found))
    try:
        values = draft.values()
    except FieldsUnavailableError:
        values = {}
    if problem is not None and before is not None:
        values, fields = before.values, before.view.fields
    elif problem is not None:
        fields = ()
    else:
        fields = _rows(snapshot, inspected, values, findings)
    view = ConfigView(
        title=snapshot.title or snapshot.path.name,
        path=snapshot.path if snapshot.saved is not None else None,
        fields=fields,
        findings=findings,
        unsaved=snapshot.text != snapshot.saved,
        broken=problem,
        lines=_lines(inspected),
        whole=judge is not None or problem is not None,
    )
    if problem is not None:
        planned = before.plan if before is not None else None
    else:
        planned = (planner(inspected, ranks) if planner is not None else None) or plan_of_parts(
            inspected, ranks
        )
    return Evaluation(snapshot, view, inspected, values, planned, ranks)


def _read(snapshot: Snapshot) -> tuple[Draft, ConfigRanks]:
    """The text read for as many processes as its own launcher starts, or that of the command line."""

    def read(count: int | None) -> Draft:
        return Draft(
            snapshot.text,
            snapshot.path,
            preset=snapshot.preset,
            overrides=snapshot.overrides,
            world_size=count,
        )

    count = _count(snapshot.launcher)
    draft = read(count)
    own = draft.inspected.section.launcher
    if snapshot.launcher or own is None:
        return draft, ConfigRanks(snapshot.launcher, count)
    words = tuple(shlex.split(own))
    count = _count(words)
    return read(count), ConfigRanks(words, count)


def _count(words: tuple[str, ...]) -> int | None:
    try:
        return ranks_of(words)
    except AccelerateFileError:  # told where the launcher is checked
        return None


def plan_of_parts(
    inspected: Inspected, ranks: ConfigRanks, shape: ModelShape | None = None, device: Device | None = None
) -> Plan | None:
    """The plan of a config, also of one that is not whole: what does not fit counts as the default."""
    if not inspected.fields:
        return None
    parts = inspected.parts
    stream = parts["GRPOScriptArguments"].get("dataset_streaming")
    streaming = bool(stream or parts["DatasetMixtureConfig"].get("streaming"))
    model = str(parts["ModelConfig"].get("model_name_or_path") or "")
    try:
        settings = PlanSettings(parts["GRPOConfig"], parts["ModelConfig"], model, streaming)
        return plan(settings, Surroundings(ranks.count or 1, model=shape, device=device))
    except (ArithmeticError, ValueError, TypeError):
        return None


def _lines(inspected: Inspected) -> dict[str, int]:
    return {
        ".".join(map(str, path)): line
        for path, line in inspected.document.lines.items()
        if len(path) < 3 and all(isinstance(part, str) for part in path)
    }


def _rows(
    snapshot: Snapshot,
    inspected: Inspected,
    values: Mapping[str, FieldValue],
    findings: tuple[Finding, ...],
) -> tuple[FieldRow, ...]:
    saved, known = _nested(snapshot.saved), snapshot.saved is not None
    said: dict[str, list[Finding]] = {}
    for finding in findings:
        if finding.field:
            said.setdefault(top_field(finding.field), []).append(finding)
    rows = [
        FieldRow(name, NO_FIELD, shown(value), False, "file", worst(said.get(name, [])), True)
        for name, value in _unknown(inspected.document.values, values)
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
                    origin=_origin(value, inspected, saved, known=known),
                    severity=worst(said.get(name, [])),
                    leading=value.matters,
                )
            )
    return tuple(rows)


def _unknown(values: Mapping[str, Any], known: Mapping[str, FieldValue]) -> list[tuple[str, Any]]:
    """Keys of the file and of its section that are no field."""
    section = values.get(SECTION)
    found = [(str(key), value) for key, value in values.items() if key != SECTION]
    if isinstance(section, Mapping):
        found += [(f"{SECTION}.{key}", value) for key, value in section.items()]
    elif section is not None:
        found.append((SECTION, section))
    return [(key, value) for key, value in found if key not in known]


def _origin(value: FieldValue, inspected: Inspected, saved: Mapping[str, Any], *, known: bool) -> Origin:
    if value.origin == "--set":
        return "set"
    absent = object()
    path = split_key(value.name)
    now = get_value(inspected.document.values, path, absent)
    before = get_value(saved, path, absent)
    if known and (now is not absent or before is not absent) and now != before:
        return "edited"
    if value.origin == "file" and not known:
        return "edited"
    return value.origin


@lru_cache(maxsize=8)
def _values(text: str) -> Mapping[str, Any]:
    try:
        return parse_document(text).values
    except UnreadableError:
        return {}


def _nested(text: str | None) -> Mapping[str, Any]:
    return {} if text is None else _values(text)


def shown(value: Any) -> str:
    """A value on one line, as it would stand in a file."""
    if value is None:
        return "none"
    if isinstance(value, str):
        return one_line(value[: 2 * MOST_VALUE], MOST_VALUE) if value else "''"
    return one_line(inline(value), MOST_VALUE)


def read_fields() -> None:
    """Read TRL's fields from its source, so that the first config need not wait for it."""
    with contextlib.suppress(FieldsUnavailableError):
        all_fields()
