"""A full-screen chart of one metric, for one run or several overlaid.

Data is read in a thread when another part is requested or a run has new steps.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from textual.app import ComposeResult
from textual.events import MouseDown, MouseMove, MouseScrollDown, MouseScrollUp, MouseUp, Resize
from textual.message import Message
from textual.screen import Screen

from grpo_tui.core.metrics import is_computed
from grpo_tui.core.text import one_line, shorten, wrapped
from grpo_tui.present import big_chart
from grpo_tui.present.plot import LINE_ROLES, MOST_LINES, Drawing, draw, line_sign, with_cursor
from grpo_tui.present.seed_sets import BAND, SeedSet, sentences
from grpo_tui.present.train_view import TrainView
from grpo_tui.present.window_load import OverlayFacts, RunSource, SettingRow, load_window, read_overlay
from grpo_tui.ui.actions import bindings
from grpo_tui.ui.paint import Line, LinePane, Span, fitting, pad, ruled, width_of
from grpo_tui.ui.shell import Shell
from grpo_tui.ui.textual_private import LeftOnce
from grpo_tui.ui.widgets.bars import Footer, Header
from grpo_tui.ui.widgets.chart import EDGE, plot_lines

LOOK_S = 1.0
"""How often runs are checked for new steps."""
SHARE = 30
"""Pause between reads, as a multiple of their CPU time: a long run must not keep a core busy."""
EVAL = "eval_"


class WindowLoader:
    """Reads runs for one chart. Call `run` in a thread, which opens, reads and closes the sources.

    `take` gets the data, None before anything is logged, and what is wrong with it.
    """

    def __init__(
        self, sources: Sequence[RunSource], take: Callable[[big_chart.BigChartView | None, str], object]
    ) -> None:
        self._all = self._sources = tuple(sources)
        self._take = take
        self._request: tuple[ChartOptions, int] | None = None
        self._wake, self._stopped = threading.Event(), threading.Event()

    def ask(self, options: ChartOptions, columns: int) -> None:
        """Request a part of the runs and return at once. It replaces a pending request."""
        self._request = (options, columns)
        self._wake.set()

    def stop(self) -> None:
        self._stopped.set()
        self._wake.set()

    def run(self) -> None:
        read: tuple[ChartOptions, int] | None = None
        try:
            while not self._stopped.is_set():
                self._wake.clear()
                options, began = self._request, time.thread_time()
                moved = [source.look() for source in self._sources]
                if options is not None and (options != read or any(moved)):
                    if options != read and any(source.long for source in self._sources):
                        self._read(*options, band=False)  # a quick first picture
                    if options == self._request:
                        self._read(*options)
                    read = options
                self._wake.wait(max(LOOK_S, SHARE * (time.thread_time() - began)))
        finally:
            for source in self._all:
                source.close()

    def keep(self, sources: Sequence[RunSource]) -> None:
        """Read only these from now on, in this order."""
        self._sources = tuple(sources)

    def _read(self, options: ChartOptions, columns: int, *, band: bool = True) -> None:
        for source in self._sources:
            source.band = band and len(self._sources) == 1 and not options.together
        trouble = next((source.trouble for source in self._sources if source.trouble), "")
        try:
            view = load_window(self._sources, keys_of(options), options.window, columns)
        except Exception as error:  # a missing file may be temporary; the next check will show
            view, trouble = None, one_line(f"The run cannot be read: {error}", 200)
        self._take(view, trouble)


def keys_of(options: ChartOptions) -> list[tuple[str, str]]:
    """Return the metrics to read, each with the name of its line."""
    if not options.together:
        return [(options.key, "")]
    plain = options.key.removeprefix(EVAL)
    return [(plain, "train"), (EVAL + plain, "eval")]


class ZoomScreen(LeftOnce, Screen[None], Shell):
    """A full-screen chart of a metric, named by TRL's key."""

    BINDINGS = bindings("zoom")

    def __init__(self, sources: Sequence[RunSource], key: str) -> None:
        super().__init__()
        self.options = ChartOptions(key)
        self._view: big_chart.BigChartView | None = None
        self._folders = tuple(source.folder for source in sources)
        self._loader = WindowLoader(sources, partial(self.call_later, self._loaded))

    def on_mount(self) -> None:
        self.in_thread("chart", self._loader.run)
        self.query_one(BigChart).show(None, self.options)
        self.query_one(BigChart).focus()
        self.call_after_refresh(self._ask)

    def on_unmount(self) -> None:
        self._loader.stop()

    def on_resize(self, event: Resize) -> None:
        self.call_after_refresh(self._ask)

    # -- what is shown ---------------------------------------------------------------------------

    @property
    def keys(self) -> list[str]:
        """The metrics that `[` and `]` cycle through."""
        return [self.options.key]

    def _loaded(self, view: big_chart.BigChartView | None, trouble: str) -> None:
        """Show what was read, unless the metric has changed meanwhile."""
        if view is None or view.key == self._shown_key():
            self._view = view
            waits = trouble or ("Nothing is logged yet." if view is None else "")
            for chart in self.query(BigChart):  # none when the screen was left meanwhile
                chart.show(self._view, self._painted(), waits)

    def _shown_key(self) -> str:
        return self.options.key.removeprefix("eval_") if self.options.together else self.options.key

    def _painted(self) -> ChartOptions:
        return replace(self.options, key=self._shown_key())

    def _ask(self) -> None:
        for chart in self.query(BigChart):  # none when the screen was left meanwhile
            self._loader.ask(self.options, chart.columns)

    def change(self, options: ChartOptions) -> None:
        """Apply options: repaint at once, and read again if other data is needed."""
        before, self.options = self.options, options
        self.query_one(BigChart).show(self._view, self._painted())
        if (options.key, options.window, options.together) != (before.key, before.window, before.together):
            self._ask()

    def show_metric(self, key: str) -> None:
        self.change(replace(self.options, key=key))

    def _window(self, window: big_chart.Window) -> None:
        self.change(replace(self.options, window=window))

    # -- keys ------------------------------------------------------------------------------------

    def action_zoom_back(self) -> None:
        self.dismiss(None)

    def action_zoom(self, by: int) -> None:
        self._zoom(big_chart.ZOOM**by, self.options.cursor)

    def _zoom(self, factor: float, center: float | None) -> None:
        if self._view is not None:
            self._window(big_chart.zoomed(self.options.window, self._view.bounds, factor, center))

    def action_zoom_whole(self) -> None:
        self._window(replace(self.options.window, span=None, following=True))

    def action_zoom_newest(self) -> None:
        self.change(replace(self.options, window=replace(self.options.window, following=True), cursor=None))

    def action_zoom_oldest(self) -> None:
        if self._view is not None:
            self._point(self._view.bounds.first)

    def action_pan(self, by: int) -> None:
        if self._view is not None:
            self._window(big_chart.panned(self.options.window, self._view.bounds, by * big_chart.PAN))

    def step_here(self) -> int | None:
        """Return the step under the cursor, or the newest one. None when nothing is drawn."""
        view = self._view
        if view is None or not view.lines:
            return None
        place = big_chart.cursor_place(view, self.options.cursor)
        if place is None:
            place = view.places[-1] if view.places else view.bounds.newest
        longest = max(view.lines, key=lambda line: len(line.buckets))
        if self.options.window.x == "time" and longest.buckets:
            place = big_chart.converted(longest, place, to_time=False)
        return round(place)

    def action_move(self, by: int) -> None:
        view = self._view
        if view is None or not view.places:
            return
        places, at = view.places, big_chart.cursor_place(view, self.options.cursor)
        index = big_chart.nearest(places, at if at is not None else places[-1]) or 0
        if 0 <= index + by < len(places):
            self._point(places[index + by])
            return
        at_end = places[-1] >= view.bounds.newest - 1e-9 if by > 0 else view.first <= view.bounds.first
        if at_end:  # past the newest value the cursor follows it
            self.change(replace(self.options, cursor=None if by > 0 else places[0]))
        else:
            apart = (places[-1] - places[0]) / max(1, len(places) - 1)
            self._point((places[-1] if by > 0 else places[0]) + by * max(apart, 1e-9))

    def _point(self, place: float) -> None:
        """Move the cursor, and the window if the cursor would leave it."""
        if self._view is None:
            return
        window = big_chart.showing(self.options.window, self._view.bounds, place)
        self.change(replace(self.options, cursor=place, window=window))

    def on_big_chart_pointed(self, event: BigChart.Pointed) -> None:
        if event.zoom is not None:
            self._zoom(event.zoom, event.place)
        else:
            self.change(replace(self.options, cursor=event.place))

    def action_zoom_smooth(self) -> None:
        names = list(big_chart.SMOOTHINGS)
        after = names[(names.index(self.options.window.smoothing) + 1) % len(names)]
        self._window(replace(self.options.window, smoothing=after))

    def action_zoom_time(self) -> None:
        window, view = self.options.window, self._view
        to_time = window.x == "step"
        span, cursor = window.span, self.options.cursor
        longest = max(view.lines, key=lambda line: len(line.buckets)) if view is not None else None
        if longest is not None and longest.buckets:
            if span is not None:
                a, b = (big_chart.converted(longest, place, to_time=to_time) for place in span)
                span = (a, max(b, a + 1e-3))
            if cursor is not None:
                cursor = big_chart.converted(longest, cursor, to_time=to_time)
        else:
            span = cursor = None
        turned = replace(window, x="time" if to_time else "step", span=span)
        self.change(replace(self.options, window=turned, cursor=cursor))

    def action_zoom_log(self) -> None:
        self.change(replace(self.options, logarithmic=not self.options.logarithmic))

    def action_turn(self, by: int) -> None:
        keys = self.keys
        if keys:
            at = keys.index(self.options.key) if self.options.key in keys else -1 if by > 0 else 0
            self.show_metric(keys[(at + by) % len(keys)])

    def action_zoom_pick(self) -> None:
        from grpo_tui.ui.screens.metrics import MetricPicker

        self.ask(MetricPicker(self._folders, self.options.key), self.show_metric)

    def help_here(self) -> bool:
        from grpo_tui.ui.screens.reading import MeaningScreen

        self.app.push_screen(MeaningScreen(self.options.key))
        return True


