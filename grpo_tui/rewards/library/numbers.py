r"""Read a number as people and models write it: `1,000`, `$5`, `1/2`, `\frac{1}{2}`, `5 %`, `-3 apples`.

Exact arithmetic by fractions, so that 0.1 + 0.2 is 0.3. Knows text only.
"""

from __future__ import annotations

import re
from fractions import Fraction

from grpo_tui.core.answers import plain_characters

_LATEX_FRACTION = re.compile(r"\\[dt]?frac\s*\{\s*([^{}]+?)\s*\}\s*\{\s*([^{}]+?)\s*\}")
_DECORATION = re.compile(r"\\(?:text|mathrm|mbox)\s*\{([^{}]*)\}")
_SPACES = re.compile(r"\\[,;:! ]|~|\s+")
_DASHES = str.maketrans({"–": "-"})
_VALUE = r"[+-]?(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)?(?:\.\d+)?(?:[eE][+-]?\d{1,2})?"
_NUMBER = re.compile(rf"(?P<value>{_VALUE})(?:/(?P<below>{_VALUE}))?(?P<rest>.*)", re.DOTALL)
_IN_TEXT = re.compile(r"[+-]?(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?(?:/\d+)?|[+-]?\.\d+")
_UNIT = re.compile(r"[^\W\d_]+(?:\^\d|[²³])?(?:(?: ?/ ?| |\.)[^\W\d_]+(?:\^\d|[²³])?){0,2}")
_SIGNS = ("%", "°", "$", "€", "£")
_NO_UNITS = {"or", "and", "to", "but", "not"}
MOST_DIGITS = 400
"""Longer texts are no numbers: exact arithmetic on them would take a model's word for a long time."""


def parse_number(text: str, *, units: bool = True) -> Fraction | None:
    """The number that a text is, or None when it is none.

    Args:
        text: one answer, not a sentence: `$1,200`, `-1/2`, `50 %` (which is 50), `3 km`.
        units: whether a word after the number may stand there; the word is not looked at.
    """
    if len(text) > MOST_DIGITS:
        return None
    plain = _DECORATION.sub(r" \1", plain_characters(text).translate(_DASHES)).strip()
    plain = plain.strip("$").removeprefix("\\$").strip().rstrip(".").strip()
    plain = _LATEX_FRACTION.sub(r"\1/\2", plain)
    spaced = _SPACES.sub(" ", plain).strip()
    found = _NUMBER.match(re.sub(r"\s*/\s*", "/", re.sub(r"^([+-])\s+", r"\1", spaced)))
    if found is None or not any(map(str.isdigit, found["value"])):
        return None
    rest = found["rest"].replace("\\%", "%").removeprefix(" ")
    if rest and rest not in _SIGNS and not (units and _is_unit(rest)):
        return None
    below = found["below"]
    try:
        value = _fraction(found["value"])
        return value / _fraction(below) if below is not None else value
    except (ValueError, ZeroDivisionError):
        return None


def last_number(text: str) -> str | None:
    """The last number that stands in a text, as it is written there; None when there is none."""
    found = _IN_TEXT.findall(plain_characters(text).translate(_DASHES))
    return found[-1] if found else None


def _is_unit(text: str) -> bool:
    """`km/h` and `square metres` are units; `or 5` is another answer."""
    return _UNIT.fullmatch(text) is not None and not _NO_UNITS & set(text.lower().split())


def _fraction(text: str) -> Fraction:
    return Fraction(text.replace(",", ""))
