"""Configs in folders, and differences between an open config and something else, as lines for a screen.

`config.config_diff` compares; this module names the sides and formats the rows. Of other files only the names
are examined.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from grpo_tui.config.config_diff import Diff, Side, diff
from grpo_tui.config.draft import Draft
from grpo_tui.config.presets import CASES, preset_of, presets
from grpo_tui.config.run_config import RunConfig
from grpo_tui.present.config_evaluate import shown
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.spec import read_spec

MOST_FILES = 40
DEEPEST = 3
MOST_FOLDERS = 200
PASSED_OVER = ("node_modules", "outputs", "site-packages")


def configs_below(folder: Path) -> list[Path]:
    """Return YAML files below a folder that look like configs, those in `configs` first."""
    found: list[Path] = []
    level = [folder]
    for _ in range(DEEPEST):
        below: list[Path] = []
        for place in level:
            try:
                entries = sorted(place.iterdir())
            except OSError:
                continue
            for entry in entries:
                if entry.name.startswith(".") or entry.name in PASSED_OVER:
                    continue
                if entry.is_dir() and not entry.is_symlink() and len(below) < MOST_FOLDERS:
                    below.append(entry)
                elif entry.suffix in (".yaml", ".yml") and not entry.name.endswith(CASES):
                    found.append(entry)
        level = below
    return sorted(found, key=lambda file: (file.parent.name != "configs", len(file.parts)))[:MOST_FILES]


def preset_file(text: str) -> Path | None:
    """Return the preset that a config says it was copied from."""
    name = preset_of(text)
    return next((preset.path for preset in presets() if preset.name == name), None) if name else None


def not_new(path: Path) -> str:
    """Return why no new config can be written there; empty when it can."""
    return f"{path} already exists" if os.path.lexists(path) else _not_a_config(path)


def not_readable(path: Path) -> str:
    """Return why no config can be read there; empty when it can."""
    if path.is_dir():
        return f"{path} is a folder"
    return "" if path.is_file() else f"{path}: no such file"


def not_writable(path: Path) -> str:
    """Return why no config can be written there; empty when it can."""
    if path.is_dir():
        return f"{path} is a folder"
    if not path.absolute().parent.is_dir():
        return f"there is no folder {path.parent}"
    return _not_a_config(path)


def not_script(path: Path) -> str:
    """Return why no script can be written there; empty when it can."""
    return not_bundle(path) or ("" if path.suffix == ".py" else "a script ends in .py")


def not_bundle(path: Path) -> str:
    """Return why no bundle can be written there; empty when it can."""
    if path.exists():
        return f"{path} already exists"
    return "" if path.absolute().parent.is_dir() else f"there is no folder {path.parent}"


def _not_a_config(path: Path) -> str:
    return "" if path.suffix in (".yaml", ".yml") else "a config ends in .yaml"


Sign = Literal["+", "-", " ", "@"]
NOW = "current"


@dataclass(frozen=True, slots=True)
class Compared:
    """Two compared sides: `theirs` has `-` lines, `mine` has `+` lines, and `@` is a title."""

    theirs: str
    mine: str
    lines: tuple[tuple[Sign, str], ...]


def against(what: str | Path, draft: Draft) -> Compared:
    """Compare an open config with something else.

    Raises:
        OSError: A run's config cannot be read.
        ValueError: A file or a run's config is invalid.
    """
    if isinstance(what, Path):
        config = RunConfig.from_json(read_spec(RunFolder(what).spec).config, what)
        return _fields(diff(draft, Side.run(f"the run {what.name}", config)))
    if what == "defaults":
        return _fields(diff(draft, Side.defaults()))
    side = Side.preset(draft) if what == "preset" else None
    return _lines(diff(draft, side if side is not None else Side.saved(draft)))


def texts(theirs: str, title: str, draft: Draft) -> Compared:
    """Compare an open config with another version of its text."""
    return _lines(diff(draft, Side.of(Draft(theirs, draft.path), title)))


def _lines(found: Diff) -> Compared:
    """Compare line by line, or by fields where one side has no text."""
    if not found.lines:
        return _fields(found)
    lines: list[tuple[Sign, str]] = []
    for line in found.lines[2:]:
        if line.startswith("@@"):
            place = line.partition("+")[2].partition(" ")[0].partition(",")[0]
            lines.append(("@", f"line {place}"))
        elif line[:1] in ("+", "-", " "):
            sign: Sign = "+" if line[0] == "+" else "-" if line[0] == "-" else " "
            lines.append((sign, line[1:]))
    return Compared(found.there, NOW, tuple(lines))


def _fields(found: Diff) -> Compared:
    sides: list[tuple[tuple[Sign, str], tuple[Sign, str]]] = [
        (("-", f"{row.field}: {shown(row.there)}"), ("+", f"{row.field}: {shown(row.here)}"))
        for row in found.rows
    ]
    return Compared(found.there, NOW, tuple(line for both in sides for line in both))
