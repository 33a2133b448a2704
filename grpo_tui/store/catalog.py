"""Find the runs under some folders. Knows where runs lie, not how they are listed on screen."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

MAX_DEPTH = 4
"""How deep below a root runs are looked for; checkpoints and hidden folders are passed over."""


def find_runs(roots: Iterable[Path]) -> list[Path]:
    """Run folders under the roots, each once, newest first by the last change of `run.db`."""
    starts = list(dict.fromkeys(os.path.abspath(root) for root in roots))
    found: dict[Path, float] = {}
    for start in starts:
        # A root inside another one is walked once, from itself: that goes deeper.
        _walk(start, MAX_DEPTH, found, frozenset(starts) - {start})
    return sorted(found, key=lambda path: found[path], reverse=True)


def _walk(folder: str, depth: int, found: dict[Path, float], others: frozenset[str]) -> None:
    try:
        with os.scandir(folder) as scan:
            entries = list(scan)
    except OSError:
        return
    names = {entry.name for entry in entries}
    if "run.db" in names or "run.json" in names:
        path = Path(folder)
        found[path.resolve()] = _changed_at(path)
        return
    if depth == 0:
        return
    for entry in entries:
        skipped = entry.name.startswith((".", "checkpoint-", "__")) or entry.name in (
            "node_modules",
            "site-packages",
        )
        if not skipped and entry.path not in others and entry.is_dir(follow_symlinks=False):
            _walk(entry.path, depth - 1, found, others)


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
