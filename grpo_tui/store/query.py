r"""Parse a query over completions from the line that the user types.

    reward<0.2 and tokens>400        numbers: < <= > >= == !=, ranges as in `step 40..60`, `40..`, `..60`
    truncated, not zero_std          flags; also masked all_right all_wrong mixed duplicate superseded
    rewards.format == 0              a reward function; `rewards."my reward"` for a name with spaces or dots
    format == 0                      the same, if the run has that function and there is no such field
    rewards.format is none           it abstained; `is nan`, `is not none`
    extra.x == "23", column.answer == "22"   values from `log_extra` and from the dataset
    "wait a moment"                  in the completion, in any case; `prompt has "x"`, `column.answer has "x"`
    text ~ "\bwait\b", !~              Python's regular expressions
    and or not ( )                   adjacent conditions are joined by `and`; also && || !
    0 < reward <= 1, tokens>1.5k     a number may come first; k, M and % are understood

In quotes a backslash is literal, except before the quote. Spellings from other languages are accepted: `&&`,
`||`, `!`, `<>`, and `:` for `..`. Whether a name after `rewards.` exists is checked later.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Literal, cast

Kind = Literal["number", "flag", "word", "text"]

NUMBERS = (
    "reward", "advantage", "tokens", "characters", "step", "last_step", "index", "group", "mean", "std",
    "rank", "batch", "attempt",
)  # fmt: skip
"""`group` is the group's number in the run; `mean` and `std` are those of the group."""
FLAGS = ("truncated", "masked", "zero_std", "all_right", "all_wrong", "mixed", "duplicate", "superseded")
"""`masked`: the loss leaves it out; `zero_std`: all advantages of its group are 0; `mixed`: some are not;
`duplicate`: another completion of its group has the same text.
"""
WORDS = {"mode": ("train", "eval", "probe")}
TEXTS = ("completion", "prompt")
FAMILIES = ("rewards", "extra", "column")
"""Fields followed by a dot and a name from the run: reward functions, `log_extra`, dataset columns."""
ALIASES = {"text": "completion", "reward_std": "std", "columns": "column", "length": "tokens"}

Operator = Literal["==", "!=", "<", "<=", ">", ">="]
OPERATORS: tuple[Operator, ...] = ("==", "!=", "<", "<=", ">", ">=")


@dataclass(frozen=True, slots=True)
class Field:
    """A field in a query; `key` is the name after the dot, `at` its position in the line, from 0."""

    name: str
    key: str | None = None
    at: int = 0

    def __str__(self) -> str:
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
    """`field is none` (no value: a reward abstained) or `field is nan`."""

    field: Field
    what: Literal["none", "nan"]


@dataclass(frozen=True, slots=True)
class Flag:
    """A field that is true or false."""

    field: Field


@dataclass(frozen=True, slots=True)
class Has:
    """The field's text contains this text, in any case."""

    field: Field
    text: str


@dataclass(frozen=True, slots=True)
class Matches:
    """`re.search` finds the pattern in the field's text; `at` is the pattern's position in the line."""

    field: Field
    pattern: str
    at: int = 0


@dataclass(frozen=True, slots=True)
class Not:
    """The part is false."""

    part: Query


