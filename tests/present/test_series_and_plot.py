"""A metric folded value by value, and drawn."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from grpo_tui.present.charts import axis_end, chart_keys, chart_view
from grpo_tui.present.glyphs import ascii_locale, spark, to_ascii
from grpo_tui.present.plot import Sketch, log_scale_of, plot, scale_of
from grpo_tui.present.series import KEPT_OPENING, MOST_BUCKETS, SPREAD, Series, aligned
from grpo_tui.present.train_view import ChartView
from grpo_tui.store.read_series import SeriesBucket


def series_of(*values: float | None) -> Series:
    series = Series()
    for step, value in enumerate(values, 1):
        series.append(step, value)
    return series


def chart_of(series: Series, **more: object) -> ChartView:
    return ChartView(key="x", title="x", value="", buckets=series.buckets, **more)  # type: ignore[arg-type]


def drawn(chart: ChartView, width: int = 40, height: int = 8, *, braille: bool = True) -> list[str]:
    return ["".join(char for char, _ in row) for row in plot(chart, width, height, braille=braille)]


def test_missing_values_stay_gaps_and_do_not_count() -> None:
    series = series_of(1.0, None, math.nan, math.inf, 2.0)
    assert [b.mean for b in series.buckets] == [1.0, None, None, None, 2.0]
    assert series.count == 2
    assert series.last == 2.0


def test_a_long_run_keeps_few_buckets_and_every_extreme() -> None:
    series = Series()
    for step in range(1, 20_001):
        series.append(step, 100.0 if step == 7_777 else 1.0)
    assert len(series.buckets) <= MOST_BUCKETS
    assert max(b.high for b in series.buckets if b.high is not None) == 100.0
    assert sum(b.count for b in series.buckets) == 20_000
    assert (series.buckets[0].first, series.buckets[-1].last) == (1, 20_000)


def test_a_past_known_in_stretches_goes_on_in_stretches_of_the_same_length() -> None:
    past = [
        SeriesBucket(first, first + 15, first * 1.0, first + 15.0, 0.0, 4.0, 2.0, 16, known)
        for first, known in ((16, 16), (32, 16), (48, 0))
    ]
    series = Series()
    series.begin(range(99), [*past[:2], replace(past[2], low=None, high=None, mean=None)])
    assert (series.rows, series.count, series.gap, series.last_step) == (48, 32, 16, 63)
    assert series.opening == list(range(KEPT_OPENING))
    late = series.copy()
    late.append(64, 6.0)
    assert late.recent[-1].smooth == pytest.approx(3.0, abs=1e-3), "each value of a stretch has its weight"
    for step in range(64, 96):
        series.append(step, 2.0, step * 1.0)
    assert [(b.first, b.last, b.low, b.count) for b in series.buckets] == [
        (16, 31, 0.0, 16), (32, 47, 0.0, 16), (48, 63, None, 16), (64, 79, 2.0, 16), (80, 95, 2.0, 16),
    ]  # fmt: skip
    assert [(b.first_at, b.last_at) for b in series.buckets[1::2]] == [(32.0, 47.0), (64.0, 79.0)]
    assert series.recent[-1].smooth == pytest.approx(2.0), "the past counts in the average"
    assert (series.rows, series.gap, series.last_step) == (80, 0, 95)


def test_the_change_is_that_of_the_smoothed_value_over_so_many_steps() -> None:
    flat_then_up = series_of(*[1.0] * 30, *[3.0] * 30)
    assert flat_then_up.change(10) == pytest.approx(0.0, abs=0.02)  # 20 steps after the jump it is over
    assert flat_then_up.change(45) == pytest.approx(2.0, abs=0.02)
    assert series_of(1.0).change(20) is None


@pytest.mark.parametrize(("steps", "against"), [(1, 4), (2, 3), (4, 1), (9, 1)])
def test_the_change_is_against_the_value_exactly_so_many_steps_ago(steps: int, against: int) -> None:
    series = series_of(1.0, 2.0, 5.0, 4.0, 8.0)
    smooth = {one.step: one.smooth for one in series.recent}
    assert series.change(steps) == pytest.approx(smooth[5] - smooth[against])
    apart = Series()  # logged every third step: the nearest one at least so long ago
    for step in (3, 6, 9):
        apart.append(step, step * 1.0)
    smooth = {one.step: one.smooth for one in apart.recent}
    assert apart.change(4) == pytest.approx(smooth[9] - smooth[3])


def test_the_values_since_a_step_are_a_series_of_their_own() -> None:
    series = series_of(*[9.0] * 30, *[1.0] * 10, *[2.0] * 90, None, None)
    for step, count, opening, gap in (
        (30, 100, 1.0, 2),
        (40, 90, 2.0, 2),
        (129, 1, 2.0, 2),
        (131, 0, None, 1),
    ):
        part = series.since(step)
        assert (part.count, part.gap, part.last_step) == (count, gap, 132), step
        assert part.opening == ([] if opening is None else [opening] * min(count, 10))
        assert all(bucket.first > step for bucket in part.buckets)
        assert all((bucket.smooth or 0) <= 2.0 for bucket in part.buckets), "nothing earlier is averaged in"
    assert (series.since(132).rows, series.since(132).gap) == (0, 0)

    long = series_of(*[9.0] * 5_000, *[1.0] * 5_000)  # its stretches are of many steps
    part = long.since(5_000)
    assert (part.opening, part.change(20)) == ([1.0] * 10, 0.0)
    assert 4_900 < part.count <= 5_000


def test_the_first_value_is_not_smoothed_towards_zero() -> None:
    assert series_of(5.0).recent[-1].smooth == pytest.approx(5.0)


def test_a_plot_fills_exactly_the_cells_it_is_given() -> None:
    chart = chart_of(series_of(*[float(i % 7) for i in range(300)]))
    for width in (12, 20, 57, 120):
        for height in (2, 4, 5, 9, 20):
            rows = drawn(chart, width, height)
            assert len(rows) == height
            assert {len(row) for row in rows} == {width}


@pytest.mark.parametrize("size", [(0, 0), (3, 1), (11, 8), (40, 1)])
def test_a_plot_without_room_is_blank(size: tuple[int, int]) -> None:
    width, height = size
    assert drawn(chart_of(series_of(1.0, 2.0)), width, height) == [" " * width] * height


def test_a_plot_shows_a_gap_where_values_are_missing() -> None:
    whole = drawn(chart_of(series_of(*[1.0] * 60)))
    holed = drawn(chart_of(series_of(*[1.0] * 20, *[None] * 20, *[1.0] * 20)))

    def dots(rows: list[str]) -> int:
        return sum("\u2800" < char <= "\u28ff" for row in rows for char in row)

    assert dots(holed) < dots(whole)
    line = next(row for row in holed if any("\u2800" < c <= "\u28ff" for c in row))
    assert "    " in line.strip()


def test_marks_stand_on_the_axis_at_their_step() -> None:
    marks = ((1, "setting"), (60, "checkpoint"), (900, "checkpoint"))
    axis = drawn(chart_of(series_of(*[1.0] * 60), marks=marks))[-2]
    assert axis.rstrip().endswith("◆")
    assert axis.count("◆") == 1
    assert "└▴" in axis


def test_steps_are_named_under_the_axis() -> None:
    assert drawn(chart_of(series_of(*[1.0] * 60)))[-1].split() == ["1", "30", "60"]


def test_ticks_are_round_and_zero_is_kept_when_it_is_near() -> None:
    scale = scale_of(chart_of(series_of(0.31, 2.83)))
    assert scale.low == 0.0
    assert scale.high == 3.0
    far = scale_of(chart_of(series_of(101.0, 104.0)))
    assert far.low >= 100.0


def test_a_logarithmic_axis_gives_every_power_of_ten_the_same_height() -> None:
    chart = chart_of(series_of(*[1e-4] * 9, *[1e-2] * 9, *[1.0] * 9))
    rows = plot(chart, 40, 13, logarithmic=True)
    labels = {"".join(char for char, _ in row[:6]).strip("│└ "): at for at, row in enumerate(rows[:-1])}
    assert abs(labels["0.01"] - labels["1"] - (labels["1e-4"] - labels["0.01"])) <= 1
    for values in ([0.0, 1.0], [-1.0, 5.0]):
        apart = chart_of(series_of(*values))
        assert plot(apart, 40, 13, logarithmic=True) == plot(apart, 40, 13)
    for values in ([3.0, 3.0], [0.26, 0.28], [7e-9, 3e5], [40.0, 60.0]):
        ends = log_scale_of(chart_of(series_of(*values)))
        assert ends.low <= min(values)
        assert ends.high >= max(values)
        assert (ends.ticks[0], ends.ticks[-1]) == (ends.low, ends.high)


def test_a_constant_series_has_a_scale() -> None:
    for value in (0.0, 3.0, -2.0, 1e-9):
        scale = scale_of(chart_of(series_of(value, value)))
        assert scale.low < scale.high


def test_more_values_than_columns_keep_every_extreme_and_wide_gaps() -> None:
    values: list[float | None] = [1.0] * 400
    values[123], values[200:300] = 9.0, [None] * 100
    rows = drawn(chart_of(series_of(*values)), 40, 10)
    dots = [[0x2800 < ord(char) <= 0x28FF for char in row] for row in rows]
    reach = [any(row[x] for row in dots) for x in range(40)]
    assert any(dots[0])  # the one high value reaches up to the first row
    left = reach.index(True)
    assert not any(reach[left + 20 : left + 26])
    assert reach[-1]


def test_the_ends_of_an_axis_are_told_apart_however_near_they_are() -> None:
    for low, high in ((1.98e-4, 2.0e-4), (1.9999e-6, 2e-6), (0.012345, 0.012346), (5e8, 5.001e8)):
        rows = drawn(chart_of(series_of(low, high)), 50, 8)
        top, bottom = rows[0].split("│")[0].strip(), rows[-2].split("└")[0].strip()
        assert top != bottom
        assert float(top.replace(",", "")) > float(bottom.replace(",", ""))


def test_a_band_does_not_pull_rewards_below_zero() -> None:
    series = series_of(0.1, 0.2)
    assert scale_of(chart_of(series, band=((-0.9, 1.1), (-0.8, 1.2)))).low == 0.0


def test_an_ascii_plot_is_ascii() -> None:
    chart = chart_of(series_of(*[float(i % 5) for i in range(60)]), marks=((5, "checkpoint"),))
    rows = [to_ascii(row) for row in drawn(chart, braille=False)]
    assert all(row.isascii() for row in rows)
    assert any("*" in row for row in rows)


def test_a_curve_has_a_blank_where_nothing_is_known() -> None:
    assert spark([1.0, None, 2.0], 3) == "▁ ▇"
    assert spark([], 5) == ""
    assert spark([0.0, 0.0], 2) == "▁▁"
    assert spark([0.4, 0.4], 2) == "▄▄"
    assert spark([None, None], 5) == "  "
    assert len(spark([float(i) for i in range(100)], 10)) == 10


def test_the_locale_decides_whether_glyphs_fall_back() -> None:
    assert ascii_locale({"LC_ALL": "C"})
    assert ascii_locale({"LANG": "C", "LC_CTYPE": "C.UTF-8"})  # as Python leaves LANG=C
    assert ascii_locale({"LANG": "de_DE.ISO-8859-1"})
    assert not ascii_locale({"LANG": "de_DE.UTF-8"})
    assert not ascii_locale({})
    assert not ascii_locale({"LC_ALL": "C.UTF-8", "LANG": "C"})


def test_charts_come_in_the_order_a_person_asks() -> None:
    keys = ["loss", "epoch", "reward", "entropy", "custom", "completions/mean_length", "train_runtime"]
    assert chart_keys(keys) == ["reward", "completions/mean_length", "entropy", "loss", "custom"]


def test_the_axis_of_a_live_run_moves_seldom_and_never_cuts() -> None:
    ends = [axis_end(step, None, live=True) for step in range(1, 2000)]
    assert all(end > step for step, end in enumerate(ends, 1))
    assert len(set(ends)) < 60
    assert axis_end(57, 60, live=True) == 60
    assert axis_end(57, 120, live=False) == 57
    assert axis_end(70, 60, live=True) == 70
    assert axis_end(0, 120, live=True) == 0


@pytest.mark.parametrize("braille", [True, False])
def test_a_chart_drawn_on_step_by_step_is_the_one_drawn_at_once(braille: bool) -> None:
    values = [math.sin(step / 5) * step if step % 17 else None for step in range(1, 700)]
    series, spread, sketch = Series(), Series(), Sketch()
    for step, value in enumerate(values, 1):
        series.append(step, value)
        spread.append(step, 0.2)
        if step % 3 and step > 40:
            continue
        end = axis_end(step, None, live=True)
        key = "reward" if step < 300 else "loss"
        chart = chart_view(key, {key: series, SPREAD: spread}, (), end)
        stepwise = plot(chart, 60, 10, braille=braille, sketch=sketch)
        assert stepwise == plot(chart, 60, 10, braille=braille), step


def test_a_metric_is_laid_along_the_stretches_of_another_or_along_its_own() -> None:
    def stretch(first: int, last: int, mean: float | None) -> SeriesBucket:
        return SeriesBucket(first, last, 0.0, 0.0, mean, mean, mean, last - first + 1, int(mean is not None))

    own = [stretch(1, 2, 1.0), stretch(3, 4, 3.0), stretch(7, 8, None), stretch(9, 10, 5.0)]
    assert aligned(own, ()) == (1.0, 3.0, None, 5.0)
    axis = [stretch(1, 4, 0.0), stretch(5, 6, 0.0), stretch(7, 10, 0.0), stretch(11, 12, 0.0)]
    assert aligned(own, axis) == (2.0, None, 5.0, None)
    assert aligned((), axis) == (None,) * 4
