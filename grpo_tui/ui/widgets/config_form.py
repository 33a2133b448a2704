"""The form of Config: groups of fields, each with its value and origin.

Only visible lines are laid out.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from rich.cells import cell_len
from textual.binding import BindingType
from textual.events import Blur
from textual.geometry import Region
from textual.message import Message
from textual.widgets import Input

from grpo_tui.core.findings import Fix
from grpo_tui.core.text import one_line, shorten, wrapped
from grpo_tui.present.config_view import FieldHelp, FieldRow, FormRow, GroupRow, OpenConfig
from grpo_tui.present.config_yaml import from_edit, to_edit
from grpo_tui.present.formatting import path_text, plural
from grpo_tui.ui.kit.table import MOVES, CursorList, LazyLines
from grpo_tui.ui.paint import Line, LinePane, LineScroll, Span, fitting, pad, ruled, signed, spread, width_of
from grpo_tui.ui.widgets.yaml_area import SIGNS

ORIGIN_W = 9
"""Cells of `● edited` and one space."""
LEAST_VALUE = 16
WIDEST_NAME, WIDEST_VALUE = 38, 48
ORIGINS = {
    "file": ("● file", "text"),
    "preset": ("preset", "dim"),
    "default": ("default", "dim"),
    "set": ("● --set", "accent"),
    "edited": ("● edited", "accent"),
}
"""Label and color role of each origin of a value."""


class ConfigForm(CursorList, inherit_bindings=False):
    """Groups and fields with a cursor."""

    BINDINGS: ClassVar[list[BindingType]] = MOVES

    _rows: Sequence[FormRow] = ()
    waits: Sequence[Line] = ()
    words = ""

    @property
    def count(self) -> int:
        return len(self._rows)

    @property
    def chosen(self) -> FormRow | None:
        return self._rows[self.cursor] if self.cursor < len(self._rows) else None

    @property
    def name_w(self) -> int:
        """Width of the name column, including the cursor sign."""
        width = self.size.width - 1
        longest = max((cell_len(r.name) for r in self._rows if isinstance(r, FieldRow)), default=20)
        return 2 + max(12, min(longest + 1, WIDEST_NAME, width - 4 - ORIGIN_W - LEAST_VALUE))

    def show(self, rows: Sequence[FormRow], keep: str | None = None) -> None:
        """Show these rows. The cursor moves to the row named `keep`, or stays on its own."""
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
        """Move the cursor. On the first field, the group title above it is scrolled into view too."""
        super().put(place)
        if self.cursor == 1 and self.scroll_offset.y == 1:
            self.scroll_to(y=0, animate=False, force=True)

    def action_open(self) -> None:
        self.screen.run_worker(self.run_action("screen.config_edit"))

    def lines(self, width: int) -> Sequence[Line]:
        rows = self._rows
        if not rows:
            return self.waits
        width = self.size.width - 1
        # Capture everything a line depends on, because lines are compared with the previous ones.
        cursor, focused, name_w, words = self.cursor, self.has_focus, self.name_w, self.words

        def line(place: int) -> Line:
            row = rows[place]
            here = place == cursor and focused
            if isinstance(row, GroupRow):
                return group_line(row, width, here=here, at=place == cursor, searched=bool(words))
            return field_line(row, width, name_w, here=here, at=place == cursor)

        return LazyLines(len(rows), line)


def _middle(name: str, width: int) -> str:
    """Truncate a name in the middle: long names differ at their ends."""
    if cell_len(name) <= width:
        return name
    end = (width - 1) // 2
    return f"{shorten(name, width - end)}{name[-end:]}"


def _label(row: FormRow) -> str:
    return row.name if isinstance(row, FieldRow) else f"─ {row.title}"


def group_line(row: GroupRow, width: int, *, here: bool, at: bool, searched: bool) -> Line:
    """Return the title of a group with the number of fields shown."""
    if row.shown == row.all:
        count = f"{row.all}"
    else:
        count = f"{row.shown} of {row.all}" + ("" if searched or not here else ", enter shows all")
    role = "title selected" if here else "title"
    line = ruled([[Span(row.title, role)], [Span(count, "dim")]], width)
    return [Span("❙ ", "accent" if here else "dim"), *line[1:]] if at else line


def field_line(row: FieldRow, width: int, name_w: int, *, here: bool, at: bool) -> Line:
    """Return name, value, origin, and a sign if there is a finding."""
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


class FormField(Input):
    """Input placed over the value being edited, otherwise hidden."""

    DEFAULT_CSS = """
    FormField, FormField:focus {
        layer: above; position: absolute; display: none; height: 1; border: none; padding: 0;
        background: $panel; color: $strong;
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [("escape", "give_up", "back")]

    class Left(Message):
        """Posted when editing is canceled."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id, select_on_focus=False)
        self.name_edited = ""

    @property
    def text(self) -> str:
        return from_edit(self.value)

    @property
    def refusal(self) -> str:
        """Why the text is not a valid value; empty when it is."""
        from grpo_tui.present.config_evaluate import refusal

        return refusal(self.name_edited, self.text) if self.name_edited else ""

    def open(self, name: str, text: str, region: Region) -> None:
        self.name_edited = name
        self.styles.offset = (region.x, region.y)
        self.styles.width = region.width
        self.value = to_edit(text)
        self.cursor_position = len(self.value)
        self.display = True
        self.focus()

    def close(self) -> None:
        self.name_edited = ""
        self.display = False

    def on_blur(self, event: Blur) -> None:
        if self.name_edited:
            self.post_message(self.Left())

    def action_give_up(self) -> None:
        self.post_message(self.Left())


class ConfigSummary(LinePane):
    """File name, whether it is saved, findings; at the right what is running."""

    config: OpenConfig | None = None
    busy: Line = ()
    state: Line = ()
    """When the last full check was."""
    opening: str | None = None
    """Name of the file being opened. Empty for none; None before a file was requested."""

    def lines(self, width: int, height: int) -> list[Line]:
        config = self.config
        if config is None and self.opening is None:
            return []
        if config is None:
            words = f" Opening {one_line(self.opening)} …" if self.opening else " No config is open."
            return [[Span(words, "strong")]]
        path = config.snapshot.path
        named = path if config.snapshot.saved is not None else Path(path.name)
        title = path_text(named, max(12, width // 2 - 8))
        left: list[tuple[int, Line]] = [(0, [Span(f" {title}", "strong")])]
        if config.unsaved:
            left.append((1, [Span("● unsaved", "attention")]))
        right: list[Span] = [*self.busy] or self._found(config)
        left += [(2, self._found(config))] if self.busy else [(3, self.state)] if self.state else []
        return [spread(fitting(left, width - width_of(right) - 1), right, width)]

    def _found(self, config: OpenConfig) -> list[Span]:
        if config.broken is not None:
            line = f" line {config.broken.line}" if config.broken.line is not None else ""
            return [Span(f"✗{line} cannot be read  " if line else "✗ cannot be read  ", "bad")]
        errors, warnings = config.counts()
        found: list[Span] = []
        if errors:
            found.append(Span(f"✗ {plural(errors, 'error')}  ", "bad", "screen.config_findings"))
        if warnings:
            found.append(Span(f"⚠ {plural(warnings, 'warning')}  ", "attention", "screen.config_findings"))
        if not config.whole:
            found.append(Span("checking …  ", "dim"))
        return found or [Span("✓ no errors in the file  ", "good")]


class HelpStrip(LineScroll, can_focus=False):
    """Help for the selected field: TRL's description, our advice, and findings."""

    _help: FieldHelp | None = None
    _refusal = ""

    def show(self, help_: FieldHelp | None, refusal: str = "") -> None:
        """Show this help. `refusal` is why the text being typed is invalid."""
        if (help_, refusal) != (self._help, self._refusal):
            self._help, self._refusal = help_, refusal
            self.scroll_to(y=0, animate=False, force=True)
            self.changed()

    def lines(self, width: int) -> list[Line]:
        shown = self._help
        if shown is None:
            refused = _marked("✗", "bad", self._refusal, max(10, width - 4)) if self._refusal else []
            return [ruled([[Span("help", "title")]], width), *refused]
        parts: list[Line] = [[Span(one_line(shown.name), "title")]]
        parts += [[Span(one_line(part), "dim")] for part in shown.facts]
        fix = next((finding.fix for finding in shown.findings if finding.fix is not None), None)
        right = [Span("f ", "key", "screen.config_fix"), Span(fix_words(fix), "strong")] if fix else []
        lines: list[Line] = [ruled(parts, width, right)]
        room = max(10, width - 4)
        if self._refusal:
            lines += _marked("✗", "bad", self._refusal, room)
        for finding in shown.findings:
            lines += _marked(*SIGNS[finding.severity], finding.message, room)
        for sentence in shown.advice:
            lines += _marked("▸", "accent", sentence, room)
        if shown.help:
            lines += _marked(" ", "dim", shown.help, room, "dim")
        return lines


def fix_words(fix: Fix) -> str:
    """Describe a fix: the line as it will be."""
    from grpo_tui.present.config_evaluate import shown

    return (
        f"remove {one_line(fix.field)}" if fix.value is None else f"{one_line(fix.field)}: {shown(fix.value)}"
    )


def _marked(sign: str, role: str, text: str, room: int, text_role: str = "text") -> list[Line]:
    return signed(sign, role, wrapped(one_line(text), room), text_role)


class PlanStrip(LinePane):
    """What the config means in completions, steps, time and memory."""

    _plan: Sequence[Sequence[tuple[int, Line]]] = ()

    def show(self, plan: Sequence[Sequence[tuple[int, Line]]]) -> None:
        """Show these lines. Each is a list of parts with the order in which they are dropped."""
        taller = len(plan) != len(self._plan)
        self._plan = plan
        self.changed(layout=taller)

    def lines(self, width: int, height: int) -> list[Line]:
        lines: list[Line] = [ruled([[Span("plan", "title")]], width)]
        return lines + [[Span(" "), *fitting(row, width - 2)] for row in self._plan]
