"""Filter the list of runs by words, fields and comparisons, parsed from one line.

gsm8k -old            contains the first word, not the second
state:failed,crashed  the field contains one of the words; also name: model: config: path:
state:live            live runs; state:ended for finished ones
reward>1  step>=100   numbers; `age<2h` for the last heartbeat, in s m h d
"two words"           including the space
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from grpo_tui.core.text import one_line

if TYPE_CHECKING:
    from grpo_tui.present.runs_view import RunRow


TEXTS = ("name", "state", "model", "config", "path")
NUMBERS = ("reward", "step", "age")
SYNTAX = "words, -word, state:failed, model:qwen, reward>1, step>=100, age<2h"

_UNIT_S = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "": 1.0}
_COMPARE: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt, "=": operator.eq,
}  # fmt: skip
_PIECE = re.compile(r'-?(?:[a-z_]+:)?"[^"]*"?|\S+')
_FIELD = re.compile(r"([a-z_]+):(.*)", re.DOTALL)
_COMPARISON = re.compile(r"([a-z_]+)(>=|<=|>|<|=)(.*)", re.DOTALL)
_AGE = re.compile(r"([0-9.]+)([smhd]?)")

Test = Callable[["RunRow", float], bool]


@dataclass(frozen=True, slots=True)
class RunsFilter:
    """A parsed filter; `trouble` is a sentence about what could not be parsed."""

    tests: tuple[Test, ...] = ()
    trouble: str = ""

    def holds(self, row: RunRow, now: float) -> bool:
        """Return whether a run matches; `now` is the wall clock, in seconds since the epoch."""
        return all(test(row, now) for test in self.tests)

    def of(self, rows: Iterable[RunRow], now: float) -> tuple[RunRow, ...]:
        """Return the runs that match, in order."""
        return tuple(row for row in rows if self.holds(row, now))


def read_filter(line: str) -> RunsFilter:
    """Parse a line. Parts that cannot be parsed are skipped and named in `trouble`."""
    tests: list[Test] = []
    troubles: list[str] = []
    for piece in _PIECE.findall(line.lower()):
        wanted = not piece.startswith("-")
        try:
            test = _test(piece.removeprefix("-"))
        except ValueError as error:
            troubles.append(str(error))
            continue
        if test is not None:
            tests.append(test if wanted else _unless(test))
    return RunsFilter(tuple(tests), troubles[0] if troubles else "")


def _test(piece: str) -> Test | None:
    """Parse one part; None while it is incomplete.

    Raises:
        ValueError: It cannot be parsed.
    """
    if found := _FIELD.fullmatch(piece):
        return _field(found[1], found[2].strip('"'))
    if found := _COMPARISON.fullmatch(piece):
        return _comparison(found[1], found[2], found[3])
    word = piece.strip('"')
    if not word:
        return None
    return lambda row, now: word in f"{row.name} {row.state} {row.model} {row.config} {row.path}".lower()


def _field(name: str, value: str) -> Test | None:
    if name not in TEXTS:
        known = " ".join(f"{known}:" for known in TEXTS)
        raise ValueError(f"“{one_line(name, 20)}:” is not a field. Fields: {known}")
    words = [word for word in value.split(",") if word]
    if not words:
        return None
    if name == "state":
        return lambda row, now: any(_in_state(row, word) for word in words)

    def holds(row: RunRow, now: float) -> bool:
        text = {"model": f"{row.model} {row.model_path}", "config": f"{row.config} {row.config_path}"}
        shown = text.get(name, str(getattr(row, name))).lower()
        return any(word in shown for word in words)

    return holds


def _in_state(row: RunRow, word: str) -> bool:
    if word in ("live", "ended"):
        return row.live if word == "live" else row.ended
    return row.state.startswith(word)


def _comparison(name: str, sign: str, value: str) -> Test | None:
    if name not in NUMBERS:
        raise ValueError(f"“{one_line(name, 20)}” is not a number of a run. Numbers: {', '.join(NUMBERS)}")
    if not value:
        return None
    compare, number = _COMPARE[sign], _number(name, value)

    def holds(row: RunRow, now: float) -> bool:
        if name == "age":
            return row.seen_at is not None and compare(max(0.0, now - row.seen_at), number)
        found = row.reward if name == "reward" else row.step
        return found is not None and compare(found, number)

    return holds


def _number(name: str, text: str) -> float:
    if name == "age":
        found = _AGE.fullmatch(text)
        if found is None:
            raise ValueError(f"“{one_line(text, 20)}” is not an age. Write 90s, 10m, 2h or 3d")
        text, unit = found[1], _UNIT_S[found[2]]
    else:
        unit = 1.0
    try:
        return float(text) * unit
    except ValueError:
        raise ValueError(f"“{one_line(text, 20)}” is not a number") from None


def _unless(test: Test) -> Test:
    return lambda row, now: not test(row, now)


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
