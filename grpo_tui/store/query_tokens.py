"""Part the line of a query into its words: numbers with their units, signs, names, texts in quotes.

What people write in other languages for the same is read too: `&&`, `||`, `!`, `<>`, `:` for `..`. Knows no
field.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from grpo_tui.store.query_ast import QueryError

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
class Token:
    """One word of a line.

    Attributes:
        kind: `number`, `string`, `name`, `key` (a name behind a dot), `op`, `range`, `mark` or `end`.
        text: as written; with its quotes.
        at: where it begins in the line, from 0.
        end: where it ends.
    """

    kind: str
    text: str
    at: int
    end: int


def tokens_of(line: str) -> list[Token]:
    """The words of a line, an `end` behind them.

    Raises:
        QueryError: a sign that means nothing, or a quote that is not closed.
    """
    found: list[Token] = []
    position = 0
    while position < len(line):
        key = _KEY.match(line, position) if _wants_key(found, position) else None
        if key is not None:
            token = Token("key", key[0], position, key.end())
        elif line[position] == "." and found and (found[-1].kind, found[-1].end) == ("name", position):
            token = Token("mark", ".", position, position + 1)  # and no number: rewards.0
        else:
            match = _TOKEN.match(line, position)
            if match is None:  # blanks at the end
                break
            kind = match.lastgroup or "other"
            text = match[kind]
            if kind in ("join", "op", "range"):
                kind, text = _SAME.get(text, (kind, text))
            token = Token(kind, text, match.start(match.lastgroup or 0), match.end())
        if token.kind == "open":
            raise QueryError("this quote is not closed", line, token.at)
        if token.kind == "other":
            what = "write and" if token.text == "," else "text to find stands in quotes"
            raise QueryError(f"{token.text} means nothing here; {what}", line, token.at)
        found.append(token)
        position = token.end
    found.append(Token("end", "", len(line), len(line)))
    return found


def _wants_key(found: list[Token], position: int) -> bool:
    """True right behind `rewards.` and the like."""
    return (
        len(found) > 1
        and found[-1].text == "."
        and found[-1].end == position
        and found[-2].kind == "name"
        and found[-2].end == found[-1].at
    )


def number_of(token: Token) -> float | None:
    """The number that a word says, `inf` and units among them; None when it is none."""
    if token.kind == "number":
        text = token.text.replace("_", "").replace(",", "").replace("−", "-")
        unit = _UNITS.get(text[-1].lower())
        return float(text) if unit is None else float(text[:-1]) * unit
    word = token.text.lower()
    return float(word) if token.kind == "name" and word in ("inf", "-inf") else None
