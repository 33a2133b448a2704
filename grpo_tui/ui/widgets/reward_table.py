"""The samples of the pane Rewards: a column for each function, total and advantage, by group or sorted.

Only the visible lines are made.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rich.cells import cell_len
from textual.binding import BindingType
from textual.message import Message

from grpo_tui.core.text import one_line
from grpo_tui.present.formatting import fixed
from grpo_tui.present.rewards_view import ADVANTAGE, TOTAL, cell, fitted, ordered
from grpo_tui.ui.paint import Line, LinePane, Span, headed, pad, spread
from grpo_tui.ui.rows import MOVES, CursorList, LazyLines
from grpo_tui.ui.widgets.group_lines import advantage_sign

if TYPE_CHECKING:
    from grpo_tui.present.rewards_view import RewardsView, SampleRow

LEAST_TEXT = 18
"""Cells that a completion keeps, whatever the number of functions."""
WIDEST_NAME = 13
PROMPT_W = 98
"""Cells that the heading of a group may take, however short the completions are."""
WEIGHTS_FROM = 98
"""From this width on, weights stand in the headings."""
TOTAL_W, ADVANTAGE_W, NUMBER_W = 9, 8, 8


@dataclass(frozen=True, slots=True)
class TableLayout:
    """Where the columns stand.

    Attributes:
        kind: cells for what is known of a sample, 0 for none.
        text: cells for the completion.
        columns: function and the cells of its column, in order.
        hidden: functions that found no room.
        width: cells of all of it.
    """

    kind: int
    text: int
    columns: tuple[tuple[int, int], ...]
    hidden: int
    width: int


def table_layout(view: RewardsView, width: int, chosen: int) -> TableLayout:
    """Lay the columns out; where not all fit, the chosen function and those that count most stay."""
    widths = {
        k: max(
            cell_len(heading(view, k, width)) + 2,
            NUMBER_W,
            column.changed_w + 2,
        )
        for k, column in enumerate(view.columns)
    }
    room = width - 2 - LEAST_TEXT - TOTAL_W - ADVANTAGE_W
    kind = min(22 if width >= 110 else 8, max((cell_len(row.kind) for row in view.rows), default=0))
    if kind + sum(widths.values()) >= room:  # tags hide no function
        kind = min(kind, max((cell_len(_short(row.kind)) for row in view.rows), default=0))
    kind += 1 if kind else 0
    room -= kind
    kept: list[int] = []
    for k in sorted(widths, key=lambda k: _rank(view, k, chosen)):
        if widths[k] <= room:
            kept.append(k)
            room -= widths[k]
    columns = tuple((k, widths[k]) for k in sorted(kept))
    used = sum(w for _, w in columns) + TOTAL_W + ADVANTAGE_W + 2 + kind
    text = max(4, min(width - used, max(view.text_w + 1, PROMPT_W - used)))
    return TableLayout(kind, text, columns, len(view.columns) - len(kept), used + text)


def _short(kind: str) -> str:
    """What is known of a sample without the names of its tags: `gold#`."""
    plain, mark, _ = kind.partition(" #")
    return plain + mark.strip()


def _rank(view: RewardsView, k: int, chosen: int) -> tuple[bool, bool, bool, float]:
    """Lowest first: the chosen one, what has changed or failed, then what carries most."""
    column = view.columns[k]
    return k != chosen, not column.changed_w, not column.failure, -abs(column.share or 0.0)


def heading(view: RewardsView, k: int, width: int) -> str:
    """Name and weight of a function; in a narrow table the name, for the weight stands below it."""
    column = view.columns[k]
    name = one_line(column.name, WIDEST_NAME)
    if width < WEIGHTS_FROM:
        return name
    return f"{name} off" if column.muted else f"{name} ×{column.weight:g}"


class SampleHeading(LinePane):
    """The heading over the samples; a click sorts."""

    view: RewardsView | None = None
    order: str | int | None = None
    low_first = False
    words = ""
    shown = 0
    """Samples that hold the words."""
    chosen = 0

    def lines(self, width: int, height: int) -> list[Line]:
        """One ruled line, words over their columns."""
        view = self.view
        if view is None:
            return [headed([(2, "samples", "title")], width)]
        laid = table_layout(view, width - 1, self.chosen)
        at = 2 + laid.kind + laid.text
        words = [(2, f"samples, {self._order_words(view)}", "title")]
        if laid.hidden:
            note = f"+{laid.hidden} hidden, ←→"
            if at - cell_len(note) - 2 > 2 + cell_len(words[0][1]) + 2:
                words.append((at - cell_len(note) - 1, note, "attention"))
        for k, column_w in laid.columns:
            at += column_w
            name = heading(view, k, width - 1)
            role = "strong" if k == self.chosen else "dim"
            words.append((at - cell_len(name), name, "accent" if self.order == k else role))
        for word, wide in ((TOTAL, TOTAL_W), (ADVANTAGE, ADVANTAGE_W)):
            at += wide
            name = "adv" if word == ADVANTAGE else word
            words.append((at - len(name), name, "accent" if self.order == word else "dim"))
        return [headed(words, width)]

    def _order_words(self, view: RewardsView) -> str:
        only = f"{one_line(self.words, 20)}: {self.shown} of {len(view.rows)}" if self.words else ""
        if self.order is None:
            return only or "by prompt"
        name = self.order if isinstance(self.order, str) else one_line(view.columns[self.order].name, 20)
        return f"by {name}, {'worst' if self.low_first else 'best'} first{only and ', '}{only}"


class SampleTable(CursorList, inherit_bindings=False):
    """Samples with a cursor; `Chosen` is posted when it moved."""

    BINDINGS: ClassVar[list[BindingType]] = MOVES

    class Chosen(Message):
        """Another sample is under the cursor."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._view: RewardsView | None = None
        self._places: list[tuple[int, int]] = []
        self._laid: TableLayout | None = None
        self.waits: list[Line] = []
        self.chosen = 0
        """The function whose column is chosen."""

    @property
    def count(self) -> int:
        """Samples, and the headings of groups."""
        return len(self._places)

    @property
    def shown(self) -> int:
        """How many samples there are to see."""
        return sum(row >= 0 for _, row in self._places)

    @property
    def selected(self) -> int | None:
        """The sample under the cursor."""
        return self._places[self.cursor][1] if self._places else None

    def show(
        self,
        view: RewardsView | None,
        order: str | int | None,
        *,
        low_first: bool,
        words: str = "",
        keep: int | None = None,
    ) -> None:
        """Show these samples, of them those that hold the words; the cursor stays, or goes to `keep`."""
        wanted = self.selected if keep is None else keep
        self._view = view
        self._places = ordered(view, order, low_first=low_first, words=words) if view is not None else []
        rows = [row for _, row in self._places]
        if wanted is not None and wanted in rows:
            self.cursor = rows.index(wanted)
        else:
            self.cursor = next((i for i, row in enumerate(rows) if row >= 0), 0)
        self.changed()
        if self._places:
            self.put(self.cursor)

    def put(self, place: int) -> None:
        """Put the cursor there, past the heading of a group."""
        place = min(max(0, place), max(0, self.count - 1))
        if self._places and self._places[place][1] < 0:
            up = place < self.cursor and place > 0
            place += -1 if up else 1
        super().put(place)
        if self._places and place and self._places[place - 1][1] < 0 and self.scroll_offset.y == place:
            self.scroll_to(y=place - 1, animate=False, force=True)

    def moved(self) -> None:
        """Say so."""
        self.post_message(self.Chosen())

    def action_open(self) -> None:
        """A second click opens as enter does."""
        self.screen.run_worker(self.run_action("screen.rewards_edit"))

    def lines(self, width: int) -> LazyLines | list[Line]:
        """One line a sample, made when it is looked at."""
        view = self._view
        if view is None:
            return self.waits
        if not self._places:
            return [
                (),
                [
                    Span("   No sample holds these words.   ", "dim"),
                    Span("esc", "key"),
                    Span(" shows all", "dim"),
                ],
            ]
        width = self.size.width - 1
        laid = table_layout(view, width, self.chosen)
        # All that a line depends on stands still here: lines are compared with what they were before.
        places, cursor, focused = self._places, self.cursor, self.has_focus

        def line(place: int) -> Line:
            group, index = places[place]
            if index < 0:
                return group_line(view, group, laid.width)
            return sample_line(view, view.rows[index], laid, here=place == cursor, focused=focused)

        return LazyLines(len(places), line)


