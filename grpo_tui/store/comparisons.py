"""Find and read the model comparisons kept for a run.

A comparison is a file of JSON lines in `compare/` of the run folder or the state folder, written by
`ship/kept.py`. Results in a run folder count only when this user started the run: others may be made up.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from grpo_tui.store.json_file import read_regular
from grpo_tui.store.layout import is_known, own_folder

BASE = "base"
"""Name of the model that a run started from."""
FOLDER = "compare"
"""Subfolder of a run folder or the state folder, with one file per comparison."""
LARGEST_BYTES = 1 << 31


def newest_result(run: Path) -> dict[str, Any] | None:
    """Return the result of the newest finished comparison in a run folder; None without one."""
    return next((result for _, result in _results(run, _files(run))), None)


def kept_results(run: Path) -> list[tuple[Path, dict[str, Any]]]:
    """Return the comparisons kept for a run, each with its file and last result, newest first."""
    own = _files(run) if is_known(run) else []
    found = [*_results(run, own)]
    state = own_folder("state")
    found += [(file, result) for file, result in _results(state, _files(state)) if _is_of(run, result)]
    return sorted(found, key=lambda one: _changed_ns(one[0]), reverse=True)


def read_lines(file: Path) -> Iterator[Mapping[str, Any]]:
    """Yield the lines of a comparison's file, up to the first broken one.

    Raises:
        OSError: It cannot be read.
    """
    for line in read_regular(file, largest=LARGEST_BYTES).splitlines():
        try:
            body = json.loads(line)
        except (ValueError, RecursionError):
            return
        if isinstance(body, dict):
            yield body


def marks(run: Path) -> tuple[tuple[str, int], ...]:
    """Return the files that may hold a comparison of this run, each with its modification time."""
    own = _files(run) if is_known(run) else []
    return tuple((str(file), _changed_ns(file)) for file in (*own, *_files(own_folder("state"))))


def _files(folder: Path) -> list[Path]:
    try:
        return sorted((folder / FOLDER).glob("*.jsonl"), key=_changed_ns, reverse=True)
    except OSError:
        return []


def _changed_ns(file: Path) -> int:
    try:
        return file.lstat().st_mtime_ns
    except OSError:
        return 0


def _results(folder: Path, files: list[Path]) -> Iterator[tuple[Path, dict[str, Any]]]:
    for file in files:
        if (result := _last_result(file, folder)) is not None:
            yield file, result


def _last_result(file: Path, folder: Path) -> dict[str, Any] | None:
    try:
        content = read_regular(file, below=folder, largest=LARGEST_BYTES)
        for line in reversed(content.splitlines()):
            body = json.loads(line) if line.startswith(b'{"result"') else {}
            if isinstance(body, dict) and isinstance(body.get("result"), dict):
                return dict(body["result"])
    except (OSError, ValueError, RecursionError):
        return None
    return None


def _is_of(run: Path, result: Mapping[str, Any]) -> bool:
    policies, root = result.get("policies"), os.path.realpath(run)
    listed = policies if isinstance(policies, list) else []
    paths = [one.get("path") for one in listed if isinstance(one, dict)]
    return any(isinstance(path, str) and Path(os.path.realpath(path)).is_relative_to(root) for path in paths)
