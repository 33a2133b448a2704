"""Find the runs under some folders. Knows where runs lie, not how they are listed on screen."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

MAX_DEPTH = 4
"""How deep below a root runs are looked for; checkpoints and hidden folders are passed over."""


def find_runs(roots: Iterable[Path]) -> list[Path]:
    """Run folders under the roots, each once, newest first by the last change of `run.db`."""
    found: dict[Path, float] = {}
    for root in roots:
        _walk(root, MAX_DEPTH, found)
    return sorted(found, key=lambda path: found[path], reverse=True)


def _walk(folder: Path, depth: int, found: dict[Path, float]) -> None:
    try:
        with os.scandir(folder) as scan:
            entries = list(scan)
    except OSError:
        return
    names = {entry.name for entry in entries}
    if "run.db" in names or "run.json" in names:
        resolved = folder.resolve()
        found[resolved] = _changed_at(folder)
        return
    if depth == 0:
        return
    for entry in entries:
        skipped = entry.name.startswith((".", "checkpoint-", "__")) or entry.name in (
            "node_modules",
            "site-packages",
        )
        if not skipped and entry.is_dir(follow_symlinks=False):
            _walk(Path(entry.path), depth - 1, found)


def _changed_at(folder: Path) -> float:
    return last_written_at(folder / name for name in ("run.db", "run.db-wal", "run.json"))


def last_written_at(paths: Iterable[Path]) -> float:
    """When the newest of some files was written, 0 when there is none.

    An empty file does not count: a reader of `run.db` leaves an empty write-ahead log behind.
    """
    newest = 0.0
    for path in paths:
        try:
            found = path.stat()
        except OSError:
            continue
        if found.st_size:
            newest = max(newest, found.st_mtime)
    return newest
