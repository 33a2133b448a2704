"""Translate a query over completions into an SQL condition with bound values.

Every condition is 0 or 1, never NULL, so that `not` works. A completion is `c`, its group `g`. The functions
that a condition calls are in `query_functions`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from grpo_tui.core.statistics import SAME
from grpo_tui.store.query import (
    And,
    Between,
    Comparison,
    Field,
    Flag,
    Has,
    Is,
    Matches,
    Not,
    Operator,
    Or,
    Query,
    QueryError,
    fields,
)
from grpo_tui.store.read_series import signal_sql

LONGEST_TEXT = 5_000
"""Characters of a search text. SQLite's LIKE takes at most 50,000 bytes."""
RARE = 10
"""A character this frequent in the sampled texts is not worth searching for alone."""
_PLAIN = {
    "reward": "c.total", "advantage": "c.advantage", "tokens": "c.tokens", "characters": "length(c.text)",
    "step": "g.step", "last_step": "g.last_step", "index": "c.idx", "group": "g.id", "mean": "g.mean",
    "std": "g.std", "rank": "g.rank", "batch": "g.batch", "attempt": "g.attempt", "mode": "g.mode",
    "completion": "c.text", "prompt": "prompt_words(g.prompt)",
}  # fmt: skip
_WITH_NUL = "SELECT id FROM completion WHERE instr(text, char(0)) > 0"
_JSON = {"extra": "c.extra", "column": "g.columns"}


