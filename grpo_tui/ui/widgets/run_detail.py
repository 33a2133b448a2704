"""What happened to the run under the cursor: its state in a sentence, its course, and the way on."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from grpo_tui.core.text import one_line, shell_word, wrapped
from grpo_tui.present.formatting import DOING, fixed, from_here, moment
from grpo_tui.present.glyphs import spark, state_sign
from grpo_tui.ui.paint import Line, LinePane, Span, fitting, pad, ruled

if TYPE_CHECKING:
    from grpo_tui.present.runs_view import RunRow

LABEL_W = 13
MOST_CHECKPOINTS = 8
CURVE_W = 48


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
        "finished": "It made all its steps.",
        "stopped": "It was stopped.",
        "paused": "It is paused; memory is kept.",
        "stalled": "It lives, but has made no progress for long.",
    }.get(row.state, f"It is {DOING[row.phase]} now." if row.phase in DOING else f"It is {row.state}.")
    again = f" This is its start number {row.attempt}." if row.attempt > 1 else ""
    return [[Span(f" {words}{again}", "text")]]


def _course(row: RunRow, width: int) -> Line:
    known = [value for value in row.curve if value is not None]
    line = [Span(f"{fixed(known[0])} → " if known else "", "dim"), Span(fixed(row.reward), "strong")]
    line.append(Span("   " + spark(row.curve, min(CURVE_W, max(0, width - 40))), "line"))
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
            return _labelled("way on", line)
        return _labelled("way on", [*line, Span(f"   grpo-tui attach {shell_word(path)}", "dim")])
    from grpo_tui.present.runs_view import resume_command

    line = [Span("r", "key", "screen.runs_resume"), Span(f" resumes from checkpoint-{row.checkpoints[-1]}")]
    return _labelled("way on", [*line, Span(f"   {resume_command(path)}", "dim")])


def _labelled(label: str, line: Line) -> Line:
    return [Span(" " + pad(label, LABEL_W - 1), "dim"), *line]


def _when(at: float) -> str:
    return time.strftime("%d %b %H:%M", time.localtime(at))
