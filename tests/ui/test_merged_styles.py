"""Fewer bytes, the same picture."""

from __future__ import annotations

import random
import re

import pyte

from grpo_tui.ui.textual_private import merge_styles

STYLES = (
    "38;2;1;2;3;48;2;4;5;6", "1;38;2;1;2;3;48;2;4;5;6", "38;2;9;9;9;48;2;4;5;6", "2;7;31;44", "4;91;103",
    "1;2;3", "38;5;200", "48;5;7", "9",
)  # fmt: skip
TEXTS = ("reward ", "   ", "─── ", "é", "1", " ", "\r\n", "", "\x1b[3;5H", "\x1b[7;1H")


def picture(data: str) -> list[list[tuple[object, ...]]]:
    """Every cell with its colours; the ink of a blank one counts only where it shows."""
    screen = pyte.Screen(40, 10)
    pyte.Stream(screen).feed(data)
    rows = []
    for y in range(10):
        row: list[tuple[object, ...]] = []
        for x in range(40):
            cell = screen.buffer[y][x]
            ink = cell.underscore or cell.reverse or cell.strikethrough
            shows = ink or cell.data != " "
            row.append((cell.data, cell.bg, ink, *((cell.fg, cell.bold, cell.italics) if shows else ())))
        rows.append(row)
    return rows


def test_what_is_sent_paints_the_same_picture() -> None:
    dice = random.Random(3)
    for _ in range(300):
        frame = "".join(
            f"\x1b[{dice.choice(STYLES)}m{dice.choice(TEXTS)}\x1b[0m"
            + dice.choice(("", "", "x", "\x1b[2;2H"))
            for _ in range(dice.randint(1, 12))
        )
        assert picture(merge_styles(frame) + "end") == picture(frame + "end"), repr(frame)


def test_a_colour_that_stays_is_sent_once() -> None:
    ground = "48;2;18;20;23"
    frame = (
        f"\x1b[38;2;1;1;1;{ground}ma\x1b[0m\x1b[38;2;2;2;2;{ground}mb\x1b[0m\x1b[38;2;2;2;2;{ground}mc\x1b[0m"
    )
    assert merge_styles(frame) == f"\x1b[38;2;1;1;1;{ground}ma\x1b[38;2;2;2;2mbc\x1b[0m"


def test_blanks_need_no_ink() -> None:
    frame = "\x1b[31;44ma\x1b[0m\x1b[32;44m   \x1b[0m\x1b[31;44mb\x1b[0m"
    assert re.findall(r"\x1b\[[0-9;]*m", merge_styles(frame)) == ["\x1b[31;44m", "\x1b[0m"]


def test_what_is_not_known_is_sent_as_it_is() -> None:
    frame = "\x1b[38;2;1;1;1ma\x1b[0m\x1b[58;5;1mb\x1b[0m"
    assert merge_styles(frame) == frame


def test_other_sequences_see_the_colours_they_were_written_with() -> None:
    frame = "\x1b[31;44ma\x1b[0m\x1b[2Jb"
    assert merge_styles(frame) == frame
