"""The full-screen chart: title, options, plot, and values under the cursor."""

from __future__ import annotations

from dataclasses import dataclass, field

from textual.events import MouseDown, MouseMove, MouseScrollDown, MouseScrollUp, MouseUp
from textual.message import Message

from grpo_tui.core.metrics import is_computed
from grpo_tui.core.text import one_line, shorten
from grpo_tui.present.big_chart import (
    BigChartView,
    ChartLine,
    Window,
    band_words,
    bucket_at,
    cursor_place,
    happened_words,
    number,
    place_words,
    range_words,
    reach_words,
    short_value,
    smoothing_words,
    title_of,
    value_words,
    where_words,
)
from grpo_tui.present.plot import LINE_ROLES, MOST_LINES, Drawing, draw, line_sign, with_cursor
from grpo_tui.present.seed_sets import BAND
from grpo_tui.ui.paint import Line, LinePane, Span, fitting, ruled, width_of
from grpo_tui.ui.widgets.chart import EDGE, plot_lines

HEADING, READING = 2, 2
"""Lines above and below the plot."""


@dataclass(frozen=True, slots=True)
class ChartOptions:
    """The user's choices for the chart."""

    key: str
    window: Window = field(default_factory=Window)
    cursor: float | None = None
    """Position on the axis; None follows the newest value."""
    logarithmic: bool = False
    together: bool = False


