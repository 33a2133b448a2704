"""The completions of one group side by side: advantage, total, each reward, length, duplicates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from rich.cells import cell_len

from grpo_tui.core.text import one_line, told_apart
from grpo_tui.present.formatting import MISSING, digits_apart, figure, percent, within
from grpo_tui.present.group_card import KINDS, CardRow, GroupCard
from grpo_tui.ui.kit.table import Column, Table, cells, fit, heading
from grpo_tui.ui.paint import Line, LinePane, Span, ruled, width_of
from grpo_tui.ui.widgets.groups import advantage_cell

TOTAL_W = 8
LEAST_NAME, MOST_NAME = 6, 14
NOTE_W = 6
"""Cells for notes on a completion: `best`, `= 3`."""
MORE_W = 12
"""Cells for the number of functions without a column: `+15 below`."""


def card_columns(
    names: Sequence[str],
    weights: Sequence[float],
    width: int,
    card: GroupCard | None = None,
    hits: frozenset[int] = frozenset(),
) -> tuple[list[Column[CardRow]], int]:
    """Return the columns for a width, and the number of functions without one. `hits` are query matches."""
    digits = digits_apart(row.total for row in card.rows) if card is not None else 2

    def number(row: CardRow) -> Span:
        hit = row.index in hits
        return Span(f"{'●' if hit else ''}{row.index + 1}", "accent" if hit else "dim")

    def total(row: CardRow) -> Span:
        return Span(within(row.total, TOTAL_W - 1, digits), "strong")

    before: list[Column[CardRow]] = [
        Column("#", 4, number, right=True, gap=1),
        Column("adv", 6, lambda row: advantage_cell(row.advantage), right=True),
        Column("total", TOTAL_W, total, right=True),
    ]
    after: list[Column[CardRow]] = [
        Column("tokens", 8, lambda row: Span(counted(row.tokens), "dim"), right=True),
        Column("", 3, lambda row: Span(" ✂" if row.truncated else "", "attention")),
    ]
    room = width - 2
    rows = card.rows if card is not None else ()
    functions = _functions(names, weights, room - NOTE_W - cells(before) - cells(after), rows)
    columns = [*before, *functions, *after]
    kept = fit(columns, room - NOTE_W)
    if len(kept) < len(columns):  # leave room for the note about hidden ones
        kept = fit(columns, room - MORE_W)
    note_w, hidden = max(NOTE_W, room - cells(kept)), len(columns) - len(kept)

    def note(row: CardRow) -> Span:
        return Span(" " + ", ".join(_notes(row, card, "same as" if note_w >= MORE_W else "=")), "dim")

    more = f" +{hidden} below" if hidden else ""
    return [*kept, Column(more, note_w, note, role="attention")], hidden


def _functions(
    names: Sequence[str], weights: Sequence[float], room: int, rows: Sequence[CardRow]
) -> list[Column[CardRow]]:
    """Return a column per function. Names are shortened before a column is dropped, the last one first."""
    safe_names = [one_line(name) for name in names]
    headings = [  # a function that the run no longer has has no weight
        name if math.isnan(weight) else f"{name} ×{weight:g}"
        for name, weight in zip(safe_names, weights, strict=False)
    ]
    for most in (MOST_NAME, LEAST_NAME + 2, LEAST_NAME):
        if sum(map(_width, headings)) > room:
            headings = list(told_apart(safe_names, most))
    columns = []
    for k, name in enumerate(headings):
        digits = digits_apart(row.rewards[k] for row in rows if k < len(row.rewards))
        cell = partial(_reward, k, _width(name) - 1, digits)
        columns.append(Column(name, _width(name), cell, right=True, priority=k + 1))
    return columns


def _width(heading: str) -> int:
    return max(LEAST_NAME, cell_len(heading)) + 2


def _reward(k: int, room: int, digits: int, row: CardRow) -> Span:
    return Span(within(row.rewards[k] if k < len(row.rewards) else None, room, digits))


def _notes(row: CardRow, card: GroupCard | None, same: str) -> list[str]:
    words = ["masked"] if row.masked else []
    if row.same_as is not None:
        words.append(f"{same} {row.same_as + 1}")
    elif card is not None and card.kind == "mixed" and row.index in (card.best, card.worst):
        words.append("best" if row.index == card.best else "worst")
    return words


class GroupTitle(LinePane):
    """The title of a group: its prompt and figures."""

    card: GroupCard | None = None
    short = ""
    """The prompt without the beginning that all prompts share, used when the prompt does not fit."""

    def lines(self, width: int, height: int) -> list[Line]:
        card = self.card
        if card is None:
            return [ruled([[Span("group", "title")]], width)]
        word, role = KINDS[card.kind]
        mode = "" if card.mode == "train" else f" {card.mode}"
        parts: list[Line] = [[Span(f"step {card.step:,}{mode}", "title")], []]
        if card.gold is not None:
            parts.append([Span("gold ", "dim"), Span(one_line(card.gold, 24), "good")])
        parts.append([Span(word, role)])
        if width >= 96:
            parts.append([Span("mean ", "dim"), Span(figure(card.mean))])
            parts.append([Span("group std ", "dim"), Span(figure(card.spread))])
        if card.distinct < 1:
            parts.append([Span("distinct ", "dim"), Span(percent(card.distinct))])
        if card.truncated:
            parts.append([Span(f"✂ {card.truncated} truncated", "attention")])
        wanted = min(40, cell_len(card.prompt.strip()) + 2)
        while (room := width - 4 - sum(4 + width_of(part) for part in parts)) < wanted and len(parts) > 3:
            parts.pop()  # the prompt matters more than figures the list has too
        whole = card.prompt.strip()
        told = self.short if self.short and cell_len(whole) > room else whole
        prompt = one_line(told, max(8, room)) or "empty prompt"
        parts[1] = [Span(f"“{prompt}”", "strong")]
        return [ruled(parts, width)]


class CardTable(Table[CardRow]):
    """The completions, with a cursor."""

    OPENS = "screen.generations_open"

    card: GroupCard | None = None
    names: tuple[str, ...] = ()
    weights: tuple[float, ...] = ()
    _hits: frozenset[int] = frozenset()

    def show(self, card: GroupCard | None, index: int, hits: frozenset[int] = frozenset()) -> None:
        self.card, self._hits = card, hits
        self.rows = card.rows if card is not None else ()
        self.put(max(0, index))

    def columns(self, width: int) -> list[Column[CardRow]]:
        return card_columns(self.names, self.weights, width, self.card, self._hits)[0]

    def heading(self, width: int) -> Line:
        return heading(self.columns(width), width, edge=2) if self.card is not None else ()


def counted(tokens: int | None) -> str:
    """Return a number of tokens as text; a dash if unknown."""
    return MISSING if tokens is None else f"{tokens:,}"