@dataclass(frozen=True, slots=True)
class RunNames:
    """Facts of a run that a query depends on."""

    functions: Mapping[int, Mapping[int, str]]
    """Distinct names of the reward functions by attempt and index (`name#2` for a second one)."""
    totals: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Lowest and highest total of the run by mode, where they differ."""
    has_ends: bool = True
    """Whether groups store their lowest and highest total."""
    frequent: Mapping[str, int] = field(default_factory=dict)
    """Count of each lower-case character in a sample of the texts."""
    absent: frozenset[str] = frozenset()
    """Fields that this run lacks because another program recorded it."""
    has_signal: bool = True
    has_masked: bool = True
    """Whether groups store their signal, and completions whether they are masked."""
    has_nul: bool = False
    """Whether a text contains a NUL, where SQLite's LIKE stops reading."""

    def function_names(self) -> tuple[str, ...]:
        """Return all names, those of the newest attempt first."""
        lists = [self.functions[attempt].values() for attempt in sorted(self.functions, reverse=True)]
        return tuple(dict.fromkeys(name for names in lists for name in names))


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition with its bound values, and the patterns that `matches` refers to by number.

    `heavy` means that Python has to examine many rows, which several threads do not speed up.
    """

    where: str
    everything: bool
    """Whether superseded steps, repeated by a resume, are included."""
    values: tuple[Any, ...]
    patterns: tuple[str, ...]
    heavy: bool


def condition(query: Query, names: RunNames, line: str = "", *, superseded: bool = False) -> Condition:
    """Return the condition of a query.

    Args:
        line: The typed line, for errors.
        superseded: Include steps that a resume has repeated. A query that names them always does.

    Raises:
        QueryError: There is no reward function of that name, or the logs lack the field.
    """
    for asked in fields(query):
        _check_there(asked, names, line)
    writer = _Writer(names, line)
    where = writer.query(query)
    everything = superseded or any(field.name == "superseded" for field in fields(query))
    if not everything:
        where = f"g.superseded = 0 AND {where}"
    return Condition(where, everything, tuple(writer.values), tuple(writer.patterns), writer.heavy)


def sort_key(field: Field, names: RunNames, line: str = "") -> tuple[str, tuple[Any, ...]]:
    """Return an SQL expression for the sort value of a field, and its bound values.

    Raises:
        QueryError: There is no reward function of that name, or the logs lack the field.
    """
    _check_there(field, names, line)
    writer = _Writer(names, line)
    if field.name in ("completion", "prompt"):
        return f"substr({_PLAIN[field.name]}, 1, 80)", ()
    if field.name in _JSON:
        return f"json_part({_JSON[field.name]}, ?)", (field.key,)
    if field.name in _PLAIN or field.name == "rewards":
        text = writer.value(field)
        return text, tuple(writer.values)
    text = writer.query(Flag(field))
    return text, tuple(writer.values)


def _check_there(field: Field, names: RunNames, line: str) -> None:
    if field.name in names.absent:
        raise QueryError(f"{field} is not in these logs, which grpo-tui did not record", line, field.at)


class _Writer:
    def __init__(self, names: RunNames, line: str) -> None:
        self._names = names
        self._line = line
        self.values: list[Any] = []
        self.patterns: list[str] = []
        self.heavy = False

    def query(self, query: Query) -> str:
        if isinstance(query, And | Or):
            if not query.parts:
                return "1"
            joined = (" AND " if isinstance(query, And) else " OR ").join(map(self.query, query.parts))
            return f"({joined})"
        if isinstance(query, Not):
            return f"(NOT {self.query(query.part)})"
        if isinstance(query, Flag):
            return self.flag(query.field)
        if isinstance(query, Comparison):
            return self.comparison(query)
        if isinstance(query, Between):
            bounds: tuple[tuple[Operator, float | None], ...] = ((">=", query.low), ("<=", query.high))
            asked = [Comparison(query.field, op, end) for op, end in bounds if end is not None]
            return f"({' AND '.join(map(self.comparison, asked))})"
        if isinstance(query, Is):
            return self.empty(query)
        return self.has(query) if isinstance(query, Has) else self.matches(query)

    def value(self, field: Field) -> str:
        if field.name != "rewards":
            return _PLAIN[field.name]
        return f"(SELECT w.value FROM reward w WHERE w.completion_id = c.id AND {self.function(field)})"

    def function(self, field: Field) -> str:
        """Write that a reward `w` is of a function, by attempt if its index differs between attempts."""
        key, known_by = field.key or "", self._names.functions.items()
        places = {a: [n for n, name in names.items() if name == key] for a, names in known_by}
        if not any(places.values()) and key.isdecimal():
            places = {a: [int(key)] if int(key) in names else [] for a, names in known_by}
        if not any(places.values()):
            known = self._names.function_names()
            near = difflib.get_close_matches(key, known, 1, 0.5) or known
            there = f"; there is {', '.join(near)}" if near else ""
            raise QueryError(f"unknown reward function {key}{there}", self._line, field.at)
        listed = {a: f"w.function IN ({', '.join(map(str, found))})" for a, found in places.items()}
        if len(set(listed.values())) == 1:
            return next(iter(listed.values()))
        return f"({' OR '.join(f'(g.attempt = {a} AND {found})' for a, found in listed.items())})"

    def comparison(self, asked: Comparison) -> str:
        name = asked.field.name
        if name in _JSON:
            self.heavy |= name == "extra"
            self.values += [asked.field.key, asked.op, asked.value]
            return f"json_compares({_JSON[name]}, ?, ?, ?)"
        self.values.append(asked.value)
        # NaN is stored as text, and SQLite sorts every text above every number.
        if name == "rewards":
            return self.reward(asked.field, f"w.value {asked.op} ? AND w.value < ''")
        if isinstance(asked.value, str):
            return f"({_PLAIN[name]} {asked.op} ?)"
        return f"(({_PLAIN[name]} {asked.op} ? AND {_PLAIN[name]} < '') IS TRUE)"

    def reward(self, field: Field, holds: str) -> str:
        of_function = self.function(field)
        return f"EXISTS (SELECT 1 FROM reward w WHERE w.completion_id = c.id AND {of_function} AND {holds})"

    def empty(self, asked: Is) -> str:
        name = asked.field.name
        if name in _JSON:
            self.heavy |= name == "extra"
            self.values += [asked.field.key, asked.what]
            return f"json_is({_JSON[name]}, ?, ?)"
        if name == "rewards":
            if asked.what == "nan":
                return self.reward(asked.field, "w.value = 'nan'")
            return f"(NOT {self.reward(asked.field, 'w.value IS NOT NULL')})"
        return f"({_PLAIN[name]} IS {'NULL' if asked.what == 'none' else chr(39) + 'nan' + chr(39)})"

    def flag(self, field: Field) -> str:
        if field.name == "truncated":
            return "(c.truncated != 0)"
        if field.name == "superseded":
            return "(g.superseded != 0)"
        if field.name == "duplicate":
            return (
                "EXISTS (SELECT 1 FROM completion d WHERE d.group_id = c.group_id"
                " AND d.id != c.id AND d.text = c.text)"
            )
        if field.name == "masked":
            return "((c.masked = 1) IS TRUE)" if self._names.has_masked else "0"
        signal = signal_sql(recorded=self._names.has_signal)
        if field.name in ("zero_std", "mixed"):
            return f"({signal} = '{'none' if field.name == 'zero_std' else 'some'}')"
        if not self._names.has_ends or not self._names.totals:
            return "0"
        top = field.name == "all_right"
        cases = ""
        for mode, (low, high) in self._names.totals.items():
            cases += " WHEN ? THEN ?"
            self.values += [mode, high - SAME if top else low + SAME]
        return f"(({signal} = 'none' AND g.{'low >' if top else 'high <'} CASE g.mode{cases} END) IS TRUE)"

    def has(self, asked: Has) -> str:
        name, text = asked.field.name, asked.text
        if len(text) > LONGEST_TEXT:
            raise QueryError(
                f"search text has at most {LONGEST_TEXT:,} characters", self._line, asked.field.at
            )
        if name == "completion" and text.isascii() and "\0" not in text and not self._names.has_nul:
            return f"({self.like(text)})"
        if name == "completion":
            before = self.any_of(demanded("(?i)" + re.escape(text)))
            self.values.append(text)
            self.heavy |= not before
            return f"({before}holds(c.text, ?))"
        words = self.words(asked.field)
        self.values.append(text)
        return f"holds({words}, ?)"

    def matches(self, asked: Matches) -> str:
        before = self.any_of(demanded(asked.pattern)) if asked.field.name == "completion" else ""
        number = len(self.patterns)
        self.heavy |= not before
        self.patterns.append(asked.pattern)
        return f"({before}matches({number}, {self.words(asked.field)}))"

    def words(self, field: Field) -> str:
        if field.name not in _JSON:
            return _PLAIN[field.name]
        self.heavy |= field.name == "extra"
        self.values.append(field.key)
        return f"json_words({_JSON[field.name]}, ?)"

    def any_of(self, texts: Sequence[str]) -> str:
        found = [
            text for text in texts if "\0" not in text and len(text) <= LONGEST_TEXT and self.is_rare(text)
        ]
        if not found or len(found) < len(texts):
            return ""
        likes = [self.like(text) for text in found]
        if self._names.has_nul:
            likes.append(f"c.id IN ({_WITH_NUL})")
        return f"({' OR '.join(likes)}) AND "

    def is_rare(self, text: str) -> bool:
        """Return False for a frequent single character, which is not worth searching for."""
        return len(text) > 1 or self._names.frequent.get(text.lower(), 0) < RARE

    def like(self, text: str) -> str:
        """Write that the completion contains a text, ASCII letters in any case.

        SQLite searches for the first character and compares from there. So the part of the text that begins
        with its rarest character is searched for first.
        """
        often = [self._names.frequent.get(char, 0) for char in text.lower()]
        rarest = min(range(max(1, len(text) - 1)), key=often.__getitem__)
        parts = [text[rarest:], text] if 4 * often[rarest] < often[0] else [text]
        self.values += [f"%{_escaped(part)}%" for part in parts]
        return " AND ".join(["c.text LIKE ? ESCAPE '\\'"] * len(parts))


_PART = re.compile(
    r"\\(?P<escaped>\W)|(?P<kind>\\[AbBdDsSwWZ]|\[\^?\]?(?:\\.|[^\]\\])*\]|[.^$+])"
    r"|(?P<repeat>[*?]|\{\d*,?\d*\})|(?P<bound>[()|])|(?P<unknown>\\)|(?P<same>.)",
    re.DOTALL,
)
_ODD_CASE = re.compile(r"[iksIKS]|[^\x00-\x7f]")
"""Characters beyond ASCII, and ASCII letters that match one of them in any case: dotted i, Kelvin, long s."""
MOST_WAYS = 8


def demanded(pattern: str) -> tuple[str, ...]:
    """Return texts of which every match contains at least one, ASCII letters in any case; empty if unknown.

    Only parts of the pattern outside brackets are examined.
    """
    if re.search(r"\(\?(?:#|[a-z]*x)", pattern):  # comments
        return ()
    ways, depth = [[""]], 0
    for part in _PART.finditer(pattern):
        if part["unknown"]:
            return ()
        depth += {"(": 1, ")": -1}.get(part[0], 0)
        runs = ways[-1]
        if depth == 0 and (same := part["escaped"] or part["same"]):
            runs[-1] += same
        elif depth == 0 and part[0] == "|":
            ways.append([""])
        else:
            if part["repeat"]:
                runs[-1] = runs[-1][:-1]
            runs.append("")
    if re.match(r"\(\?[a-z]*i[a-z]*\)", pattern):
        ways = [[text for run in runs for text in _ODD_CASE.split(run)] for runs in ways]
    texts = tuple(max(runs, key=len) for runs in ways)
    return texts if all(texts) and len(texts) <= MOST_WAYS else ()


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
