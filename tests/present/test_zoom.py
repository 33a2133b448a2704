"""What zooming and panning do to the part of a run that is shown."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from grpo_tui.present.big_chart import (
    NARROWEST,
    AxisRange,
    BigChartView,
    Window,
    average_span,
    panned,
    range_words,
    showing,
    shown_range,
    zoomed,
)

ENDED = AxisRange(0.0, 1000.0, 1000.0)
LIVE = AxisRange(0.0, 1000.0, 1200.0)


def test_the_whole_run_is_shown_at_first_with_room_for_what_comes() -> None:
    assert shown_range(Window(), LIVE) == (0.0, 1200.0)
    assert shown_range(Window(), ENDED) == (0.0, 1000.0)


def test_zooming_keeps_the_cursor_where_it_stands() -> None:
    window = zoomed(Window(), ENDED, 0.5, 250.0)
    first, last = shown_range(window, ENDED)
    assert last - first == pytest.approx(500.0)
    assert (250.0 - first) / (last - first) == pytest.approx(0.25)
    assert not window.following


def test_zooming_without_a_cursor_stays_at_the_newest_value() -> None:
    window = zoomed(Window(), LIVE, 0.25)
    assert window.following
    first, last = shown_range(window, LIVE)
    assert first < 1000.0 <= last
    later = AxisRange(0.0, 1150.0, 1200.0)
    assert shown_range(window, later)[1] >= 1150.0


def test_the_edge_of_a_followed_window_moves_in_leaps() -> None:
    window = zoomed(Window(), LIVE, 0.25)
    edges = {shown_range(window, AxisRange(0.0, float(step), 2000.0))[1] for step in range(1000, 1300)}
    assert len(edges) < 12


@pytest.mark.parametrize("width", [8.0, 100.0, 450.0, 900.0, 990.0, 1100.0])
@pytest.mark.parametrize("steps", range(3, 1001, 83))
@pytest.mark.parametrize("ahead", [1.0, 1.2], ids=["ended", "live"])
def test_a_followed_window_holds_the_newest_value_and_nothing_outside_the_run(
    width: float, steps: int, ahead: float
) -> None:
    bounds = AxisRange(1.0, float(steps), steps * ahead)
    first, last = shown_range(Window(span=(0.0, width)), bounds)
    assert bounds.first <= first <= bounds.newest <= last <= bounds.end
    assert last - first <= width


@pytest.mark.parametrize(
    ("first", "last", "said"),
    [
        (1.0, 1000.0, "steps 1 to 1,000"),
        (1.0, 1200.0, "steps 1 to 1,000"),
        (500.0, 1000.0, "steps 500 to 1,000 of 1,000"),
        (1.0, 500.0, "steps 1 to 500 of 1,000"),
        (250.0, 500.0, "steps 250 to 500 of 1,000"),
    ],
)
def test_a_part_of_a_run_is_said_with_the_whole(first: float, last: float, said: str) -> None:
    view = BigChartView("reward", (), "step", first, last, AxisRange(1.0, 1000.0, 1200.0))
    assert range_words(view) == said


def test_zooming_out_ends_at_the_whole_run() -> None:
    window = zoomed(Window(), ENDED, 0.5, 100.0)
    assert zoomed(window, ENDED, 4.0) == replace(window, span=None, following=True)


def test_zooming_in_has_an_end() -> None:
    window = Window()
    for _ in range(30):
        window = zoomed(window, ENDED, 0.5, 500.0)
    first, last = shown_range(window, ENDED)
    assert last - first == pytest.approx(NARROWEST)
    assert first <= 500.0 <= last


def test_panning_stands_still_and_the_newest_value_follows_again() -> None:
    window = panned(zoomed(Window(), ENDED, 0.25), ENDED, -1.0)
    assert not window.following
    assert shown_range(window, AxisRange(0.0, 5000.0, 5000.0)) == shown_range(window, ENDED)
    for _ in range(20):
        window = panned(window, ENDED, 1.0)
    assert window.following
    assert shown_range(window, ENDED)[1] == pytest.approx(1000.0)


def test_panning_stops_at_the_beginning() -> None:
    window = zoomed(Window(), ENDED, 0.25)
    for _ in range(20):
        window = panned(window, ENDED, -1.0)
    assert shown_range(window, ENDED)[0] == 0.0


def test_a_place_outside_is_brought_into_sight() -> None:
    window = zoomed(Window(), ENDED, 0.1)
    first, last = shown_range(showing(window, ENDED, 300.0), ENDED)
    assert first <= 300.0 <= last
    assert showing(window, ENDED, 950.0) == window


def test_the_average_spans_more_of_a_longer_stretch_and_only_by_doubling() -> None:
    assert [average_span("off", n) for n in (10, 100_000)] == [1, 1]
    assert average_span("light", 50) == 7
    spans = sorted({average_span("strong", n) for n in range(1, 20_000, 7)})
    assert spans[0] == 39
    assert all(b == 2 * a + 1 for a, b in pairwise(spans))
