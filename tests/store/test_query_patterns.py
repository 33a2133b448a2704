"""A regular expression finds what Python's `re` finds, and what it demands of a text is there."""

from __future__ import annotations

import random
import re

import pytest

from grpo_tui.store.query_sql import demanded
from grpo_tui.store.search import compiled

PATTERNS = (
    r"[A-Z]{3}", r"\d{4,}", r"\d+\.\d+", r"\b\d{2}\b", r"^\d\d$", r"(?m)^[A-Z]\d$", r"\A\s{2}", r"\d\Z",
    r"(?<=\d)[a-c]{2}", r"(?<!\d)[a-c]{2}(?=\s)", r"(?!ab)[a-c]{2}", r"(?s)\d.\d", r"\d.\d", r"(\w)\1\1",
    r"(\d)(?:x|\s)\1", r"(?i)[a-c]{2}K", r"(?i:k)\d", r"(?a)\w\d\w", r"(?x) [A-Z] \d  # both",
    r"(?:[A-C]\d)+", r"(?:[A-C]\d)*x", r"[^a-z]{3}", r"\W\W\d", r"é\d", r"[éK]{2}",
    r"[\u212a]\d", r"(?i)[\u212a\u017f]{2}", r"(a)?(?(1)\d|b)c", r"(?>\d+)a", r"\d*+a", r"\d{2}?\s",
    r"a{0}\dx", r"(?P<n>[ab])\d(?P=n)", r"\d|[A-Z]{2}", r"(?:\d|x)[A-Z]", r"", r".", r"[^\x00-\x7f]",
    r"\d{0,2}x\d", r"\0\d", r"(?s:.)\d\d", r"(?-i:A)\d", r"(?i)A(?-i:b)\d", r"\d(?:)\d", r"[\d\s]{3}",
    r"\s\d\S", r"\d{a}", r"a{2,}{", r"[{a}]\d", r"\N{DIGIT ONE}{2}", r"(?x)a {b} c|x", r"b{s}|a{i}|9{a<=1}",
)  # fmt: skip
LETTERS = "aabbcxskKSABC0129{}is \n.\t\0éſ\u212aÀ٣_\u2003"


def lower(text: str) -> str:
    """A text as SQLite's LIKE compares it."""
    return "".join(char.lower() if char.isascii() else char for char in text)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_pattern_finds_what_re_finds(pattern: str) -> None:
    asked, found, texts = re.compile(pattern), compiled(pattern), demanded(pattern)
    numbers = random.Random(pattern)
    for alphabet in (LETTERS, "".join(filter(str.isascii, LETTERS)), "aA1 ", "ab{}s<=1", "kKſ\u212a1"):
        for _ in range(150):
            text = "".join(numbers.choices(alphabet, k=numbers.randint(0, 9)))
            wanted = asked.search(text) is not None
            assert (found.search(text) is not None) == wanted, text
            if wanted and texts:
                assert any(lower(part) in lower(text) for part in texts), text
