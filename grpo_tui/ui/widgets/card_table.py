"""The completions of one group side by side: advantage, total, each function, length, duplicates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.cells import cell_len
from textual.binding import BindingType

from grpo_tui.core.text import one_line, told_apart
from grpo_tui.present.formatting import MISSING, digits_apart, figure, fixed, percent, within
from grpo_tui.present.group_card import KINDS, CardRow, GroupCard
from grpo_tui.ui.kit.table import MOVES, CursorList, LazyLines
from grpo_tui.ui.paint import Line, LinePane, Span, headed, pad, ruled, width_of
from grpo_tui.ui.widgets.groups import advantage_sign

NUMBER_W, ADVANTAGE_W, TOTAL_W, TOKENS_W = 4, 7, 8, 8
LEAST_NAME, MOST_NAME = 6, 14
NOTE_W = 6
"""Cells for what is special about a completion: `best`, `= 3`."""
MORE_W = 12
"""Cells that say how many functions have no column: `+15 below`."""


@dataclass(frozen=True, slots=True)
class CardLayout:
    """Where the columns stand: the functions that fit with their cells, and what is left for the text."""

    functions: tuple[tuple[int, str, int], ...]
    hidden: int
    text: int


def card_layout(names: Sequence[str], weights: Sequence[float], width: int) -> CardLayout:
    """Lay the columns out in so many cells."""
    room = width - 1 - NUMBER_W - ADVANTAGE_W - TOTAL_W - TOKENS_W - 3 - NOTE_W
    safe_names = [one_line(name) for name in names]
    headings = [f"{name} ×{weight:g}" for name, weight in zip(safe_names, weights, strict=False)]
    for most in (MOST_NAME, LEAST_NAME + 2, LEAST_NAME):
        if sum(map(_column, headings)) > room:
            headings = list(told_apart(safe_names, most))
    kept: list[tuple[int, str, int]] = []
    for number, heading in enumerate(headings):
        wide = _column(heading)
        if wide > room:
            break
        kept.append((number, heading, wide))
        room -= wide
    while kept and len(kept) < len(names) and room + NOTE_W < MORE_W:  # that there are more is said
        room += kept.pop()[2]
    return CardLayout(tuple(kept), len(names) - len(kept), max(0, room) + NOTE_W)


def _column(heading: str) -> int:
    """Cells of a column: its heading and two blanks."""
    return max(LEAST_NAME, cell_len(heading)) + 2


class GroupTitle(LinePane):
    """The rule over a group: what was asked, and what came of it."""

    card: GroupCard | None = None
    short = ""
    """The prompt without what all of them begin with, for where it does not fit whole."""

    def lines(self, width: int, height: int) -> list[Line]:
        """The group's step, prompt, gold answer, mean, std and kind."""
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
            parts.pop()  # the prompt says more than what the list says too
        whole = card.prompt.strip()
        told = self.short if self.short and cell_len(whole) > room else whole
        prompt = one_line(told, max(8, room)) or "empty prompt"
        parts[1] = [Span(f"“{prompt}”", "strong")]
        return [ruled(parts, width)]


class CardHeading(LinePane):
    """The words over the columns of a group's completions."""

    empty = True
    """Whether no group is shown, so that there are no columns either."""
    names: tuple[str, ...] = ()
    weights: tuple[float, ...] = ()

    def lines(self, width: int, height: int) -> list[Line]:
        if self.empty:
            return []
        laid = card_layout(self.names, self.weights, width)
        at = 1 + NUMBER_W
        words = [(at - 1, "#", "dim")]
        for word, wide in (("adv", ADVANTAGE_W), ("total", TOTAL_W)):
            at += wide
            words.append((at - len(word), word, "dim"))
        for _, name, wide in laid.functions:
            at += wide
            words.append((at - cell_len(name), name, "dim"))
        at += TOKENS_W
        words.append((at - 6, "tokens", "dim"))
        if laid.hidden:
            words.append((at + 4, f"+{laid.hidden} below", "attention"))
        return [headed(words, width)]


class CardTable(CursorList, inherit_bindings=False):
    """Completions with a cursor; `Highlighted` is posted when it moved."""

    BINDINGS: ClassVar[list[BindingType]] = MOVES

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self.card: GroupCard | None = None
        self.names: tuple[str, ...] = ()
        self.weights: tuple[float, ...] = ()
        self._hits: frozenset[int] = frozenset()

    @property
    def count(self) -> int:
        return 0 if self.card is None else len(self.card.rows)

    @property
    def selected(self) -> CardRow | None:
        """The completion under the cursor."""
        return self.card.rows[self.cursor] if self.card is not None and self.cursor < self.count else None

    def show(self, card: GroupCard | None, index: int, hits: frozenset[int] = frozenset()) -> None:
        """Show a group with the cursor on one completion; those a query has found are marked."""
        self.card, self._hits = card, hits
        self.put(max(0, index))

    def action_open(self) -> None:
        """A second click goes on to the text, as enter does."""
        self.screen.run_worker(self.run_action("screen.generations_open"))

    def lines(self, width: int) -> LazyLines | list[Line]:
        card = self.card
        if card is None:
            return []
        laid = card_layout(self.names, self.weights, width)
        cursor, focused, hits = self.cursor, self.has_focus, self._hits
        digits = digits_apart(row.total for row in card.rows)

        def line(number: int) -> Line:
            here = number == cursor
            hit = number in hits
            return row_line(card, card.rows[number], laid, digits, here=here, focused=focused, hit=hit)

        return LazyLines(len(card.rows), line)


def row_line(
    card: GroupCard, row: CardRow, laid: CardLayout, digits: int, *, here: bool, focused: bool, hit: bool
) -> Line:
    """A completion: number, advantage, total, rewards, tokens, and what is special about it."""
    tail = " selected" if here and focused else ""
    sign, role = advantage_sign(row.advantage)
    line = [
        Span("❙" if here else " ", "accent" + tail),
        Span(
            pad(f"{'●' if hit else ''}{row.index + 1}", NUMBER_W - 1, right=True) + " ",
            ("accent" if hit else "dim") + tail,
        ),
        Span(pad(f"{sign}{fixed(abs(row.advantage))}", ADVANTAGE_W - 1, right=True), role + tail),
        Span(pad(within(row.total, TOTAL_W - 1, digits), TOTAL_W, right=True), "strong" + tail),
    ]
    for number, _, wide in laid.functions:
        value = row.rewards[number] if number < len(row.rewards) else None
        line.append(Span(pad(within(value, wide - 1), wide, right=True), "text" + tail))
    line.append(Span(pad(counted(row.tokens), TOKENS_W, right=True), "dim" + tail))
    line.append(Span(" ✂ " if row.truncated else "   ", "attention" + tail))
    words = ["masked"] if row.masked else []
    if row.same_as is not None:
        words.append(f"{'same as' if laid.text >= 12 else '='} {row.same_as + 1}")
    elif card.best is not None and card.kind == "mixed" and row.index == card.best:
        words.append("best")
    elif card.worst is not None and card.kind == "mixed" and row.index == card.worst:
        words.append("worst")
    line.append(Span(pad(" " + ", ".join(words), laid.text), "dim" + tail))
    return line


def counted(tokens: int | None) -> str:
    """A number of tokens, a dash where it is not known."""
    return MISSING if tokens is None else f"{tokens:,}"
