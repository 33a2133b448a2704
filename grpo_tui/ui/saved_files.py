"""Which files of a person's rewards were saved since they were read. Knows files by time and size."""

from __future__ import annotations

from collections.abc import Iterable

from grpo_tui.config.stamps import GONE, Stamp, stamp


class SavedFiles:
    """Follows files; one thread reads them, another looks whether one was saved."""

    def __init__(self) -> None:
        self._stamps: dict[str, Stamp] = {}
        self._read: dict[str, Stamp] = {}

    def forget(self) -> None:
        """Follow none."""
        self._stamps = {}

    def before_reading(self, files: Iterable[str]) -> None:
        """Follow these files, as they stand before they are read."""
        self._follow(files)
        self._read = {file: stamp(file) for file in self._stamps}

    def after_reading(self, files: Iterable[str]) -> None:
        """Follow these files; what came to light while reading counts as read as it stands."""
        self._follow(files)
        self._read = {**self._stamps, **self._read}

    def _follow(self, files: Iterable[str]) -> None:
        self._stamps = {file: self._stamps.get(file) or stamp(file) for file in files}

    def saved(self) -> list[str]:
        """Files that were saved since they were last looked at; one that is gone was not saved."""
        return [file for file, known in self._stamps.items() if stamp(file) not in (known, GONE)]

    def seen(self) -> None:
        """All of them are as they stand now."""
        self._stamps = {file: stamp(file) for file in self._stamps}

    def stale(self) -> bool:
        """Whether one of them stands otherwise than it was read: it can be seen while it is written."""
        return any(stamp(file) != read for file, read in self._read.items())
