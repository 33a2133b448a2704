"""Changes that were not saved when the screen was taken away: kept, and offered when their file is opened.

A terminal that hangs up leaves nobody to ask. One text for each file, for its owner's eyes alone, beside the
preferences.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from grpo_tui.ui.preferences import config_folder

FOLDER = "unsaved"


@dataclass(frozen=True, slots=True)
class Unsaved:
    """A text that was kept.

    Attributes:
        text: the text.
        at: when it was kept, in seconds since the epoch.
    """

    text: str
    at: float


def keep(path: Path, text: str) -> None:
    """Keep the text of a file's draft; a disk that takes nothing more is no reason not to leave."""
    place = _place(path)
    with contextlib.suppress(OSError, UnicodeEncodeError):
        place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as opened:
            opened.write(text)


def kept(path: Path) -> Unsaved | None:
    """What was kept of a file's draft, None when nothing was."""
    place = _place(path)
    try:
        with place.open(encoding="utf-8", newline="") as opened:
            return Unsaved(opened.read(), place.stat().st_mtime)
    except (OSError, UnicodeDecodeError):
        return None


def forget(path: Path) -> None:
    """Keep nothing of a file's draft any more."""
    with contextlib.suppress(OSError):
        _place(path).unlink(missing_ok=True)


def _place(path: Path) -> Path:
    name = hashlib.sha256(os.fsencode(path.absolute())).hexdigest()[:24]
    return config_folder() / FOLDER / f"{name}.yaml"
