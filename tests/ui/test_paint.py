"""Lines of coloured text: their width, their cuts, and what of them is painted again."""

from __future__ import annotations

from rich.cells import cell_len
from textual.geometry import Region, Size

from grpo_tui.ui.paint import (
    Line,
    LinePane,
    Span,
    changed_regions,
    fitting,
    headed,
    pad,
    ruled,
    spread,
    width_of,
)
from tests.ui.conftest import app_on, shown, until


def test_padding_counts_cells_and_not_characters() -> None:
    for text in ("", "abc", "一二三四", "e\u0301e\u0301", "a very long name"):
        for width in (0, 1, 4, 9):
            assert cell_len(pad(text, width)) == width
            assert cell_len(pad(text, width, right=True)) == width


def test_a_rule_is_exactly_as_wide_as_asked() -> None:
    for width in (10, 24, 80):
        line = ruled([[Span("title")], [Span("part")], [Span("another part")]], width, [Span("9.99")])
        assert width_of(line) <= width
    assert width_of(ruled([[Span("title")]], 40, [Span("1")])) == 40
    assert width_of(headed([(2, "a", "dim"), (20, "b", "dim")], 40)) == 40


def test_parts_without_room_go_whole() -> None:
    parts = [(0, [Span("reward 1.84")]), (2, [Span("spread 0.92")]), (1, [Span("flat 12 %")])]
    assert "".join(s.text for s in fitting(parts, 80)) == "reward 1.84   spread 0.92   flat 12 %"
    assert "".join(s.text for s in fitting(parts, 24)) == "reward 1.84   flat 12 %"
    assert "".join(s.text for s in fitting(parts, 12)) == "reward 1.84"


def test_the_right_part_gives_way() -> None:
    assert width_of(spread([Span("left")], [Span("right")], 20)) == 20
    assert "".join(s.text for s in spread([Span("left")], [Span("right")], 9)) == "left"


def test_only_lines_that_differ_are_painted_again() -> None:
    old = [[Span("a"), Span("bcd"), Span("e")], [Span("same")], [Span("gone")]]
    new = [[Span("a"), Span("bXd"), Span("e")], [Span("same")]]
    assert changed_regions(old, new, Size(10, 4)) == [Region(0, 0, 10, 1), Region(0, 2, 10, 1)]
    assert changed_regions(old, old, Size(10, 4)) == []
    assert changed_regions(old, new, Size(10, 1)) == [Region(0, 0, 10, 1)], (
        "what is not visible is not painted"
    )


class Cells(LinePane):
    """A line that says how wide it is."""

    def lines(self, width: int, height: int) -> list[Line]:
        return [[Span(f"{width} cells")]]


async def test_a_pane_is_laid_out_again_for_another_size() -> None:
    app = app_on(None)
    async with app.run_test(size=(80, 24)) as pilot:
        await app.screen.mount(Cells())
        for width in (80, 70, 90):
            await pilot.resize_terminal(width, 24)
            await until(pilot, lambda width=width: f"{width} cells" in shown(app))  # type: ignore[misc]


def test_another_color_alone_is_a_difference() -> None:
    old, new = [[Span("0.53", "good")]], [[Span("0.53", "bad")]]
    assert changed_regions(old, new, Size(20, 1)) == [Region(0, 0, 20, 1)]