class ChartScreen(ZoomScreen):
    """A full-screen chart of one run. `span` is the first and last step shown initially."""

    BINDINGS = bindings("chart")
    PANE = "chart"

    def __init__(self, folder: Path, key: str, span: tuple[float, float] | None = None) -> None:
        super().__init__([RunSource(folder)], key)
        if span is not None:
            self.options = replace(self.options, window=big_chart.Window(span=span, following=False))

    def compose(self) -> ComposeResult:
        yield Header("train")
        yield BigChart(id="big-chart")
        yield Footer(self.PANE)

    def on_mount(self) -> None:
        self.shell.view_signal.subscribe(self, self._on_view)
        self._on_view(self.shell.view)

    def _on_view(self, view: TrainView | None) -> None:
        self.query_one(Header).show(view)
        self.query_one(Footer).show(view)

    @property
    def keys(self) -> list[str]:
        view = self.shell.view
        return [chart.key for chart in view.charts] if view is not None else [self.options.key]

    def show_metric(self, key: str) -> None:
        """Show another metric. Train and eval stay together if both are logged."""
        together = self.options.together and self._pair(key) is not None
        self.change(replace(self.options, key=key, together=together))

    def _pair(self, key: str) -> str | None:
        """Return the metric's eval or train counterpart; None when it is not logged."""
        other = key.removeprefix(EVAL) if key.startswith(EVAL) else EVAL + key
        return other if other in self.keys else None

    def action_chart_completions(self) -> None:
        step = self.step_here()
        if step is None:
            self.app.notify("Nothing is logged yet.", severity="warning")
            return
        mode = "eval" if self._shown_key().startswith(EVAL) else "train"
        self.shell.show_generations(f"step=={step} and mode=={mode}")

    def action_chart_together(self) -> None:
        key = self.options.key
        if not self.options.together and self._pair(key) is None:
            plain = one_line(key.removeprefix(EVAL), 60)
            word = f"No {EVAL}{plain} is logged in this run; eval_strategy in the config starts evaluation."
            if key.startswith(EVAL):
                word = f"{plain} is not logged in training."
            self.app.notify(word, severity="warning")
            return
        self.change(replace(self.options, together=not self.options.together))


