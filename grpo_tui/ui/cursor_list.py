"""A list of one-line rows with a cursor, of any length: a row is laid out when it is looked at."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, overload

from textual.binding import Binding, BindingType
from textual.events import Click
from textual.message import Message

from grpo_tui.ui.paint import Line, LineScroll


class LazyLines(Sequence[Line]):
    """Lines that are made when they are asked for."""

    def __init__(self, count: int, make: Callable[[int], Line]) -> None:
        self._count, self._make = count, make

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, place: int) -> Line: ...

    @overload
    def __getitem__(self, place: slice) -> list[Line]: ...

    def __getitem__(self, place: int | slice) -> Line | list[Line]:
        if isinstance(place, slice):
            return [self._make(i) for i in range(*place.indices(self._count))]
        return self._make(place)


MOVES: list[BindingType] = [
    Binding("up,k", "move(-1)", "up", show=False),
    Binding("down,j", "move(1)", "down", show=False),
    Binding("pageup", "page(-1)", "page up", show=False),
    Binding("pagedown", "page(1)", "page down", show=False),
    Binding("home,g", "first", "first", show=False),
    Binding("end,G", "last", "last", show=False),
]
"""The keys that move a cursor."""


class CursorList(LineScroll):
    """Rows and a cursor, which shows while the list has the focus."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open", "open", show=False),
        *MOVES,
    ]

    class Selected(Message):
        """A row was chosen with enter or a second click."""

        def __init__(self, rows: CursorList, place: int) -> None:
            super().__init__()
            self.rows, self.place = rows, place

        @property
        def control(self) -> CursorList:
            """The list."""
            return self.rows

    class Highlighted(Message):
        """A person moved the cursor."""

        def __init__(self, rows: CursorList) -> None:
            super().__init__()
            self.rows = rows

        @property
        def control(self) -> CursorList:
            """The list."""
            return self.rows

    class Turned(Message):
        """What a title says of the list has changed."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.cursor = 0

    @property
    def count(self) -> int:
        """How many rows there are."""
        raise NotImplementedError

    def moved(self) -> None:
        """Called after a person moved the cursor; says so."""
        self.post_message(self.Highlighted(self))

    def action_move(self, by: int) -> None:
        """Move the cursor; one that was scrolled out of sight comes back first."""
        top, height = self.scroll_offset.y, self._height
        at = min(max(self.cursor, top), top + height - 1)
        self.put(at + by)
        self.moved()

    def action_page(self, by: int) -> None:
        """A page on or back."""
        self.action_move(by * max(1, self._height - 1))

    def action_first(self) -> None:
        """The first row."""
        self.put(0)
        self.moved()

    def action_last(self) -> None:
        """The last row."""
        self.put(self.count - 1)
        self.moved()

    def action_open(self) -> None:
        """Choose the row under the cursor."""
        if self.count:
            self.post_message(self.Selected(self, self.cursor))

    def put(self, place: int) -> None:
        """Put the cursor there, and bring it into sight."""
        self.cursor = min(max(0, place), max(0, self.count - 1))
        self.changed()
        top = self.scroll_offset.y
        if self.cursor < top:
            self.scroll_to(y=self.cursor, animate=False, force=True)
        elif self.cursor >= top + self._height:
            self.scroll_to(y=self.cursor - self._height + 1, animate=False, force=True)

    def on_click(self, event: Click) -> None:
        """A click chooses, a second one opens."""
        place = event.y + self.scroll_offset.y
        if not 0 <= place < self.count:
            return
        again = place == self.cursor and event.chain > 1
        self.cursor = place
        self.changed()
        self.moved()
        if again:
            self.action_open()

    def watch_has_focus(self, focused: bool) -> None:
        """The cursor shows, or hides; the event of it comes before the list knows."""
        super().watch_has_focus(focused)
        self.changed()

    @property
    def _height(self) -> int:
        return max(1, self.scrollable_content_region.height)
