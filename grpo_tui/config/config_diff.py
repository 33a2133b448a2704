"""Compare an open config with another one, by field and by line.

Fields are compared by the value that a start would use: `1e-5` equals `1.0e-5`, and a line that repeats the
default makes no difference.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from grpo_tui.config.draft import Draft
from grpo_tui.config.fields import FieldValue, all_fields, field_values, form_order
from grpo_tui.config.resolve import inspect_saved
from grpo_tui.config.run_config import RunConfig
from grpo_tui.config.trl_fields import NoDefault
from grpo_tui.config.yaml_edit import same
from grpo_tui.config.yaml_edit_values import block_lines
from grpo_tui.core.statistics import is_number

Kind = Literal["changed", "added", "removed"]
_ABSENT = object()


@dataclass(frozen=True, slots=True)
class DiffRow:
    """One value that differs.

    Attributes:
        field: Dotted down to the value that differs (`grpo_tui.rewards.0.weight`).
        here: Value of the draft, None if absent.
        there: Value of the other side, None if absent.
        kind: `added` when only the draft has it, `removed` when only the other side has it.
    """

    field: str
    here: Any
    there: Any
    kind: Kind


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a comparison.

    Attributes:
        text: The YAML, empty for the defaults.
    """

    title: str
    values: Mapping[str, FieldValue]
    text: str

    @classmethod
    def of(cls, draft: Draft, title: str | None = None) -> Side:
        """Return the current state of a draft."""
        name = draft.path.name if draft.path is not None else "the draft"
        return cls(title or name, draft.values(), draft.text)

    @classmethod
    def saved(cls, draft: Draft) -> Side:
        """Return a draft as last saved, empty if it never was."""
        saved = Draft(draft.saved_text or "", draft.path, preset=draft.preset, world_size=draft.world_size)
        return cls.of(saved, "the saved file")

    @classmethod
    def preset(cls, draft: Draft) -> Side | None:
        """Return the preset that a draft was made from, or None.

        Raises:
            DraftFileError: The preset cannot be read.
        """
        if draft.preset is None:
            return None
        return cls.of(Draft.open(draft.preset), f"the preset {draft.preset.stem}")

    @classmethod
    def defaults(cls) -> Side:
        """Return TRL's defaults."""
        return cls.of(Draft.new(), "the defaults")

    @classmethod
    def run(cls, title: str, config: RunConfig) -> Side:
        """Return the stored config of a run."""
        raw = {key: value for key, value in config.raw.items() if value is not None}
        text = "\n".join(block_lines(raw, 0, 2)) + "\n" if raw else ""
        return cls(title, field_values(inspect_saved(config, world_size=None)), text)


@dataclass(frozen=True, slots=True)
class Diff:
    """The differences between a draft (`here`) and another side (`there`)."""

    here: str
    there: str
    rows: tuple[DiffRow, ...]
    lines: tuple[str, ...]
    """A unified diff, `-` for the other side. Empty if the texts are equal or one side has none."""

    @property
    def same(self) -> bool:
        """Whether no value that a start would use differs."""
        return not self.rows

    def to_json(self) -> dict[str, Any]:
        """Return JSON data."""
        return {"here": self.here, "there": self.there, "rows": [asdict(row) for row in self.rows]}


def diff(draft: Draft | Side, against: Side) -> Diff:
    """Compare a draft with another side. Rows are in form order."""
    here = draft if isinstance(draft, Side) else Side.of(draft)
    order = form_order()
    names = sorted(here.values, key=lambda name: order.get(name, len(order)))
    rows = [
        row
        for name in names
        if (theirs := against.values.get(name)) is not None
        for row in _rows(name, _said(here.values[name]), _said(theirs))
    ]
    return Diff(here.title, against.title, tuple(rows), unified(against, here))


def unified(there: Side, here: Side, around: int = 2) -> tuple[str, ...]:
    """Return a unified diff of the two texts."""
    if not there.text or not here.text or there.text == here.text:
        return ()
    before, after = there.text.splitlines(), here.text.splitlines()
    return tuple(difflib.unified_diff(before, after, there.title, here.title, lineterm="", n=around))


def _said(value: FieldValue) -> Any:
    return value.value if value.differs else _ABSENT


def _deep(values: list[Any]) -> bool:
    return any(isinstance(value, (dict, list)) for value in values)


def _rows(field: str, here: Any, there: Any) -> Iterator[DiffRow]:
    if here is _ABSENT and there is _ABSENT:
        return
    if here is _ABSENT or there is _ABSENT:
        default = all_fields()[field].default if field in all_fields() else None
        default = None if isinstance(default, NoDefault) else default
        mine, theirs = (default, there) if here is _ABSENT else (here, default)
        yield DiffRow(field, mine, theirs, "removed" if here is _ABSENT else "added")
        return
    if isinstance(here, dict) and isinstance(there, dict):
        for key in [*here, *(key for key in there if key not in here)]:
            yield from _rows(f"{field}.{key}", here.get(key, _ABSENT), there.get(key, _ABSENT))
    elif isinstance(here, list) and isinstance(there, list) and len(here) == len(there) and _deep(here):
        for index, (mine, theirs) in enumerate(zip(here, there, strict=True)):
            yield from _rows(f"{field}.{index}", mine, theirs)
    elif not same(here, there) and not (is_number(here) and is_number(there) and here == there):
        yield DiffRow(field, here, there, "changed")
