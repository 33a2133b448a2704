"""Choose from all metrics of a run: search as you type, with newest value and sparkline."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.events import Click
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import Input

from grpo_tui.core.metrics import COMPUTED, describe
from grpo_tui.core.text import safe, wrapped
from grpo_tui.present.glyphs import spark
from grpo_tui.present.metric_rows import MetricListRow, matching, metric_row, rows_of_charts
from grpo_tui.present.train_view import TrainView
from grpo_tui.ui.kit.reading import SUSPEND, DialogTitle
from grpo_tui.ui.paint import Line, LinePane, LineScroll, Span, pad
from grpo_tui.ui.shell import Shell
from grpo_tui.ui.textual_private import LeftOnce

TREND = 24
"""Points of a sparkline for metrics without a chart in Train."""
PAGE_S = 0.1
"""Interval at which loaded metrics are posted."""


class MetricList(LineScroll, can_focus=False):
    """The metrics that match the search."""

    class Chosen(Message):
        """Posted when a row is clicked twice."""

    rows: Sequence[MetricListRow] = ()
    selected = 0

    def show(self, rows: Sequence[MetricListRow], selected: int) -> None:
        self.rows, self.selected = rows, max(0, min(selected, len(rows) - 1))
        self.changed()
        self._keep_in_sight()

    def _keep_in_sight(self) -> None:
        top, height = self.scroll_offset.y, max(1, self.scrollable_content_region.height)
        if self.selected < top or self.selected >= top + height:
            self.scroll_to(y=max(0, self.selected - height // 2), animate=False)

    def lines(self, width: int) -> list[Line]:
        curve = 12 if width >= 60 else 0
        key = min(36, width - 62) if width >= 84 else 0
        title = width - key - curve - 10 - 5
        lines: list[Line] = []
        for index, row in enumerate(self.rows):
            here = " selected" if index == self.selected else ""
            line = [Span(" " + pad(row.title, title) + " ", ("strong" if here else "text") + here)]
            if key:
                line.append(Span(pad(row.shown_key, key) + " ", "dim" + here))
            line.append(Span(pad(row.value, 10, right=True) + "  ", "text" + here))
            if curve:
                line.append(Span(pad(spark(row.trend, curve), curve), "line" + here))
            lines.append(line)
        return lines

    def on_click(self, event: Click) -> None:
        row = int(event.y) + self.scroll_offset.y
        if row < len(self.rows):
            self.show(self.rows, row)
            if event.chain > 1:
                self.post_message(self.Chosen())


class MetricWords(LinePane):
    """The selected metric's meaning, in a few lines."""

    DEFAULT_CSS = "MetricWords { height: 4; margin: 1 0 0 0; }"
    row: MetricListRow | None = None
    complete = False

    def lines(self, width: int, height: int) -> list[Line]:
        if self.row is None:
            words = "No metric matches." if self.complete else "Still reading the run …"
            return [[Span(f" {words}", "attention" if self.complete else "dim")]]
        healthy = safe(describe(self.row.key).healthy)
        lines: list[Line] = [[Span(f" {text}")] for text in wrapped(self.row.meaning, width - 2)]
        lines += [[Span(f" {text}", "dim")] for text in wrapped(f"Healthy: {healthy}", width - 2)]
        return lines[:height]


class SearchField(Input):
    """A search field that leaves `?` to the screen, for the metric's meaning."""

    def check_consume_key(self, key: str, character: str | None) -> bool:
        return character != "?" and super().check_consume_key(key, character)


