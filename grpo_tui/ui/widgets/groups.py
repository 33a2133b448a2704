"""The newest groups: the prompt, the right answer, and every completion with its advantage and reward."""

from __future__ import annotations

from rich.cells import cell_len

from grpo_tui.core.text import one_line
from grpo_tui.present.formatting import fixed
from grpo_tui.present.train_view import CompletionRow, GroupView
from grpo_tui.ui.paint import Line, LineScroll, Span, pad, ruled, width_of

INDENT = 24
"""Cells before a completion's text."""
MOST_LINES_EACH = 12


class GroupList(LineScroll):
    """Groups, newest first; with room to spare a long completion takes several lines."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._groups: tuple[GroupView, ...] = ()
        self._waits = ""

    def show(self, groups: tuple[GroupView, ...], waits: str = "") -> None:
        """Show these groups, or say what is waited for."""
        if groups != self._groups or waits != self._waits:
            self._groups, self._waits = groups, waits
            self.changed()

    def lines(self, width: int) -> list[Line]:
        """Every group with its heading."""
        if not self._groups:
            return [ruled([[Span("newest group", "title")]], width), [Span(f"  {self._waits}", "dim")]]
        lines: list[Line] = []
        for number, group in enumerate(self._groups):
            lines.append(_heading(group, width, first=number == 0))
            each = self._lines_each(group) if number == 0 else 1
            for completion in group.completions:
                lines += _completion(completion, width, each)
        return lines

    def _lines_each(self, group: GroupView) -> int:
        room = max(1, self.scrollable_content_region.height - 1)
        return max(1, min(MOST_LINES_EACH, room // max(1, len(group.completions))))


def _heading(group: GroupView, width: int, *, first: bool) -> Line:
    parts: list[Line] = []
    if first:
        parts.append([Span("newest group", "title")])
    parts.append([Span(f"step {group.step:,}", "text" if first else "dim")])
    place = len(parts)
    parts.append([])
    if group.gold is not None:
        parts.append([Span("gold ", "dim"), Span(one_line(group.gold, 24))])
    parts.append([Span("mean ", "dim"), Span(fixed(group.mean))])
    if group.flat:
        parts.append([Span("flat: teaches nothing", "attention")])
    else:
        parts.append([Span("spread ", "dim"), Span(fixed(group.spread))])
    # The prompt takes what the others leave; where that is too little, the last of them go.
    while (room := width - _cells(parts) - 3) < min(24, cell_len(group.prompt)) and len(parts) > place + 2:
        parts.pop()
    parts[place] = [Span(f"“{one_line(group.prompt, max(8, room))}”", "strong" if first else "text")]
    return ruled(parts, width)


def _cells(parts: list[Line]) -> int:
    """Cells of a ruled heading with an empty prompt."""
    return 2 + sum(width_of(part) for part in parts) + 4 * (len(parts) - 1) + 1


def _completion(row: CompletionRow, width: int, most: int) -> list[Line]:
    sign, role = _sign(row.advantage)
    head = [
        Span(f" {sign} ", role),
        Span(pad(fixed(abs(row.advantage)), 4, right=True), role),
        Span(pad(fixed(row.total), 8, right=True), "strong"),
        Span(pad(str(row.tokens), 5, right=True), "dim"),
        Span(" ✂ " if row.truncated else "   ", "attention"),
    ]
    used = sum(len(span.text) for span in head)
    room = max(1, width - used - 1)
    text = one_line(row.text)
    lines: list[Line] = []
    for number in range(most):
        rest = text[number * room :]
        if not rest or (number and not rest.strip()):
            break
        cut = number == most - 1 or len(rest) <= room
        piece = one_line(rest, room) if cut else one_line(rest[:room], room)
        lines.append([*head, Span(piece)] if number == 0 else [Span(" " * used), Span(piece)])
    return lines or [[*head, Span("(empty)", "dim")]]


def _sign(advantage: float) -> tuple[str, str]:
    if abs(advantage) < 0.005:
        return "·", "dim"
    return ("▲", "good") if advantage > 0 else ("▼", "bad")
