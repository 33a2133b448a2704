"""What the figures of a completion's tokens come to, the tokens in colours, the most surprising ones."""

from __future__ import annotations

import time
from collections.abc import Sequence

from textual.message import Message

from grpo_tui.core.text import one_line
from grpo_tui.core.token_scores import TokenScores
from grpo_tui.present.formatting import duration, plural
from grpo_tui.present.reading import laid_out
from grpo_tui.present.token_lines import (
    LEGEND,
    LISTED,
    HeatRow,
    head_lines,
    heat_rows,
    line_of,
    surprising_lines,
)
from grpo_tui.ui.paint import Line, LinePane, LineScroll, Span, ruled
from grpo_tui.ui.rows import CursorList


def spans(line: Sequence[tuple[str, str]]) -> list[Span]:
    """A line of `present` as the painter takes it."""
    return [Span(text, role) for text, role in line]


class TokensHead(LinePane):
    """Which completion, what goes on or went wrong, and what its figures come to."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self.title = ""
        self.doing = ""
        self.since = time.monotonic()
        self.trouble = ""
        self.scores: TokenScores | None = None

    def get_content_height(self, container: object, viewport: object, width: int) -> int:
        """As many lines as there are."""
        return len(self.lines(width, 0))

    def lines(self, width: int, height: int) -> list[Line]:
        """The title, then one of three."""
        lines: list[Line] = [ruled([[Span("tokens", "title")], [Span(self.title, "dim")]], width)]
        room = max(20, width - 4)
        if self.doing:
            waited = duration(time.monotonic() - self.since)
            doing = f"{one_line(self.doing, room - 24)}, {waited}"
            lines.append([Span(f" ◌ {doing}", "attention"), Span("   esc ends it", "dim")])
        elif self.trouble:
            lines += [
                [Span(" ✗ " if number == 0 else "   ", "bad"), *spans(line)]
                for number, line in enumerate(laid_out([(one_line(self.trouble), "bad")], room - 1))
            ]
        if self.scores is not None and not self.doing:
            lines += map(spans, head_lines(self.scores, width))
        return lines


class TokensHeat(LineScroll):
    """The tokens, or the prompt as the model gets it."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self.scores: TokenScores | None = None
        self.chosen: int | None = None
        self.shows_prompt = False
        self._rows: tuple[TokenScores, int, list[HeatRow]] | None = None

    def _laid(self, scores: TokenScores, width: int) -> list[HeatRow]:
        """The rows, kept, so that moving the mark lays out nothing."""
        if self._rows is None or self._rows[0] is not scores or self._rows[1] != width:
            self._rows = (scores, width, heat_rows(scores, width))
        return self._rows[2]

    def lines(self, width: int) -> list[Line]:
        """All of it."""
        scores = self.scores
        if scores is None:
            return []
        room = max(8, width - 2)
        if self.shows_prompt:
            title = f"{plural(scores.prompt_tokens, 'token')}, as the model gets them"
            lines: list[Line] = [ruled([[Span("prompt", "title")], [Span(title, "dim")]], width)]
            found = laid_out([(scores.prompt, "text")], room)
            return [*lines, *([Span(" "), *spans(line)] for line in found)]
        rows = self._laid(scores, room)
        lines = [[Span(" "), *spans(line)] for row in rows for line in row.lines(self.chosen)]
        return [*lines, (), *([Span(" "), *spans(line)] for line in laid_out([(LEGEND, "dim")], room))]

    def show_place(self, place: int) -> None:
        """Mark a token and bring it into sight."""
        self.chosen = place
        if self.scores is not None and not self.shows_prompt:
            room = max(8, self.scrollable_content_region.width - 2)
            row = line_of(self._laid(self.scores, room), place)
            top, height = self.scroll_offset.y, self.size.height
            if not top <= row < top + height - 1:
                self.scroll_to(y=max(0, row - height // 2), animate=False, force=True)
        self.changed()


class TokensHeading(LinePane):
    """The names of the columns of the list."""

    scores: TokenScores | None = None

    def lines(self, width: int, height: int) -> list[Line]:
        """A rule, and the names."""
        title: Line = ruled([[Span("the most surprising", "title")]], width)
        if self.scores is None:
            return [title, ()]
        return [title, spans(surprising_lines(self.scores, width, 0)[0])]


class TokenList(CursorList):
    """The most surprising tokens; the one under the cursor is marked in the text."""

    class Chosen(Message):
        """Another token is under the cursor."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self.scores: TokenScores | None = None
        self._places: list[int] = []

    @property
    def count(self) -> int:
        """How many are listed."""
        return len(self._places)

    @property
    def place(self) -> int | None:
        """The place of the token under the cursor."""
        return self._places[self.cursor] if self.cursor < len(self._places) else None

    def show(self, scores: TokenScores | None) -> None:
        """List these, with the cursor on the most surprising."""
        self.scores, self.cursor = scores, 0
        self._places = scores.most_surprising(LISTED) if scores is not None else []
        self.changed()

    def moved(self) -> None:
        """Say so."""
        self.post_message(self.Chosen())

    def lines(self, width: int) -> list[Line]:
        """One for each."""
        if self.scores is None:
            return []
        return [spans(line) for line in surprising_lines(self.scores, width, LISTED, self.place)[1:]]