@dataclass(frozen=True, slots=True)
class And:
    """All parts are true; true without any."""

    parts: tuple[Query, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """At least one part is true."""

    parts: tuple[Query, ...]


Query = Comparison | Between | Is | Flag | Has | Matches | Not | And | Or
EVERYTHING = And(())


def quoted(text: str) -> str:
    """Quote a text or a name for a query."""
    if '"' not in text:
        return f'"{text}"'
    return f"'{text}'" if "'" not in text else '"' + text.replace('"', '\\"') + '"'


class QueryError(ValueError):
    """A query that cannot be parsed: one sentence, and the position in the line, from 0."""

    def __init__(self, message: str, text: str = "", at: int = 0) -> None:
        super().__init__(message)
        self.text = text
        self.at = at

    @property
    def sentence(self) -> str:
        """The message with the column, counted from 1."""
        return f"column {self.at + 1}: {self}"

    def marked(self) -> str:
        """Return the line, and a caret below the position."""
        line = " ".join(self.text[: self.at].split("\n")) + " ".join(self.text[self.at :].split("\n"))
        return f"{line}\n{' ' * self.at}^"


def leaves(query: Query) -> Iterator[Comparison | Between | Is | Flag | Has | Matches]:
    """Yield every part of a query that contains no other part, in order."""
    if isinstance(query, And | Or):
        for part in query.parts:
            yield from leaves(part)
    elif isinstance(query, Not):
        yield from leaves(query.part)
    else:
        yield query


def fields(query: Query) -> tuple[Field, ...]:
    """Return the fields in a query, in order."""
    return tuple(leaf.field for leaf in leaves(query))


def is_known(name: str) -> bool:
    """Return whether a typed name is that of a field or a family of fields."""
    name = ALIASES.get(name, name)
    return name in NUMBERS or name in FLAGS or name in WORDS or name in TEXTS or name in FAMILIES


def all_names() -> tuple[str, ...]:
    """Return every name the user may type, families with their dot."""
    return (*NUMBERS, *FLAGS, *WORDS, *TEXTS, "text", *(f"{name}." for name in FAMILIES))


_TOKEN = re.compile(
    r"\s*(?:"
    r"(?P<range>\.\.|:)"
    r"|(?P<join>&&?|\|\|?|!(?![=~]))"
    r"|(?P<number>[-+−]?(?:(?:\d{1,3}(?:,\d{3})+(?!\d)|\d[\d_]*)(?:\.(?!\.)\d*)?|\.\d+)"
    r"(?:[eE][-+]?\d+)?(?:[kKmM]\b|%)?)"
    r"|(?P<string>\"(?:\\\"|[^\"])*\"|'(?:\\'|[^'])*'|“[^”]*”)"
    r"|(?P<op>==|!=|<=|>=|<>|≤|≥|≠|=|<|>|!~|~)"
    r"|(?P<mark>[().])"
    r"|(?P<name>-inf\b|[^\W\d]\w*)"
    r"|(?P<open>[\"'“])"
    r"|(?P<other>\S)"
    r")"
)
_KEY = re.compile(r"[^\s.()<>=≤≥≠!~&|\"'“]+")
_SAME = {
    "&&": ("name", "and"),
    "&": ("name", "and"),
    "||": ("name", "or"),
    "|": ("name", "or"),
    "!": ("name", "not"),
    "<>": ("op", "!="),
    "=": ("op", "=="),
    "≤": ("op", "<="),
    "≥": ("op", ">="),
    "≠": ("op", "!="),
}
_UNITS = {"k": 1e3, "m": 1e6, "%": 1e-2}


@dataclass(frozen=True, slots=True)
class QueryToken:
    """One token of a line, as written, from position `at` up to `end`.

    Attributes:
        kind: `number`, `string`, `name`, `key` (a name after a dot), `op`, `range`, `mark` or `end`.
    """

    kind: str
    text: str
    at: int
    end: int


def tokens_of(line: str) -> list[QueryToken]:
    """Split a line into tokens, ending with an `end` token.

    Raises:
        QueryError: An unknown character, or an unclosed quote.
    """
    found: list[QueryToken] = []
    position = 0
    while position < len(line):
        key = _KEY.match(line, position) if _wants_key(found, position) else None
        if key is not None:
            token = QueryToken("key", key[0], position, key.end())
        elif line[position] == "." and found and (found[-1].kind, found[-1].end) == ("name", position):
            token = QueryToken("mark", ".", position, position + 1)  # not a number: rewards.0
        else:
            match = _TOKEN.match(line, position)
            if match is None:  # only white space is left
                break
            kind = match.lastgroup or "other"
            text = match[kind]
            if kind in ("join", "op", "range"):
                kind, text = _SAME.get(text, (kind, text))
            token = QueryToken(kind, text, match.start(match.lastgroup or 0), match.end())
        if token.kind == "open":
            raise QueryError("this quote is not closed", line, token.at)
        if token.kind == "other":
            what = "write and" if token.text == "," else "put search text in quotes"
            raise QueryError(f"unexpected {token.text}; {what}", line, token.at)
        found.append(token)
        position = token.end
    found.append(QueryToken("end", "", len(line), len(line)))
    return found


def _wants_key(found: list[QueryToken], position: int) -> bool:
    return (
        len(found) > 1
        and found[-1].text == "."
        and found[-1].end == position
        and found[-2].kind == "name"
        and found[-2].end == found[-1].at
    )


def number_of(token: QueryToken) -> float | None:
    """Return the number in a token, with its unit or `inf`; None when it is not a number."""
    if token.kind == "number":
        text = token.text.replace("_", "").replace(",", "").replace("−", "-")
        unit = _UNITS.get(text[-1].lower())
        return float(text) if unit is None else float(text[:-1]) * unit
    word = token.text.lower()
    return float(word) if token.kind == "name" and word in ("inf", "-inf") else None


LONGEST = 10_000
DEEPEST = 60

_JOINERS = ("and", "or", "not", "has", "contains", "is")
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}
"""Mirrored operators, for a number written before the field."""
_TRUTH = {"true": 1.0, "false": 0.0}
_NOTHING: dict[str, Literal["none", "nan"]] = {"none": "none", "null": "none", "nan": "nan"}


