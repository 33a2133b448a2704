"""Lines of colored text, and widgets that paint them.

A line is a sequence of spans: text, a color role, and optionally an action to run on click. Text is never
read as markup. Control characters that get this far are made visible.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import ClassVar, NamedTuple

from rich.cells import cell_len, chop_cells, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widget import Widget

from grpo_tui.core.text import safe, shorten
from grpo_tui.present.glyphs import to_ascii


def changed_regions(old: Sequence[Line], new: Sequence[Line], size: Size) -> list[Region]:
    """Return the lines that differ, as regions. `size` is the visible part of the lines."""
    padding: list[Line] = [()] * size.height
    pairs = zip([*old, *padding], [*new, *padding], range(size.height), strict=False)
    return [Region(0, y, size.width, 1) for a, b, y in pairs if a is not b and list(a) != list(b)]


ROLES = (
    "text", "dim", "strong", "accent", "good", "bad", "attention", "title", "rule", "key",
    "line", "band", "axis", "tick", "mark", "selected", "here", "match",
    "line2", "line3", "line4", "line5", "line6", "cursor",
)  # fmt: skip
COMPONENTS = {f"role--{role}" for role in ROLES}
"""Component classes of the app. If every widget had them, each change of pane would restyle all of them."""


class Span(NamedTuple):
    """A piece of a line: text in one color role."""

    text: str
    role: str = "text"
    action: str = ""
    """Textual action to run on click. Never built from outside text."""


Line = Sequence[Span]


def spans(lines: Iterable[Sequence[tuple[str, str]]], edge: str = "") -> list[Line]:
    """Return lines of `present`, as text and role, as lines to paint. `edge` is put before each."""
    before = [Span(edge)] if edge else []
    return [[*before, *(Span(text, role) for text, role in line)] for line in lines]


def signed(sign: str, role: str, rows: Iterable[str], text_role: str = "text") -> list[Line]:
    """Return rows of a text, the first with a sign before it and the others below its beginning."""
    return [
        [Span(f" {' ' if number else sign} ", role), Span(row, text_role)] for number, row in enumerate(rows)
    ]


def width_of(line: Line) -> int:
    """Return the width of a line in cells."""
    return sum(cell_len(span.text) for span in line)


def pad(text: str, width: int, *, right: bool = False) -> str:
    """Truncate or pad text to exactly `width` cells; `right` aligns it right."""
    short = shorten(text, width) if cell_len(text) > width else text
    return " " * (width - cell_len(short)) + short if right else set_cell_size(short, width)


def fitting(parts: Sequence[tuple[int, Line]], width: int, gap: int = 3) -> list[Span]:
    """Join as many parts as fit, in order. Parts with the highest number are dropped first."""
    kept = list(parts)
    while kept and sum(width_of(line) for _, line in kept) + gap * (len(kept) - 1) > width:
        if len(kept) == 1:
            break
        kept.remove(max(kept, key=lambda part: part[0]))
    line: list[Span] = []
    for index, (_, part) in enumerate(kept):
        if index:
            line.append(Span(" " * gap))
        line.extend(part)
    return line


def spread(left: Line, right: Line, width: int) -> list[Span]:
    """Put one part at each edge. The right one is dropped when both do not fit."""
    space = width - width_of(left) - width_of(right)
    if not right or space < 1:
        return list(left)
    return [*left, Span(" " * space), *right]


def ruled(parts: Sequence[Line], width: int, right: Line = ()) -> list[Span]:
    """Draw a section title: `─ title ── part ── part ─────── right ─`. Parts that do not fit are dropped."""
    kept = list(parts)

    def used() -> int:
        tail = width_of(right) + 3 if right else 0
        return 2 + sum(width_of(part) for part in kept) + 4 * (len(kept) - 1) + 1 + tail

    while len(kept) > 1 and used() > width:
        kept.pop()
    if used() > width:
        right = ()
    line = [Span("─ ", "rule")]
    for index, part in enumerate(kept):
        if index:
            line.append(Span(" ── ", "rule"))
        line.extend(part)
    fill = width - width_of(line) - 1 - (width_of(right) + 3 if right else 0)
    line.append(Span(" " + "─" * max(0, fill), "rule"))
    if right:
        line += [Span(" "), *right, Span(" ─", "rule")]
    return line


def headed(words: Sequence[tuple[int, str, str]], width: int) -> list[Span]:
    """Draw a rule with words in it, each given as (first cell, word, role) in order of position."""
    line: list[Span] = []
    at = 0
    for start, word, role in words:
        if start - 1 < at or start + cell_len(word) + 1 > width:
            continue
        line += [Span("─" * (start - 1 - at) + " ", "rule"), Span(word, role), Span(" ", "rule")]
        at = start + cell_len(word) + 1
    line.append(Span("─" * max(0, width - at), "rule"))
    return line


def wrapped(text: str, room: int) -> list[str]:
    """Wrap text to at most `room` cells a row. Keeps line breaks and all characters."""
    rows: list[str] = []
    for row in safe(text).split("\n"):
        row = row.expandtabs(4)
        if row.isascii():
            rows += [row[i : i + room] for i in range(0, max(1, len(row)), room)]
        else:
            rows += chop_cells(row, room) if cell_len(row) > room else [row]
    return rows


@lru_cache(maxsize=256)
def _click(action: str) -> Style:
    return Style(meta={"@click": action})


class Painter(Widget):
    """A widget that turns lines into strips in its own colors."""

    _palette: dict[str, Style] | None = None

    def notify_style_update(self) -> None:
        """Clear cached colors: the theme or the widget's state may have changed."""
        self._palette = None
        super().notify_style_update()

    def painted(self, line: Line, width: int) -> Strip:
        """Return the line as a strip of exactly `width` cells."""
        plain = bool(getattr(self.app, "ascii_only", False))
        base = self._role("")
        segments, used = [], 0
        for span in line:
            text = safe(span.text).replace("\n", "⏎").replace("\t", " ")
            if plain and not text.isascii():
                text = to_ascii(text)
            used += cell_len(text)
            segments.append(Segment(text, self._style(span)))
        if used > width and segments:
            return _cut(segments, width, "~" if plain else "…").adjust_cell_length(width, base)
        return Strip(segments, used).adjust_cell_length(width, base)

    def _style(self, span: Span) -> Style:
        style = self._role(span.role)
        return style + _click(span.action) if span.action else style

    def _role(self, role: str) -> Style:
        """Return the style of space-separated roles. Cached: Textual derives each from all ancestors."""
        if self._palette is None:
            self._palette = {}
        style = self._palette.get(role)
        if style is None:
            style = self.rich_style
            for name in role.split():
                style += self.app.get_component_styles(f"role--{name}").partial_rich_style
            self._palette[role] = style
        return style


