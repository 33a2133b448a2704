"""`Draft`: one open config, as text and as fields, edited from either side. It knows no screen.

The text is the truth; the fields are what a start would make of it. How a pane uses it:

    draft = Draft.open(path)                  # or Draft.new(text, path), Draft.open(path, preset=file)
    draft.values()["learning_rate"]           # FieldValue: value, origin, line, kind, default, findings
    draft.findings                            # of the file as it stands, as `train` would have them
    draft.set("learning_rate", 5e-6)          # a value; EditError says why it cannot be
    draft.set_words("learning_rate", "5e-6")  # what a person typed; CoerceError says why it does not fit
    draft.unset("grpo_tui.rewards.1")
    draft.apply(finding)                      # its fix, renames in place
    draft.replace_text(text)                  # the text side, after every key
    draft.problem                             # line and column while the text is no YAML; values() are then
                                              # those of the last text that was
    draft.undo(), draft.redo(), draft.edited
    draft.changed_on_disk()                   # now and then; save() asks too
    draft.save()                              # ChangedOnDiskError holds both texts; save(force=True) insists

Everything is computed when it is asked for and kept until the text changes: a few milliseconds after an edit.
`draft.version` grows with every change, so a widget sees whether it must look again.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from grpo_tui.config import draft_file, yaml_lines
from grpo_tui.config.draft_fixes import fixed_text
from grpo_tui.config.draft_history import History
from grpo_tui.config.draft_words import value_of_words
from grpo_tui.config.field_groups import neighbours
from grpo_tui.config.origins import FieldValue, all_fields, field_values
from grpo_tui.config.presets import folder as presets_folder
from grpo_tui.config.presets import preset_of
from grpo_tui.config.resolve import Inspected, inspect_config
from grpo_tui.config.yaml_edit import (
    EditError,
    get_value,
    read_once,
    remove_value,
    set_value,
    split_key,
)
from grpo_tui.core.findings import Finding, Fix

UNTITLED = "untitled.yaml"


class ChangedOnDiskError(ValueError):
    """The file is another than the one that was opened; neither text is lost.

    Attributes:
        path: the file.
        mine: the draft's text.
        theirs: what stands in the file now; None when it is gone or cannot be read.
    """

    def __init__(self, path: Path, mine: str, theirs: str | None) -> None:
        what = "is gone" if theirs is None else "was changed by somebody else since it was opened"
        super().__init__(f"{path} {what}; nothing was written")
        self.path = path
        self.mine = mine
        self.theirs = theirs


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a text cannot be read as a config; line and column count from 1, None where unknown."""

    message: str
    line: int | None
    column: int | None

    def words(self) -> str:
        """The place and the reason, on one line."""
        place = f"line {self.line}" if self.line else "the file"
        return f"{place}{f', column {self.column}' if self.column else ''}: {self.message}"


