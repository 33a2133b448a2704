"""A full-screen chart, drawn."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import pytest

from grpo_tui.present.big_chart import (
    AxisRange,
    BigChartView,
    ChartBucket,
    ChartLine,
    Happening,
    bucket_at,
    converted,
    moving_average,
    nearest,
    number,
)
from grpo_tui.present.formatting import time_label
from grpo_tui.present.glyphs import to_ascii
from grpo_tui.present.plot import Frame, _clock_ends, draw, step_ticks, time_ticks, value_axis, with_cursor


def line_of(*values: float | None, key: str = "x", name: str = "", every_s: float = 1.0) -> ChartLine:
    smooth = moving_average(((v, 1) for v in values), 7)
    buckets = tuple(
        ChartBucket(i, i, float(i), 100 + i * every_s, v, v, v, s, int(v is not None), int(v is None))
        for i, (v, s) in enumerate(zip(values, smooth, strict=True), 1)
    )
    return ChartLine(key, name, buckets, started_at=100.0)


def view_of(*lines: ChartLine, **more: object) -> BigChartView:
    end = max(s.x for line in lines for s in line.buckets)
    view = BigChartView("x", lines, "step", 1.0, end, AxisRange(1.0, end, end))
    return replace(view, **more)  # type: ignore[arg-type]


def text_of(view: BigChartView, width: int = 60, height: int = 16, **how: bool) -> list[str]:
    drawing = draw(view, width, height, **how)  # type: ignore[arg-type]
    assert drawing is not None
    return ["".join(char for char, _ in row) for row in drawing.rows]


def test_a_drawing_fills_exactly_the_cells_it_is_given() -> None:
    view = view_of(line_of(*[float(i % 7) for i in range(300)]))
    for width in (24, 57, 120, 200):
        for height in (4, 9, 20, 45):
            rows = text_of(view, width, height)
            assert len(rows) == height
            assert {len(row) for row in rows} == {width}


@pytest.mark.parametrize(
    ("starts", "with_clock"),
    [([100.0], True), ([100.0, 100.0], True), ([100.0, 90_000.0], False), ([None], False)],
)
def test_the_time_of_day_is_told_only_where_all_lines_began_at_once(
    starts: list[float | None], with_clock: bool
) -> None:
    lines = [replace(line_of(*[1.0] * 50), started_at=start) for start in starts]  # type: ignore[arg-type]
    whole = AxisRange(0.0, 90_000.0, 90_000.0)
    view = view_of(*lines, x="time", first=0.0, last=90_000.0, bounds=whole)
    assert (_clock_ends(view, Frame(8, 80, 0.0, 90_000.0)) is not None) == with_clock


def test_without_room_or_values_nothing_is_drawn() -> None:
    assert draw(view_of(line_of(1.0, 2.0)), 10, 3) is None
    assert draw(view_of(line_of(None, None)), 80, 20) is None


@pytest.mark.parametrize(("height", "least"), [(12, 3), (20, 4), (40, 5)])
def test_a_high_plot_has_several_round_ticks(height: int, least: int) -> None:
    rows = text_of(view_of(line_of(*[0.031 * i for i in range(90)])), 80, height)
    labels = [float(row.split("┤")[0]) for row in rows if "┤" in row]
    assert least <= len(labels) <= 7
    steps = {round(a - b, 6) for a, b in pairwise(labels)}
    assert len(steps) == 1
    assert labels[-1] == 0.0


def test_a_logarithmic_axis_has_powers_and_puts_equal_factors_at_equal_distances() -> None:
    axis = value_axis(1e-6, 0.3, 7, logarithmic=True)
    assert axis.labels[0] == "1e-6"
    assert axis.share(1e-4) - axis.share(1e-5) == pytest.approx(axis.share(1e-2) - axis.share(1e-3))
    drawn = draw(view_of(line_of(1e-6, 1e-3, 0.1)), 60, 16, logarithmic=True)
    assert drawn is not None
    assert drawn.axis.logarithmic
    # A value that is not positive has no place on it: the axis stays linear.
    linear = draw(view_of(line_of(-1.0, 1e-3, 0.1)), 60, 16, logarithmic=True)
    assert linear is not None
    assert not linear.axis.logarithmic


def test_a_band_that_reaches_zero_does_not_stretch_a_logarithmic_axis() -> None:
    buckets = tuple(replace(one, spread=5.0) for one in line_of(1.0, 2.0, 4.0).buckets)
    view = view_of(replace(line_of(1.0, 2.0, 4.0), buckets=buckets))
    logarithmic, linear = draw(view, 60, 16, logarithmic=True), draw(view, 60, 16)
    assert logarithmic is not None
    assert linear is not None
    assert (logarithmic.axis.logarithmic, linear.axis.logarithmic) == (True, False)
    assert 0 < logarithmic.axis.low <= 1.0
    assert logarithmic.axis.high >= 9.0
    assert (linear.axis.low, linear.axis.high >= 9.0) == (0.0, True)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, "–"), (0.0, "0.000"), (0.001, "0.00100"), (0.0005, "5.0e-4"), (-0.0005, "-5.0e-4"),
        (1.25, "1.250"),
        (9_999_999.0, "9,999,999.0"), (1e7, "1.0e7"), (-2e7, "-2.0e7"),
    ],
)  # fmt: skip
def test_a_value_at_the_cursor_keeps_its_digits_however_small_or_large(
    value: float | None, said: str
) -> None:
    assert number(value) == said


def test_values_as_large_as_numbers_get_are_drawn() -> None:
    for values in ((-1e308, 1.7e308), (1e-320, 1e300), (5e300, 5e300), (1e-9, 1e-9)):
        for logarithmic in (False, True):
            assert draw(view_of(line_of(*values)), 60, 16, logarithmic=logarithmic) is not None


def test_lines_differ_by_pattern_and_not_by_colour_alone() -> None:
    flat, higher = line_of(*[1.0] * 60), line_of(*[2.0] * 60)
    drawing = draw(view_of(flat, higher), 60, 16)
    assert drawing is not None

    def dots(role: str) -> int:
        return sum((ord(char) - 0x2800).bit_count() for row in drawing.rows for char, r in row if r == role)

    assert dots("line2") < 0.75 * dots("line")
    plain = draw(view_of(flat, higher), 60, 16, braille=False)
    assert plain is not None
    assert {char for row in plain.rows for char, role in row if role == "line"} == {"*"}
    assert {char for row in plain.rows for char, role in row if role == "line2"} == {"o"}


def test_a_drawing_for_ascii_is_ascii() -> None:
    view = view_of(line_of(1.0, 3.0, 2.0), happenings=(Happening(2, 2.0, "resume", ""),))
    drawing = draw(view, 60, 16, braille=False)
    assert drawing is not None
    rows = with_cursor(drawing, 2.0)
    assert all(to_ascii("".join(char for char, _ in row)).isascii() for row in rows)
    assert "?" not in to_ascii("".join(char for row in rows for char, _ in row))


def test_missing_values_leave_a_gap() -> None:
    rows = text_of(view_of(line_of(*[1.0] * 20, *[None] * 20, *[1.0] * 20)))
    line = next(row for row in rows if any("\u2800" < c <= "\u28ff" for c in row))
    assert "          " in line.strip()


def test_a_run_that_stood_still_is_not_joined_over_the_time_it_stood() -> None:
    early, late = line_of(*[1.0] * 10).buckets, line_of(*[1.0] * 10).buckets
    apart = tuple(replace(s, x=s.x + 1000.0) for s in late)
    view = view_of(ChartLine("x", "", (*early, *apart)), x="time")
    line = next(row for row in text_of(view) if any("\u2800" < c <= "\u28ff" for c in row))
    assert " " * 40 in line


def test_marks_stand_on_the_axis() -> None:
    marks = tuple(
        Happening(s, float(s), kind, "") for s, kind in ((1, "checkpoint"), (30, "setting"), (60, "resume"))
    )
    axis = text_of(view_of(line_of(*[1.0] * 60), happenings=marks))[-2]
    assert axis.strip()[1] == "◆"
    assert axis.endswith("↻")
    assert "▴" in axis


def test_the_cursor_marks_one_column_and_keeps_what_stands_there() -> None:
    drawing = draw(view_of(line_of(*[1.0] * 60)), 60, 16)
    assert drawing is not None
    rows = with_cursor(drawing, 30.0)
    marked = [[i for i, (_, role) in enumerate(row) if "cursor" in role] for row in rows[:-1]]
    assert {tuple(columns) for columns in marked} == {(drawing.frame.left + drawing.frame.column(30.0),)}
    assert any(role == "line cursor" for row in rows for _, role in row)
    assert with_cursor(drawing, 999.0) == drawing.rows


def test_a_column_of_the_plot_is_a_place_and_back() -> None:
    drawing = draw(view_of(line_of(*[1.0] * 60)), 60, 16)
    assert drawing is not None
    frame = drawing.frame
    for place in (1.0, 17.0, 42.5, 60.0):
        assert frame.place(frame.left + frame.column(place)) == pytest.approx(place, abs=1.0)


def test_a_long_axis_of_time_has_the_clock_at_its_ends() -> None:
    hours = 10 * 3600.0
    ends = (ChartBucket(1, 1, 0.0, 0.0, 1, 1, 1, 1, 1), ChartBucket(2, 2, hours, 0.0, 2, 2, 2, 2, 1))
    line = ChartLine("x", "", ends, started_at=1_770_000_000.0)
    view = BigChartView("x", (line,), "time", 0.0, hours, AxisRange(0.0, hours, hours))
    words = text_of(view, 100)[-1].split()
    assert ":" in words[0]
    assert ":" in words[-1]
    assert {"2h", "4h"} <= set(words)


def test_ticks_are_round() -> None:
    assert step_ticks(1, 1000, 6) == [200, 400, 600, 800, 1000]
    assert step_ticks(3, 9, 10) == [3, 4, 5, 6, 7, 8, 9]
    assert [time_label(t) for t in time_ticks(0, 5400, 4)] == ["0", "30m", "1h", "1h30m"]
    assert [time_label(t) for t in (5, 60, 65, 3600, 3660, 90_000)] == [
        "5s",
        "1m",
        "1m05s",
        "1h",
        "1h01m",
        "1d1h",
    ]


def test_the_average_is_not_drawn_to_zero_and_weighs_a_stretch_by_its_values() -> None:
    assert moving_average([(5.0, 1)], 39) == pytest.approx([5.0])
    one_by_one = moving_average([(1.0, 1)] * 10 + [(3.0, 1)] * 10, 7)
    gathered = moving_average([(1.0, 10), (3.0, 10)], 7)
    assert gathered == pytest.approx([one_by_one[9], one_by_one[19]])
    assert moving_average([(1.0, 1), (None, 0), (1.0, 1)], 7) == pytest.approx([1.0, None, 1.0])
    assert moving_average([(v, 1) for v in (4.0, -1.0, 7.0)], 1) == pytest.approx([4.0, -1.0, 7.0])


def test_the_average_follows_its_formula() -> None:
    values, span = [2.0, 5.0, -1.0, 4.0], 7
    a = 2 / (span + 1)
    total, expected = 0.0, []
    for n, x in enumerate(values, 1):
        total = (1 - a) * total + a * x
        expected.append(total / (1 - (1 - a) ** n))
    assert moving_average([(x, 1) for x in values], span) == pytest.approx(expected)


def test_what_is_nearest_to_the_cursor_is_read() -> None:
    line = line_of(*[float(i) for i in range(10)])
    found = bucket_at(line, 4.3)
    assert found is not None
    assert found.first == 4
    assert bucket_at(line, 50.0) is None
    assert nearest([], 3.0) is None


def test_a_place_in_steps_is_a_place_in_time() -> None:
    line = line_of(*[1.0] * 10, every_s=3.0)
    assert converted(line, 4.0, to_time=True) == pytest.approx(12.0)
    assert converted(line, 12.0, to_time=False) == pytest.approx(4.0)
    assert math.isfinite(converted(line_of(1.0), 4.0, to_time=True))
