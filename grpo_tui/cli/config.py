"""`grpo-tui config diff|fields|set`: read, compare and edit a config without the screen."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.cells import cell_len

from grpo_tui.cli.errors import FAILED, OK, CommandError, reported
from grpo_tui.cli.plain import print_json, terminal_width
from grpo_tui.cli.saved_run import saved_run
from grpo_tui.cli.words import refuse_unused
from grpo_tui.config.advice import ADVICE, advice_page, search_fields
from grpo_tui.config.coerce import CoerceError
from grpo_tui.config.config_diff import Diff, Side, diff, unified
from grpo_tui.config.draft import ChangedOnDiskError, Draft
from grpo_tui.config.draft_file import DraftFileError
from grpo_tui.config.fields import GROUPS, FieldValue, all_fields, grouped, matters, top_field
from grpo_tui.config.meant import explain
from grpo_tui.config.presets import presets
from grpo_tui.config.run_config import describe
from grpo_tui.config.section import SECTION_KEYS
from grpo_tui.config.trl_fields import FieldsUnavailableError
from grpo_tui.config.yaml_edit import EditError
from grpo_tui.config.yaml_edit_values import inline
from grpo_tui.core.findings import errors_of
from grpo_tui.core.text import filled, one_line, safe
from grpo_tui.present.formatting import plural

_PRESET = "preset:"


def config(parsed: Any) -> int:
    """`grpo-tui config WHAT …`."""
    if parsed.kind is None:
        raise CommandError("config needs diff, fields or set. See `grpo-tui config --help`")
    with reported(DraftFileError, FieldsUnavailableError):
        return {"diff": _diff, "fields": _fields, "set": _set}[parsed.kind](parsed)


def _diff(parsed: Any) -> int:
    here = _side(parsed.first)
    there = _side(parsed.second) if parsed.second is not None else _natural_side(parsed.first)
    found = diff(here, there)
    if parsed.json:
        print_json(found.to_json())
    elif parsed.text:
        for line in found.lines:
            print(safe(line))
    else:
        for line in diff_lines(found):
            print(line)
    return OK if found.same else FAILED


def diff_lines(found: Diff) -> Iterator[str]:
    """Return a comparison as lines."""
    here, there = one_line(found.here, 40), one_line(found.there, 40)
    if found.same:
        yield f"{here} and {there} give the same run"
        return
    differ = "differs" if len(found.rows) == 1 else "differ"
    yield f"{plural(len(found.rows), 'value')} of {here} {differ} from {there}"
    width = max(cell_len(safe(row.field)) for row in found.rows)
    for row in found.rows:
        mine, theirs = _shown(row.here), _shown(row.there)
        note = {"added": "  (default there)", "removed": "  (default here)", "changed": ""}[row.kind]
        yield f"  {filled(safe(row.field), width)}  {mine}  ←  {theirs}{note}"


def _side(name: str) -> Side:
    """Return the side that an argument names: `defaults`, a preset, a run or a file."""
    if name == "defaults":
        return Side.defaults()
    path = Path(name)
    if name.startswith(_PRESET):
        wanted, found = name.removeprefix(_PRESET), {preset.name: preset.path for preset in presets()}
        if wanted not in found:
            raise CommandError(f"unknown preset {wanted}. Presets: {', '.join(found)}")
        path = found[wanted]
    elif path.is_dir():
        return Side.run(name, saved_run(path)[2])
    return Side.of(_open_draft(path), name)


def _natural_side(name: str) -> Side:
    """Return the default to compare a config with: its preset, else TRL's defaults."""
    path = Path(name)
    draft = Draft.open(path) if path.is_file() else None
    side = Side.preset(draft) if draft is not None else None
    return side if side is not None else Side.defaults()


def _open_draft(path: Path) -> Draft:
    """Open a config file and reject invalid YAML."""
    draft = Draft.open(path)
    if draft.problem is not None:
        raise CommandError(f"{path}: {draft.problem.words()}")
    return draft


