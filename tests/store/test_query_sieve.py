"""The quick test before a regular expression lets every text through in which `re` finds it."""

from __future__ import annotations

import random
import re

import pytest

from grpo_tui.store.query_regex import TRIED, sieve

PATTERNS = (
    r"[A-Z]{3}", r"\d{4,}", r"\d+\.\d+", r"\b\d{2}\b", r"^\d\d$", r"(?m)^[A-Z]\d$", r"\A\s{2}", r"\d\Z",
    r"(?<=\d)[a-c]{2}", r"(?<!\d)[a-c]{2}(?=\s)", r"(?!ab)[a-c]{2}", r"(?s)\d.\d", r"\d.\d", r"(\w)\1\1",
    r"(\d)(?:x|\s)\1", r"(?i)[a-c]{2}K", r"(?i:k)\d", r"(?a)\w\d\w", r"(?i)(?a:[^\u017f])s",
    r"(?x) [A-Z] \d  # both", r"(?:[A-C]\d)+", r"(?:[A-C]\d)*x", r"[^a-z]{3}", r"\W\W\d", r"é\d", r"[éK]{2}",
    r"[\u212a]\d", r"(?i)[\u212a\u017f]{2}", r"(a)?(?(1)\d|b)c", r"(?>\d+)a", r"\d*+a", r"\d{2}?\s",
    r"a{0}\dx", r"(?P<n>[ab])\d(?P=n)", r"\d|[A-Z]{2}", r"(?:\d|x)[A-Z]", r"", r".", r"[^\x00-\x7f]",
    r"\d{0,2}x\d", r"\0\d", r"(?s:.)\d\d", r"(?-i:A)\d", r"(?i)A(?-i:b)\d", r"\d(?:)\d", r"[\d\s]{3}",
    r"\s\d\S",
)  # fmt: skip
LETTERS = "aabbcxskKSABC0129 \n.\t\0éſ\u212aÀ٣_\u2003"


@pytest.mark.parametrize("pattern", PATTERNS)
def test_what_matches_is_let_through(pattern: str) -> None:
    try:
        compiled = re.compile(pattern)
    except re.error:
        pytest.skip("this Python does not know it")
    numbers = random.Random(pattern)
    made = sieve(pattern)
    for alphabet in (LETTERS, "".join(filter(str.isascii, LETTERS)), "aA1 ", "kKſ\u212a1"):
        for _ in range(150):
            text = "".join(numbers.choices(alphabet, k=numbers.randint(0, 9)))
            if made is not None:
                made._tried = made._passed = 0
                assert made.lets(text) or compiled.search(text) is None, text


@pytest.mark.parametrize(
    ("pattern", "text", "lets"),
    [
        (r"[A-Z]{3}", "ab CD ef" * 9, False),
        (r"[A-Z]{3}", "ab CDE ef", True),
        (r"[A-Z]{3}", "àé", True),  # four bytes of which nothing is known
        (r"\d+\.\d+", "1. 2 .3", False),
        (r"\d+\.\d+", "12.5", True),
        (r"\d+\.\d+", "é", True),
        (r"[a-c]\d+x", "a12x", True),  # how far apart they stand is not known
        (r"[a-c]\d{1,3}x", "a123x", True),
        (r"\bzebra\b", "a zebr", False),
        (r"(?:x|yy)[ab]{2}c", "abac", True),  # what stands before the branch is not known
        (r"(?:x|yy)[ab]{2}c", "ab c", False),
    ],
)
def test_what_cannot_match_is_told(pattern: str, text: str, lets: bool) -> None:
    made = sieve(pattern)
    assert made is not None
    assert made.lets(text) is lets


@pytest.mark.parametrize("pattern", ["", ".*", "é+", r"(?:\d)?", r"\d*", r"(?=\d\d)"])
def test_of_some_patterns_nothing_is_known(pattern: str) -> None:
    assert sieve(pattern) is None


def test_a_test_that_says_nothing_is_done_no_more() -> None:
    made = sieve(r"\d")
    assert made is not None
    assert not made.lets("none")
    for _ in range(TRIED):
        made.lets("1")
    assert made.lets("none")
