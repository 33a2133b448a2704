"""A config as text that can be edited: coloured lines, and what is wrong with a line beside it.

Built on Textual's TextArea, from which a terminal's own signs are kept away.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual.binding import Binding, BindingType
from textual.expand_tabs import expand_tabs_inline
from textual.message import Message
from textual.strip import Strip
from textual.widgets import TextArea
from textual.widgets.text_area import Location, Selection

from grpo_tui.core.text import one_line, shorten
from grpo_tui.present.config_yaml import Piece, from_edit, glyphs, pieces, to_edit
from grpo_tui.present.glyphs import to_ascii

SIGNS = {"error": ("✗", "bad"), "warning": ("⚠", "attention"), "info": ("●", "dim")}
SIGN_W = 2
LEAST_NOTE = 12
"""Cells below which a note beside a line says nothing."""


class YamlArea(TextArea):
    """The text of a config; `Typed` is posted when a person changed it.

    Args:
        elsewhere: whether the screen undoes and redoes.
    """

    DEFAULT_CSS = """
    YamlArea, YamlArea:focus {
        border: none; padding: 0; background: $background; width: 1fr; height: 1fr;
        scrollbar-size-vertical: 1; scrollbar-size-horizontal: 0;
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "screen.config_back", "form", show=False)]

    class Typed(Message):
        """A person has changed the text."""

    class Moved(Message):
        """The cursor stands on another line, counted from 1."""

        def __init__(self, line: int) -> None:
            super().__init__()
            self.line = line

    def __init__(self, *, id: str, elsewhere: bool = False) -> None:
        self._coloured: list[str] = []
        self._pieces: list[list[Piece]] = []
        self._notes: Mapping[int, tuple[str, str]] = {}
        self._shown, self._elsewhere = "", elsewhere
        super().__init__("", id=id, soft_wrap=False, show_line_numbers=True, highlight_cursor_line=False)
        self.cursor_blink = False  # each blink would be sent over the line

    # -- the text --------------------------------------------------------------------------------

    @property
    def config_text(self) -> str:
        """The text as it would stand in the file."""
        return from_edit(self.text)

    def show_text(self, text: str) -> None:
        """Show this text; where it differs in a part, only that part is replaced, and the cursor stays."""
        before, after = self.text, to_edit(text)
        if before == after:
            return
        self._shown = after
        if not before or self.document.newline not in after:
            self.load_text(after)
            return
        old, new = before.split(self.document.newline), after.split(self.document.newline)
        top = 0
        while top < min(len(old), len(new)) and old[top] == new[top]:
            top += 1
        end = 0
        while end < min(len(old), len(new)) - top and old[-1 - end] == new[-1 - end]:
            end += 1
        self._replace_lines(old, new[top : len(new) - end], top, len(old) - end)

    def _replace_lines(self, old: list[str], new: list[str], top: int, bottom: int) -> None:
        """Put `new` where the lines from `top` up to `bottom` stood."""
        newline = self.document.newline
        row, column = self.cursor_location
        start: Location = (top, 0)
        stop: Location = (bottom, 0)
        text = newline.join(new) + newline if new else ""
        if bottom >= len(old):  # the last line has no line break behind it
            stop = (len(old) - 1, len(old[-1]))
            text = newline.join(new)
            if top and not new:
                start = (top - 1, len(old[top - 1]))
        self.replace(text, start, stop, maintain_selection_offset=False)
        if row >= bottom:
            row += len(new) - (bottom - top)
        row = min(max(0, row), self.document.line_count - 1)
        self.selection = Selection.cursor((row, min(column, len(self.document[row]))))

    def on_text_area_changed(self, event: TextArea.Changed) -> None:
        """Tell a person's changes from those of the program."""
        event.stop()
        if self.text != self._shown:
            self._shown = self.text
            self.post_message(self.Typed())

    def on_text_area_selection_changed(self, event: TextArea.SelectionChanged) -> None:
        event.stop()
        self.post_message(self.Moved(event.selection.end[0] + 1))

    def go_to(self, line: int) -> None:
        """Put the cursor on a line, counted from 1."""
        row = min(max(0, line - 1), self.document.line_count - 1)
        self.move_cursor((row, 0), center=True, record_width=True)

    def action_undo(self) -> None:
        """One history for form and text, where there is a form."""
        if self._elsewhere:
            self.screen.run_worker(self.run_action("screen.config_undo"))
        else:
            super().action_undo()

    def action_redo(self) -> None:
        if self._elsewhere:
            self.screen.run_worker(self.run_action("screen.config_redo"))
        else:
            super().action_redo()

    # -- what stands beside it -------------------------------------------------------------------

    def note(self, notes: Mapping[int, tuple[str, str]]) -> None:
        """Mark lines, counted from 1: severity and sentence."""
        if notes != self._notes:
            self._notes = notes
            self.refresh()

    @property
    def gutter_width(self) -> int:
        """Room for a sign before the number of a line."""
        return super().gutter_width + SIGN_W

    # -- painting --------------------------------------------------------------------------------

    def get_line(self, line_index: int) -> Text:
        """One line in its colours, sign for sign."""
        if self.document.lines != self._coloured:
            self._coloured = list(self.document.lines)
            self._pieces = pieces(self._coloured)
        shown = glyphs(self.document.get_line(line_index))
        if self._plain:
            shown = to_ascii(shown)
        text = Text(shown, end="", no_wrap=True)
        for start, end, role in self._pieces[line_index] if line_index < len(self._pieces) else ():
            text.stylize(self._role(role), start, end)
        return text

    def render_line(self, y: int) -> Strip:
        """The line; in the gutter the sign of what was found, behind the text its sentence."""
        strip = super().render_line(y)
        row = y + self.scroll_offset.y
        if row >= self.document.line_count:
            return strip
        width = self.scrollable_content_region.width
        line = expand_tabs_inline(self.document.get_line(row), self.indent_width)
        used = cell_len(line) - self.scroll_offset.x + self.gutter_width
        if row == self.cursor_location[0]:
            strip = _behind(strip, self._role("selected"), self.rich_style)
        note = self._notes.get(row + 1)
        if note is not None:
            strip = self._noted(strip, used, width, *note)
        if used > width:
            strip = _put(strip, width - 1, "~" if self._plain else "…", self._role("dim"))
        return strip

    def _noted(self, strip: Strip, used: int, width: int, severity: str, sentence: str) -> Strip:
        sign, role = SIGNS[severity]
        if self._plain:
            sign = to_ascii(sign)
        strip = _put(strip, 0, sign, self._role(role))
        room = width - used - 3
        if room < LEAST_NOTE:
            return strip
        text = shorten(f"{sign} {one_line(sentence)}", room)
        return _put(
            strip, max(self.gutter_width, used) + 2, to_ascii(text) if self._plain else text, self._role(role)
        )

    @property
    def _plain(self) -> bool:
        return bool(getattr(self.app, "ascii_only", False))

    def _role(self, role: str) -> Style:
        return self.app.get_component_styles(f"role--{role}").partial_rich_style


def _behind(strip: Strip, under: Style, base: Style) -> Strip:
    """The strip on another ground, where it stands on the usual one."""
    return Strip(
        [
            Segment(s.text, (s.style or base) + Style(bgcolor=under.bgcolor), s.control)
            if s.style is None or s.style.bgcolor in (None, base.bgcolor)
            else s
            for s in strip
        ],
        strip.cell_length,
    )


def _put(strip: Strip, at: int, text: str, style: Style) -> Strip:
    """The strip with a text over its cells from `at` on; the background stays."""
    wide = cell_len(text)
    under = strip.crop(at, at + 1)
    base = next((s.style for s in under if s.style is not None), None)
    back = Style(bgcolor=base.bgcolor) if base is not None else Style()
    return Strip.join(
        [
            strip.crop(0, at),
            Strip([Segment(text, back + style)], wide),
            strip.crop(at + wide, strip.cell_length),
        ]
    )
