"""What all full-screen charts do: zoom, pan, move the cursor, smooth, change the metric, follow the run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from textual.events import Resize
from textual.screen import Screen

from grpo_tui.present.big_chart import (
    PAN,
    SMOOTHINGS,
    ZOOM,
    BigChartView,
    Window,
    converted,
    cursor_place,
    nearest,
    newest,
    panned,
    showing,
    whole,
    zoomed,
)
from grpo_tui.present.window_load import RunSource
from grpo_tui.ui.actions import bindings
from grpo_tui.ui.messages import WindowLoaded
from grpo_tui.ui.opened import LeftOnce
from grpo_tui.ui.shell import Shell
from grpo_tui.ui.widgets.big_chart import BigChart, Wish
from grpo_tui.ui.window_loader import WindowLoader

FAR = 10
"""Places that the cursor moves at once with shift."""


class ZoomScreen(LeftOnce, Screen[None], Shell):
    """A chart over the whole screen.

    Args:
        sources: The runs to read.
        key: TRL's key of the metric.
    """

    BINDINGS = bindings("zoom")

    def __init__(self, sources: Sequence[RunSource], key: str) -> None:
        super().__init__()
        self.wish = Wish(key)
        self._view: BigChartView | None = None
        self._folders = tuple(source.folder for source in sources)
        self._loader = WindowLoader(sources, self.post_message)

    def on_mount(self) -> None:
        """Start reading; nothing is waited for."""
        # A worker of the app, which says aloud when one fails.
        self.app.run_worker(self._loader.run, thread=True, group="chart", exit_on_error=False)
        self.query_one(BigChart).show(None, self.wish)
        self.query_one(BigChart).focus()
        self.call_after_refresh(self._ask)

    def on_unmount(self) -> None:
        """End the thread."""
        self._loader.stop()

    def on_resize(self, event: Resize) -> None:
        """Another width shows another number of stretches."""
        self.call_after_refresh(self._ask)

    # -- what is shown ---------------------------------------------------------------------------

    @property
    def keys(self) -> list[str]:
        """The metrics that `[` and `]` leaf through."""
        return [self.wish.key]

    def on_window_loaded(self, message: WindowLoaded) -> None:
        """Show what was read, unless the metric was changed meanwhile."""
        if message.view is None or message.view.key == self._shown_key():
            self._view = message.view
            waits = message.trouble or ("Nothing is logged yet." if message.view is None else "")
            self.query_one(BigChart).show(self._view, self._painted(), waits)

    def _shown_key(self) -> str:
        return self.wish.key.removeprefix("eval_") if self.wish.together else self.wish.key

    def _painted(self) -> Wish:
        return replace(self.wish, key=self._shown_key())

    def _ask(self) -> None:
        if self.is_mounted:
            self._loader.ask(self.wish, self.query_one(BigChart).columns)

    def change(self, wish: Wish) -> None:
        """Wish for something else: painted at once as far as it is known, and read anew where it is not."""
        before, self.wish = self.wish, wish
        self.query_one(BigChart).show(self._view, self._painted())
        if (wish.key, wish.window, wish.together) != (before.key, before.window, before.together):
            self._ask()

    def show_metric(self, key: str) -> None:
        """Show another metric of the same part of the run."""
        self.change(replace(self.wish, key=key))

    def _window(self, window: Window) -> None:
        self.change(replace(self.wish, window=window))

    # -- keys ------------------------------------------------------------------------------------

    def action_zoom_back(self) -> None:
        """Back to where the chart was opened."""
        self.dismiss(None)

    def action_zoom_in(self) -> None:
        """Half the width, around the cursor."""
        self._zoom(ZOOM, self.wish.cursor)

    def action_zoom_out(self) -> None:
        """Twice the width, around the cursor."""
        self._zoom(1 / ZOOM, self.wish.cursor)

    def _zoom(self, factor: float, centre: float | None) -> None:
        if self._view is not None:
            self._window(zoomed(self.wish.window, self._view.extent, factor, centre))

    def action_zoom_whole(self) -> None:
        """The whole run."""
        self._window(whole(self.wish.window))

    def action_zoom_newest(self) -> None:
        """The newest value, and along with it."""
        self.change(replace(self.wish, window=newest(self.wish.window), cursor=None))

    def action_zoom_oldest(self) -> None:
        """The cursor to the first value."""
        if self._view is not None:
            self._point(self._view.extent.first)

    def action_zoom_earlier(self) -> None:
        """A quarter of the width back."""
        self._pan(-PAN)

    def action_zoom_later(self) -> None:
        """A quarter of the width on."""
        self._pan(PAN)

    def _pan(self, share: float) -> None:
        if self._view is not None:
            self._window(panned(self.wish.window, self._view.extent, share))

    def action_zoom_left(self) -> None:
        """The cursor one place back."""
        self._move(-1)

    def action_zoom_right(self) -> None:
        """The cursor one place on."""
        self._move(1)

    def action_zoom_far_left(self) -> None:
        """The cursor ten places back."""
        self._move(-FAR)

    def action_zoom_far_right(self) -> None:
        """The cursor ten places on."""
        self._move(FAR)

    def step_here(self) -> int | None:
        """The step under the cursor, the newest one without a cursor; None while nothing is drawn."""
        view = self._view
        if view is None or not view.lines:
            return None
        place = cursor_place(view, self.wish.cursor)
        if place is None:
            place = view.places[-1] if view.places else view.extent.newest
        longest = max(view.lines, key=lambda line: len(line.stretches))
        if self.wish.window.x == "time" and longest.stretches:
            place = converted(longest, place, to_time=False)
        return round(place)

    def _move(self, by: int) -> None:
        view = self._view
        if view is None or not view.places:
            return
        places, at = view.places, cursor_place(view, self.wish.cursor)
        index = nearest(places, at if at is not None else places[-1]) or 0
        if 0 <= index + by < len(places):
            self._point(places[index + by])
            return
        at_end = places[-1] >= view.extent.newest - 1e-9 if by > 0 else view.first <= view.extent.first
        if at_end:  # beyond the newest value there is nothing to stand on: go along with it
            self.change(replace(self.wish, cursor=None if by > 0 else places[0]))
        else:
            apart = (places[-1] - places[0]) / max(1, len(places) - 1)
            self._point((places[-1] if by > 0 else places[0]) + by * max(apart, 1e-9))

    def _point(self, place: float) -> None:
        """Put the cursor on a place, and move the window along where it would lie outside."""
        if self._view is None:
            return
        window = showing(self.wish.window, self._view.extent, place)
        self.change(replace(self.wish, cursor=place, window=window))

    def on_big_chart_pointed(self, event: BigChart.Pointed) -> None:
        """The mouse zooms around a place, or sets the cursor."""
        if event.zoom is not None:
            self._zoom(event.zoom, event.place)
        else:
            self.change(replace(self.wish, cursor=event.place))

    def action_zoom_smooth(self) -> None:
        """Off, light, strong, in turn."""
        names = list(SMOOTHINGS)
        after = names[(names.index(self.wish.window.smoothing) + 1) % len(names)]
        self._window(replace(self.wish.window, smoothing=after))

    def action_zoom_time(self) -> None:
        """Steps or time; the part shown stays the same."""
        window, view = self.wish.window, self._view
        to_time = window.x == "step"
        span, cursor = window.span, self.wish.cursor
        longest = max(view.lines, key=lambda line: len(line.stretches)) if view is not None else None
        if longest is not None and longest.stretches:
            if span is not None:
                a, b = (converted(longest, place, to_time=to_time) for place in span)
                span = (a, max(b, a + 1e-3))
            if cursor is not None:
                cursor = converted(longest, cursor, to_time=to_time)
        else:
            span = cursor = None
        turned = replace(window, x="time" if to_time else "step", span=span)
        self.change(replace(self.wish, window=turned, cursor=cursor))

    def action_zoom_log(self) -> None:
        """Linear or logarithmic."""
        self.change(replace(self.wish, logarithmic=not self.wish.logarithmic))

    def action_zoom_next(self) -> None:
        """The next metric."""
        self._turn(1)

    def action_zoom_previous(self) -> None:
        """The metric before."""
        self._turn(-1)

    def _turn(self, by: int) -> None:
        keys = self.keys
        if keys:
            at = keys.index(self.wish.key) if self.wish.key in keys else -1 if by > 0 else 0
            self.show_metric(keys[(at + by) % len(keys)])

    def action_zoom_pick(self) -> None:
        """Choose among every metric of the runs."""
        from grpo_tui.ui.screens.metrics import MetricPicker

        def chosen(key: str | None) -> None:
            if key is not None:
                self.show_metric(key)

        self.app.push_screen(MetricPicker(self._folders, self.wish.key), chosen)

    def help_here(self) -> bool:
        """Say what the metric means."""
        from grpo_tui.ui.screens.meaning import MeaningScreen

        self.app.push_screen(MeaningScreen(self.wish.key))
        return True
