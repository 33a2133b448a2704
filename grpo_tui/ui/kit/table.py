"""A list with a cursor, and a table with columns. Rows are laid out when visible, so any length works."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, ClassVar, Generic, TypeVar, overload

from rich.cells import cell_len
from textual.binding import Binding, BindingType
from textual.events import Click
from textual.message import Message

from grpo_tui.ui.paint import Line, LinePane, LineScroll, Span, headed, pad

Row = TypeVar("Row")


class LazyLines(Sequence[Line]):
    """Lines that are made on first access and cached."""

    def __init__(self, count: int, make: Callable[[int], Line]) -> None:
        self._count, self._make = count, cache(make)

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


class CursorList(LineScroll):
    """A list whose cursor is visible while the list has the focus."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open", "open", show=False),
        *MOVES,
    ]
    OPENS = ""
    """Action to run on enter or a second click. When empty, `Selected` is posted."""

    class Selected(Message):
        """Posted when a row is chosen with enter or a second click."""

        def __init__(self, rows: CursorList, place: int) -> None:
            super().__init__()
            self.rows, self.place = rows, place

        @property
        def control(self) -> CursorList:
            return self.rows

    class Highlighted(Message):
        """Posted when the user moves the cursor."""

        def __init__(self, rows: CursorList) -> None:
            super().__init__()
            self.rows = rows

        @property
        def control(self) -> CursorList:
            return self.rows

    class Turned(Message):
        """Posted when what a title shows about the list has changed."""

    cursor = 0

    @property
    def count(self) -> int:
        raise NotImplementedError

    def moved(self) -> None:
        """Post `Highlighted`. Called after the user moves the cursor."""
        self.post_message(self.Highlighted(self))

    def action_move(self, by: int) -> None:
        """Move the cursor. One that was scrolled out of view is first brought back."""
        top, height = self.scroll_offset.y, self._height
        at = min(max(self.cursor, top), top + height - 1)
        self.put(at + by)
        self.moved()

    def action_page(self, by: int) -> None:
        self.action_move(by * max(1, self._height - 1))

    def action_first(self) -> None:
        self.put(0)
        self.moved()

    def action_last(self) -> None:
        self.put(self.count - 1)
        self.moved()

    def action_open(self) -> None:
        if self.OPENS:
            self.screen.run_worker(self.run_action(self.OPENS))
        elif self.count:
            self.post_message(self.Selected(self, self.cursor))

    def put(self, place: int) -> None:
        """Move the cursor to a row and scroll it into view. Posts no message."""
        self.cursor = min(max(0, place), max(0, self.count - 1))
        self.changed()
        top = self.scroll_offset.y
        if self.cursor < top:
            self.scroll_to(y=self.cursor, animate=False, force=True)
        elif self.cursor >= top + self._height:
            self.scroll_to(y=self.cursor - self._height + 1, animate=False, force=True)

    def on_click(self, event: Click) -> None:
        """Move the cursor to the clicked row, or open it on a second click."""
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
        """Repaint: the cursor is shown only while focused."""
        super().watch_has_focus(focused)
        self.changed()

    @property
    def _height(self) -> int:
        return max(1, self.scrollable_content_region.height)


@dataclass(frozen=True, slots=True)
class Column(Generic[Row]):
    """A column of a table.

    Attributes:
        title: Heading. Leading or trailing spaces move it away from the column's edge.
        width: In cells, including the gap. 0 leaves the column out.
        cell: Returns one span to pad or truncate, or several spans that together are exactly `width` cells
            wide.
        right: Align title and single spans right.
        gap: Spaces after a single span.
        priority: The column with the highest value is dropped first when space is short. 0 is never dropped.
        role: Color role of the title.
    """

    title: str
    width: int
    cell: Callable[[Row], Span | Sequence[Span]]
    right: bool = False
    gap: int = 0
    priority: int = 0
    role: str = "dim"


def cells(columns: Iterable[Column[Row]]) -> int:
    """Return the total width of the columns."""
    return sum(column.width for column in columns)


def fit(columns: Iterable[Column[Row]], width: int) -> list[Column[Row]]:
    """Return the columns that fit into `width` cells."""
    kept = [column for column in columns if column.width]
    while cells(kept) > width:
        last = max(kept, key=lambda column: column.priority)
        if not last.priority:
            break
        kept.remove(last)
    return kept


def heading(columns: Iterable[Column[Row]], width: int, title: str = "", edge: int = 1) -> Line:
    """Return a rule with the titles over their columns. The first column starts at cell `edge`."""
    words = [(2, title, "title")] if title else []
    for column in columns:
        if word := column.title.strip():
            at = edge + len(column.title) - len(column.title.lstrip())
            at += column.width - column.gap - cell_len(column.title) if column.right else 0
            words.append((at, word, column.role))
        edge += column.width
    return headed(words, width)


def row_line(columns: Iterable[Column[Row]], row: Row, mark: str, tail: str) -> Line:
    """Return a row: the cursor mark and the cells. `tail` is appended to every role."""
    line = [Span(mark, "accent" + tail)]
    for column in columns:
        made = column.cell(row)
        if isinstance(made, Span):
            text = pad(made.text, column.width - column.gap, right=column.right)
            line.append(Span(text + " " * column.gap, made.role + tail))
        else:
            line += [Span(text, role + tail) for text, role, _ in made]
    return line


class Heading(LinePane):
    """The line with the column titles of a table."""

    def __init__(self, table: Table[Any], id: str) -> None:
        super().__init__(id=id)
        self._table = table

    def lines(self, width: int, height: int) -> list[Line]:
        return [self._table.heading(width)]


class Table(CursorList, Generic[Row], inherit_bindings=False):
    """Rows in columns under a heading."""

    BINDINGS: ClassVar[list[BindingType]] = MOVES
    MARK = "❙"
    ALWAYS_LIT = False
    """Highlight the row under the cursor even without focus."""
    ALWAYS_MARKED = True
    """Mark it even without focus."""

    rows: Sequence[Row] = ()
    waits: Sequence[Line] = ()
    """Shown while there are no rows."""
    _over: Heading | None = None

    def columns(self, width: int) -> Sequence[Column[Row]]:
        raise NotImplementedError

    def heading(self, width: int) -> Line:
        return heading(self.columns(width), width)

    def over(self, id: str) -> Heading:
        """Return a heading widget that is updated together with the table."""
        self._over = Heading(self, id)
        return self._over

    def changed(self) -> None:
        super().changed()
        if self._over is not None:
            self._over.changed()

    @property
    def count(self) -> int:
        return len(self.rows)

    @property
    def selected(self) -> Row | None:
        return self.rows[self.cursor] if self.cursor < len(self.rows) else None

    def lines(self, width: int) -> Sequence[Line]:
        if not self.rows:
            return self.waits
        rows, cursor, make = self.rows, self.cursor, self.maker(width)
        none = " " * len(self.MARK)
        here = self.MARK if self.ALWAYS_MARKED or self.has_focus else none
        lit = " selected" if self.ALWAYS_LIT or self.has_focus else ""

        def line(place: int) -> Line:
            return make(rows[place], here, lit) if place == cursor else make(rows[place], none, "")

        return LazyLines(len(rows), line)

    def maker(self, width: int) -> Callable[[Row, str, str], Line]:
        """Return a function that makes the line of a row from the row, its mark and a suffix for its roles.

        The function must capture everything a line depends on, because new lines are compared with the
        previous ones.
        """
        return partial(row_line, self.columns(width))


class Listing(Table[Row], inherit_bindings=False):
    """A table in which enter and a second click choose a row."""

    BINDINGS = CursorList.BINDINGS