def _cut(segments: list[Segment], width: int, sign: str) -> Strip:
    """Truncate segments to `width`, ending in `sign`."""
    kept: list[Segment] = []
    left = width
    for segment in segments:
        if cell_len(segment.text) <= left - 1:
            kept.append(segment)
            left -= cell_len(segment.text)
            continue
        kept.append(Segment(shorten(segment.text + "  ", left).replace("…", sign), segment.style))
        break
    return Strip(kept)


class LinePane(Painter):
    """A widget of a few lines, laid out again for each size."""

    DEFAULT_CSS = "LinePane { height: auto; width: 1fr; }"

    _laid: tuple[Size, list[Line]] | None = None

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return len(self.lines(width, 0))

    def lines(self, width: int, height: int) -> list[Line]:
        """Return the lines for this size. Lines beyond `height` are not shown.

        `height` is 0 when the widget asks for as many as there are.
        """
        raise NotImplementedError

    def changed(self, *, layout: bool = False) -> None:
        """Lay out again and repaint the lines that differ. Pass `layout` when the height may have changed."""
        size, before = self.size, self._laid
        self._laid = None
        if layout or before is None or before[0] != size or not size.area:
            self.refresh(layout=layout)
            return
        lines = self.lines(size.width, size.height)
        self._laid = (size, lines)
        if regions := changed_regions(before[1], lines, size):
            self.refresh(*regions)

    def render_line(self, y: int) -> Strip:
        size = self.size
        if self._laid is None or self._laid[0] != size:
            self._laid = (size, self.lines(size.width, size.height))
        lines = self._laid[1]
        return self.painted(lines[y] if y < len(lines) else (), size.width)


class LineScroll(ScrollView, Painter, can_focus=True):
    """A scrollable list of any length that paints only its visible lines."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("g", "scroll_home", "first", show=False),
        Binding("G", "scroll_end", "last", show=False),
    ]
    DEFAULT_CSS = """
    LineScroll { height: 1fr; width: 1fr; overflow-x: hidden; overflow-y: auto; scrollbar-size-vertical: 1; }
    """

    _lines: Sequence[Line] = ()
    _laid_width = -1

    def lines(self, width: int) -> Sequence[Line]:
        raise NotImplementedError

    def changed(self) -> None:
        """Lay out again and repaint the visible lines that differ. A hidden list waits until it is shown."""
        size, top = self.scrollable_content_region.size, self.scroll_offset.y
        before, same_width = self._lines, size.width == self._laid_width
        self._laid_width = size.width
        if not size.area:
            self._laid_width = -1
            return
        self._lines = self.lines(size.width)
        self.virtual_size = Size(size.width, len(self._lines))
        if same_width:
            visible = slice(top, top + size.height)
            regions = changed_regions(before[visible], self._lines[visible], size)
            if regions:
                self.refresh(*regions)
        else:
            self.refresh()

    def watch_show_vertical_scrollbar(self) -> None:
        self.call_after_refresh(self.on_resize)

    def on_resize(self) -> None:
        if self.scrollable_content_region.width != self._laid_width:
            self.changed()

    def render_line(self, y: int) -> Strip:
        row = y + self.scroll_offset.y
        line = self._lines[row] if row < len(self._lines) else ()
        return self.painted(line, self.scrollable_content_region.width)