def group_line(view: RewardsView, number: int, width: int) -> Line:
    """The heading of a group: prompt, gold answer, mean and spread."""
    group = view.groups[number]
    gold = f"   gold {one_line(group.gold, 24)}" if group.gold else ""
    right = [Span(f"mean {fixed(group.mean)}  ", "dim"), Span(f"spread {fixed(group.std)} ", "dim")]
    if group.flat:
        right = [Span(f"mean {fixed(group.mean)}  ", "dim"), Span("flat: teaches nothing ", "attention")]
    room = max(8, width - cell_len(gold) - 36)
    return spread([Span(f" {one_line(group.prompt, room)}", "strong"), Span(gold, "dim")], right, width)


def sample_line(view: RewardsView, row: SampleRow, laid: TableLayout, *, here: bool, focused: bool) -> Line:
    """A sample: what is known of it, its completion, what each function gave, total, advantage."""
    tail = " selected" if here and focused else ""
    line = [Span("❙ " if here else "  ", "accent" + tail)]
    if laid.kind:
        kind = row.kind if cell_len(row.kind) < laid.kind else _short(row.kind)
        line.append(Span(pad(kind, laid.kind - 1) + " ", "dim" + tail))
    text = fitted(row.text, laid.text) if row.text.strip() else "(empty)" if not row.text else "(white space)"
    line.append(Span(pad(text, laid.text), ("text" if row.text.strip() else "dim") + tail))
    for k, width in laid.columns:
        text, role = cell(view, row, k)
        if view.columns[k].muted:
            role = "dim"
        line.append(Span(pad(text, width, right=True), role + tail))
    line.append(Span(pad(fixed(row.total, view.digits), TOTAL_W, right=True), "strong" + tail))
    sign, role = advantage_sign(row.advantage)
    line.append(Span(pad(f"{sign}{fixed(abs(row.advantage))}", ADVANTAGE_W, right=True), role + tail))
    return line