class Draft:
    """One open config. Use `open` or `new`; see the module docstring.

    Attributes:
        path: the file, absolute; None for a draft that was never saved.
        preset: the preset file it came from: the one given, or the one that a line `# preset: NAME` names.
        overrides: `K=V` texts, as `--set` takes them; they change values, never the text.
        world_size: number of training processes for the batch arithmetic; None leaves that check out.
        saved_text: what stands in the file, as far as the draft knows; None when there is no file.
        version: grows with every change of text, overrides or world size.
    """

    def __init__(
        self,
        text: str,
        path: Path | None,
        *,
        saved: tuple[str, str] | None = None,
        preset: Path | None = None,
        overrides: Sequence[str] = (),
        world_size: int | None = 1,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self.path = path.expanduser().absolute() if path is not None else None
        self.preset = preset if preset is not None else _named_preset(text)
        self.overrides = tuple(overrides)
        self.world_size = world_size
        self.saved_text: str | None = saved[0] if saved is not None else None
        self._saved_hash = saved[1] if saved is not None else None
        self.version = 0
        self._history = History(text, clock) if clock is not None else History(text)
        self._seen: tuple[Any, Inspected] | None = None
        self._values: tuple[Any, dict[str, FieldValue]] | None = None
        self._preset_values: tuple[Path, Mapping[str, Any]] | None = None

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        preset: Path | None = None,
        overrides: Sequence[str] = (),
        world_size: int | None = 1,
    ) -> Draft:
        """Open a file.

        Raises:
            DraftFileError: it cannot be read as text. Text that is no YAML opens; see `problem`.
        """
        file = Path(path).expanduser().absolute()
        text, digest = draft_file.read_text(file)
        return cls(
            text, file, saved=(text, digest), preset=preset, overrides=overrides, world_size=world_size
        )

    @classmethod
    def new(cls, text: str = "", path: str | Path | None = None, *, preset: Path | None = None) -> Draft:
        """Begin a draft that stands in no file yet; `path` is where `save` will put it."""
        return cls(text, Path(path) if path is not None else None, preset=preset)

    # The text

    @property
    def text(self) -> str:
        """The text now."""
        return self._history.text

    @property
    def edited(self) -> bool:
        """Whether the text differs from the saved one; a draft without a file is edited when it holds any."""
        return self.text != (self.saved_text or "") or (self.saved_text is None and bool(self.text))

    @property
    def can_undo(self) -> bool:
        """Whether `undo` has something to do."""
        return self._history.can_undo

    @property
    def can_redo(self) -> bool:
        """Whether `redo` has something to do."""
        return self._history.can_redo

    def replace_text(self, text: str) -> bool:
        """Take the text of an editor, whatever it is; keys typed in one go are one step of undo."""
        return self._moved(self._history.push(text, typed=True))

    def undo(self) -> bool:
        """Take the last edit back; False when there is none."""
        return self._moved(self._history.undo())

    def redo(self) -> bool:
        """Do again what was taken back; False when there is nothing."""
        return self._moved(self._history.redo())

    # The fields

    def set(self, key: str | Sequence[str | int], value: Any) -> bool:
        """Set one value in the text, changing only its own lines; returns whether anything changed.

        Args:
            key: dotted, with indexes for lists (`grpo_tui.rewards.0.weight`), or its parts. An index equal
                to the length of a list appends.
            value: plain data.

        Raises:
            EditError: the text is no YAML now, or the value cannot be set alone; the message says why.
        """
        path = split_key(key)
        return self._edit(set_value(self._editable(), path, value, self._after(path)))

    def set_words(self, key: str, words: str) -> bool:
        """Set what a person typed, read as its field's type; empty words remove the key.

        Raises:
            CoerceError: the words do not fit the field; it may hold a suggestion.
            EditError: as for `set`.
        """
        if not words.strip():
            return self.unset(key) if self.has(key) else False
        return self.set(key, value_of_words(key, words))

    def unset(self, key: str | Sequence[str | int]) -> bool:
        """Remove one key or list item with its line; a mapping that becomes empty goes with it.

        Raises:
            EditError: there is none, or it cannot be removed alone.
        """
        return self._edit(remove_value(self._editable(), split_key(key)))

    def apply(self, fix: Finding | Fix) -> bool:
        """Make the change that a finding offers; a finding's wrong key is renamed where it stands.

        Raises:
            EditError: there is no fix, or it cannot be made.
        """
        return self._edit(fixed_text(self._editable(), fix, self._after))

    def has(self, key: str | Sequence[str | int]) -> bool:
        """Whether a key is written in the text, as far as it can be read."""
        absent = object()
        return get_value(self._readable_values(), split_key(key), absent) is not absent

    def get(self, key: str | Sequence[str | int], otherwise: Any = None) -> Any:
        """Return a value as it is written in the text: before `--set`, and not fitted to its field."""
        return get_value(self._readable_values(), split_key(key), otherwise)

    @property
    def problem(self) -> Problem | None:
        """Why the text cannot be read now, with line and column; None when it can."""
        error = self._parsed[1]
        return _problem(error, self.text) if error is not None else None

    @property
    def inspected(self) -> Inspected:
        """What the checks make of the text: values by dataclass, section, findings, config."""
        key = (self.text, self.overrides, self.world_size, self.path)
        if self._seen is None or self._seen[0] != key:
            path = self.path if self.path is not None else Path.cwd() / UNTITLED
            document = copy.deepcopy(self._parsed[0])
            seen = inspect_config(
                path, self.overrides, world_size=self.world_size, text=self.text, document=document
            )
            self._seen = (key, seen)
        return self._seen[1]

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Everything the checks find in the text now, in their order."""
        return self.inspected.findings

    def values(self) -> Mapping[str, FieldValue]:
        """Return every field with its value and origin; of the last readable text while this one is not.

        Raises:
            FieldsUnavailableError: TRL is not installed.
        """
        seen = self.inspected
        if self.problem is not None and self._values is not None:
            return self._values[1]
        key = (seen, self.preset)
        if self._values is None or self._values[0][0] is not seen or self._values[0][1] != self.preset:
            self._values = (key, field_values(seen, self._preset(), self.overrides))
        return self._values[1]

    def override(self, overrides: Sequence[str]) -> None:
        """Take other `--set` texts."""
        self.overrides = tuple(overrides)
        self.version += 1

    # The file

    def changed_on_disk(self) -> bool:
        """Whether the file's content is another than when it was opened or saved; its time does not count."""
        return self.path is not None and draft_file.hash_on_disk(self.path) != self._saved_hash

    def disk_text(self) -> str | None:
        """Return what stands in the file now; None when it is gone or no text."""
        try:
            return draft_file.read_text(self.path)[0] if self.path is not None else None
        except draft_file.DraftFileError:
            return None

    def save(self, *, force: bool = False) -> None:
        """Write the text to its file.

        Raises:
            ChangedOnDiskError: the file is another than the one opened, and `force` is not set.
            DraftFileError: it has no file, or it cannot be written.
        """
        if self.path is None:
            raise draft_file.DraftFileError("the draft has no file yet; save it under a name")
        if self.changed_on_disk() and not force:
            raise ChangedOnDiskError(self.path, self.text, self.disk_text())
        self._write(self.path)

    def save_as(self, path: str | Path, *, force: bool = False) -> None:
        """Write the text to another file, which becomes the draft's.

        Raises:
            ChangedOnDiskError: a file is there already, and `force` is not set.
            DraftFileError: it cannot be written.
        """
        file = Path(path).expanduser().absolute()
        if file == self.path:
            return self.save(force=force)
        if file.exists() and not force:
            theirs = Draft(self.text, file).disk_text()
            raise ChangedOnDiskError(file, self.text, theirs)
        self._write(file)
        self.path = file
        return None

    def reload(self) -> bool:
        """Take what stands in the file now; the draft's own text is one `undo` away.

        Raises:
            DraftFileError: the file cannot be read.
        """
        if self.path is None:
            raise draft_file.DraftFileError("the draft has no file to read")
        self.saved_text, self._saved_hash = draft_file.read_text(self.path)
        return self._edit(self.saved_text)

    def _write(self, path: Path) -> None:
        self._saved_hash = draft_file.write_text(path, self.text)
        self.saved_text = self.text
        self._history.settle()
        self.version += 1

    def _edit(self, text: str) -> bool:
        return self._moved(self._history.push(text))

    def _moved(self, changed: bool) -> bool:
        self.version += changed
        return changed

    def _editable(self) -> str:
        if self.problem is not None:
            raise EditError(f"the text cannot be read at {self.problem.words()}. Mend the text first")
        return self.text

    def _readable_values(self) -> Mapping[str, Any]:
        document = self._parsed[0]
        return document.values if document is not None else {}

    @property
    def _parsed(self) -> tuple[yaml_lines.YamlDocument | None, yaml_lines.YamlError | None]:
        return read_once(self.text)

    def _after(self, path: Sequence[str | int]) -> list[str]:
        """Return the keys behind which a new one at the top may stand, the best first."""
        if len(path) != 1 and self.has(path[0:1]):
            return []
        present = [str(key) for key in self._readable_values()]
        name = str(path[0])
        return [] if name == "grpo_tui" else neighbours(name, present, all_fields().get(name))

    def _preset(self) -> Mapping[str, Any]:
        if self.preset is None:
            return {}
        if self._preset_values is None or self._preset_values[0] != self.preset:
            try:
                text = draft_file.read_text(self.preset)[0]
                self._preset_values = (self.preset, yaml_lines.parse_mapping(text).values)
            except (draft_file.DraftFileError, yaml_lines.YamlError):
                self._preset_values = (self.preset, {})
        return self._preset_values[1]


def _named_preset(text: str) -> Path | None:
    name = preset_of(text)
    file = presets_folder() / f"{name}.yaml"
    return file if name is not None and file.is_file() else None


def _problem(error: yaml_lines.YamlError, text: str) -> Problem:
    cause = error.__cause__
    column = None
    if isinstance(cause, yaml.MarkedYAMLError) and cause.problem_mark is not None:
        same_line = cause.problem_mark.line + 1 == error.line
        column = cause.problem_mark.column + 1 if same_line else None
    elif isinstance(cause, yaml.reader.ReaderError):
        column = cause.position - text.rfind("\n", 0, cause.position)
    return Problem(error.message, error.line, column)
