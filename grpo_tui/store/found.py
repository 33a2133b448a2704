"""What a search over completions found, as one frozen value for pane and command, and how it is ordered.

Knows numbers of completions and of steps; knows no file.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from grpo_tui.store.query_ast import EVERYTHING, Field, Query, QueryError
from grpo_tui.store.query_text import read_field

BUCKETS = 40
"""Most buckets of the distribution over steps, where nobody asks for another number."""


@dataclass(frozen=True, slots=True)
class SortKey:
    """A field to sort by; those without a value come last either way."""

    field: Field
    descending: bool = False

    def __str__(self) -> str:
        return f"-{self.field}" if self.descending else str(self.field)


NEWEST = (SortKey(Field("step"), descending=True),)
OLDEST = (SortKey(Field("step")),)


_KEY = re.compile(
    r"""\s*(?P<sign>[-+−]?)(?P<field>(?:"[^"]*"|'[^']*'|[^,"'])*?)(?:[\s:]+(?P<way>asc|desc))?\s*,""",
    re.IGNORECASE,
)


def read_sort(text: str, functions: Collection[str] = ()) -> tuple[SortKey, ...]:
    """Keys as typed: `reward`, `-advantage`, `step,-rewards.format`, `reward desc`; empty: the newest first.

    Args:
        text: as typed.
        functions: names of the run's reward functions, which may stand without `rewards.` before them.

    Raises:
        QueryError: A key is no field.
    """
    if not text.strip():
        return NEWEST
    keys = []
    at = 0
    while at <= len(text):
        key = _KEY.match(f"{text},", at)
        if key is None:
            raise QueryError("a quote in it is not closed", text, at)
        at = key.end()
        word = key["field"].strip()
        try:
            field = read_field(word, functions)
        except QueryError as error:
            place = key.start("field") + key["field"].index(word)
            raise QueryError(str(error), text, place + error.at) from None
        turned = bool(key["sign"].strip("+")) != ((key["way"] or "").lower() == "desc")
        keys.append(SortKey(field, turned))
    return tuple(keys)


@dataclass(frozen=True, slots=True)
class StepHits:
    """How many completions of some steps were found; both ends belong to it."""

    first_step: int
    last_step: int
    hits: int
    of: int
    """Completions in these steps."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a search found, whole or as far as it has come.

    Attributes:
        line: The query as typed.
        query: The query.
        sort: By what `ids` are ordered; equal ones stand in order of recording.
        ids: Numbers of the completions found, for `Search.rows`.
        groups: In how many groups they are.
        searched: How many completions were looked at.
        of: How many there are to look at.
        over_steps: Their distribution over the steps, first step first, without steps that have no
            completion.
        complete: False while the search goes on, and when it was ended before its end.
        trouble: Why it was ended, or what could not be searched: a sentence for a person; empty when all was
            well.
        hint: What may be wrong with a query that found nothing: a sentence, mostly empty.
        notes: What is to be known of somebody else's logs, as a file that cannot be read.
        seconds: How long it took.
        newest_group: The newest group that there was; what came later was not searched.
    """

    line: str = ""
    query: Query = EVERYTHING
    sort: tuple[SortKey, ...] = NEWEST
    ids: Sequence[int] = ()
    group_of: Sequence[int] = ()
    """The group of each of `ids`."""
    groups: int = 0
    searched: int = 0
    of: int = 0
    over_steps: tuple[StepHits, ...] = ()
    complete: bool = True
    trouble: str = ""
    hint: str = ""
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    newest_group: int = 0

    @property
    def count(self) -> int:
        """How many completions were found."""
        return len(self.ids)

    @property
    def began(self) -> StepHits | None:
        """The first bucket with a hit: when did this begin?"""
        return next((bucket for bucket in self.over_steps if bucket.hits), None)


def packed(ids: Iterable[int]) -> array[int]:
    """Numbers in eight bytes each."""
    return array("q", ids)


def over_steps(hits: Counter[int], of: Mapping[int, int], buckets: int = BUCKETS) -> tuple[StepHits, ...]:
    """Hits by step in at most so many buckets of equal width: 1, 2 or 5 steps, or such a number with zeros.

    Args:
        hits: Completions found, by step.
        of: Completions there are, by step.
        buckets: The most there may be.
    """
    of = {step: count for step, count in of.items() if isinstance(step, int)}  # a file may hold anything
    if not of:
        return ()
    width = bucket_width(min(of), max(of), buckets)
    found: dict[int, list[int]] = {}
    for step, count in of.items():
        sums = found.setdefault(step // width, [0, 0])
        sums[0] += hits.get(step, 0)
        sums[1] += count
    return tuple(
        StepHits(number * width, number * width + width - 1, *sums) for number, sums in sorted(found.items())
    )


def bucket_width(first: int, last: int, buckets: int) -> int:
    """The narrowest round width by which the steps fall into at most so many buckets."""
    scale = 1
    while True:
        for digit in (1, 2, 5):
            width = digit * scale
            if last // width - first // width + 1 <= max(1, buckets):
                return width
        scale *= 10