def _fields(parsed: Any) -> int:
    if parsed.markdown:
        refuse_unused(parsed, "with --markdown, which prints all fields", "--all", "--config")
        if parsed.words:
            raise CommandError("--markdown prints all fields. Leave the words out")
        print(advice_page(), end="")
        return OK
    draft = _open_draft(parsed.config) if parsed.config is not None else Draft.new()
    values = draft.values()
    words = " ".join(parsed.words)
    found = [hit.name for hit in search_fields(words)]
    if not words and not parsed.all:
        found = [name for name in found if matters(name)]
    if parsed.json:
        print_json([_field_json(values[name]) for name in found])
    elif not found:
        said = explain(words, None, list(values), SECTION_KEYS)[0]  # as `check` says of such a key
        unknown = said.endswith("a similar name")
        raise CommandError(f"no field matches {words}" if unknown else said, FAILED)
    elif len(found) == 1 or words in values:
        for line in field_lines(values[words if words in values else found[0]]):
            print(line)
    elif words:
        print("\n".join(line for name in found for line in _field_lines_short(values[name])))
    else:
        for group, names in grouped(found).items():
            title = next(each.title for each in GROUPS if each.id == group)
            if names:
                print(f"\n{title}")
            for name in names:
                print("\n".join(_field_lines_short(values[name])))
    return OK


def _field_lines_short(value: FieldValue) -> Iterator[str]:
    """Return a field as one line with name, value and advice, or as two on a narrow terminal."""
    width = max(60, terminal_width()) - 1
    shown = f"{_shown(value.value, 30)} ({value.origin})" if value.origin != "default" else value.default
    advice = ADVICE.get(value.name)
    about = advice.choose if advice is not None else value.info.help
    if width >= 120:
        yield one_line(f"  {value.name:38} {one_line(shown, 34):34}  {about}", width)
    else:
        yield one_line(f"  {value.name:38} {shown}", width)
        yield one_line(f"      {about}", width)


def field_lines(value: FieldValue) -> Iterator[str]:
    """Return all information about a field as lines."""
    width = min(100, max(60, terminal_width() - 2))
    group = next(group.title for group in GROUPS if group.id == value.group)
    yield f"{value.name}: {value.kind}  ·  {group}"
    yield f"  default  {one_line(value.default, width)}"
    if value.origin != "default":
        line = f", line {value.line}" if value.line else ""
        yield f"  now      {_shown(value.value, width)} ({value.origin}{line})"
    yield from _paragraph("help", value.info.help, width)
    advice = ADVICE.get(value.name)
    if advice is None:
        if value.info.choices:
            yield from _paragraph("choices", ", ".join(value.info.choices), width)
        return
    for title in ("choose", "why", "when", "cost", "older"):
        yield from _paragraph(title, getattr(advice, title), width)
    for name in value.info.choices or ():
        each = advice.choices.get(name)
        yield ""
        yield f"  {name}"
        if each is not None:
            for part in (each.text, each.formula, each.source):
                yield from textwrap.wrap(safe(part), width, initial_indent="    ", subsequent_indent="    ")


def _paragraph(title: str, text: str, width: int) -> Iterator[str]:
    yield from textwrap.wrap(safe(text), width, initial_indent=f"  {title:8} ", subsequent_indent=" " * 11)


def _field_json(value: FieldValue) -> dict[str, Any]:
    advice = ADVICE.get(value.name)
    return {
        "name": value.name,
        "group": value.group,
        "type": value.kind,
        "default": value.default,
        "value": value.value,
        "origin": value.origin,
        "line": value.line,
        "choices": list(value.choices),
        "help": value.info.help,
        "advice": advice.words() if advice is not None else None,
    }


def _set(parsed: Any) -> int:
    draft = _open_draft(parsed.file)
    before = Side.of(draft)
    known = set(draft.findings)
    for pair in parsed.pairs:
        key, equals, words = pair.partition("=")
        if not equals or not key.strip():
            raise CommandError(f"{pair}: write it as KEY=VALUE; `KEY=` removes the key")
        if words and top_field(key.strip()) not in all_fields():
            message, _ = explain(key.strip(), words, all_fields(), SECTION_KEYS)
            raise CommandError(f"{message}\nnothing was written")
        try:
            draft.set_words(key.strip(), words)
        except (CoerceError, EditError) as error:
            raise CommandError(f"{error}; nothing was written") from error
    for line in unified(before, Side.of(draft), around=0):
        if not line.startswith(("---", "+++", "@@")):
            print(safe(line))
    for finding in errors_of(draft.findings):
        if finding not in known:
            print(describe(finding, parsed.file))
    if not draft.edited:
        print(f"{parsed.file} already has these values")
    elif not parsed.dry_run:
        with reported(ChangedOnDiskError):
            draft.save()
    return OK


def _shown(value: object, width: int = 60) -> str:
    try:
        return one_line(inline(value), width)
    except TypeError:
        return one_line(str(value), width)
