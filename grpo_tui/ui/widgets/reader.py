"""The selected completion in full (folded, compared or raw), what the functions said, and the prompt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from grpo_tui.core.text import one_line
from grpo_tui.present.formatting import fixed, plural, within
from grpo_tui.present.group_card import CardRow, GroupCard
from grpo_tui.present.reading import compared, laid_out, raw, structured
from grpo_tui.ui.paint import Line, LinePane, LineScroll, Span, ruled, spans
from grpo_tui.ui.widgets.card_table import card_columns
from grpo_tui.ui.widgets.groups import advantage_sign

View = Literal["text", "diff", "raw", "prompt"]
WORDS = {"text": "completion", "diff": "completion", "raw": "completion, raw", "prompt": "prompt"}


@dataclass(frozen=True, slots=True)
class Reading:
    """How a completion is displayed.

    Attributes:
        view: Structured text, a diff, raw text, or the prompt instead.
        folded: Names of blocks collapsed to one line.
        against: Name and text of what it is compared with.
        found: (start, end) ranges of query matches.
    """

    view: View = "text"
    folded: frozenset[str] = frozenset()
    against: tuple[str, str] = ("", "")
    found: tuple[tuple[int, int], ...] = field(default=(), compare=False)


class ReaderHeading(LinePane):
    """Title line over the text."""

    card: GroupCard | None = None
    row: CardRow | None = None
    reading = Reading()

    def lines(self, width: int, height: int) -> list[Line]:
        row = self.row
        if row is None:
            return [ruled([[Span("completion", "title")]], width)]
        view = self.reading.view
        if view == "prompt":
            return [
                ruled(
                    [[Span("prompt", "title")], [Span("as the dataset and the config give it", "dim")]], width
                )
            ]
        sign, role = advantage_sign(row.advantage)
        parts: list[Line] = [
            [Span(f"{WORDS[view].replace('completion', f'completion {row.index + 1}', 1)}", "title")]
        ]
        if view == "diff":
            name = self.reading.against[0]
            parts.append([Span(f"against {one_line(name, 40)}", "accent"), Span("  [-gone-] {+new+}", "dim")])
        parts.append([Span("total ", "dim"), Span(within(row.total, 8), "strong")])
        parts.append([Span(f"{sign} ", role), Span(fixed(abs(row.advantage)), role)])
        if row.truncated:
            parts.append([Span("✂ truncated", "attention")])
        if row.masked:
            parts.append([Span("masked: not in the loss", "attention")])
        if row.tokens is not None:
            parts.append([Span(plural(row.tokens, "token"), "dim")])
        if row.truncated is False:
            parts.append([Span("finished", "dim")])
        return [ruled(parts, width)]


class Reader(LineScroll):
    """The text, wrapped and scrollable."""

    _card: GroupCard | None = None
    _row: CardRow | None = None
    _names: tuple[str, ...] = ()
    _reading = Reading()
    _kept: tuple[object, list[Line]] | None = None
    weights: tuple[float, ...] = ()

    def show(
        self, card: GroupCard | None, row: CardRow | None, reading: Reading, names: Sequence[str]
    ) -> None:
        """Show a completion. A different one starts at the top."""
        other = card is None or row is None or (self._card, self._row) != (card, row)
        if other or replace(reading, folded=frozenset()) != replace(self._reading, folded=frozenset()):
            self.scroll_to(y=0, animate=False, force=True)
        self._card, self._row, self._reading, self._names = card, row, reading, tuple(names)
        self.changed()

    def lines(self, width: int) -> Sequence[Line]:
        """Return the text and its details. Cached, because a long text takes a while to lay out."""
        key = (
            self._card,
            self._row,
            self._reading,
            self._reading.found,
            self._names,
            self.weights,
            width,
        )
        if self._kept is None or self._kept[0] != key:
            self._kept = (key, self._laid(max(4, width - 2)))
        return self._kept[1]

    def _laid(self, room: int) -> list[Line]:
        card, row, reading = self._card, self._row, self._reading
        if card is None or row is None:
            return []
        if reading.view == "prompt":
            return self._prompt(card, room)
        if not row.text:
            return [[Span(" (empty: the model stopped immediately)", "dim")], *self._about(card, row, room)]
        if reading.view == "raw":
            shown = raw(row.text)
        elif reading.view == "diff":
            shown = compared(reading.against[1], row.text)
        else:
            shown = structured(row.text, reading.folded, reading.found)
        return [*spans(laid_out(shown, room), " "), *self._about(card, row, room)]

    def _about(self, card: GroupCard, row: CardRow, room: int) -> list[Line]:
        """Return rewards, values logged by the functions, and the columns of the dataset row."""
        lines: list[Line] = [()]
        # The table is at least this wide. Functions without a named column in it are listed here.
        if None in row.rewards or card_columns(self._names, self.weights, room + 2)[1]:
            lines += self._rewards(row, room)
        if row.extra:
            lines += self._pairs("what the functions said", row.extra, room)
        if card.columns:
            lines += self._pairs("the row of the dataset", card.columns, room)
        return lines

    def _rewards(self, row: CardRow, room: int) -> list[Line]:
        lines: list[Line] = [ruled([[Span("rewards", "dim")]], room + 2)]
        wide = max((len(one_line(name, 30)) for name in self._names), default=0)
        for number, name in enumerate(self._names):
            value = row.rewards[number] if number < len(row.rewards) else None
            said = "   abstained" if value is None else ""
            lines.append(
                [
                    Span(f" {one_line(name, 30):{wide}}  "),
                    Span(f"{within(value, 9):>9}", "strong"),
                    Span(said, "dim"),
                ]
            )
        return lines

    def _pairs(self, title: str, pairs: Sequence[tuple[str, str]], room: int) -> list[Line]:
        lines: list[Line] = [ruled([[Span(title, "dim")]], room + 2)]
        for name, value in pairs:
            head = f"{one_line(name, 30)}: "
            for number, line in enumerate(spans(laid_out([(head, "dim"), (value, "text")], room))):
                lines.append([Span("   " if number else " "), *line])
        return lines

    def _prompt(self, card: GroupCard, room: int) -> list[Line]:
        lines: list[Line] = []
        for role, text in card.messages:
            if role:
                lines.append([Span(f" {one_line(role, 30)}", "accent")])
            lines += spans(laid_out(structured(text), room), " ")
        return [*lines, *(self._pairs("the row of the dataset", card.columns, room) if card.columns else [])]
