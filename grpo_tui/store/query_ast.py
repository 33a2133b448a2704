"""What a query over completions asks, as frozen values, and the fields that there are to ask about.

Knows the names of the language; knows neither how they are typed nor how they are looked up.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Kind = Literal["number", "flag", "word", "text"]

NUMBERS = (
    "reward", "advantage", "tokens", "characters", "step", "last_step", "index", "group", "mean", "std",
    "rank", "batch", "attempt",
)  # fmt: skip
"""`group` is the number under which the run keeps the group; `mean` and `std` are those of the group."""
FLAGS = ("truncated", "masked", "zero_std", "all_right", "all_wrong", "mixed", "duplicate", "superseded")
"""`masked`: the loss leaves it out; `zero_std`: all advantages of its group are 0; `mixed`: some are not;
`duplicate`: another one of its group has the same text."""
WORDS = {"mode": ("train", "eval", "probe")}
TEXTS = ("completion", "prompt")
FAMILIES = ("rewards", "extra", "column")
"""Fields with a name of the run's own behind a dot: reward functions, `log_extra`, columns of the dataset."""
ALIASES = {"text": "completion", "reward_std": "std", "columns": "column", "length": "tokens"}

Operator = Literal["==", "!=", "<", "<=", ">", ">="]
OPERATORS: tuple[Operator, ...] = ("==", "!=", "<", "<=", ">", ">=")


@dataclass(frozen=True, slots=True)
class Field:
    """A field as asked for; `key` is the name behind the dot, `at` where it stands in the line, from 0."""

    name: str
    key: str | None = None
    at: int = 0

    def __str__(self) -> str:
        """As a person types it."""
        if self.key is None:
            return self.name
        plain = self.key.replace("_", "").replace("-", "").isalnum()
        return f"{self.name}.{self.key}" if plain else f"{self.name}.{quoted(self.key)}"


@dataclass(frozen=True, slots=True)
class Comparison:
    """`field op value`; false where the field has no value or NaN."""

    field: Field
    op: Operator
    value: float | str


@dataclass(frozen=True, slots=True)
class Between:
    """`field low..high`, both ends included; None leaves an end open."""

    field: Field
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Is:
    """`field is none` (nothing was given: a reward abstained) or `field is nan`."""

    field: Field
    what: Literal["none", "nan"]


@dataclass(frozen=True, slots=True)
class Flag:
    """A field that holds or does not."""

    field: Field


@dataclass(frozen=True, slots=True)
class Has:
    """The field's text holds these characters, in any case."""

    field: Field
    text: str


@dataclass(frozen=True, slots=True)
class Matches:
    """Python's `re.search` finds the pattern in the field's text; `at` is where the pattern stands."""

    field: Field
    pattern: str
    at: int = 0


@dataclass(frozen=True, slots=True)
class Not:
    """The part does not hold."""

    part: Query


@dataclass(frozen=True, slots=True)
class And:
    """All parts hold; without any, everything does."""

    parts: tuple[Query, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """One of the parts holds."""

    parts: tuple[Query, ...]


Query = Comparison | Between | Is | Flag | Has | Matches | Not | And | Or
EVERYTHING = And(())


def quoted(text: str) -> str:
    """A text or a name as a query holds it in quotes."""
    if '"' not in text:
        return f'"{text}"'
    return f"'{text}'" if "'" not in text else '"' + text.replace('"', '\\"') + '"'


class QueryError(ValueError):
    """A query that is not understood: one sentence, and where in the line.

    Attributes:
        text: the line.
        at: the place, from 0; it may be the end of the line.
    """

    def __init__(self, message: str, text: str = "", at: int = 0) -> None:
        super().__init__(message)
        self.text = text
        self.at = at

    @property
    def sentence(self) -> str:
        """The message with the column, counted from 1."""
        return f"column {self.at + 1}: {self}"

    def marked(self) -> str:
        """The line, and below it a mark under the place."""
        line = " ".join(self.text[: self.at].split("\n")) + " ".join(self.text[self.at :].split("\n"))
        return f"{line}\n{' ' * self.at}^"


def leaves(query: Query) -> Iterator[Comparison | Between | Is | Flag | Has | Matches]:
    """Every question of a query that is not made of others, in order."""
    if isinstance(query, And | Or):
        for part in query.parts:
            yield from leaves(part)
    elif isinstance(query, Not):
        yield from leaves(query.part)
    else:
        yield query


def fields(query: Query) -> tuple[Field, ...]:
    """The fields that a query asks about, in order."""
    return tuple(leaf.field for leaf in leaves(query))


def is_known(name: str) -> bool:
    """Whether a name, as typed, is that of a field or a family of them."""
    name = ALIASES.get(name, name)
    return name in NUMBERS or name in FLAGS or name in WORDS or name in TEXTS or name in FAMILIES


def all_names() -> tuple[str, ...]:
    """Every name a person may type, families with their dot."""
    return (*NUMBERS, *FLAGS, *WORDS, *TEXTS, "text", *(f"{name}." for name in FAMILIES))
