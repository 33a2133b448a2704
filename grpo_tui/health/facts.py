"""What the rules see of a step: its metrics, and facts about its groups of completions.

The facts of a group are computed once from its completions and contain no text.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from grpo_tui.core.records import Completion
from grpo_tui.core.statistics import (
    SAME,
    repeated_share,
    scored,
    signal_of,
)

MOST_TEXT = 2_000
_SHORT = 20
"""Shorter texts, in characters, are not checked for repetition."""
_ANSWERS = ("</answer>", "\\boxed{", "####")


@dataclass(frozen=True, slots=True)
class Settings:
    """What the rules need from a run's config."""

    weights: tuple[float, ...] = ()
    names: tuple[str, ...] = ()
    first_function: int = 0
    """Index of the first function in the record."""
    normalized: bool = False
    """Whether TRL divides each function by its own std (`normalize_then_sum`)."""
    beta: float | None = 0.0
    """None when it is not known. TRL logs `kl` only when it is above 0."""
    by_sequence: bool = False
    """Whether ratios are clipped per sequence, which clips far more of them by design (GSPO)."""
    epsilon_high: float | None = None
    learning_rate: float | None = None
    temperature: float | None = None
    max_completion_length: int | None = None
    total_steps: int | None = None
    has_tokens: bool = True
    """Whether lengths and truncation were recorded. Imported logs may lack them."""
    from_groups: bool = False
    """Whether reward, length and truncation come from the groups because no metrics were logged."""


class Repeats(NamedTuple):
    """Squared differences of one function's scores, and the number of differences they come from.

    Attributes:
        own: Of completions with the same text, from their mean.
        again: Completions that repeat a text of their group.
        all: Of all completions of a group, from their mean.
        size: Completions but one.
    """

    own: float = 0.0
    again: int = 0
    all: float = 0.0
    size: int = 0

    @property
    def share(self) -> float:
        """The variance of equal texts as a fraction of the variance within groups; 0 without either."""
        return (self.own / self.again) / (self.all / self.size) if self.again and self.all > 0 else 0.0


