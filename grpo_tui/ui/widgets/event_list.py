"""Everything that happened to the run, newest first: commands, outcomes, checkpoints, settings, resumes."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rich.cells import cell_len
from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical

from grpo_tui.core.text import ending, one_line, shell_word, shorten
from grpo_tui.present.before_after import Answered, BeforeAfter
from grpo_tui.present.events import whole_history
from grpo_tui.present.formatting import clock, date, fixed, from_here, moment, plural
from grpo_tui.present.train_view import EventRow, TrainView
from grpo_tui.ui.kit.table import CursorList, LazyLines
from grpo_tui.ui.paint import Line, LinePane, LineScroll, Span, pad, ruled, width_of
from grpo_tui.ui.screens.reading import TextScreen
from grpo_tui.ui.shell import Shell

if TYPE_CHECKING:
    from grpo_tui.ui.pages import Pages


class EventTitle(LinePane):
    """The title over the events."""

    shown: EventList

    def lines(self, width: int, height: int) -> list[Line]:
        new = self.shown.unseen
        right = (
            [Span(f"{plural(new, 'new event')}: g jumps there", "attention", "screen.part_end")]
            if new
            else ()
        )
        count = [Span(f"{plural(self.shown.count, 'event')}, newest first", "dim")]
        return [ruled([[Span("events", "title")], count], width, right)]


class EventList(CursorList):
    """Events, newest first. New ones do not move what the user reads further down."""

    _events: tuple[EventRow, ...] = ()
    _now = 0.0
    unseen = 0
    nothing = ""
    """What to say without any event."""

    @property
    def count(self) -> int:
        return len(self._events)

    @property
    def selected(self) -> EventRow | None:
        return self._events[self.cursor] if self.cursor < self.count else None

    def show(self, events: tuple[EventRow, ...], now: float) -> None:
        new = len(events) - len(self._events) if self._events else 0
        at_top = self.cursor == 0 and self.scroll_offset.y == 0
        self._events, self._now = events, now
        if at_top or new <= 0:
            self.unseen = 0 if at_top else self.unseen
            self.changed()
            return
        self.unseen += new
        self.cursor = min(self.cursor + new, len(events) - 1)
        self.changed()
        self.scroll_to(y=self.scroll_offset.y + new, animate=False, force=True)

    def show_at(self, now: float) -> None:
        self._now = now
        self.changed()

    def moved(self) -> None:
        if self.cursor == 0 and self.unseen:
            self.unseen = 0
            self.post_message(self.Turned())

    def lines(self, width: int) -> LazyLines:
        if not self._events:
            return LazyLines(1, lambda _: [Span(f"  {self.nothing}", "dim")])
        events, now, cursor = self._events, self._now, self.cursor if self.has_focus else -1
        return LazyLines(len(events), lambda i: event_line(events[i], now, width, here=i == cursor))


def event_line(event: EventRow, now: float, width: int, *, here: bool = False) -> Line:
    """Return an event with its times at the right. The text is truncated first."""
    tail = " selected" if here else ""
    step = f"step {event.step:,}" if event.step is not None else "now"
    when = moment(event.at, now)
    exact = f"{date(event.at)} {clock(event.at)}"
    ago = when if when.endswith("ago") or when == "now" else ""
    right = f"{ago:>10}  {exact}" if width >= 76 else f"{when:>10}"
    room = max(8, width - 18 - cell_len(right))
    role = "bad" if event.role == "bad" else "text"
    return [
        Span("❙" if here else " ", "accent" + tail),
        Span(f"{event.sign} ", event.role + tail),
        Span(pad(step, 12), "dim" + tail),
        Span(pad(event.text, room), role + tail),
        Span(f"  {right} ", "dim" + tail),
    ]


class EventSection(Vertical, Shell):
    """The events under their title."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self.event_list = EventList()
        self._title = EventTitle()
        self._title.shown = self.event_list
        self._pages: Pages | None = None
        self._now = 0.0
        self._asked: tuple[object, ...] = ()
        """Events, alerts and liveness in the view when the history was last read."""

    def compose(self) -> ComposeResult:
        yield self._title
        yield self.event_list

    def follow(self, pages: Pages | None) -> None:
        self._pages, self._asked = pages, ()
        self.event_list.cursor = 0
        self._take((), ())

    def look(self, view: TrainView) -> None:
        if not self.display or self._pages is None:
            return
        self._now, self.event_list.nothing = view.now, view.no_events
        known = (view.events, tuple(alert.text for alert in view.alerts), view.live)
        if known == self._asked:
            self.event_list.show_at(view.now)
            return
        self._asked = known
        live, waits = view.live, tuple(e for e in view.events if e.step is None) + view.alerts
        self._pages.ask(
            "events", lambda stores: whole_history(stores.run, live=live), partial(self._take, waits)
        )

    def _take(self, waits: tuple[EventRow, ...], events: tuple[EventRow, ...]) -> None:
        known = {(event.at, event.text) for event in events}
        first = tuple(event for event in waits if (event.at, event.text) not in known)
        self.event_list.show((*first, *events), self._now)
        self._title.changed()

    @on(CursorList.Turned)
    def _turned(self) -> None:
        self._title.changed()

    def copy(self) -> None:
        row = self.event_list.selected
        if row is not None:
            self.shell.copy("event", row.text)

    @on(CursorList.Selected)
    def _open(self, event: CursorList.Selected) -> None:
        event.stop()
        row = self.event_list.selected
        if row is not None:
            self.app.push_screen(TextScreen(f"event, {date(row.at)} {clock(row.at)}", row.text))


