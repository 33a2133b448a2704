"""Laying completions out for reading."""

from __future__ import annotations

import random

import pytest
from rich.cells import cell_len

from grpo_tui.core.text import safe
from grpo_tui.present.reading import compared, foldable, laid_out, raw, structured

GOOD = "<think>\n7+15\nis 22\n</think>\n<answer>22</answer>"


def _text(spans: list[tuple[str, str]]) -> str:
    return "".join(text for text, _ in spans)


def test_structure_is_coloured_and_nothing_is_lost() -> None:
    spans = structured(GOOD)
    assert _text(spans) == GOOD
    assert ("<think>", "accent") in spans
    assert ("22", "text") in spans


def test_a_folded_block_says_how_much_it_hides() -> None:
    assert foldable(GOOD) == ["think", "answer"]
    shown = _text(structured(GOOD, folded={"think"}))
    assert shown == "▸ <think> 12 characters, 2 lines   7+15 is 22\n<answer>22</answer>"
    (name, *_), shown = foldable("```\n1 + 1\n```"), "```\n1 + 1\n```"
    assert _text(structured(shown, folded={name})) == "▸ code 7 characters   1 + 1"
    (name, *_), shown = foldable("```python \n1\n2\n```"), "```python \n1\n2\n```"
    assert _text(structured(shown, folded={name})) == "▸ code python 5 characters, 2 lines   1 2"
    assert "not closed" in _text(structured("<think>on and on", folded={"think"}))


def test_hits_go_over_the_colours() -> None:
    spans = structured("<answer>22</answer>", found=[(4, 10)])
    assert [span for span in spans if "match" in span[1]] == [("wer>", "accent match"), ("22", "text match")]


def test_a_comparison_says_without_colours_what_went_and_what_came() -> None:
    assert _text(compared("7+15=23", "7+15=22")) == "7+15=[-23-]{+22+}"


def test_raw_shows_white_space() -> None:
    assert _text(raw("a  b\t\r\nc\n")) == "a··b→␍⏎\nc⏎\n"


@pytest.mark.parametrize(
    ("text", "width", "wanted"),
    [
        ("", 10, [""]),
        ("one two three", 7, ["one two", "three"]),
        ("one  two", 5, ["one", "two"]),
        ("abcdefgh ij", 3, ["abc", "def", "gh", "ij"]),
        ("a\n\nb", 10, ["a", "", "b"]),
        ("a\tb", 10, ["a    b"]),
        ("数数数数", 5, ["数数", "数数"]),
        ("x\x1b[31my", 10, ["x␛[31my"]),
    ],
)
def test_words_wrap_and_line_breaks_stay(text: str, width: int, wanted: list[str]) -> None:
    assert [_text(line).rstrip() for line in laid_out([(text, "text")], width)] == wanted


def test_no_line_is_too_wide_and_no_word_is_lost() -> None:
    chance = random.Random(11)
    letters = ["word ", "a", " ", "\n", "数", "x" * 30, "<think>", "é", "\t", "👩‍🚀"]
    for _ in range(300):
        pieces = [
            ("".join(chance.choices(letters, k=chance.randrange(8))), chance.choice(["text", "dim"]))
            for _ in range(chance.randrange(6))
        ]
        width = chance.randrange(2, 40)
        lines = laid_out(pieces, width)
        assert all(cell_len(_text(line)) <= width for line in lines)
        assert "".join("".join(map(_text, lines)).split()) == "".join(safe(_text(pieces)).split())


def test_a_line_of_a_hundred_thousand_characters_is_laid_out() -> None:
    assert len(laid_out(structured("word " * 20_000), 80)) == 1_250
    assert len(laid_out(structured("x" * 100_000), 80)) == 1_250
