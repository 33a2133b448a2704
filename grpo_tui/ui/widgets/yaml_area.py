"""An editable config with highlighting and findings next to their lines.

Built on Textual's TextArea, with control characters made visible so that they cannot reach the terminal.
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
"""Notes with less room than this are left out."""


class YamlArea(TextArea):
    """The text of a config. Posts `Typed` when the user changes it.

    With `elsewhere` the screen handles undo and redo.
    """

    DEFAULT_CSS = """
    YamlArea, YamlArea:focus {
        border: none; padding: 0; background: $background; width: 1fr; height: 1fr;
        scrollbar-size-vertical: 1; scrollbar-size-horizontal: 0;
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "screen.config_back", "form", show=False)]

    class Typed(Message):
        """Posted when the user has changed the text."""

    class Moved(Message):
        """Posted when the cursor has moved."""

    def __init__(self, *, id: str, elsewhere: bool = False) -> None:
        self._colored: list[str] = []
        self._pieces: list[list[Piece]] = []
        self._notes: Mapping[int, tuple[str, str]] = {}
        self._shown, self._elsewhere = "", elsewhere
        super().__init__("", id=id, soft_wrap=False, show_line_numbers=True, highlight_cursor_line=False)
        self.cursor_blink = False  # each blink would be sent over the connection

    # -- the text --------------------------------------------------------------------------------

    @property
    def config_text(self) -> str:
        """The text as it is written to the file."""
        return from_edit(self.text)

    def show_text(self, text: str) -> None:
        """Show this text. Only the part that differs is replaced, so the cursor keeps its place."""
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
        """Replace the lines from `top` to `bottom` (exclusive) with `new`."""
        newline = self.document.newline
        row, column = self.cursor_location
        start: Location = (top, 0)
        stop: Location = (bottom, 0)
        text = newline.join(new) + newline if new else ""
        if bottom >= len(old):  # the last line has no newline
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
        """Post `Typed` for the user's changes but not for the program's."""
        event.stop()
        if self.text != self._shown:
            self._shown = self.text
            self.post_message(self.Typed())

    def on_text_area_selection_changed(self, event: TextArea.SelectionChanged) -> None:
        event.stop()
        self.post_message(self.Moved())

    def go_to(self, line: int) -> None:
        row = min(max(0, line - 1), self.document.line_count - 1)
        self.move_cursor((row, 0), center=True, record_width=True)

    def action_undo(self) -> None:
        """Use the undo history that the screen shares between form and text, if there is one."""
        if self._elsewhere:
            self.screen.run_worker(self.run_action("screen.config_undo"))
        else:
            super().action_undo()

    def action_redo(self) -> None:
        if self._elsewhere:
            self.screen.run_worker(self.run_action("screen.config_redo"))
        else:
            super().action_redo()

    # -- notes -----------------------------------------------------------------------------------

    def note(self, notes: Mapping[int, tuple[str, str]]) -> None:
        """Mark lines (counted from 1) with a severity and a sentence."""
        if notes != self._notes:
            self._notes = notes
            self.refresh()

    @property
    def gutter_width(self) -> int:
        return super().gutter_width + SIGN_W

    # -- painting --------------------------------------------------------------------------------

    def get_line(self, line_index: int) -> Text:
        """Return a highlighted line. Control characters are replaced one for one to keep columns."""
        if self.document.lines != self._colored:
            self._colored = list(self.document.lines)
            self._pieces = pieces(self._colored)
        shown = glyphs(self.document.get_line(line_index))
        if self._plain:
            shown = to_ascii(shown)
        text = Text(shown, end="", no_wrap=True)
        for start, end, role in self._pieces[line_index] if line_index < len(self._pieces) else ():
            text.stylize(self._role(role), start, end)
        return text

    def render_line(self, y: int) -> Strip:
        """Render a line with its note: a sign in the gutter and a sentence after the text."""
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
    """Replace the default background of a strip; other backgrounds are kept."""
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
    """Overwrite cells of a strip with text, keeping the background."""
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