class BeforeAfterList(LineScroll):
    """Answers to held-out prompts at the first and the newest evaluation, one prompt a line."""

    _pair: BeforeAfter | None = None
    _folder = ""

    def show(self, pair: BeforeAfter | None, folder: str) -> None:
        if (pair, folder) != (self._pair, self._folder):
            self._pair, self._folder = pair, folder
            self.changed()

    def lines(self, width: int) -> list[Line]:
        held = self._pair
        if held is None:
            return []
        prompt_w = max(8, min(max(cell_len(p.prompt) for p in held.pairs) + 1, width // 4))
        gold_w = max(6, min(12, max(cell_len(p.gold) for p in held.pairs) + 2))
        rest = max(10, width - prompt_w - gold_w - 2)
        scored = max(len(_score(a, held.samples)) for p in held.pairs for a in (p.before, p.after)) + 1
        before_w = min(rest // 2, max(8, *(cell_len(p.before.text) + scored + 2 for p in held.pairs)))
        title = [Span("before and after", "title")]
        said = held.said if width_of(title) + cell_len(held.said) + 8 <= width else held.brief
        head = pad("prompt", prompt_w) + pad("gold", gold_w) + pad("before", before_w) + "after"
        lines: list[Line] = [
            ruled([title, [Span(said, "strong")]], width),
            [Span(" " + head, "dim")],
        ]
        lines += [
            [
                Span(" " + pad(p.prompt, prompt_w)),
                Span(pad(p.gold, gold_w), "strong"),
                *_answer(p.before, held.samples, scored, before_w, "dim"),
                *_answer(p.after, held.samples, scored, rest - before_w, "text"),
            ]
            for p in held.pairs
        ]
        lines.append(())
        lines.append([Span(" Next: ", "dim"), *_next(self._folder, width)])
        return lines


def _score(one: Answered, samples: int) -> str:
    return fixed(one.reward) if one.right is None else f"{one.right}/{samples}"


def _answer(one: Answered, samples: int, scored: int, width: int, role: str) -> list[Span]:
    """Show how many completions are right, or the mean reward if no reward decides, and the first one."""
    found = {None: "dim", 0: "bad", samples: "good"}.get(one.right, "attention")
    text = _with_end(one.text, width - scored - 2)
    return [Span(pad(_score(one, samples), scored), found), Span(pad(text, width - scored), role)]


def _with_end(text: str, width: int) -> str:
    """Truncate text in the middle, because the end of an answer matters most."""
    if cell_len(text) <= width or width < 12:
        return one_line(text, width)
    tail = ending(text, width * 3 // 5 + 1)
    head = shorten(text, width - cell_len(tail) + 1).removesuffix("…")
    while head and head[-1].isdigit():
        head = head[:-1]  # a truncated number would read as another number
    return f"{head}{tail}"


def _next(folder: str, width: int) -> list[Span]:
    command = f"grpo-tui compare {shell_word(from_here(Path(folder)))}"
    keys = [
        Span("l", "key", "screen.view_log"), Span(" log and groups   ", "dim"),
        Span("q", "key", "app.app_leave"), Span(" leave", "dim"),
    ]  # fmt: skip
    asked = "   is it better than the base?   "
    if cell_len(command) + len(asked) + width_of(keys) + 8 > width:
        asked = "   "
    return [Span(command, "strong"), Span(asked, "dim"), *keys]
