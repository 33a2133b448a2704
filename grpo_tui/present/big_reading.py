"""What stands around a full-screen chart in words: its title, how it is drawn, and what is under the cursor.

Knows the frozen view; pieces are (text, role) pairs, most important first, for the widget to fit into a line.
"""

from __future__ import annotations

import time

from grpo_tui.core.metrics import describe
from grpo_tui.core.text import one_line
from grpo_tui.present.axes import decimals, step_label, time_label
from grpo_tui.present.big_chart import BigChartView, ChartLine, Stretch, nearest, stretch_at
from grpo_tui.present.formatting import MISSING, compact, fixed
from grpo_tui.present.plot import MARKS
from grpo_tui.present.train_view import Span

RUN_SIGN = "▸"


def number(value: float | None, like: tuple[float | None, ...] = ()) -> str:
    """A value at the cursor, a digit more exact than on a small chart."""
    if value is None:
        return MISSING
    if value != 0 and (abs(value) < 0.001 or abs(value) >= 1e7):
        return compact(value)
    return fixed(value, decimals([value, *like]))


def title_of(key: str) -> str:
    """The metric's title, safe."""
    return one_line(describe(key).title, 60)


def smoothing_words(span: int) -> str:
    """How the line is smoothed."""
    return "not smoothed" if span <= 1 else f"moving average of {span:,} values"


def range_words(view: BigChartView) -> str:
    """What part of the run is shown."""
    label = time_label if view.x == "time" else step_label
    last = min(view.last, view.extent.newest) if view.last >= view.extent.newest else view.last
    unit = "" if view.x == "time" else "steps "
    words = f"{unit}{label(view.first)} to {label(last)}"
    if view.first > view.extent.first or view.last < view.extent.newest:
        words += f" of {label(view.extent.newest)}"
    return words


def cursor_place(view: BigChartView, cursor: float | None) -> float | None:
    """Where the cursor stands: the stretch nearest to it, the newest one without a cursor."""
    places = view.places
    if not places:
        return None
    if cursor is None:
        return places[-1]
    index = nearest(places, cursor)
    return None if index is None else places[index]


def where_words(view: BigChartView, stretch: Stretch, line: ChartLine) -> list[Span]:
    """Step and time of a stretch."""
    steps = f"step {stretch.first:,}"
    if stretch.last > stretch.first:
        steps = f"steps {stretch.first:,} to {stretch.last:,}"
    moment = time_label(max(0.0, stretch.at - line.started_at))
    clock = time.strftime("%H:%M:%S", time.localtime(stretch.at))
    return [(steps, "strong"), (f"{moment} after the start, {clock}", "dim")]


def place_words(view: BigChartView, place: float) -> str:
    """A place that several lines share; each run has a clock of its own."""
    return f"{time_label(place)} after the start" if view.x == "time" else f"step {place:,.0f}"


def value_words(stretch: Stretch | None) -> list[Span]:
    """The values of a stretch: mean or raw, smoothed, and its extremes."""
    if stretch is None:
        return [(MISSING, "dim")]
    if stretch.mean is None:
        return [("missing" if stretch.missing <= 1 else f"{stretch.missing} missing", "attention")]
    raw = number(stretch.mean)
    if stretch.count == 1:
        words: list[Span] = [(f"value {raw}", "strong")]
    else:
        words = [(f"mean {raw}", "strong")]
        words.append((f"{number(stretch.low)} to {number(stretch.high)} in {stretch.count:,} values", "text"))
    if stretch.smooth is not None:
        words.insert(1, (f"smoothed {number(stretch.smooth)}", "text"))
    if stretch.spread is not None:
        words.append((f"spread in a group {number(stretch.spread)}", "text"))
    if stretch.missing:
        words.append((f"{stretch.missing} missing", "attention"))
    return words


def short_value(stretch: Stretch | None) -> str:
    """One value of a stretch, where several lines share the reading."""
    if stretch is None:
        return MISSING
    if stretch.mean is None:
        return "missing"
    return number(stretch.smooth if stretch.smooth is not None else stretch.mean)


def happened_words(view: BigChartView, place: float) -> list[Span]:
    """What happened at the cursor."""
    for line in view.lines:
        stretch = stretch_at(line, place)
        if stretch is not None:
            return [
                (f"{MARKS.get(h.kind, '▴')} step {h.step:,}  {h.text}", "attention")
                for h in view.happened_at(stretch)
            ]
    return []
