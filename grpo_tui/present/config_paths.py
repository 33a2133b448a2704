"""Find configs below a folder and the preset of a config, and check paths to read or write.

Only file names are examined; no file is opened.
"""

from __future__ import annotations

import os
from pathlib import Path

from grpo_tui.config.presets import CASES, preset_of, presets

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
    return "" if path.is_file() else f"no such file: {path}"


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
