"""Texts that are shown whole: help between its words, what a model wrote at any character."""

from __future__ import annotations

from grpo_tui.ui.actions import ACTIONS
from grpo_tui.ui.paint import Line
from grpo_tui.ui.screens.reading import HelpScreen, TextScreen

LONG = "    Whether the device is used, which [b]no[/b] \x1b[31mword of this sentence says in so many words."


def rows(lines: list[Line]) -> list[str]:
    return ["".join(span.text for span in line) for line in lines]


def test_prose_breaks_between_words_and_keeps_its_indent_and_its_columns() -> None:
    table = "a   b   c"
    found = rows(TextScreen("", f"{LONG}\n\n{table}", prose=True).lines(40))
    assert max(map(len, found)) <= 40
    assert found[-1] == f" {table}"
    assert all(row.startswith("     ") for row in found[:-2])
    assert " ".join(" ".join(found[:-2]).split()) == LONG.strip().replace("\x1b", "␛")


def test_what_a_model_wrote_breaks_at_any_character() -> None:
    found = rows(TextScreen("", LONG, prose=False).lines(40))
    assert "".join(row[1:] for row in found) == LONG.replace("\x1b", "␛")


def test_the_help_says_every_sentence_whole_in_a_narrow_dialog() -> None:
    found = rows(HelpScreen("config").lines(72))
    assert max(map(len, found)) <= 72
    said = " ".join(" ".join(found).split())
    for action in ACTIONS:
        assert not action.key or action.help in said, action.id
    asking = [action for action in ACTIONS if action.dangerous and action.key]
    assert said.count("asks once") >= len(asking)
