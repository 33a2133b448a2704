"""The newest groups: prompt, reference answer, and every completion with its advantage and rewards.

Newest first. The view stays where the user reads, and older groups are loaded near the end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from rich.cells import cell_len
from textual.binding import Binding, BindingType
from textual.events import Click
from textual.geometry import Region
from textual.strip import Strip

from grpo_tui.core.text import one_line, told_apart
from grpo_tui.present.formatting import digits_apart, fixed, plural, within
from grpo_tui.present.group_card import gold_of, group_view
from grpo_tui.present.train_view import TrainView
from grpo_tui.ui.kit.table import LazyLines
from grpo_tui.ui.paint import Line, LineScroll, Span, pad, ruled, width_of, wrapped
from grpo_tui.ui.screens.reading import TextScreen
from grpo_tui.ui.shell import Shell

if TYPE_CHECKING:
    from grpo_tui.core.records import Completion
    from grpo_tui.store.reader import RunReader, StoredGroup
    from grpo_tui.ui.pages import Pages

COLUMNS_FROM = 116
"""From this width, each reward function has a column."""
COLUMN_W, WIDEST_COLUMN_W = 9, 14
LEFT_FOR_TEXT = 76
"""Cells that columns never use: the head of a line and the text."""
MOST_COLUMNS = 6
MOST_LINES_LARGE = 400


@dataclass(frozen=True, slots=True)
class CompletionLayout:
    """How completions are laid out."""

    names: tuple[str, ...]
    width: int
    most: int
    """Maximum lines of a completion when not `large`."""
    large: bool
    """Show texts in full, with line breaks."""
    digits: int = 2
    reward_digits: tuple[int, ...] = ()
    """Decimals of each function; 2 without any."""

    @property
    def columns(self) -> int:
        room = (self.width - LEFT_FOR_TEXT) // COLUMN_W if self.width >= COLUMNS_FROM else 0
        return min(len(self.names), MOST_COLUMNS, max(0, room))

    @property
    def column(self) -> int:
        """Width of a reward column: that of the longest name, within limits."""
        count = max(1, self.columns)
        longest = max(map(cell_len, map(one_line, self.names[: self.columns])), default=0) + 2
        return max(COLUMN_W, min(longest, WIDEST_COLUMN_W, (self.width - LEFT_FOR_TEXT) // count))


def heading(group: StoredGroup, width: int, *, first: bool, newer: Line = ()) -> Line:
    """Return the title of a group: step, prompt, reference answer, mean and std."""
    parts: list[Line] = []
    if first:
        parts.append([Span("newest group", "title")] if not newer else list(newer))
    parts.append([Span(f"step {group.step:,}", "text" if first else "dim")])
    place = len(parts)
    parts.append([])
    if (gold := gold_of(group.columns or {})) is not None:
        parts.append([Span("gold ", "dim"), Span(one_line(gold, 24))])
    digits = digits_apart(row.total for row in group.completions)
    parts.append([Span("mean ", "dim"), Span(fixed(group.mean, digits))])
    if group.signal != "some":
        word = "zero std" if group.signal == "none" else "masked"
        parts.append([Span(f"{word}: teaches nothing", "attention")])
    else:
        parts.append([Span("group std ", "dim"), Span(fixed(group.std, digits))])
    # The prompt takes the remaining width. If that is too little, the last parts are dropped.
    while (room := width - _cells(parts) - 3) < min(24, cell_len(group.prompt)) and len(parts) > place + 2:
        parts.pop()
    prompt = f"“{one_line(group.prompt, max(8, room))}”" if group.prompt.strip() else "empty prompt"
    parts[place] = [Span(prompt, "strong" if first else "text")]
    return ruled(parts, width)


def _cells(parts: list[Line]) -> int:
    return 2 + sum(width_of(part) for part in parts) + 4 * (len(parts) - 1) + 1


def names_line(look: CompletionLayout) -> Line:
    """Return the column headings."""
    words = f" {'adv':>6}{'total':>8}"
    for name in told_apart(look.names[: look.columns], look.column - 1):
        words += pad(" " + name, look.column, right=True)
    return [Span(f"{words} tokens", "dim")]


def completion_lines(row: Completion, look: CompletionLayout, *, here: bool = False) -> list[Line]:
    """Return a completion: advantage, total, rewards, tokens, and text in the remaining width."""
    tail = " selected" if here else ""
    head = _head(row, look, here, tail)
    used = width_of(head)
    room = max(1, look.width - used - 1)
    texts = wrapped(row.text, room)[:MOST_LINES_LARGE] if look.large else _few(row.text, room, look.most)
    if not any(texts):
        return [[*head, Span("(empty)", "dim" + tail)]]
    lines: list[Line] = []
    for number, text in enumerate(texts):
        start = head if number == 0 else [Span("❙" if here else " ", "accent" + tail), Span(" " * (used - 1))]
        lines.append([*start, Span(text, "text" + tail)])
    return lines


def _head(row: Completion, look: CompletionLayout, here: bool, tail: str) -> list[Span]:
    sign, role = advantage_sign(row.advantage)
    head = [
        Span("❙" if here else " ", "accent" + tail),
        Span(f"{sign} ", role + tail),
        Span(pad(within(abs(row.advantage), 4), 4, right=True), role + tail),
        Span(pad(within(row.total, 7, look.digits), 8, right=True), "strong" + tail),
    ]
    for index in range(look.columns):
        value = row.rewards[index] if index < len(row.rewards) else None
        digits = look.reward_digits[index] if index < len(look.reward_digits) else 2
        head.append(Span(pad(within(value, COLUMN_W - 1, digits), look.column, right=True), "text" + tail))
    head.append(Span(pad(_tokens(row.tokens), 7 if look.columns else 5, right=True), "dim" + tail))
    ends = " ✂ masked " if row.masked else " ✂ " if row.truncated else "   "
    head.append(Span(ends, "attention" + tail))
    return head


def _tokens(count: int) -> str:
    return str(count) if count < 10_000 else f"{count // 1000}k"


def _few(text: str, room: int, most: int) -> list[str]:
    """Wrap text on one logical line to at most `most` rows, truncating the last."""
    rows = wrapped(one_line(text), room)
    if len(rows) <= most:
        return [row for row in rows if row.strip()] or rows[:1]
    return [*rows[: most - 1], one_line(rows[most - 1] + rows[most], room)]


def advantage_sign(advantage: float) -> tuple[str, str]:
    """Return the sign of an advantage and its color role."""
    if abs(advantage) < 0.005:
        return "·", "dim"
    return ("▲", "good") if advantage > 0 else ("▼", "bad")


def advantage_cell(advantage: float) -> Span:
    """Return an advantage with its sign."""
    sign, role = advantage_sign(advantage)
    return Span(f"{sign}{fixed(abs(advantage))}", role)


PAGE = 24
MOST_GROUPS = 240
MOST_CHARACTERS = 2_000_000
"""Limits on the groups, and characters of text, kept in memory."""
MOST_LINES_EACH = 12


class Place(NamedTuple):
    """A completion; number -1 is the heading of a group."""

    group: int
    number: int


class GroupList(LineScroll, Shell):
    """Groups, newest first. Long completions use several lines if there is room."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open", "open", show=False),
        Binding("up,k", "move(-1)", "up", show=False),
        Binding("down,j", "move(1)", "down", show=False),
        Binding("home,g", "first", "first", show=False),
    ]

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._groups: tuple[StoredGroup, ...] = ()
        self._newest: tuple[StoredGroup, ...] = ()
        self._names: tuple[str, ...] = ()
        self._waits = ""
        self._pages: Pages | None = None
        self._starts: list[tuple[int, Place]] = []
        """First line of each heading and completion."""
        self._cache: dict[tuple[int, int, int, int, bool], list[Line]] = {}
        self._more = True
        self.cursor: Place | None = None
        self.unseen = 0
        """Number of groups newer than the first one shown."""

    # -- content ---------------------------------------------------------------------------------

    def follow(self, pages: Pages | None) -> None:
        self._pages = pages
        self._groups, self.cursor, self.unseen, self._more = (), None, 0, True
        self._cache.clear()

    def show(self, view: TrainView, waits: str = "") -> None:
        """Take in the newest groups, or show what is being waited for. Keeps the view of older ones."""
        names = tuple(function.name for function in view.functions)
        self._newest = view.groups
        same = (names, waits) == (self._names, self._waits)
        self._names, self._waits = names, waits
        if not same:
            self._cache.clear()
        if self.follows:
            if view.groups != self._groups or not same:
                self._groups, self.unseen, self._more = view.groups, 0, True
                self._layout()
            return
        if self._pages is not None and self._groups:
            first = self._groups[0].id
            self._pages.ask("groups new", lambda stores: stores.run.newer_groups(first), self._count_unseen)

    @property
    def follows(self) -> bool:
        """Whether new groups are added: true only at the top."""
        at_first = self.cursor is None or not self._groups or self.cursor.group == self._groups[0].id
        return not self._groups or (self.scroll_offset.y == 0 and at_first)

    @property
    def selected(self) -> tuple[StoredGroup, int] | None:
        """Group and index of the completion under the cursor, or the first completion."""
        wanted = self.cursor
        for group in self._groups:
            for index in range(len(group.completions)):
                if wanted is None or wanted == (group.id, index):
                    return group, index
        return None

    def _count_unseen(self, count: int) -> None:
        if count != self.unseen and not self.follows:
            self.unseen = count
            self._layout()
            self.refresh(Region(0, 0, self.size.width, 1))

    def _older(self, asked: int, found: tuple[StoredGroup, ...]) -> None:
        if not self._groups or self._groups[-1].id != asked:
            return
        self._more = len(found) == PAGE
        kept = [*self._groups, *found]
        spare = sum(len(row.text) for group in kept for row in group.completions) - MOST_CHARACTERS
        while len(kept) > MOST_GROUPS or (spare > 0 and len(kept) > 2 * PAGE):
            spare -= sum(len(row.text) for row in kept[0].completions)
            del kept[0]
        self._groups = tuple(kept)
        self._layout()

    # -- scrolling -------------------------------------------------------------------------------

    def action_first(self) -> None:
        self._groups, self.cursor, self.unseen, self._more = self._newest, None, 0, True
        self.scroll_to(y=0, animate=False, force=True)
        self.changed()

    def action_move(self, by: int) -> None:
        places = [place for _, place in self._starts if place.number >= 0]
        if not places:
            return
        at = places.index(self.cursor) + by if self.cursor in places else 0
        self.cursor = places[min(len(places) - 1, max(0, at))]
        self.changed()
        self._into_sight(self.cursor)
        self._reach()

    def action_open(self) -> None:
        self._whole(lambda what, text: self.app.push_screen(TextScreen(what, text)))

    def copy(self) -> None:
        self._whole(self.shell.copy)

    def _whole(self, then: Callable[[str, str], object]) -> None:
        chosen = self.selected
        if chosen is None or self._pages is None:
            return
        group, index = chosen
        prompt = f"“{group.prompt}”" if group.prompt.strip() else "an empty prompt"
        what = f"completion {index + 1} of {prompt}, step {group.step:,}"
        self._pages.ask("group text", lambda stores: _text(stores.run, group.id, index), partial(then, what))

    def on_click(self, event: Click) -> None:
        line = event.y + self.scroll_offset.y
        found = [place for start, place in self._starts if start <= line]
        if found and found[-1].number >= 0:
            again = self.cursor == found[-1] and event.chain > 1
            self.cursor = found[-1]
            self.changed()
            if again:
                self.action_open()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if new_value > old_value:
            self._reach()

    def watch_has_focus(self, focused: bool) -> None:
        super().watch_has_focus(focused)
        self.changed()

    def _reach(self) -> None:
        near = self.scroll_offset.y + 3 * max(1, self.size.height) >= len(self._lines)
        if near and self._more and self._groups and self._pages is not None:
            last = self._groups[-1].id
            self._pages.ask(
                "groups older", lambda stores: _older(stores.run, last), partial(self._older, last)
            )

    def _into_sight(self, place: Place) -> None:
        height = max(1, self.scrollable_content_region.height)
        starts = [start for start, _ in self._starts] + [len(self._lines)]
        at = next((i for i, (_, found) in enumerate(self._starts) if found == place), 0)
        first, end = starts[at], starts[at + 1]
        if place.number == 0 and at:
            first = starts[at - 1]  # include the heading
        if first < self.scroll_offset.y:
            self.scroll_to(y=first, animate=False, force=True)
        elif end > self.scroll_offset.y + height:
            self.scroll_to(y=min(first, end - height) if end - first > height else end - height,
                           animate=False, force=True)  # fmt: skip

    # -- layout ----------------------------------------------------------------------------------

    def _layout(self) -> None:
        """Lay out again, keeping the same group at the top."""
        if self.follows or not self._starts:
            self.changed()
            return
        top = self.scroll_offset.y
        start, place = next(s for s in reversed(self._starts) if s[0] <= top)  # the first one is at line 0
        self.changed()
        moved = next((line for line, found in self._starts if found == place), None)
        if moved is not None:
            self.scroll_to(y=moved + top - start, animate=False, force=True)

    def render_line(self, y: int) -> Strip:
        """Render a visible line. The first one also shows the number of newer groups when scrolled down."""
        strip = super().render_line(y)
        newer = self._newer()
        if y or not newer or self.scroll_offset.y == 0:
            return strip
        width = self.scrollable_content_region.width
        told = self.painted([Span("  "), *newer, Span(" ")], min(width, width_of(newer) + 3))
        return Strip.join([strip.crop(0, width - told.cell_length), told])

    def lines(self, width: int) -> Sequence[Line]:
        """Return all groups with headings. One-line completions are laid out when visible."""
        self._starts = []
        if not self._groups:
            return [ruled([[Span("newest group", "title")]], width), [Span(f"  {self._waits}", "dim")]]
        if len(self._cache) > 500 + 4 * sum(len(group.completions) for group in self._groups):
            self._cache.clear()  # most entries are for old groups or other widths
        large = self.screen.has_class("-large")
        lines: list[Line | Callable[[], Line]] = []
        for number, group in enumerate(self._groups):
            self._starts.append((len(lines), Place(group.id, -1)))
            lines.append(heading(group, width, first=number == 0, newer=self._newer() if number == 0 else ()))
            digits = digits_apart(row.total for row in group.completions)
            most = self._lines_each(group, first=number == 0)
            names = group.functions or self._names
            scores = zip(*(row.rewards for row in group.completions), strict=False)
            look = CompletionLayout(names, width, most, large, digits, tuple(map(digits_apart, scores)))
            other = number > 0 and group.functions != self._groups[number - 1].functions
            if (large or number == 0 or other) and look.columns:
                lines.append(names_line(look))
            for index, row in enumerate(group.completions):
                place = Place(group.id, index)
                self._starts.append((len(lines), place))
                if self.has_focus and place == self.cursor:
                    lines += completion_lines(row, look, here=True)
                elif large or look.most > 1:
                    lines += self._completion(place, row, look)
                else:
                    lines.append(partial(self._one_line, place, row, look))
        return LazyLines(len(lines), lambda i: line() if callable(line := lines[i]) else line)

    def _one_line(self, place: Place, row: Completion, look: CompletionLayout) -> Line:
        return self._completion(place, row, look)[0]

    def _completion(self, place: Place, row: Completion, look: CompletionLayout) -> list[Line]:
        key = (*place, look.width, look.most, look.large)
        if key not in self._cache:
            self._cache[key] = completion_lines(row, look)
        return self._cache[key]

    def _newer(self) -> Line:
        if not self.unseen:
            return ()
        return [Span(f"{plural(self.unseen, 'newer group')}: g jumps there", "attention", "screen.part_end")]

    def _lines_each(self, group: StoredGroup, *, first: bool) -> int:
        if not first:
            return 1
        room = max(1, self.scrollable_content_region.height - 1)
        return max(1, min(MOST_LINES_EACH, room // max(1, len(group.completions))))


def _older(reader: RunReader, group: int) -> tuple[StoredGroup, ...]:
    return tuple(group_view(found) for found in reader.older_groups(group, PAGE))


def _text(reader: RunReader, group: int, index: int) -> str:
    found = reader.groups(after_id=group - 1, superseded=True, limit=1)
    return found[0].completions[index].text