class MetricPicker(LeftOnce, ModalScreen[str], Shell):
    """Choose a metric by its title, key or meaning. `purpose` says what enter does."""

    BINDINGS: ClassVar[list[BindingType]] = [
        SUSPEND,
        ("escape", "close", "close"),
        Binding("up", "move(-1)", "up", priority=True),
        Binding("down", "move(1)", "down", priority=True),
        Binding("pageup", "move(-10)", "page up", priority=True),
        Binding("pagedown", "move(10)", "page down", priority=True),
        Binding("question_mark", "meaning", "meaning", priority=True),
    ]

    def __init__(self, folders: Sequence[Path], key: str, purpose: str = "enter show") -> None:
        super().__init__()
        self._folders, self._key, self._purpose = tuple(folders), key, purpose
        self._rows: dict[str, MetricListRow] = {}
        self._gone = threading.Event()

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog -large"):
            yield DialogTitle("metrics", f"{self._purpose}   ? meaning   esc back")
            yield SearchField(placeholder="words of its title, key or meaning", id="metric-words")
            yield MetricList()
            yield MetricWords()

    def on_mount(self) -> None:
        """Show the metrics Train already has. The rest is read in a thread."""
        self.shell.view_signal.subscribe(self, self._on_view)
        self._on_view(self.shell.view)
        self.query_one(Input).focus()
        self.call_after_refresh(self._show, self._key)
        self.in_thread("metrics", self._read)

    def on_unmount(self) -> None:
        self._gone.set()

    def _on_view(self, view: TrainView | None) -> None:
        if view is not None and any(str(folder) == view.folder for folder in self._folders):
            self._rows |= rows_of_charts(view.charts)
            self._show(self._selected_key())

    def _read(self) -> None:
        """Read the metrics that have no chart in Train, with values and sparklines. Runs in a thread."""
        page: list[MetricListRow] = []
        try:
            self._read_folders(page)
        finally:
            if not self._gone.is_set():
                self.app.call_from_thread(self._end_reading, page)

    def _read_folders(self, page: list[MetricListRow]) -> None:
        from grpo_tui.store.layout import RunFolder
        from grpo_tui.store.read_series import metric_keys, newest_value, series_window
        from grpo_tui.store.reader import RunReader

        shown_at = time.monotonic()
        for folder in self._folders:
            try:
                reader = RunReader(RunFolder(folder).database)
            except Exception:  # an unreadable run has no metrics to offer
                continue
            try:
                for key in dict.fromkeys([*metric_keys(reader), *COMPUTED]):
                    if self._gone.is_set():
                        return
                    if key in self._rows:
                        continue
                    buckets = series_window(reader, key, buckets=TREND)
                    means = [bucket.mean for bucket in buckets]
                    if key in COMPUTED and not any(mean is not None for mean in means):
                        continue
                    page.append(metric_row(key, newest_value(reader, key)[0], means))
                    if time.monotonic() - shown_at > PAGE_S:
                        self.app.call_from_thread(self._take, tuple(page))
                        page.clear()
                        shown_at = time.monotonic()
            finally:
                reader.close()

    def _end_reading(self, page: Sequence[MetricListRow] = ()) -> None:
        for words in self.query(MetricWords):
            words.complete = True
        self._take(page)

    def _take(self, page: Sequence[MetricListRow]) -> None:
        for row in page:
            self._rows.setdefault(row.key, row)
        self._show(self._selected_key())

    def _selected_key(self) -> str:
        for found in self.query(MetricList):
            if found.rows:
                return found.rows[found.selected].key
        return self._key

    def _show(self, select: str) -> None:
        if not all(
            self.query(part) for part in ("Input", "MetricList", "MetricWords")
        ):  # not mounted, or left
            return
        rows = matching(self._rows.values(), self.query_one(Input).value)
        keys = [row.key for row in rows]
        found = self.query_one(MetricList)
        found.show(rows, keys.index(select) if select in keys else 0)
        words = self.query_one(MetricWords)
        words.row = rows[found.selected] if rows else None
        words.changed()

    def on_input_changed(self, event: Input.Changed) -> None:
        self._show(self._key if not event.value.strip() else "")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self._choose()

    def on_metric_list_chosen(self, event: MetricList.Chosen) -> None:
        self._choose()

    def on_resize(self) -> None:
        self.call_after_refresh(self._show, self._selected_key())

    def _choose(self) -> None:
        found = self.query_one(MetricList)
        if found.rows and self.is_active:  # enter may arrive twice before the dialog closes
            self.dismiss(found.rows[found.selected].key)

    def action_move(self, by: int) -> None:
        found = self.query_one(MetricList)
        if found.rows:
            self._show(found.rows[max(0, min(len(found.rows) - 1, found.selected + by))].key)

    def action_meaning(self) -> None:
        from grpo_tui.ui.screens.reading import MeaningScreen

        self.app.push_screen(MeaningScreen(self._selected_key()))

    def action_close(self) -> None:
        self.dismiss(None)
