"""The result of a race: what each branch changed, what it reached, and which one to continue."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grpo_tui.core.text import filled, one_line, shell_word, wrapped
from grpo_tui.present.comparison_text import Measure, asked, digits_of, judged, measures_of, sentence
from grpo_tui.present.formatting import MISSING, fixed, from_here

CONTROL = "control"
"""Name of the branch without changes."""
START = "checkpoint"
"""Name of the checkpoint when it is what the branches are compared with."""
MOST_NAME = 34
NOT_REPEATABLE = (
    "Note: a vLLM server draws samples from a random state of its own, so the branches did not get the same "
    "samples, and another race can end differently"
)


@dataclass(frozen=True, slots=True)
class Branch:
    """One branch, which ended `complete`, `failed`, `stopped` or `not started`."""

    name: str
    settings: tuple[str, ...]
    root: Path
    end: str
    why: str = ""

    @property
    def shown(self) -> str:
        """The name with the settings, or only these if the name repeats them."""
        words = " ".join(self.settings)
        plain = "".join(filter(str.isalnum, words))
        return words if words and plain == "".join(filter(str.isalnum, self.name)) else self._named(words)

    def _named(self, words: str) -> str:
        return f"{self.name}: {words}" if words else self.name


@dataclass(frozen=True, slots=True)
class Race:
    """Branches that continued one checkpoint, compared in `body` if two models or more could be."""

    parent: Path
    step: int
    until: int
    branches: tuple[Branch, ...]
    body: Mapping[str, Any] | None = None
    server: bool = False

    @property
    def words(self) -> dict[str, str]:
        """The verdict on each branch that was compared with the first one."""
        return {one["policy"]: str(one["word"]) for one in self.body["verdict"]} if self.body else {}

    @property
    def best(self) -> Branch | None:
        """The branch to continue: the best one of those that are better than the control."""
        if self.body is None:
            return None
        names, deciding = [one["name"] for one in self.body["policies"]], measures_of(self.body)[0]
        better = [one for one in self.branches if self.words.get(one.name) == "better"]
        return max(better, key=lambda one: deciding.values[names.index(one.name)] or 0.0, default=None)

    def to_json(self) -> dict[str, Any]:
        """Return the documented JSON shape."""
        return {
            "parent": str(self.parent),
            "step": self.step,
            "until": self.until,
            "branches": [
                {
                    "name": one.name,
                    "settings": list(one.settings),
                    "path": str(one.root),
                    "end": one.end,
                    "error": one.why or None,
                    "word": self.words.get(one.name),
                }
                for one in self.branches
            ],
            "best": self.best.name if self.best is not None else None,
            "next": _next(self)[1] or None,
            "reproducible": not self.server,
            "comparison": self.body,
        }


def report(race: Race, width: int) -> Iterator[str]:
    """Yield the table, what was asked, and the next command."""
    yield ""
    where = shell_word(from_here(race.parent))
    yield from wrapped(f"Branches of {where} from step {race.step:,} to step {race.until:,}", width)
    yield ""
    yield from _tables(race, width)
    yield ""
    for one in race.branches:
        if one.why:
            yield from wrapped(f"{one.name} {one.end}: {one_line(one.why)}", width)
    if race.body is not None:
        for verdict in race.body["verdict"]:
            yield from wrapped(sentence(race.body, verdict), width)
        yield from wrapped(asked(race.body), width)
        yield from wrapped(judged(race.body), width)
        for note in race.body["notes"]:
            yield from wrapped(f"Note: {one_line(note)}", width)
    if race.server:
        yield from wrapped(NOT_REPEATABLE, width)
    said, command = _next(race)
    yield from wrapped(said, width)
    if command:
        yield f"  {command}"


def _next(race: Race) -> tuple[str, str]:
    """Return what to do next as a sentence and a command, which is empty for none."""
    if race.body is None:
        return "No branch could be compared. The same command trains those that failed again.", ""
    best, first = race.best, race.branches[0]
    if best is not None:
        said = f"Continue {one_line(best.name, 60)} to the end of the run:"
    else:
        said = (
            f"No branch is shown to be better than the {race.body['policies'][0]['name']}. More --rows or "
            "--steps show smaller differences."
        )
        if first.name != CONTROL or first.end != "complete":
            return said, ""
        said += " To continue without a change:"
    return said, f"grpo-tui train {shell_word(from_here((best or first).root))} --resume"


def _tables(race: Race, width: int) -> Iterator[str]:
    """Yield the columns in as many tables as the width needs, each with the names of the branches."""
    names, *columns = _columns(race)
    tables: list[list[list[str]]] = [[names]]
    for column in columns:
        if len(tables[-1]) > 1 and sum(_cells(one) + 2 for one in [*tables[-1], column]) - 2 > width:
            tables.append([names])
        tables[-1].append(column)
    for number, table in enumerate(tables):
        if number:
            yield ""
        for row in zip(*table, strict=True):
            first, *others = row
            cells = (
                filled(text, _cells(one), right=True) for text, one in zip(others, table[1:], strict=True)
            )
            yield "  ".join([filled(first, _cells(names)), *cells]).rstrip()


def _cells(column: list[str]) -> int:
    return max(map(len, column))


def _columns(race: Race) -> Iterator[list[str]]:
    body, lines = race.body, list(race.branches)
    start = body is not None and body["policies"][0]["name"] == START
    names = [START] if start else []
    yield ["branch", *names, *(one_line(one.shown, MOST_NAME) for one in lines)]
    if body is None:
        yield ["result", *(one.end for one in lines)]
        return
    found = [one["name"] for one in body["policies"]]
    at = [0] * start + [found.index(one.name) if one.name in found else -1 for one in lines]
    deciding, *others = measures_of(body)
    yield [deciding.name, *_values(deciding, at)]
    yield ["difference (95 %)", *(_difference(deciding, place) for place in at)]
    ends = {one.name: one.end for one in lines if one.end != "complete"} | race.words
    yield ["verdict", *([""] * start), *(ends.get(one.name, "") for one in lines)]
    for measure, told in zip(others, body["measures"][1:], strict=True):
        if told["kind"] in ("reward", "total"):
            yield [measure.name, *_values(measure, at)]


def _values(measure: Measure, at: list[int]) -> list[str]:
    digits = digits_of(measure.values)
    return [fixed(measure.values[place], digits) if place >= 0 else MISSING for place in at]


def _difference(measure: Measure, place: int) -> str:
    change = measure.changes[place] if place > 0 else None
    if change is None:
        return "" if place == 0 else MISSING
    middle, ends = change.words
    return f"{middle} ({ends})" if ends else middle
