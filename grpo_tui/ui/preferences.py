"""User preferences (theme, charts, title, bell) in one small JSON file, and unsaved config text.

An unreadable file gives the defaults and a message, never an error. Unknown names in the file are kept.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

FOLDER_VARIABLE = "GRPO_TUI_CONFIG_DIR"
FILE = "preferences.json"


@dataclass(frozen=True, slots=True)
class Preferences:
    """Preferences that persist between sessions."""

    theme: str = ""
    """`dark` or `light`; empty follows the terminal's background."""
    title: bool = True
    """Show state and step in the terminal title."""
    bell: bool = False
    """Ring once when the open run ends or fails, and for a new error."""
    charts: tuple[str, ...] = ()
    """Metric keys of the charts in Train, in order; empty for the default ones."""


DEFAULTS = Preferences()


class PreferenceFile:
    """The preferences file, in `GRPO_TUI_CONFIG_DIR` or the platform's config folder by default."""

    def __init__(self, folder: Path | None = None) -> None:
        self.path = (folder or config_folder()) / FILE

    def read(self) -> tuple[Preferences, str]:
        """Return the preferences, and a message about what could not be read (else empty)."""
        try:
            found, trouble = self._values(), ""
        except FileNotFoundError:
            return DEFAULTS, ""
        except (OSError, ValueError) as error:
            return DEFAULTS, f"{self.path} cannot be read ({error}); using the defaults"
        known: dict[str, Any] = {}
        for field in fields(Preferences):
            if field.name not in found:
                continue
            value = _fitting(found[field.name], getattr(DEFAULTS, field.name))
            if value is None:
                trouble = f"{self.path}: {field.name} is invalid; using the default"
            else:
                known[field.name] = value
        return replace(DEFAULTS, **known), trouble

    def change(self, **changes: Any) -> tuple[Preferences, str]:
        """Save new values of some preferences. Others that another program changed meanwhile are kept.

        Return all preferences as they are now, and why they could not be written (else empty).
        """
        import json

        from grpo_tui.store.json_file import write_bytes

        now, _ = self.read()
        now = replace(now, **changes)
        try:
            values = self._values()
        except (OSError, ValueError):
            values = {}
        values |= {name: getattr(now, name) for name in changes}
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_bytes(self.path, (json.dumps(values, indent=1) + "\n").encode())
        except OSError as error:
            return now, f"not saved: {self.path} cannot be written ({error.strerror or error})"
        return now, ""

    def _values(self) -> dict[str, Any]:
        text = self.path.read_text(encoding="utf-8")
        import json  # not needed for the first paint without a preferences file

        values = json.loads(text)
        if not isinstance(values, dict):
            raise ValueError("it does not contain a JSON object")
        return values


def config_folder(environment: Mapping[str, str] | None = None) -> Path:
    """Return the folder of this program's settings."""
    chosen = (os.environ if environment is None else environment).get(FOLDER_VARIABLE)
    if chosen:
        return Path(chosen)
    from platformdirs import user_config_path

    return user_config_path("grpo-tui", appauthor=False)


def _fitting(value: Any, default: Any) -> Any:
    if isinstance(default, tuple):
        whole = isinstance(value, list) and all(isinstance(item, str) for item in value)
        return tuple(value) if whole else None
    return value if type(value) is type(default) else None


FOLDER = "unsaved"


@dataclass(frozen=True, slots=True)
class Unsaved:
    """Unsaved text of a config, kept when the screen went away and offered when the file is opened again.

    A terminal that hangs up leaves no way to ask. `at` is when it was kept, in seconds since the epoch.
    """

    text: str
    at: float


def keep_unsaved(path: Path, text: str) -> None:
    """Keep the unsaved text of a file. A full disk is ignored, because it must not block the exit."""
    place = _place(path)
    with contextlib.suppress(OSError, UnicodeEncodeError):
        place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as opened:
            opened.write(text)


def unsaved(path: Path) -> Unsaved | None:
    """Return the unsaved text kept for a file; None when there is none."""
    place = _place(path)
    try:
        with place.open(encoding="utf-8", newline="") as opened:
            return Unsaved(opened.read(), place.stat().st_mtime)
    except (OSError, UnicodeDecodeError):
        return None


def forget_unsaved(path: Path) -> None:
    """Delete the unsaved text kept for a file."""
    with contextlib.suppress(OSError):
        _place(path).unlink(missing_ok=True)


def _place(path: Path) -> Path:
    import hashlib

    name = hashlib.sha256(os.fsencode(path.absolute())).hexdigest()[:24]
    return config_folder() / FOLDER / f"{name}.yaml"
