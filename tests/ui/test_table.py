"""A table: columns that leave when it gets narrow, titles over their cells, rows made once when looked at."""

from __future__ import annotations

import pytest

from grpo_tui.ui.kit.table import Column, LazyLines, cells, fit, heading, row_line
from grpo_tui.ui.paint import Line, Span, width_of

COLUMNS: tuple[Column[str], ...] = (
    Column("name", 10, lambda row: Span(row, "strong")),
    Column("  state", 9, lambda row: Span("  on"), gap=1, priority=2),
    Column("reward", 9, lambda row: Span("0.5"), right=True, priority=1),
    Column("note ", 8, lambda row: Span("x"), right=True, gap=1, priority=3),
)


def words(line: Line) -> str:
    return "".join(span.text for span in line)


@pytest.mark.parametrize(("width", "left"), [(36, 4), (35, 3), (28, 3), (27, 2), (19, 2), (18, 1), (4, 1)])
def test_the_least_needed_column_leaves_first_and_one_stays(width: int, left: int) -> None:
    kept = fit(COLUMNS, width)
    assert [column.title for column in kept] == [c.title for c in COLUMNS if c.priority < left]
    assert cells(kept) <= max(width, 10)


def test_a_title_stands_over_its_cells() -> None:
    over = words(heading(COLUMNS, 40, edge=2))
    row = words(row_line(COLUMNS, "a", "❙ ", ""))
    assert over.index("name") == row.index("a")
    assert over.index("state") == row.index("on")
    assert over.index("reward") + len("reward") == row.index("0.5") + len("0.5")
    assert over.index("note") + len("note ") == row.index("x") + 1
    assert width_of(heading(COLUMNS, 40, edge=2)) == 40


def test_a_cell_is_cut_to_its_column_and_the_row_under_the_cursor_is_lit_whole() -> None:
    line = row_line(COLUMNS, "a name that is too long", "❙", " selected")
    assert width_of(line) == 1 + cells(COLUMNS)
    assert line[1].text == "a name th…"
    assert all(span.role.endswith(" selected") for span in line)


def test_a_row_is_made_when_it_is_looked_at_and_once() -> None:
    made: list[int] = []

    def make(place: int) -> Line:
        made.append(place)
        return [Span(str(place))]

    lines = LazyLines(1_000_000, make)
    assert [words(line) for line in lines[7:9]] == ["7", "8"]
    assert words(lines[7]) == "7"
    assert made == [7, 8]