class BigChart(LinePane, can_focus=True):
    """One chart over the whole pane."""

    DEFAULT_CSS = "BigChart { height: 1fr; }"

    class Pointed(Message):
        """Posted for the mouse. `place` is on the axis; `zoom` is a factor of the width, None for a click."""

        def __init__(self, place: float, zoom: float | None = None) -> None:
            super().__init__()
            self.place, self.zoom = place, zoom

    _request: ChartOptions | None = None
    _view: BigChartView | None = None
    _waits = ""
    _drawing: Drawing | None = None
    _drawn: tuple[object, ...] = ()
    _dragging = False

    def show(self, view: BigChartView | None, options: ChartOptions, waits: str = "") -> None:
        if (view, options, waits) != (self._view, self._request, self._waits):
            self._view, self._request, self._waits = view, options, waits
            self.changed()

    @property
    def columns(self) -> int:
        """Dots across the widest possible plot, and so the number of buckets worth reading."""
        plain = bool(getattr(self.app, "ascii_only", False))
        return max(16, (self.size.width or self.app.size.width) * (1 if plain else 2))

    # -- lines -----------------------------------------------------------------------------------

    def lines(self, width: int, height: int) -> list[Line]:
        options, view = self._request, self._view
        if options is None:
            return []
        if view is None or view.key != options.key:
            heading = ruled([[Span(title_of(options.key), "title")]], width)
            return [heading, [Span(f"  {self._waits or 'Reading the run …'}", "dim")]]
        plain = bool(getattr(self.app, "ascii_only", False))
        place = cursor_place(view, options.cursor)
        drawn = (view, width, height, plain, options.logarithmic)
        if drawn != self._drawn:  # the cursor moves most often, which needs no new drawing
            room = height - HEADING - READING
            self._drawing = draw(view, width - EDGE, room, braille=not plain, logarithmic=options.logarithmic)
            self._drawn = drawn
        top = [self._title(view, width, plain), self._how(view, options, width)]
        if self._drawing is None:
            return [*top, (), [Span(f"  {self._nothing(view)}", "dim")]]
        rows = with_cursor(self._drawing, place if options.cursor is not None else None)
        return [*top, *plot_lines(rows), *self._reading(view, place, width, plain)]

    def _nothing(self, view: BigChartView) -> str:
        for line in view.lines:
            if line.trouble:
                return line.trouble
        if view.known:
            return "No room to draw. Enlarge the window."
        if any(line.buckets for line in view.lines):
            return "Only missing values here. Press 0 for the whole run."
        return "No values of this metric here. Press [ or ] for others, x for all."

    def _title(self, view: BigChartView, width: int, plain: bool) -> Line:
        parts: list[Line] = [[Span(title_of(view.key), "title")]]
        if len(view.lines) > 1 or view.lines[0].runs > 1:
            shown = view.lines[:MOST_LINES]
            # Every line is named, if need be abbreviated. The full names are in the readings below.
            room = (width - width_of(parts[0]) - 4) // len(shown) - 8
            names = [shorten(line.name, max(3, room - len(number(line.newest)))) for line in shown]
            parts += [
                self._named(i, line, name, plain)
                for i, (line, name) in enumerate(zip(shown, names, strict=True))
            ]
            return ruled(parts, width)
        who = "computed here" if is_computed(view.key) else "in TRL"
        parts.append([Span(f"{one_line(view.key, 48)} {who}", "dim")])
        if any(s.spread is not None for s in view.lines[0].buckets):
            parts.append([Span(f"band: {band_words(view.key)[1]}", "dim")])
        return ruled(parts, width, self._newest(view.lines[0]))

    def _named(self, index: int, line: ChartLine, name: str, plain: bool) -> Line:
        role = LINE_ROLES[index]
        return [
            Span(f"{line_sign(index, ascii_only=plain)} ", role),
            Span(f"{name} ", role),
            Span(number(line.newest), "strong"),
        ]

    def _newest(self, line: ChartLine) -> Line:
        if line.newest_step is None:
            return ()
        return [Span(number(line.newest), "strong"), Span(f" at step {line.newest_step:,}", "dim")]

    def _how(self, view: BigChartView, options: ChartOptions, width: int) -> Line:
        if not options.window.following:
            edge = Span("frozen, G follows", "attention", "screen.zoom_newest")
        elif view.live:
            edge = Span("following", "good")
        else:
            edge = Span("the run has ended", "dim")
        scale = "logarithmic" if options.logarithmic and view.positive else "linear"
        if options.logarithmic and not view.positive:
            scale = "linear: not all values are above 0"
        parts: list[tuple[int, Line]] = [
            (0, [edge]),
            (1, [Span(range_words(view), "dim")]),
            (2, _keyed("f", smoothing_words(view.smoothing_span), "screen.zoom_smooth")),
            (3, _keyed("t", "time" if view.x == "time" else "steps", "screen.zoom_time")),
            (4, _keyed("o", scale, "screen.zoom_log")),
            *([(2, [Span(BAND, "dim")])] if any(line.runs > 1 for line in view.lines) else []),
        ]
        return [Span(" "), *fitting(parts, width - 2)]

    def _reading(self, view: BigChartView, place: float | None, width: int, plain: bool) -> list[Line]:
        if place is None:
            return [(), ()]
        if len(view.lines) > 1 or view.lines[0].runs > 1:
            return self._readings(view, place, width, plain)
        line = view.lines[0]
        bucket = bucket_at(line, place)
        if bucket is None:
            return [(), ()]
        parts: list[tuple[int, Line]] = [
            (rank, [Span(text, role)])
            for rank, (text, role) in zip(
                (0, 6, 1, 2, 3, 4, 5),
                [*where_words(view, bucket, line), *value_words(bucket, view.key)],
                strict=False,
            )
        ]
        happened: list[tuple[int, Line]] = [
            (i, [Span(text, role)]) for i, (text, role) in enumerate(happened_words(view, place))
        ]
        return [[Span(" "), *fitting(parts, width - 2)], [Span(" "), *fitting(happened, width - 2)]]

    def _readings(self, view: BigChartView, place: float, width: int, plain: bool) -> list[Line]:
        found = [(i, line, bucket_at(line, place)) for i, line in enumerate(view.lines[:MOST_LINES])]
        where: list[tuple[int, Line]] = [(0, [Span(place_words(view, place), "strong")])]
        where += [(9, [Span(*w)]) for w in happened_words(view, place)]
        values: list[tuple[int, Line]] = [
            (
                i,
                [
                    Span(f"{line_sign(i, ascii_only=plain)} {line.name} ", LINE_ROLES[i]),
                    Span(short_value(s), "strong"),
                    *([Span(f" {reach_words(s)}", "dim")] if line.runs > 1 and s is not None else []),
                ],
            )
            for i, line, s in found
        ]
        return [[Span(" "), *fitting(where, width - 2)], [Span(" "), *fitting(values, width - 2)]]

    # -- the mouse -------------------------------------------------------------------------------

    def _place(self, x: float, y: float) -> float | None:
        """Return the axis position under the mouse; None outside the plot."""
        drawing = self._drawing
        if drawing is None or not HEADING <= y < HEADING + len(drawing.rows):
            return None
        return drawing.frame.place(int(x)) if x >= drawing.frame.left else None

    def on_mouse_down(self, event: MouseDown) -> None:
        place = self._place(event.x, event.y)
        if place is not None:
            self._dragging = True
            self.capture_mouse()
            self.post_message(self.Pointed(place))

    def on_mouse_move(self, event: MouseMove) -> None:
        if self._dragging and self._drawing is not None:
            self.post_message(self.Pointed(self._drawing.frame.place(int(event.x))))

    def on_mouse_up(self, event: MouseUp) -> None:
        self._dragging = False
        self.release_mouse()

    def on_mouse_scroll_up(self, event: MouseScrollUp) -> None:
        self._wheel(event.x, event.y, 0.8)

    def on_mouse_scroll_down(self, event: MouseScrollDown) -> None:
        self._wheel(event.x, event.y, 1.25)

    def _wheel(self, x: float, y: float, factor: float) -> None:
        place = self._place(x, y)
        if place is not None:
            self.post_message(self.Pointed(place, factor))


def _keyed(key: str, words: str, action: str) -> Line:
    return [Span(f"{key} ", "key", action), Span(words, "dim", action)]