def read_query(line: str, functions: Collection[str] = ()) -> Query:
    """Parse a query. An empty line matches everything.

    Args:
        functions: Names of the run's reward functions, which may be written without `rewards.`.

    Raises:
        QueryError: The line cannot be parsed; the error says where and what may have been meant.
    """
    if len(line) > LONGEST:
        raise QueryError(f"this query has {len(line):,} characters; the limit is {LONGEST:,}", line[:80])
    reader = _Reader(line, tokens_of(line), functions)
    if reader.now.kind == "end":
        return EVERYTHING
    query = reader.either()
    if reader.now.kind != "end":
        raise reader.error(f"unexpected {reader.now.text}")
    return query


def read_field(text: str, functions: Collection[str] = ()) -> Field:
    """Parse a single field, used as a sort key; for `functions` see `read_query`.

    Raises:
        QueryError: It is not a field, or is followed by something else.
    """
    reader = _Reader(text, tokens_of(text), functions)
    field = reader.field()
    if reader.now.kind != "end":
        raise reader.error(f"unexpected {reader.now.text} after the name of a field")
    return field


class _Reader:
    """Recursive-descent parser over the tokens, from left to right."""

    def __init__(self, line: str, tokens: list[QueryToken], functions: Collection[str]) -> None:
        self._line = line
        self._functions = functions
        self._rest = tokens
        self._place = 0
        self._depth = 0

    @property
    def now(self) -> QueryToken:
        return self._rest[self._place]

    @property
    def after(self) -> QueryToken:
        return self._rest[min(self._place + 1, len(self._rest) - 1)]

    def take(self) -> QueryToken:
        token = self.now
        self._place = min(self._place + 1, len(self._rest) - 1)
        return token

    def error(self, message: str, token: QueryToken | None = None) -> QueryError:
        return QueryError(message, self._line, (token or self.now).at)

    def word(self, *words: str) -> bool:
        if self.now.kind == "name" and self.now.text.lower() in words:
            self.take()
            return True
        return False

    # -- joined ----------------------------------------------------------------------------------

    def either(self) -> Query:
        parts = [self.both()]
        while self.word("or"):
            parts.append(self.both())
        return parts[0] if len(parts) == 1 else Or(tuple(parts))

    def both(self) -> Query:
        parts = [self.one()]
        while self.word("and") or self._goes_on():
            parts.append(self.one())
        return parts[0] if len(parts) == 1 else And(tuple(parts))

    def _goes_on(self) -> bool:
        token = self.now
        if token.kind == "name":
            return token.text.lower() not in ("or", "has", "contains", "is")
        return token.kind == "string" or token.text == "("

    def one(self) -> Query:
        self._depth += 1
        if self._depth > DEEPEST:
            raise self.error("brackets and nots are nested too deeply")
        try:
            if self.word("not"):
                return Not(self.one())
            token = self.now
            if token.kind == "number":
                return self.turned_round()
            if token.text == "(" and token.kind == "mark":
                self.take()
                inner = self.either()
                if self.now.text != ")":
                    raise self.error("this bracket is not closed", token)
                self.take()
                return inner
            if token.kind == "string":
                self.take()
                return Has(Field("completion", None, token.at), self.filled(token))
            return self.question()
        finally:
            self._depth -= 1

    # -- one question ----------------------------------------------------------------------------

    def question(self) -> Query:
        field = self.field()
        token = self.now
        if token.kind == "op" and token.text in ("~", "!~"):
            self.take()
            found: Query = self.pattern(field)
            return found if token.text == "~" else Not(found)
        if token.kind == "op":
            self.take()
            if token.text == "==" and self.now.kind in ("number", "range") and self.after.kind == "range":
                return self.between(field)
            return self.comparison(field, cast(Operator, token.text), token)
        if self.word("has", "contains"):
            return Has(field, self.filled(self.string("has", field)))
        if self.word("is"):
            negated = self.word("not")
            what = self.take()
            if what.text.lower() not in _NOTHING or field.name not in (*NUMBERS, *FAMILIES):
                raise self.error(f"{field} can be compared, not `is {what.text}`; is none, is nan", what)
            asked = Is(field, _NOTHING[what.text.lower()])
            return Not(asked) if negated else asked
        if token.kind in ("number", "range"):
            return self.between(field)
        if field.name in FLAGS:
            return Flag(field)
        raise self.error(_how(field), token if token.kind != "end" else None)

    def turned_round(self) -> Query:
        number, sign = self.take(), self.take()
        if sign.kind != "op" or sign.text not in _TURNED:
            raise self.error(f"expected a field before {number.text}, such as reward<0.2", number)
        field = self.field()
        value = number_of(number)
        if value is None or field.name in FLAGS or field.name in WORDS or field.name in TEXTS:
            raise self.error(f"{field} is not a number", number)
        found: Query = Comparison(field, cast(Operator, _TURNED[sign.text]), value)
        if self.now.kind != "op" or self.now.text not in ("<", "<=", ">", ">="):
            return found
        second = self.take()
        return And((found, self.comparison(field, cast(Operator, second.text), second)))

    def field(self) -> Field:
        token = self.take()
        name = token.text.lower()
        if token.kind != "name" or name in _JOINERS:
            where = "at the end of the query" if token.kind == "end" else f"before {token.text}"
            raise self.error(f"expected a field {where}, such as reward<0.2 or truncated", token)
        if not is_known(name):
            if token.text in self._functions:
                return Field("rewards", token.text, token.at)
            raise self.error(self._no_field(token.text), token)
        name = ALIASES.get(name, name)
        if name not in FAMILIES:
            return Field(name, None, token.at)
        if self.now.text != "." or self.now.at != token.end:
            raise self.error(f"{name} needs a name after a dot, such as {_EXAMPLES[name]}", token)
        self.take()
        key = self.take()
        if key.kind not in ("key", "string"):
            raise self.error(f"{name}. needs a name, such as {_EXAMPLES[name]}", key)
        text = key.text if key.kind == "key" else self.unquoted(key)
        if self.now.text == "." and self.now.at == key.end:
            raise self.error(f'put a name with dots in quotes: {name}."{text}.…"')
        return Field(name, text, token.at)

    def _no_field(self, text: str) -> str:
        known = {name.lower(): str(Field("rewards", name)) for name in self._functions}
        known |= {name.lower(): name for name in all_names()}
        near = difflib.get_close_matches(text.lower(), known, 1, 0.51)
        meant = f"; did you mean {known[near[0]]}?" if near else ""
        column = "" if meant else f"; a column of the data is column.{text}"
        return f"unknown field {text}{meant or column} (put search text in quotes)"

    def comparison(self, field: Field, op: Operator, sign: QueryToken) -> Query:
        token = self.take()
        if field.name in FLAGS:
            return self.said(field, op, token)
        if field.name in WORDS:
            return self.worded(field, op, token)
        if token.kind == "string":
            if field.name in NUMBERS or field.name == "rewards":
                raise self.error(f"{field} is a number; {token.text} is not", token)
            if op not in ("==", "!="):
                raise self.error("compare text with ==, !=, has or ~", sign)
            return Comparison(field, op, self.unquoted(token))
        if field.name in TEXTS:
            raise self.error(f'{field} is a text: {field} has "…", {field} ~ "…"', token)
        value = number_of(token)
        if value is None and field.name in ("extra", "column"):
            value = _TRUTH.get(token.text.lower())
        if value is None:
            if token.kind == "name" and token.text.lower() in _NOTHING:
                negated = "not " if op == "!=" else ""
                raise self.error(f"write {field} is {negated}{_NOTHING[token.text.lower()]}", token)
            raise self.error(f"compare {field} with a number, such as {field}{op}0.5", token)
        return Comparison(field, op, value)

    def said(self, field: Field, op: Operator, token: QueryToken) -> Query:
        word = token.text.lower()
        if op not in ("==", "!=") or word not in ("true", "false", "yes", "no", "1", "0"):
            raise self.error(f"{field} is true or false: write {field} or not {field}", token)
        wanted = (word in ("true", "yes", "1")) == (op == "==")
        return Flag(field) if wanted else Not(Flag(field))

    def worded(self, field: Field, op: Operator, token: QueryToken) -> Query:
        word = (self.unquoted(token) if token.kind == "string" else token.text).lower()
        if op not in ("==", "!=") or word not in WORDS[field.name]:
            raise self.error(f"{field} is {' or '.join(WORDS[field.name])}: {field}==eval", token)
        return Comparison(field, op, word)

    def between(self, field: Field) -> Query:
        first = self.now
        if field.name not in NUMBERS and field.name not in FAMILIES:
            raise self.error(f"{field} is not a number", first)
        low = None if first.kind == "range" else number_of(self.take())
        if self.now.kind != "range":
            raise self.error(
                f"missing operator between {field} and {first.text}: <, ==, or a range 40..60", first
            )
        self.take()
        high = number_of(self.take()) if self.now.kind == "number" else None
        if low is None and high is None:
            raise self.error(f"a range needs an end: {field} 40..60, 40.., ..60", first)
        if low is not None and high is not None and low > high:
            raise self.error(f"the range runs backwards: {field} {first.text}..{high:g}", first)
        return Between(field, low, high)

    def pattern(self, field: Field) -> Query:
        token = self.string("~", field)
        text = self.unquoted(token)
        try:
            re.compile(text)
        except (re.error, RecursionError, OverflowError) as error:
            # An error of `re` has a position within the pattern.
            place = token.at + 1 + (getattr(error, "pos", None) or 0)
            what = getattr(error, "msg", None) or "it is nested too deeply"
            raise QueryError(f"invalid regular expression: {what}", self._line, place) from None
        return Matches(field, text, token.at + 1)

    def string(self, after: str, field: Field) -> QueryToken:
        if field.name not in TEXTS and field.name not in ("extra", "column"):
            raise self.error(f"{field} is not text, so {after} does not apply", self.now)
        token = self.take()
        if token.kind != "string":
            raise self.error(f'expected text in quotes after {after}: {field} {after} "…"', token)
        return token

    def filled(self, token: QueryToken) -> str:
        text = self.unquoted(token)
        if not text:
            raise self.error("there is nothing between these quotes", token)
        return text

    @staticmethod
    def unquoted(token: QueryToken) -> str:
        quote = token.text[0]
        return token.text[1:-1].replace(f"\\{quote}", quote)


_EXAMPLES = {"rewards": "rewards.format==0", "extra": "extra.parsed==22", "column": 'column.answer=="22"'}


def _how(field: Field) -> str:
    if field.name in TEXTS:
        return f'{field} is a text: {field} has "…", {field} ~ "…"'
    if field.name in WORDS:
        return f"{field} is {' or '.join(WORDS[field.name])}: {field}=={WORDS[field.name][0]}"
    if field.name in ("extra", "column"):
        return f'{field} needs a comparison: {field}=="22", {field}>1, {field} has "x", {field} is none'
    return f"{field} is a number: {field}<0.5, {field} 1..2, {field} is none"
