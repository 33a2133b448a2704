"""The list of runs, one line each; fast at any length, for only the visible lines are painted."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rich.cells import cell_len
from textual.events import Click
from textual.message import Message

from grpo_tui.present.formatting import fixed, moment
from grpo_tui.present.glyphs import spark, state_sign
from grpo_tui.ui.paint import Line, LineScroll, Span, headed, pad

if TYPE_CHECKING:
    from grpo_tui.present.runs_view import RunRow


STATE_W, STEP_W, REWARD_W, CURVE_W, SEEN_W = 12, 16, 9, 15, 15
EDGE_W = 3
"""Cursor, mark and a blank, before the columns."""
HEADINGS = {
    "state": ("state", False, 2),
    "name": ("run", False, 0),
    "model": ("model", False, 0),
    "step": ("step", True, 0),
    "reward": ("reward", True, 0),
    "curve": ("over time", False, 2),
    "seen": ("last sign", False, 2),
    "config": ("config", False, 0),
}
"""Column to its heading, whether it stands at the right edge, and how far it is set in."""


class RunsTable(LineScroll):
    """Runs with a cursor and marks; `Opened` is posted for a double click, `Chosen` when the cursor moved."""

    class Opened(Message):
        """A run was opened."""

        def __init__(self, path: Path) -> None:
            super().__init__()
            self.path = path

    class Chosen(Message):
        """Another run is under the cursor."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._rows: tuple[RunRow, ...] = ()
        self._now = 0.0
        self._columns: tuple[int, dict[str, int]] = (-1, {})
        self._known: dict[Path, tuple[tuple[object, ...], Line]] = {}
        self.marked: frozenset[Path] = frozenset()
        self.cursor = 0

    @property
    def selected(self) -> RunRow | None:
        """The row under the cursor."""
        return self._rows[self.cursor] if self._rows else None

    def show(self, rows: tuple[RunRow, ...], now: float, marked: frozenset[Path] = frozenset()) -> None:
        """Show these runs; the cursor stays with its run wherever that moves."""
        chosen = self.selected.path if self.selected else None
        self._rows, self._now, self.marked = rows, now, marked
        self._columns = (-1, {})
        places = [i for i, row in enumerate(rows) if row.path == chosen]
        in_sight = self._in_sight()
        self.cursor = places[0] if places else min(self.cursor, max(0, len(rows) - 1))
        self.changed()
        if in_sight:
            self._keep_in_sight()

    def move(self, by: int) -> None:
        """Move the cursor."""
        if not self._rows:
            return
        self.cursor = min(len(self._rows) - 1, max(0, self.cursor + by))
        self._keep_in_sight()
        self.changed()
        self.post_message(self.Chosen())

    def _in_sight(self) -> bool:
        top, height = self.scroll_offset.y, self.scrollable_content_region.height
        return top <= self.cursor < top + height

    def _keep_in_sight(self) -> None:
        """Scroll just as far as the cursor needs."""
        top, height = self.scroll_offset.y, self.scrollable_content_region.height
        if self.cursor < top:
            self.scroll_to(y=self.cursor, animate=False)
        elif height and self.cursor >= top + height:
            self.scroll_to(y=self.cursor - height + 1, animate=False)

    def key_down(self) -> None:
        """Arrow keys move the cursor, not the view."""
        self.move(1)

    def key_up(self) -> None:
        """Arrow keys move the cursor, not the view."""
        self.move(-1)

    def key_pagedown(self) -> None:
        """A page on."""
        self.move(max(1, self.size.height - 1))

    def key_pageup(self) -> None:
        """A page back."""
        self.move(-max(1, self.size.height - 1))

    def key_home(self) -> None:
        """The first run."""
        self.move(-len(self._rows))

    def key_end(self) -> None:
        """The last run."""
        self.move(len(self._rows))

    def on_click(self, event: Click) -> None:
        """A click chooses, a second one opens."""
        row = event.y + self.scroll_offset.y
        if row >= len(self._rows):
            return
        again = row == self.cursor and event.chain > 1
        self.cursor = row
        self.changed()
        self.post_message(self.Chosen())
        if again and self.selected is not None:
            self.post_message(self.Opened(self.selected.path))

    def lines(self, width: int) -> list[Line]:
        """A line per run; those that did not change are not made again."""
        if self._columns[0] != width:
            self._columns = (width, columns_for(width, self._rows))
        columns = self._columns[1]
        widths, before = tuple(columns.items()), self._known
        known: dict[Path, tuple[tuple[object, ...], Line]] = {}
        lines: list[Line] = []
        for number, row in enumerate(self._rows):
            here, marked = number == self.cursor, row.path in self.marked
            seen = moment(row.seen_at, self._now)
            # The row itself stands in the key: while it is held, no other object can have its id.
            key = (id(row), row, here, marked, seen, width, widths)
            held = before.get(row.path)
            if held is not None and held[0][0] == key[0] and held[0][2:] == key[2:]:
                line = held[1]
            else:
                line = self._line(row, seen, columns, here, marked, width)
            known[row.path] = (key, line)
            lines.append(line)
        self._known = known
        return lines

    def _line(
        self, row: RunRow, seen: str, columns: dict[str, int], here: bool, marked: bool, whole: int
    ) -> Line:
        sign, role = state_sign(row.state)
        tail = " selected" if here else ""
        total = f"{row.total_steps:,}" if row.total_steps else ""
        step = f"{row.step:,} of {total}" if total else f"{row.step:,}" if row.step else ""
        cells = {
            "state": (f"{sign} {row.state}", role, False),
            "name": (row.name, "strong" if row.live or here else "text", False),
            "model": (row.trouble or row.model, "bad" if row.trouble else "dim", False),
            "step": (step, "text", True),
            "reward": (fixed(row.reward) if row.reward is not None else "", "strong", True),
            "curve": ("  " + spark(row.curve, CURVE_W - 4), "line", False),
            "seen": (f"  {seen}", "dim", False),
            "config": (row.config, "dim", False),
        }
        line = [
            Span("❙" if here else " ", "accent" + tail),
            Span("● " if marked else "  ", "attention" + tail),
        ]
        for name, width in columns.items():
            text, span_role, right = cells[name]
            line.append(Span(pad(text, width - 1, right=right) + " ", span_role + tail))
        rest = whole - EDGE_W - sum(columns.values())
        return [*line, Span(" " * max(0, rest), "text" + tail)]


