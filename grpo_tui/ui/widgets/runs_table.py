"""The list of runs, one line each, and the details of the selected one."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from rich.cells import cell_len

from grpo_tui.core.text import one_line, shell_word, wrapped
from grpo_tui.present.formatting import DOING, figure, from_here, moment
from grpo_tui.present.glyphs import spark, state_sign
from grpo_tui.present.run_tree import branch
from grpo_tui.ui.kit.table import Column, Table, cells, fit
from grpo_tui.ui.paint import Line, LinePane, Span, fitting, pad, ruled

if TYPE_CHECKING:
    from grpo_tui.present.runs_view import RunRow

LABEL_W = 13
MOST_CHECKPOINTS = 8
CURVE_W, DETAIL_CURVE_W = 15, 48


class RunDetail(LinePane):
    """Details of the selected run, under the list."""

    _row: RunRow | None = None
    _now = 0.0

    def show(self, row: RunRow | None, now: float) -> None:
        self._row, self._now = row, now
        if self.display:
            self.changed()

    def lines(self, width: int, height: int) -> list[Line]:
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
        if row.forked_from is not None:
            place = one_line(from_here(row.forked_from.parent))
            parent = pad(f"{one_line(row.forked_from.name)} of {place}", width - LABEL_W)
            lines.append(_labelled("forked from", [Span(parent)]))
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


class RunsTable(Table["RunRow"]):
    """Runs with a cursor and marks."""

    ALWAYS_LIT = True

    _now = 0.0
    marked: frozenset[Path] = frozenset()

    def show(self, rows: tuple[RunRow, ...], now: float, marked: frozenset[Path] = frozenset()) -> None:
        """Show these runs. The cursor stays on its run even if that moves."""
        chosen = self.selected.path if self.selected else None
        self.rows, self._now, self.marked = rows, now, marked
        places = [i for i, row in enumerate(rows) if row.path == chosen]
        top = self.scroll_offset.y
        in_sight = top <= self.cursor < top + self.scrollable_content_region.height
        self.cursor = places[0] if places else min(self.cursor, max(0, len(rows) - 1))
        if in_sight:
            self.put(self.cursor)
        else:
            self.changed()

    def action_move(self, by: int) -> None:
        """Move the cursor. Unlike in other lists, it starts from its own row even when out of view."""
        if self.rows:
            self.put(self.cursor + by)
            self.moved()

    def columns(self, width: int) -> list[Column[RunRow]]:
        # The same width as for the heading, which does not know whether a scroll bar is shown.
        room = self.outer_size.width - 1
        columns = run_columns(self.rows, room, self._now, self.marked, self.selected)
        return [*columns, Column("", max(0, width - 1 - cells(columns)), lambda row: Span(""))]


def run_columns(
    rows: Sequence[RunRow],
    width: int,
    now: float = 0.0,
    marked: frozenset[Path] = frozenset(),
    chosen: RunRow | None = None,
) -> list[Column[RunRow]]:
    """Return the columns that fit beside the cursor. `chosen` is the row under it."""
    names = max((cell_len(branch(row.generation) + row.name) for row in rows), default=8) + 2
    models = max((cell_len(row.trouble or row.model) for row in rows), default=0) + 2
    configs = max((cell_len(row.config) for row in rows), default=0) + 2
    name_w = max(8, min(names, max(14, width // 4)))
    model_w = min(models, max(12, width // 4)) if models > 2 else 0
    config_w = min(configs, 28) if configs > 2 else 0

    def name(row: RunRow) -> Span:
        return Span(branch(row.generation) + row.name, "strong" if row.live or row is chosen else "text")

    def seen(row: RunRow) -> Span:
        return Span(f"  {moment(row.seen_at, now)}", "dim")

    return fit(
        [
            Column("", 2, lambda row: Span("●" if row.path in marked else "", "attention")),
            Column("  state", 12, _state, gap=1),
            Column("run", name_w, name, gap=1, role="title"),
            Column("model", model_w, _model, gap=1, priority=5),
            Column("step", 16, _step, right=True, gap=1, priority=2),
            Column("reward", 9, _reward, right=True, gap=1, priority=1),
            Column("  over time", CURVE_W, _curve, gap=1, priority=4),
            Column("  heartbeat", 15, seen, gap=1, priority=3),
            Column("config", config_w, lambda row: Span(row.config, "dim"), gap=1, priority=6),
        ],
        width - 1,
    )


def _state(row: RunRow) -> Span:
    sign, role = state_sign(row.state)
    return Span(f"{sign} {row.state}", role)


def _model(row: RunRow) -> Span:
    return Span(row.trouble, "bad") if row.trouble else Span(row.model, "dim")


def _step(row: RunRow) -> Span:
    of = f" of {row.total_steps:,}" if row.total_steps else ""
    return Span(f"{row.step:,}{of}" if of or row.step else "")


def _reward(row: RunRow) -> Span:
    return Span("" if row.reward is None else figure(row.reward), "strong")


def _curve(row: RunRow) -> Span:
    return Span("  " + _small_curve(row.curve), "line")


@lru_cache(maxsize=1024)
def _small_curve(values: tuple[float | None, ...]) -> str:
    """Return a sparkline. Cached: it is most of a row's cost, and few runs change between refreshes."""
    return spark(values, CURVE_W - 4)
