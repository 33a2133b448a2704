"""The form of the pane Config: groups with their fields, each with its value and where that came from.

Only the visible lines are made.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.cells import cell_len
from textual.binding import BindingType
from textual.message import Message

from grpo_tui.core.text import shorten
from grpo_tui.present.config_view import FieldRow, FormRow, GroupRow
from grpo_tui.ui.paint import Line, Span, pad, ruled
from grpo_tui.ui.rows import MOVES, CursorList, LazyLines
from grpo_tui.ui.widgets.yaml_area import SIGNS

ORIGIN_W = 9
"""Cells of `● edited`, with the one that parts it from the value."""
LEAST_VALUE = 16
WIDEST_NAME, WIDEST_VALUE = 38, 48
ORIGINS = {
    "file": ("● file", "text"),
    "preset": ("preset", "dim"),
    "default": ("default", "dim"),
    "set": ("● --set", "accent"),
    "edited": ("● edited", "accent"),
}
"""Where a value comes from: its word, and the role of it."""


class ConfigForm(CursorList, inherit_bindings=False):
    """Groups and fields with a cursor; `Chosen` is posted when it moved."""

    BINDINGS: ClassVar[list[BindingType]] = MOVES

    class Chosen(Message):
        """Another line is under the cursor."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._rows: Sequence[FormRow] = ()
        self.waits: list[Line] = []
        self.words = ""
        """What is searched for."""

    @property
    def count(self) -> int:
        """Groups and fields."""
        return len(self._rows)

    @property
    def chosen(self) -> FormRow | None:
        """The line under the cursor."""
        return self._rows[self.cursor] if self.cursor < len(self._rows) else None

    @property
    def name_w(self) -> int:
        """Cells of the names, with the sign before them."""
        width = self.size.width - 1
        longest = max((cell_len(r.name) for r in self._rows if isinstance(r, FieldRow)), default=20)
        return 2 + max(12, min(longest + 1, WIDEST_NAME, width - 4 - ORIGIN_W - LEAST_VALUE))

    def show(self, rows: Sequence[FormRow], keep: str | None = None) -> None:
        """Show these lines; the cursor goes to the line named `keep`, else stays with its own."""
        before = self.chosen
        self._rows = rows
        wanted = keep if keep is not None else _label(before) if before is not None else None
        places = {_label(row): place for place, row in reversed(list(enumerate(rows)))}
        if wanted in places:
            self.cursor = places[wanted]
        else:
            first = next((i for i, row in enumerate(rows) if isinstance(row, FieldRow)), 0)
            self.cursor = min(self.cursor, max(0, len(rows) - 1)) if before is not None else first
        self.changed()
        if rows:
            self.put(self.cursor)

    def put(self, place: int) -> None:
        """Put the cursor there; the title over the first field comes into sight with it."""
        super().put(place)
        if self.cursor == 1 and self.scroll_offset.y == 1:
            self.scroll_to(y=0, animate=False, force=True)

    def moved(self) -> None:
        """Say so."""
        self.post_message(self.Chosen())

    def action_open(self) -> None:
        """A second click opens as enter does."""
        self.screen.run_worker(self.run_action("screen.config_edit"))

    def lines(self, width: int) -> LazyLines | list[Line]:
        """One line a row, made when it is looked at."""
        rows = self._rows
        if not rows:
            return self.waits
        width = self.size.width - 1
        # All that a line depends on stands still here: lines are compared with what they were before.
        cursor, focused, name_w, words = self.cursor, self.has_focus, self.name_w, self.words

        def line(place: int) -> Line:
            row = rows[place]
            here = place == cursor and focused
            if isinstance(row, GroupRow):
                return group_line(row, width, here=here, at=place == cursor, searched=bool(words))
            return field_line(row, width, name_w, here=here, at=place == cursor)

        return LazyLines(len(rows), line)


def _middle(name: str, width: int) -> str:
    """The name in so many cells, cut in its middle: long names differ at their ends."""
    if cell_len(name) <= width:
        return name
    end = (width - 1) // 2
    return f"{shorten(name, width - end)}{name[-end:]}"


def _label(row: FormRow) -> str:
    return row.name if isinstance(row, FieldRow) else f"─ {row.title}"


def group_line(row: GroupRow, width: int, *, here: bool, at: bool, searched: bool) -> Line:
    """The ruled title of a group, and how many of its fields show."""
    if row.shown == row.all:
        count = f"{row.all}"
    else:
        count = f"{row.shown} of {row.all}" + ("" if searched or not here else ", enter shows all")
    role = "title selected" if here else "title"
    line = ruled([[Span(row.title, role)], [Span(count, "dim")]], width)
    return [Span("❙ ", "accent" if here else "dim"), *line[1:]] if at else line


def field_line(row: FieldRow, width: int, name_w: int, *, here: bool, at: bool) -> Line:
    """Name, value, where it came from, and a sign when something was found."""
    tail = " selected" if here else ""
    sign, sign_role = SIGNS[row.severity] if row.severity in ("error", "warning") else (" ", "text")
    word, origin_role = ORIGINS[row.origin]
    plain = row.origin == "default"
    value_w = min(WIDEST_VALUE, width - name_w - ORIGIN_W - 3)
    value = shorten(row.value, value_w) if row.value else "–"
    return [
        Span("❙ " if at else "  ", ("accent" if here else "dim") + tail),
        Span(pad(_middle(row.name, name_w - 3), name_w - 2), ("dim" if plain else "text") + tail),
        Span(pad(value, value_w, right=row.number), ("dim" if plain else "strong") + tail),
        Span("  ", tail.strip() or "text"),
        Span(pad(word, ORIGIN_W - 1), origin_role + tail),
        Span(f" {sign}", sign_role + tail),
    ]
