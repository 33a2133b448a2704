"""Put forks under the run that they were forked from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from grpo_tui.present.runs_view import RunRow

MOST_INDENTED = 4
"""Generations that are indented. A younger one is indented like the last of these."""


def branch(generation: int) -> str:
    """Return what is in front of the name of a fork: 1 for the fork of a run, 2 for a fork of that."""
    return "  " * (min(generation, MOST_INDENTED) - 1) + "└ " if generation else ""


@lru_cache(maxsize=256)
def _real(folder: Path) -> Path:
    return folder.resolve()


def listed_parents(paths: Sequence[Path], forked_from: Mapping[Path, Path]) -> dict[Path, Path]:
    """Return the parent of each fork as it is listed, also when it is listed below a symbolic link."""
    listed = {_real(path.parent) / path.name: path for path in paths}
    return {path: listed[forked_from[path]] for path in paths if forked_from.get(path) in listed}


def in_families(paths: Sequence[Path], forked_from: Mapping[Path, Path]) -> Iterator[tuple[Path, int]]:
    """Yield each run with its generation: 0, or 1 for a fork of a listed run, 2 for a fork of that.

    A fork comes after its parent. Families are in the order of their first member in `paths`. A parent that
    is not in `paths` is ignored.
    """
    parents = listed_parents(paths, forked_from)
    for path in paths:
        if path in _ancestors(path, parents):  # only a file edited by hand makes a run its own ancestor
            del parents[path]
    forks: dict[Path, list[Path]] = {}
    for path in paths:
        if path in parents:
            forks.setdefault(parents[path], []).append(path)
    for eldest in dict.fromkeys([path, *_ancestors(path, parents)][-1] for path in paths):
        waiting = [(eldest, 0)]
        while waiting:
            path, generation = waiting.pop()
            yield path, generation
            waiting += [(fork, generation + 1) for fork in reversed(forks.get(path, []))]


def with_forks(rows: Sequence[RunRow]) -> tuple[RunRow, ...]:
    """Put forks under their parents, the family with the first row first."""
    known = {row.path: row for row in rows}
    parents = {row.path: row.forked_from.parent for row in rows if row.forked_from is not None}
    found = in_families([row.path for row in rows], parents)
    return tuple(replace(known[path], generation=number) if number else known[path] for path, number in found)


def _ancestors(path: Path, parents: Mapping[Path, Path]) -> dict[Path, None]:
    found: dict[Path, None] = {}
    while path in parents and parents[path] not in found:
        path = parents[path]
        found[path] = None
    return found
