"""`Draft`: one open config that can be edited as text and as fields.

The text is authoritative. The fields are what a start would make of it.

Results are computed on access, which takes a few milliseconds, and cached until the text changes.
`draft.version` increases with every change, so a widget knows when to redraw.
"""

from __future__ import annotations

import contextlib
import copy
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from grpo_tui.config import yaml_lines
from grpo_tui.config.coerce import CoerceError, coerce, kinds_of, numbers_in_text
from grpo_tui.config.draft_file import DraftFileError, hash_on_disk, read_text, write_text
from grpo_tui.config.fields import SECTION, FieldValue, all_fields, field_values, neighbours, top_field
from grpo_tui.config.meant import meant_mapping
from grpo_tui.config.presets import folder as presets_folder
from grpo_tui.config.presets import preset_of
from grpo_tui.config.resolve import Inspected, WorldSize, inspect_config
from grpo_tui.config.yaml_edit import (
    EditError,
    get_value,
    read_once,
    remove_value,
    rename_key,
    same,
    set_value,
    split_key,
    values_of,
)
from grpo_tui.core.findings import Finding, Fix

MOST_CHARACTERS = 20_000_000
PAUSE_S = 1.5
"""A key after a longer pause starts a new undo step."""


class History:
    """Undo history of a text."""

    def __init__(self, text: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._texts = [text]
        self._at = 0
        self._clock = clock
        self._typing: tuple[int, bool, float] | None = None

    @property
    def text(self) -> str:
        """The current text."""
        return self._texts[self._at]

    def push(self, text: str, *, typed: bool = False) -> bool:
        """Add a text and return whether it differs. Consecutive typed keys share one undo step."""
        if text == self.text:
            return False
        change = _typed_at(self.text, text) if typed else None
        now = self._clock()
        goes_on = (
            change is not None
            and self._typing is not None
            and self._at + 1 == len(self._texts)
            and self._typing[:2] == (change[0], change[2])
            and now - self._typing[2] <= PAUSE_S
        )
        del self._texts[self._at + 1 :]
        if goes_on:
            self._texts[self._at] = text
        else:
            self._texts.append(text)
            self._at += 1
        self._typing = (change[1], change[2], now) if change is not None else None
        self._forget_oldest()
        return True

    def undo(self) -> bool:
        """Go back one step. Return False if there is none."""
        return self._go(-1)

    def redo(self) -> bool:
        """Go forward one step. Return False if there is none."""
        return self._go(1)

    def _go(self, by: int) -> bool:
        self._typing = None
        there = 0 <= self._at + by < len(self._texts)
        self._at += by if there else 0
        return there

    def settle(self) -> None:
        """End the current typing step, for example on save."""
        self._typing = None

    def _forget_oldest(self) -> None:
        total = sum(map(len, self._texts))
        while total > MOST_CHARACTERS and self._at > 0:
            total -= len(self._texts.pop(0))
            self._at -= 1


def _typed_at(before: str, after: str) -> tuple[int, int, bool] | None:
    """Return where a key changed the text, where the next key would, and whether it inserted a character.

    None for any other change: a paste, a line break, a replaced word.
    """
    grown = len(after) - len(before)
    if abs(grown) != 1:
        return None
    shorter, longer = (before, after) if grown > 0 else (after, before)
    at = next(
        (n for n, (one, two) in enumerate(zip(shorter, longer, strict=False)) if one != two), len(shorter)
    )
    if shorter[at:] != longer[at + 1 :] or longer[at] in "\r\n":
        return None
    return (at, at + 1, True) if grown > 0 else (at + 1, at, False)


MOVING = frozenset(
    {
        "config.deprecated",
        "config.removed-key",
        "config.unknown-key",
        "nested.elsewhere",
        "nested.unknown-key",
        "section.unknown-key",
    }
)
"""Rules whose fix gives the right place of a wrong key. Applying it removes the wrong key."""

GUESSED = ("config.missing-model",)
"""Rules whose fix is only an example. Only the user knows the intended value."""

NOT_OF_THE_TEXT = ("config.not-installed", "folder.", "hardware.", "launch.", "packages.", "plan.")
"""Rules about this machine. The text may be right for another one."""

_ABSENT = object()


def mendable(finding: Finding) -> bool:
    """Return whether the finding is a mistake in the text that can be fixed without asking."""
    if finding.fix is None or finding.id.startswith((*GUESSED, *NOT_OF_THE_TEXT)):
        return False
    if finding.id == "config.coerced":
        return True
    return finding.severity == "error" or (finding.severity == "warning" and finding.id in MOVING)


def fixed_text(text: str, fix: Finding | Fix, after: Callable[[Sequence[str | int]], Sequence[str]]) -> str:
    """Return the text with a fix applied.

    Args:
        after: Returns the keys after which a new one may be inserted.

    Raises:
        EditError: The finding has no fix, or it cannot be applied.
    """
    if isinstance(fix, Finding):
        if fix.fix is None:
            raise EditError(f"there is no fix to apply: {fix.message}")
        if fix.field and fix.fix.value is not None and fix.field != fix.fix.field and _moves(fix, fix.fix):
            text = _as_mapping(text, split_key(fix.field))
            return _moved(text, split_key(fix.field), split_key(fix.fix.field), fix.fix.value, after)
        fix = fix.fix
    path = split_key(fix.field)
    text = _as_mapping(text, path)
    if fix.value is None:
        values = values_of(text)
        return remove_value(text, path) if get_value(values, path, _ABSENT) is not _ABSENT else text
    return set_value(text, path, fix.value, after(path))


def _as_mapping(text: str, path: tuple[str | int, ...]) -> str:
    """Replace a quoted mapping (JSON) with a YAML mapping, if a fix concerns a key inside it."""
    written = get_value(values_of(text), path[:1])
    meant = meant_mapping(written) if len(path) > 1 and isinstance(written, str) else None
    return text if meant is None else set_value(text, path[:1], meant)


def _moves(finding: Finding, fix: Fix) -> bool:
    return finding.id in MOVING or (finding.id == "section.choice" and fix.field == "dataset_name")


def _moved(
    text: str,
    wrong: tuple[str | int, ...],
    right: tuple[str | int, ...],
    value: Any,
    after: Callable[[Sequence[str | int]], Sequence[str]],
) -> str:
    values = values_of(text)
    old = get_value(values, wrong, _ABSENT)
    if old is _ABSENT:
        return set_value(text, right, value, after(right))
    if get_value(values, right, _ABSENT) is not _ABSENT:
        return remove_value(text, wrong)  # the right key already has a value
    if isinstance(old, dict) and same(old.get(str(right[-1]), _ABSENT), value):
        wrong = (*wrong, right[-1])  # a group of TRL keys, one of which moves to the top level
    elif wrong[:-1] == right[:-1]:
        return set_value(rename_key(text, wrong, str(right[-1])), right, value)
    return set_value(remove_value(text, wrong), right, value, after(right))


_TEXT_PARTS = frozenset(
    {"name", "source", "kind", "from", "to", "tag", "pattern", "user", "assistant", "path", "split"}
)
"""Last parts of dotted keys whose value is always a string."""


def value_of_words(key: str, words: str) -> Any:
    """Return the value of typed text: `5e-6` for a rate is a number, `no` for a name is a string.

    Args:
        words: The typed text, not empty.

    Raises:
        CoerceError: The text does not fit the field. May hold a suggestion.
    """
    info = all_fields().get(key)
    is_text = info is not None and info.choices is None and kinds_of(info.annotation) <= {"str", "none"}
    below = key != top_field(key) and key.startswith((f"{SECTION}.", "datasets."))
    if is_text or (below and key.rpartition(".")[2] in _TEXT_PARTS):
        return words if "\n" in words else words.strip()
    try:
        value, plain = yaml_lines.parse_value(words, SECTION if key.startswith(f"{SECTION}.") else "value")
    except yaml_lines.YamlError as error:
        raise CoerceError(f"{key} cannot be read: {error.message}") from error
    if info is None or info.owner == SECTION:
        number = numbers_in_text(value) if plain else None  # `1e-5`, which YAML 1.1 reads as a string
        return value if number is None else number
    return coerce(info, value).value


UNTITLED = "untitled.yaml"


class ChangedOnDiskError(ValueError):
    """The file on disk is no longer the one that was opened. Neither text is lost.

    Attributes:
        theirs: The current text on disk, None if it is gone or unreadable.
    """

    def __init__(self, path: Path, mine: str, theirs: str | None) -> None:
        what = "no longer exists" if theirs is None else "changed on disk since you opened it"
        super().__init__(f"{path} {what}. Nothing was written")
        self.path = path
        self.mine = mine
        self.theirs = theirs


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a text cannot be read as a config. Line and column count from 1 and are None where unknown."""

    message: str
    line: int | None
    column: int | None

    def words(self) -> str:
        """Return the place and the reason on one line."""
        place = f"line {self.line}" if self.line else "the file"
        return f"{place}{f', column {self.column}' if self.column else ''}: {self.message}"


class Draft:
    """One open config. Create it with `open` or `new`.

    Attributes:
        path: The absolute path, None if the draft was never saved.
        preset: Preset file that it was made from, either as passed or from a line `# preset: NAME`.
        overrides: `K=V` texts, as for `--set`. They change values, never the text.
        world_size: Number of training processes for the batch arithmetic, as for `inspect_config`.
        saved_text: Last known text on disk, None if there is no file.
        version: Increases with every change of text, overrides or world size.
    """

    def __init__(
        self,
        text: str,
        path: Path | None,
        *,
        saved: tuple[str, str] | None = None,
        preset: Path | None = None,
        overrides: Sequence[str] = (),
        world_size: WorldSize = 1,
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
        world_size: WorldSize = 1,
    ) -> Draft:
        """Open a file, which may contain invalid YAML (see `problem`).

        Raises:
            DraftFileError: The file cannot be read as text.
        """
        file = Path(path).expanduser().absolute()
        text, digest = read_text(file)
        return cls(
            text, file, saved=(text, digest), preset=preset, overrides=overrides, world_size=world_size
        )

    @classmethod
    def new(cls, text: str = "", path: str | Path | None = None, *, preset: Path | None = None) -> Draft:
        """Create a draft that is not in a file yet. `save` writes it to `path`."""
        return cls(text, Path(path) if path is not None else None, preset=preset)

    @property
    def text(self) -> str:
        """The current text."""
        return self._history.text

    @property
    def edited(self) -> bool:
        """Whether the text differs from the saved one. Without a file, whether there is any text."""
        return self.text != (self.saved_text or "") or (self.saved_text is None and bool(self.text))

    def replace_text(self, text: str) -> bool:
        """Replace the text by that of an editor, valid or not. Consecutive typed keys share one undo step."""
        return self._moved(self._history.push(text, typed=True))

    def undo(self) -> bool:
        """Undo the last edit. Return False if there is none."""
        return self._moved(self._history.undo())

    def redo(self) -> bool:
        """Redo the last undone edit. Return False if there is none."""
        return self._moved(self._history.redo())

    def set(self, key: str | Sequence[str | int], value: Any) -> bool:
        """Set one value and change only its own lines. Return whether anything changed.

        Args:
            key: Dotted, with list indexes (`grpo_tui.rewards.0.weight`), or as parts. An index equal to the
                length of a list appends.

        Raises:
            EditError: The text is invalid YAML, or the value cannot be set by itself.
        """
        path = split_key(key)
        return self._edit(set_value(self._editable(), path, value, self._after(path)))

    def set_words(self, key: str, words: str) -> bool:
        """Set a value from typed text, converted to its field's type. Empty text removes the key.

        Raises:
            CoerceError: The text does not fit the field. May hold a suggestion.
            EditError: As for `set`.
        """
        if not words.strip():
            return self.unset(key) if self.has(key) else False
        return self.set(key, value_of_words(key, words))

    def unset(self, key: str | Sequence[str | int]) -> bool:
        """Remove one key or list item with its lines. A mapping that becomes empty is removed too.

        Raises:
            EditError: The key does not exist or cannot be removed by itself.
        """
        return self._edit(remove_value(self._editable(), split_key(key)))

    def apply(self, fix: Finding | Fix) -> bool:
        """Apply a fix. A wrong key of a finding is renamed in place.

        Raises:
            EditError: There is no fix, or it cannot be applied.
        """
        return self._edit(fixed_text(self._editable(), fix, self._after))

    def apply_all(self, findings: Iterable[Finding]) -> int:
        """Apply the fixes of all mendable findings as one undo step. Return how many changed the text.

        Raises:
            EditError: The text is invalid YAML.
        """
        text, made = self._editable(), 0
        for finding in filter(mendable, findings):
            with contextlib.suppress(EditError):
                after = fixed_text(text, finding, self._after)
                text, made = after, made + (after != text)
        self._edit(text)
        return made

    def has(self, key: str | Sequence[str | int]) -> bool:
        """Return whether a key is in the text."""
        return self.get(key, _ABSENT) is not _ABSENT

    def get(self, key: str | Sequence[str | int], otherwise: Any = None) -> Any:
        """Return a value as written in the text: before `--set` and not converted to its field's type."""
        return get_value(self._readable_values(), split_key(key), otherwise)

    @property
    def problem(self) -> Problem | None:
        """Why the text is invalid YAML, or None."""
        error = self._parsed[1]
        return _problem(error, self.text) if error is not None else None

    @property
    def inspected(self) -> Inspected:
        """Result of the checks: values by dataclass, section, findings, config."""
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
        """All findings about the current text, in order."""
        return self.inspected.findings

    def values(self) -> Mapping[str, FieldValue]:
        """Return every field with its value and origin. An invalid text keeps those of the last valid one."""
        seen = self.inspected
        if self.problem is not None and self._values is not None:
            return self._values[1]
        if self._values is None or self._values[0][0] is not seen or self._values[0][1] != self.preset:
            self._values = ((seen, self.preset), field_values(seen, self._preset(), self.overrides))
        return self._values[1]

    def override(self, overrides: Sequence[str]) -> None:
        """Replace the `--set` overrides."""
        self.overrides = tuple(overrides)
        self.version += 1

    def changed_on_disk(self) -> bool:
        """Return whether the file's content changed since it was opened or saved. Its time is ignored."""
        return self.path is not None and hash_on_disk(self.path) != self._saved_hash

    def disk_text(self) -> str | None:
        """Return the current text on disk, None if the file is gone or not text."""
        try:
            return read_text(self.path)[0] if self.path is not None else None
        except DraftFileError:
            return None

    def save(self, *, force: bool = False) -> None:
        """Write the text to its file.

        Raises:
            ChangedOnDiskError: The file changed since it was opened, and `force` is not set.
            DraftFileError: There is no file, or it cannot be written.
        """
        if self.path is None:
            raise DraftFileError("the draft has no file yet; save it under a name")
        if self.changed_on_disk() and not force:
            raise ChangedOnDiskError(self.path, self.text, self.disk_text())
        self._write(self.path)

    def save_as(self, path: str | Path, *, force: bool = False) -> None:
        """Write the text to another file, which becomes the draft's file.

        Raises:
            ChangedOnDiskError: The file exists already, and `force` is not set.
            DraftFileError: The file cannot be written.
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
        """Replace the text by that on disk. `undo` restores the draft's own text.

        Raises:
            DraftFileError: The file cannot be read.
        """
        if self.path is None:
            raise DraftFileError("the draft has no file to read")
        self.saved_text, self._saved_hash = read_text(self.path)
        return self._edit(self.saved_text)

    def _write(self, path: Path) -> None:
        self._saved_hash = write_text(path, self.text)
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
            raise EditError(f"fix the YAML error first: {self.problem.words()}")
        return self.text

    def _readable_values(self) -> Mapping[str, Any]:
        document = self._parsed[0]
        return document.values if document is not None else {}

    @property
    def _parsed(self) -> tuple[yaml_lines.YamlDocument | None, yaml_lines.YamlError | None]:
        return read_once(self.text)

    def _after(self, path: Sequence[str | int]) -> list[str]:
        """Return the top-level keys after which a new one may be inserted, best first."""
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
                text = read_text(self.preset)[0]
                self._preset_values = (self.preset, yaml_lines.parse_mapping(text).values)
            except (DraftFileError, yaml_lines.YamlError):
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