def columns_for(width: int, rows: tuple[RunRow, ...]) -> dict[str, int]:
    """Width of each column that has room, least needed ones left out first."""
    longest = max((cell_len(row.name) for row in rows), default=8) + 2
    models = max((cell_len(row.trouble or row.model) for row in rows), default=0) + 2
    configs = max((cell_len(row.config) for row in rows), default=0) + 2
    columns = {
        "state": STATE_W,
        "name": max(8, min(longest, max(14, width // 4))),
        "model": min(models, max(12, width // 4)) if models > 2 else 0,
        "step": STEP_W,
        "reward": REWARD_W,
        "curve": CURVE_W,
        "seen": SEEN_W,
        "config": min(configs, 28) if configs > 2 else 0,
    }
    for name in ("config", "model", "curve", "seen", "step", "reward"):
        if sum(columns.values()) + EDGE_W <= width:
            break
        columns[name] = 0
    return {name: cells for name, cells in columns.items() if cells}


def heading(columns: dict[str, int], width: int) -> Line:
    """A rule with each column's name over it."""
    words, at = [], EDGE_W
    for name, cells in columns.items():
        word, right, lead = HEADINGS[name]
        words.append(
            (at + cells - 1 - len(word) if right else at + lead, word, "title" if name == "name" else "dim")
        )
        at += cells
    return headed(words, width)
