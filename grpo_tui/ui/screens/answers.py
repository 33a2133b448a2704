"""The base and trained model's answers to one prompt, side by side with differences marked."""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING, ClassVar

from textual.binding import BindingType

from grpo_tui.core.text import safe
from grpo_tui.present.formatting import plural
from grpo_tui.present.reading import laid_out, word_diff
from grpo_tui.ui.kit.reading import ReadingScreen
from grpo_tui.ui.paint import Line, Span, ruled, spans, width_of

if TYPE_CHECKING:
    from grpo_tui.present.results_view import Answer, Comparison, PromptPair

Spans = list[tuple[str, str]]
SIDE_BY_SIDE = 80
"""From this width the answers are shown side by side."""


def _column(name: str, one: Answer | None, text: Spans, width: int) -> list[Line]:
    return [] if one is None else column(_title(name, one), text, width)


def column(title: list[Line], text: Spans, width: int) -> list[Line]:
    """Return a text under a ruled title, at most `width` cells wide."""
    return [ruled(title, width), *spans(laid_out(text, max(10, width - 2)), " ")]


def _title(name: str, one: Answer) -> list[Line]:
    parts: list[Line] = [[Span(name, "title")]]
    if one.right is not None:
        parts.append([Span("✓ right", "good") if one.right else Span("✗ not right", "bad")])
    if one.count > 1:
        parts.append([Span(plural(one.count, "time"), "dim")])
    return parts


def _marked(base: Answer | None, policy: Answer | None) -> tuple[Spans, Spans]:
    """Return both texts, with the parts that differ highlighted."""
    if base is None or policy is None:
        return [(base.text if base else "", "text")], [(policy.text if policy else "", "text")]
    pieces = word_diff(base.text, policy.text)
    roles = {"same": "text", "gone": "here", "new": "here"}
    before = [(piece.text, roles[piece.kind]) for piece in pieces if piece.kind != "new"]
    return before, [(piece.text, roles[piece.kind]) for piece in pieces if piece.kind != "gone"]


def joined(left: Line, right: Line, half: int) -> Line:
    """Return two lines side by side. The second one starts two cells after `half`."""
    return [*left, Span(" " * max(0, half + 2 - width_of(left))), *right]


class AnswersScreen(ReadingScreen):
    """Both models' answers to a prompt."""

    BINDINGS: ClassVar[list[BindingType]] = [("enter", "close", "close"), ("y", "copy", "copy")]

    def __init__(self, pair: PromptPair, comparison: Comparison) -> None:
        super().__init__(f"row {pair.number:,}: {pair.words}", "y copy   j k scroll   esc back")
        self._pair, self._names = pair, comparison.names

    def lines(self, width: int) -> list[Line]:
        pair = self._pair
        lines = spans(laid_out([(pair.prompt, "text")], max(10, width - 2)), " ")
        beside = width >= SIDE_BY_SIDE
        room = (width - 2) // 2 if beside else width
        for base, policy in zip_longest(pair.base, pair.policy):
            sides = zip(self._names, (base, policy), _marked(base, policy), strict=True)
            left, right = (_column(*side, room) for side in sides)
            if beside:
                lines += [joined(a, b, room) for a, b in zip_longest(left, right, fillvalue=())]
            else:
                lines += [*left, *right]
        return lines

    def action_copy(self) -> None:
        parts = [("prompt", self._pair.prompt)]
        for name, answers in zip(self._names, (self._pair.base, self._pair.policy), strict=True):
            parts += [(name, one.text) for one in answers]
        self.shell.copy("the answers", safe("\n\n".join(f"{name}:\n{text}" for name, text in parts)))