FIRST_KEY = "reward"
NAME_WIDTH = 30


class SettingsTable(LinePane):
    """Which runs are forks, how sets of seeds differ, and the settings that differ, a column for each run."""

    DEFAULT_CSS = "SettingsTable { height: auto; max-height: 30%; }"

    def __init__(self) -> None:
        super().__init__(id="overlay-settings")
        self._facts: OverlayFacts | None = None
        self._said: list[str] = []

    def show(self, facts: OverlayFacts) -> None:
        self._facts, self._said = facts, [*facts.forks, *sentences(facts.sets)]
        self.changed(layout=True)

    def get_content_height(self, container: object, viewport: object, width: int) -> int:
        rows = 1 if self._facts is None or not self._facts.settings else 2 + len(self._facts.settings)
        return len(self._verdicts(width)) + rows

    def _verdicts(self, width: int) -> list[Line]:
        return [[Span(f" {line}", "strong")] for text in self._said for line in wrapped(text, width - 2)]

    def lines(self, width: int, height: int) -> list[Line]:
        """Return the verdicts and the table. The title counts rows that do not fit."""
        facts = self._facts
        if facts is None:
            return [[Span(" Reading the settings …", "dim")]]
        said = self._verdicts(width)
        if not facts.settings:
            nothing: list[Line] = [[Span("settings", "title")], [Span("none differs as recorded", "dim")]]
            return [*said, ruled(nothing, width)]
        room = max(1, height - 2 - len(said))
        hidden = len(facts.settings) - room
        parts: list[Line] = [[Span("settings that differ", "title")], [Span(f"{facts.same} the same", "dim")]]
        if hidden > 0:
            parts.append([Span(f"{hidden} more: d shows them", "dim", "screen.overlay_table")])
        return [*said, ruled(parts, width), *self._table(facts, facts.settings[:room], width)]

    def _table(self, facts: OverlayFacts, settings: Sequence[SettingRow], width: int) -> list[Line]:
        shown = facts.sets[:MOST_LINES]
        column = min(34, max(8, (width - NAME_WIDTH - 2) // max(1, len(shown))))
        plain = bool(getattr(self.app, "ascii_only", False))
        names: list[Span] = [Span(" " * (NAME_WIDTH + 1))]
        for i, one in enumerate(shown):
            sign = line_sign(i, ascii_only=plain)
            names.append(Span(pad(f"{sign} {one.label}", column - 1) + " ", LINE_ROLES[i]))
        rows: list[Line] = [
            [
                Span(" " + pad(row.name, NAME_WIDTH), "dim"),
                *[Span(pad(value, column - 1) + " ") for value in row.values[: len(shown)]],
            ]
            for row in settings
        ]
        return [names, *rows]


class OverlayScreen(ZoomScreen):
    """Two or more runs on one chart, a set of seeds as one line. At most `MOST_LINES` lines are shown."""

    BINDINGS = bindings("overlay")
    PANE = "overlay"

    def __init__(self, folders: tuple[Path, ...], key: str = FIRST_KEY) -> None:
        self._names = distinct_names(folders)
        sources = [RunSource(folder, name) for folder, name in zip(folders, self._names, strict=True)]
        self._by_folder = dict(zip(folders, sources, strict=True))
        super().__init__(sources, key)
        self._facts: OverlayFacts | None = None

    def compose(self) -> ComposeResult:
        yield Header("runs")
        yield BigChart(id="big-chart")
        yield SettingsTable()
        yield Footer(self.PANE)

    def on_mount(self) -> None:
        self.query_one(Header).show(self.shell.view)
        self.query_one(Footer).show(None)
        self.in_thread("settings", partial(read_overlay, self._folders, self._names), self._take)

    def _take(self, facts: OverlayFacts) -> None:
        if not self.query(SettingsTable):  # the screen was left meanwhile
            return
        self._facts = facts
        if len(facts.sets) > MOST_LINES:
            word = f"The first {MOST_LINES} runs are shown; {len(facts.sets) - MOST_LINES} more are marked."
            self.app.notify(word, severity="warning")
        self._loader.keep(list(self._grouped(facts.sets[:MOST_LINES])))
        self.query_one(SettingsTable).show(facts)
        if facts.keys and self.options.key not in facts.keys:
            self.change(replace(self.options, key=facts.keys[0]))
        self._ask()

    def _grouped(self, sets: Sequence[SeedSet]) -> Iterator[RunSource]:
        for one in sets:
            for run in one.runs:
                source = self._by_folder[run.root]
                source.group = one.label if len(one.runs) > 1 else ""
                yield source

    def _ask(self) -> None:
        if self._facts is not None:  # only then it is known which runs are one line
            super()._ask()

    @property
    def keys(self) -> list[str]:
        """Metrics of the runs, those that all runs have first."""
        return list(self._facts.keys) if self._facts is not None else [self.options.key]

    def action_overlay_table(self) -> None:
        self.query_one(SettingsTable).toggle_class("-whole")


def distinct_names(folders: tuple[Path, ...]) -> list[str]:
    """Return the folders' names, with enough parent folders to make them unique."""
    for depth in range(1, 6):
        names = [os.sep.join(folder.absolute().parts[-depth:]) for folder in folders]
        if len(set(names)) == len(names):
            break
    return [one_line(name, 40) for name in names]


HEADING, READING = 2, 2
"""Lines above and below the plot."""


@dataclass(frozen=True, slots=True)
class ChartOptions:
    """The user's choices for the chart."""

    key: str
    window: big_chart.Window = field(default_factory=big_chart.Window)
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
    _view: big_chart.BigChartView | None = None
    _waits = ""
    _drawing: Drawing | None = None
    _drawn: tuple[object, ...] = ()
    _dragging = False

    def show(self, view: big_chart.BigChartView | None, options: ChartOptions, waits: str = "") -> None:
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
            heading = ruled([[Span(big_chart.title_of(options.key), "title")]], width)
            return [heading, [Span(f"  {self._waits or 'Reading the run …'}", "dim")]]
        plain = bool(getattr(self.app, "ascii_only", False))
        place = big_chart.cursor_place(view, options.cursor)
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

    def _nothing(self, view: big_chart.BigChartView) -> str:
        for line in view.lines:
            if line.trouble:
                return line.trouble
        if view.known:
            return "No room to draw. Enlarge the window."
        if any(line.buckets for line in view.lines):
            return "Only missing values here. Press 0 for the whole run."
        return "No values of this metric here. Press [ or ] for others, x for all."

    def _title(self, view: big_chart.BigChartView, width: int, plain: bool) -> Line:
        parts: list[Line] = [[Span(big_chart.title_of(view.key), "title")]]
        if len(view.lines) > 1 or view.lines[0].runs > 1:
            shown = view.lines[:MOST_LINES]
            # Every line is named, if need be abbreviated. The full names are in the readings below.
            room = (width - width_of(parts[0]) - 4) // len(shown) - 8
            names = [shorten(line.name, max(3, room - len(big_chart.number(line.newest)))) for line in shown]
            parts += [
                self._named(i, line, name, plain)
                for i, (line, name) in enumerate(zip(shown, names, strict=True))
            ]
            return ruled(parts, width)
        who = "computed here" if is_computed(view.key) else "in TRL"
        parts.append([Span(f"{one_line(view.key, 48)} {who}", "dim")])
        if any(s.spread is not None for s in view.lines[0].buckets):
            parts.append([Span(f"band: {big_chart.band_words(view.key)[1]}", "dim")])
        return ruled(parts, width, self._newest(view.lines[0]))

    def _named(self, index: int, line: big_chart.ChartLine, name: str, plain: bool) -> Line:
        role = LINE_ROLES[index]
        return [
            Span(f"{line_sign(index, ascii_only=plain)} ", role),
            Span(f"{name} ", role),
            Span(big_chart.number(line.newest), "strong"),
        ]

    def _newest(self, line: big_chart.ChartLine) -> Line:
        if line.newest_step is None:
            return ()
        return [Span(big_chart.number(line.newest), "strong"), Span(f" at step {line.newest_step:,}", "dim")]

    def _how(self, view: big_chart.BigChartView, options: ChartOptions, width: int) -> Line:
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
            (1, [Span(big_chart.range_words(view), "dim")]),
            (2, _keyed("f", big_chart.smoothing_words(view.smoothing_span), "screen.zoom_smooth")),
            (3, _keyed("t", "time" if view.x == "time" else "steps", "screen.zoom_time")),
            (4, _keyed("o", scale, "screen.zoom_log")),
            *([(2, [Span(BAND, "dim")])] if any(line.runs > 1 for line in view.lines) else []),
        ]
        return [Span(" "), *fitting(parts, width - 2)]

    def _reading(
        self, view: big_chart.BigChartView, place: float | None, width: int, plain: bool
    ) -> list[Line]:
        if place is None:
            return [(), ()]
        if len(view.lines) > 1 or view.lines[0].runs > 1:
            return self._readings(view, place, width, plain)
        line = view.lines[0]
        bucket = big_chart.bucket_at(line, place)
        if bucket is None:
            return [(), ()]
        parts: list[tuple[int, Line]] = [
            (rank, [Span(text, role)])
            for rank, (text, role) in zip(
                (0, 6, 1, 2, 3, 4, 5),
                [*big_chart.where_words(view, bucket, line), *big_chart.value_words(bucket, view.key)],
                strict=False,
            )
        ]
        happened: list[tuple[int, Line]] = [
            (i, [Span(text, role)]) for i, (text, role) in enumerate(big_chart.happened_words(view, place))
        ]
        return [[Span(" "), *fitting(parts, width - 2)], [Span(" "), *fitting(happened, width - 2)]]

    def _readings(self, view: big_chart.BigChartView, place: float, width: int, plain: bool) -> list[Line]:
        found = [
            (i, line, big_chart.bucket_at(line, place)) for i, line in enumerate(view.lines[:MOST_LINES])
        ]
        where: list[tuple[int, Line]] = [(0, [Span(big_chart.place_words(view, place), "strong")])]
        where += [(9, [Span(*w)]) for w in big_chart.happened_words(view, place)]
        values: list[tuple[int, Line]] = [
            (
                i,
                [
                    Span(f"{line_sign(i, ascii_only=plain)} {line.name} ", LINE_ROLES[i]),
                    Span(big_chart.short_value(s), "strong"),
                    *(
                        [Span(f" {big_chart.reach_words(s)}", "dim")]
                        if line.runs > 1 and s is not None
                        else []
                    ),
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
