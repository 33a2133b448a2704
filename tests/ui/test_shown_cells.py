"""Only cells that differ are sent, and the terminal shows what it would show if everything were."""

from __future__ import annotations

import asyncio
import os
import random
from io import StringIO
from itertools import pairwise
from types import SimpleNamespace

import pytest
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual.app import App
from textual.drivers.linux_driver import LinuxDriver
from textual.geometry import Region
from textual.strip import Strip

from grpo_tui.ui.textual_private import PatientDriver, ShownCells, merge_styles, strips_of
from tests.ui.recorded_run import RecordedRun
from tests.ui.test_merged_styles import picture
from tests.ui.test_terminal import Terminal

CONSOLE = Console(file=StringIO(), force_terminal=True, color_system="truecolor")
STYLES = [
    Style.parse(text) for text in ("red on blue", "bold green on blue", "white on black", "red on black")
]
TEXTS = ("reward", "  ", "───", "1.84 ▲", "一二", "e\u0301x", "▁▂▃", "一", "█")


def strip_of(dice: random.Random, width: int) -> Strip:
    segments = [Segment(dice.choice(TEXTS), dice.choice(STYLES)) for _ in range(dice.randint(1, 8))]
    return Strip(segments).adjust_cell_length(width, STYLES[2])


def full(strips: list[tuple[int, int, Strip]]) -> str:
    return "".join(f"\x1b[{y + 1};{x + 1}H{strip.render(CONSOLE)}" for x, y, strip in strips)


def test_the_picture_is_that_of_sending_everything() -> None:
    dice = random.Random(11)
    for _ in range(60):
        cells, sent, all_of_it = ShownCells(), "", ""
        for _ in range(6):
            left = dice.choice((0, 6, 20))
            edges = sorted({left, *dice.sample(range(left, 40), 2), 40})
            row = dice.randrange(3)
            update = [(a, row, strip_of(dice, b - a)) for a, b in pairwise(edges) if a < b]
            sent += merge_styles(cells.sequence(update, CONSOLE))
            all_of_it += full(update)
            assert picture(sent) == picture(all_of_it), repr(sent)


def line(text: str, color: str = "red") -> list[tuple[int, int, Strip]]:
    return [(4, 1, Strip([Segment(text, Style.parse(color))]))]


def test_only_what_differs_is_sent() -> None:
    cells = ShownCells()
    assert "reward 1.84" in cells.sequence(line("reward 1.84"), CONSOLE)
    assert not cells.sequence(line("reward 1.84"), CONSOLE)
    assert cells.sequence(line("reward 1.97"), CONSOLE) == "\x1b[2;14H\x1b[31m97\x1b[0m"
    assert cells.sequence(line("reward 1.97", "green"), CONSOLE) == "\x1b[2;5H\x1b[32mreward 1.97\x1b[0m"
    far = cells.sequence(line("Reward 1.98", "green"), CONSOLE)
    assert far == "\x1b[2;5H\x1b[32mR\x1b[0m\x1b[2;15H\x1b[32m8\x1b[0m", "what is between stays"
    cells.forget()
    assert "Reward 1.98" in cells.sequence(line("Reward 1.98", "green"), CONSOLE)


async def test_frames_that_were_left_out_are_sent_whole_later() -> None:
    waiting, written = [9], []
    driver = PatientDriver(App())
    queue = SimpleNamespace(put_nowait=written.append, qsize=lambda: waiting[0])
    driver._writer_thread = SimpleNamespace(_queue=queue)  # type: ignore[assignment]
    driver.write(driver.shown_cells.sequence(line("reward 1.84"), CONSOLE))
    assert not written
    waiting[0] = 0
    while not driver.shown_cells.sequence(line("reward 1.84"), CONSOLE):
        await asyncio.sleep(0)
    driver.write("\x1b[31mreward\x1b[0m")
    assert written


async def test_full_screen_mode_begins_with_nothing_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LinuxDriver, "start_application_mode", lambda self: None)
    driver = PatientDriver(App())
    assert driver.shown_cells.sequence(line("reward 1.84"), CONSOLE)
    driver.start_application_mode()
    assert driver.shown_cells.sequence(line("reward 1.84"), CONSOLE)


def test_a_strip_whose_cells_cannot_be_counted_off_is_sent_whole() -> None:
    cells = ShownCells()
    cells.sequence(line("一二三 a"), CONSOLE)
    assert not cells.sequence(line("一二三 a"), CONSOLE)
    assert "一二三 b" in cells.sequence(line("一二三 b"), CONSOLE)
    assert "123456 b" in cells.sequence(line("123456 b"), CONSOLE)


def test_only_parts_of_lines_that_changed_are_looked_at() -> None:
    left, middle = Strip([Segment("left")]), Strip([Segment("middle")])
    chops = [{}, {0: left, 4: None, 10: middle}]
    ends = [[], [4, 10, 16]]
    update = SimpleNamespace(chops=chops, spans=[(1, 3, 10)], chop_ends=ends)
    assert list(strips_of(update) or ()) == [(0, 1, left)]
    update.spans = [(1, 4, 11)]
    assert list(strips_of(update) or ()) == [(10, 1, middle)]
    whole = SimpleNamespace(region=Region(2, 5, 10, 1), strips=[[left, middle]])
    assert list(strips_of(whole) or ()) == [(2, 5, left), (6, 5, middle)]
    assert strips_of(SimpleNamespace()) is None


def test_after_panes_dialogs_and_moves_the_terminal_shows_what_a_whole_paint_shows(run: RecordedRun) -> None:
    terminal = Terminal(str(run.folder.root))
    terminal.until(b"newest group")
    os.write(terminal.fd, b"5")
    terminal.until(b"same as 1")
    for key, word in ((b"?", b"esc back"), (b"s", b"highest std"), (b"1", b"filter")):
        os.write(terminal.fd, key)
        terminal.until(word)
        os.write(terminal.fd, b"5" if key == b"1" else b"\x1b")
        terminal.until(word, there=False)
    os.write(terminal.fd, b"jj")
    moved = sum(map(terminal.until, ("❙   57 What is 17 + 4?".encode(), "“What is 17 + 4?”".encode())))
    terminal.until(b"1,824 completions")
    before = terminal.shown()
    terminal.resize(101, 30)
    terminal.until(b"q leave")
    terminal.resize(100, 30)
    everything = terminal.until(before.encode())
    assert moved < everything / 2
    os.write(terminal.fd, b"q")
    terminal.end()
