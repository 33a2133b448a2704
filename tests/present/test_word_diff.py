"""Comparing two texts word by word."""

from __future__ import annotations

import random

import pytest

from grpo_tui.present.reading import MOST_LINES, MOST_WORDS, Piece, word_diff


@pytest.mark.parametrize(
    ("before", "after", "wanted"),
    [
        ("", "", []),
        ("a b", "a b", [("same", "a b")]),
        ("", "new", [("new", "new")]),
        ("old", "", [("gone", "old")]),
        ("7+15=23", "7+15=22", [("same", "7+15="), ("gone", "23"), ("new", "22")]),
        ("one red cat", "one blue dog", [("same", "one "), ("gone", "red cat"), ("new", "blue dog")]),
        ("<a>x</a>", "<a>y</a>", [("same", "<a>"), ("gone", "x"), ("new", "y"), ("same", "</a>")]),
        ("é ж 数", "é ж 字", [("same", "é ж "), ("gone", "数"), ("new", "字")]),
    ],
)
def test_pieces(before: str, after: str, wanted: list[tuple[str, str]]) -> None:
    assert [(piece.kind, piece.text) for piece in word_diff(before, after)] == wanted


def _spell(pieces: list[Piece], without: str) -> str:
    return "".join(piece.text for piece in pieces if piece.kind != without)


def test_the_pieces_spell_both_texts() -> None:
    chance = random.Random(3)
    words = ["sum", " ", "\n", "22", "(", "the", "  ", "é"]
    for _ in range(300):
        one, other = ("".join(chance.choices(words, k=chance.randrange(30))) for _ in range(2))
        pieces = word_diff(one, other)
        assert (_spell(pieces, "new"), _spell(pieces, "gone")) == (one, other)
        assert all(piece.text for piece in pieces)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("".join(f"a{n} b\n" for n in range(MOST_WORDS)), "".join(f"a{n} c\n" for n in range(MOST_WORDS))),
        ("x\n" * (MOST_LINES + 1) + "y", "z\n" * (MOST_LINES + 1) + "w"),
        ("q" * 100_000, "r" * 100_000),
    ],
    ids=["by words", "by lines", "one word"],
)
def test_long_texts_are_compared_too(one: str, other: str) -> None:
    pieces = word_diff(one, other)
    assert (_spell(pieces, "new"), _spell(pieces, "gone")) == (one, other)
    assert len(pieces) > 1
