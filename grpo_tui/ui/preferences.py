"""What a person likes: colours, charts, title, bell. One small JSON file, replaced whole at a change.

A file that cannot be read gives the defaults and a word about it, never an error; names that this version
does not know are kept.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

FOLDER_VARIABLE = "GRPO_TUI_CONFIG_DIR"
FILE = "preferences.json"


@dataclass(frozen=True, slots=True)
class Preferences:
    """What is remembered from one start of the program to the next."""

    theme: str = ""
    """`dark` or `light`; empty: as the terminal says of its background."""
    title: bool = True
    """Whether the terminal's title shows state and step."""
    bell: bool = False
    """Whether the bell rings once when the open run ends or fails, and for a new error."""
    charts: tuple[str, ...] = ()
    """Keys of the metrics chosen for the charts of Train, in their order; empty: the usual ones."""


DEFAULTS = Preferences()


class PreferenceFile:
    """The file of preferences.

    Args:
        folder: Where it lies; by default `GRPO_TUI_CONFIG_DIR`, else the system's folder for such files.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.path = (folder or config_folder()) / FILE

    def read(self) -> tuple[Preferences, str]:
        """What is remembered, and a word about what could not be read, empty when all could."""
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
        """Remember other values of some preferences; what another program changed meanwhile stays.

        Returns:
            All preferences as they are now, and why they could not be written, empty when they were.
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
        import json  # a person without a file of preferences has a first paint without it

        values = json.loads(text)
        if not isinstance(values, dict):
            raise ValueError("it does not contain a JSON object")
        return values


def config_folder(environment: Mapping[str, str] | None = None) -> Path:
    """The folder of this program's settings."""
    chosen = (os.environ if environment is None else environment).get(FOLDER_VARIABLE)
    if chosen:
        return Path(chosen)
    from platformdirs import user_config_path

    return user_config_path("grpo-tui", appauthor=False)


def _fitting(value: Any, default: Any) -> Any:
    """The value when it has the default's type, else None."""
    if isinstance(default, tuple):
        whole = isinstance(value, list) and all(isinstance(item, str) for item in value)
        return tuple(value) if whole else None
    return value if type(value) is type(default) else None


FOLDER = "unsaved"


@dataclass(frozen=True, slots=True)
class Unsaved:
    """Changes not saved when the screen was taken away: kept, and offered when their file is opened.

    A terminal that hangs up leaves nobody to ask. One text for each file, for its owner's eyes alone.

    Attributes:
        text: the text.
        at: when it was kept, in seconds since the epoch.
    """

    text: str
    at: float


def keep_unsaved(path: Path, text: str) -> None:
    """Keep the text of a file's draft; a disk that takes nothing more is no reason not to leave."""
    place = _place(path)
    with contextlib.suppress(OSError, UnicodeEncodeError):
        place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as opened:
            opened.write(text)


def unsaved(path: Path) -> Unsaved | None:
    """What was kept of a file's draft, None when nothing was."""
    place = _place(path)
    try:
        with place.open(encoding="utf-8", newline="") as opened:
            return Unsaved(opened.read(), place.stat().st_mtime)
    except (OSError, UnicodeDecodeError):
        return None


def forget_unsaved(path: Path) -> None:
    """Keep nothing of a file's draft any more."""
    with contextlib.suppress(OSError):
        _place(path).unlink(missing_ok=True)


def _place(path: Path) -> Path:
    name = hashlib.sha256(os.fsencode(path.absolute())).hexdigest()[:24]
    return config_folder() / FOLDER / f"{name}.yaml"
