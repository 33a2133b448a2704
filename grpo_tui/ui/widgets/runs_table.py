"""The list of runs, one line each; fast at any length, for only the visible lines are painted."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from rich.cells import cell_len
from textual.binding import BindingType

from grpo_tui.core.text import one_line, shell_word, wrapped
from grpo_tui.present.formatting import DOING, figure, from_here, moment
from grpo_tui.present.glyphs import spark, state_sign
from grpo_tui.ui.cursor_list import MOVES, CursorList
from grpo_tui.ui.paint import Line, LinePane, Span, fitting, headed, pad, ruled

if TYPE_CHECKING:
    from grpo_tui.present.runs_view import RunRow

LABEL_W = 13
MOST_CHECKPOINTS = 8
DETAIL_CURVE_W = 48


class RunDetail(LinePane):
    """A few lines under the list."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._row: RunRow | None = None
        self._now = 0.0

    def show(self, row: RunRow | None, now: float) -> None:
        """Tell of this run."""
        self._row, self._now = row, now
        if self.display:
            self.changed()

    def lines(self, width: int, height: int) -> list[Line]:
        """What happened first, then its course, its folder, the way on."""
        row = self._row
        if row is None:
            return []
        began = f"began {_when(row.started_at)}   " if row.started_at else ""
        right = [Span(f"{began}{moment(row.seen_at, self._now)}", "dim")]
        lines: list[Line] = [ruled([[Span(row.name, "title")], _standing(row)], width, right)]
        lines += _story(row, width)
        if row.reward is not None:
            lines.append(_course(row, width))
        lines.append(_labelled("checkpoints", [_checkpoints(row)]))
        parts = [
            [Span(text, "text")]
            for text in (_typed(row.model_path), _typed(row.config_path), one_line(from_here(row.path)))
            if text
        ]
        lines.append(_labelled("from", fitting(list(enumerate(parts)), width - LABEL_W)))
        lines.append(_way_on(row, width))
        return lines[:height]


def _standing(row: RunRow) -> Line:
    sign, role = state_sign(row.state)
    step = f" at step {row.step:,}" if row.step else ""
    total = f" of {row.total_steps:,}" if row.step and row.total_steps else ""
    return [Span(f"{sign} {row.state}", role), Span(step + total, "text")]


def _story(row: RunRow, width: int) -> list[Line]:
    """One sentence of what happened, in at most two lines."""
    if row.trouble or row.cause:
        role = "bad" if row.state in ("failed", "crashed", "broken") else "attention"
        rows = wrapped(row.trouble or row.cause, width - 2)
        if len(rows) > 2:
            rows = [rows[0], pad(" ".join(rows[1:]), width - 2)]
        return [[Span(f" {text}", role)] for text in rows]
    words = {
        "finished": "It completed all its steps.",
        "stopped": "It was stopped.",
        "paused": "It is paused; memory stays allocated.",
        "stalled": "It is running but has made no progress for a while.",
    }.get(row.state, f"It is {DOING[row.phase]} now." if row.phase in DOING else f"It is {row.state}.")
    again = f" Start number {row.attempt}." if row.attempt > 1 else ""
    return [[Span(f" {words}{again}", "text")]]


def _course(row: RunRow, width: int) -> Line:
    known = [value for value in row.curve if value is not None]
    line = [Span(f"{figure(known[0])} → " if known else "", "dim"), Span(figure(row.reward), "strong")]
    line.append(Span("   " + spark(row.curve, min(DETAIL_CURVE_W, max(0, width - 40))), "line"))
    return _labelled("reward", line)


def _checkpoints(row: RunRow) -> Span:
    if not row.checkpoints and not row.torn:
        return Span("none", "dim")
    shown = row.checkpoints[-MOST_CHECKPOINTS:]
    more = len(row.checkpoints) - len(shown)
    text = f"{more} older, " if more else ""
    text += ", ".join(f"{step:,}" for step in shown)
    if row.torn:
        text += f"{'; ' if shown else ''}not complete: {', '.join(f'{step:,}' for step in row.torn[-3:])}"
    return Span(text)


def _typed(path: str) -> str:
    return from_here(Path(path)) if path.startswith("/") else path


def _way_on(row: RunRow, width: int) -> Line:
    path = from_here(row.path)
    if row.trouble:
        return []
    if row.live or row.state == "finished" or not row.checkpoints:
        line = [Span("enter", "key", "screen.runs_open"), Span(" opens it")]
        if row.ended and row.state != "finished":
            line.append(Span("; no complete checkpoint to resume from", "dim"))
            return _labelled("next step", line)
        word = "attach" if row.live else "compare"
        return _labelled("next step", [*line, Span(f"   grpo-tui {word} {shell_word(path)}", "dim")])
    from grpo_tui.present.runs_view import resume_command

    line = [Span("R", "key", "screen.runs_resume"), Span(f" resumes from checkpoint-{row.checkpoints[-1]}")]
    return _labelled("next step", [*line, Span(f"   {resume_command(path)}", "dim")])


def _labelled(label: str, line: Line) -> Line:
    return [Span(" " + pad(label, LABEL_W - 1), "dim"), *line]


def _when(at: float) -> str:
    return time.strftime("%d %b %H:%M", time.localtime(at))


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
    "seen": ("heartbeat", False, 2),
    "config": ("config", False, 0),
}
"""Column to its heading, whether it stands at the right edge, and how far it is set in."""


class RunsTable(CursorList, inherit_bindings=False):
    """Runs with a cursor and marks; `Highlighted` is posted when the cursor moved."""

    BINDINGS: ClassVar[list[BindingType]] = MOVES

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._rows: tuple[RunRow, ...] = ()
        self._now = 0.0
        self._columns: tuple[int, dict[str, int]] = (-1, {})
        self._known: dict[Path, tuple[tuple[object, ...], Line]] = {}
        self.marked: frozenset[Path] = frozenset()

    @property
    def count(self) -> int:
        return len(self._rows)

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
        top = self.scroll_offset.y
        in_sight = top <= self.cursor < top + self.scrollable_content_region.height
        self.cursor = places[0] if places else min(self.cursor, max(0, len(rows) - 1))
        self.changed()
        if in_sight:
            self.put(self.cursor)

    def action_move(self, by: int) -> None:
        """Move the cursor, from where it is."""
        if self._rows:
            self.put(self.cursor + by)
            self.moved()

    def lines(self, width: int) -> list[Line]:
        """A line per run; those that did not change are not made again."""
        if self._columns[0] != width:
            # As the heading above, which does not know whether a scrollbar takes a cell.
            self._columns = (width, columns_for(self.outer_size.width - 1, self._rows))
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
            "reward": (figure(row.reward) if row.reward is not None else "", "strong", True),
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