class FunctionFacts(NamedTuple):
    """One reward function's values for a group.

    Without a finite value `low` is inf, `high` is -inf and `mean` is None.
    """

    low: float
    high: float
    mean: float | None
    none: int

    @property
    def varies(self) -> bool:
        """Whether it gave the completions different values."""
        return self.high - self.low >= SAME


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """One group of completions.

    Attributes:
        cause: `some` when it has a signal, otherwise why not: `masked`, `not-finite`, `unscored`,
            `cancels`, `identical` or `equal`.
        low: Lowest total; None without a finite one, as for `high` and `mean`.
        answered: Truncated completions with a final answer in their first half.
        tokens: Mean length.
        different: Whether the texts differ.
        repeated: Fraction of repeated four-word runs in the first text; None when that is short or was
            not checked.
        columns: Values of each function, one per completion.
        same: Places of the completions with the same text, for each text that occurs more than once.
        lengths: Sums of squares of the lengths and of the totals about their means, and of their products.
    """

    prompt: str
    cause: str
    low: float | None
    high: float | None
    mean: float | None
    size: int
    truncated: int
    answered: int
    tokens: float
    different: bool
    repeated: float | None
    functions: tuple[FunctionFacts, ...]
    columns: Sequence[Sequence[float | None]]
    same: Sequence[Sequence[int]] = ()
    lengths: tuple[float, float, float] = (0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Visits:
    """Lowest and highest total of a prompt over the run, and the number of one of its groups."""

    count: int
    low: float
    high: float
    group: int


@dataclass(frozen=True, slots=True)
class Observation:
    """One step, or a stretch of steps of a long run, both ends included.

    Attributes:
        values: Metrics by TRL's keys. The mean over a stretch; NaN where no value is finite.
        missing: Keys with a value that is NaN or infinite.
        groups: Training groups; a sample of them in a long run.
        seconds: Time per step by phase.
        failed: Number of failed reward calls by function index.
        ranks: Time per step in which each rank generated, when there are several.
    """

    first_step: int
    step: int
    values: Mapping[str, float] = field(default_factory=dict)
    missing: frozenset[str] = frozenset()
    groups: tuple[GroupFacts, ...] = ()
    seconds: Mapping[str, float] = field(default_factory=dict)
    failed: Mapping[int, int] = field(default_factory=dict)
    ranks: Mapping[int, float] = field(default_factory=dict)


def facts_of(
    members: Sequence[Completion], prompt: str, settings: Settings, *, repetition: bool = True
) -> GroupFacts:
    """Compute the facts of a group; `repetition` decides whether its first text is checked for it."""
    totals = [c.total for c in members]
    low, high, middle = _extent(totals)
    columns = _columns(members, len(settings.weights))
    functions = tuple([FunctionFacts(*_extent(column), column.count(None)) for column in columns])
    weighted = [f for f, weight in zip(functions, settings.weights, strict=True) if weight]
    texts = [c.text for c in members]
    first = texts[0][:MOST_TEXT] if texts else ""
    return GroupFacts(
        prompt,
        _cause(members, totals, weighted),
        None if middle is None else low,
        None if middle is None else high,
        middle,
        len(members),
        sum([c.truncated for c in members]),
        sum([_answered(c.text) for c in members if c.truncated]),
        sum([c.tokens for c in members]) / max(1, len(members)),
        any(text[:MOST_TEXT] != first for text in texts),
        repeated_share(first) if repetition and len(first) >= _SHORT else None,
        functions,
        columns,
        _same_texts(members, texts),
        _by_length(members),
    )


def _by_length(members: Sequence[Completion]) -> tuple[float, float, float]:
    known = [(c.tokens, c.total) for c in members if c.total is not None and math.isfinite(c.total)]
    if not known:
        return 0.0, 0.0, 0.0
    length, total = (sum(values) / len(known) for values in zip(*known, strict=True))
    apart = [(tokens - length, reward - total) for tokens, reward in known]
    return sum([x * x for x, _ in apart]), sum([y * y for _, y in apart]), sum([x * y for x, y in apart])


def _same_texts(members: Sequence[Completion], texts: Sequence[str]) -> Sequence[Sequence[int]]:
    # Texts with different middles differ, and hashing the middle costs less than hashing a long text.
    if len({text[(middle := len(text) // 2) : middle + _SHORT] for text in texts}) == len(texts):
        return ()
    places: dict[str, list[int]] = {}
    for place, completion in enumerate(members):
        if completion.text and completion.messages is None:
            places.setdefault(completion.text, []).append(place)
    return [one for one in places.values() if len(one) > 1]


def repeats_of(groups: Sequence[GroupFacts], function: int) -> Repeats:
    """Return how the scores that a function gave to equal texts of a group differ."""
    own, everything = [], []
    for group in groups:
        column = group.columns[function]
        own += [_squares([column[place] for place in one]) for one in group.same]
        everything.append(_squares(column))
    (total, again), (every, size) = (
        (sum([part for part, _ in parts]), sum([count for _, count in parts])) for parts in (own, everything)
    )
    return Repeats(total, again, every, size)


def _squares(values: Sequence[float | None]) -> tuple[float, int]:
    """Return the sum of squares about the mean, and the number of finite values but one."""
    kept = scored(values)
    middle = sum(kept) / len(kept) if kept else 0.0
    return sum([(value - middle) ** 2 for value in kept]), max(0, len(kept) - 1)


def _columns(members: Sequence[Completion], functions: int) -> Sequence[Sequence[float | None]]:
    rows = [c.rewards for c in members]
    if {len(row) for row in rows} == {functions}:
        return list(zip(*rows, strict=True))
    return [[row[k] if k < len(row) else None for row in rows] for k in range(functions)]


def _extent(values: Sequence[float | None]) -> tuple[float, float, float | None]:
    """Return lowest, highest and mean of the finite values; inf, -inf and None without any."""
    if values and None not in values and math.isfinite(total := sum(values)):  # type: ignore[arg-type]
        return min(values), max(values), total / len(values)  # type: ignore[type-var, return-value]
    kept = scored(values)
    return (min(kept), max(kept), sum(kept) / len(kept)) if kept else (math.inf, -math.inf, None)


def _cause(
    members: Sequence[Completion], totals: Sequence[float | None], functions: Sequence[FunctionFacts]
) -> str:
    signal = signal_of(totals, [c.advantage for c in members], [c.masked for c in members])
    if signal != "none":
        return signal
    if any(total is not None and not math.isfinite(total) for total in totals):
        return "not-finite"
    if any(value is not None and not math.isfinite(value) for c in members for value in c.rewards):
        return "not-finite"
    if all(total is None for total in totals):
        return "unscored"
    if any(function.varies for function in functions):
        return "cancels"
    return "identical" if len(members) > 1 and len({c.text for c in members}) == 1 else "equal"


def _answered(text: str) -> bool:
    half = min(len(text) // 2, MOST_TEXT)
    # Searching for a single character first is many times faster than searching for the text.
    return any(text.find(mark[0], 0, half) >= 0 and text.find(mark, 0, half) >= 0 for mark in _ANSWERS)
