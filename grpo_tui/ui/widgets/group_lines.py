"""Lay out a group of completions: its heading, and each completion as lines of a width."""

from __future__ import annotations

from dataclasses import dataclass

from rich.cells import cell_len

from grpo_tui.core.text import one_line, told_apart
from grpo_tui.present.formatting import fixed, within
from grpo_tui.present.train_view import CompletionRow, GroupView
from grpo_tui.ui.paint import Line, Span, pad, ruled, width_of, wrapped

COLUMNS_FROM = 116
"""From this width on, what each reward function returned has a column."""
COLUMN_W, WIDEST_COLUMN_W = 9, 14
LEFT_FOR_TEXT = 76
"""Cells of a line that columns never take: what stands before them, and the text."""
MOST_COLUMNS = 6
MOST_LINES_LARGE = 400


@dataclass(frozen=True, slots=True)
class Look:
    """How completions are laid out."""

    names: tuple[str, ...]
    """The reward functions."""
    width: int
    most: int
    """Most lines of a completion in the small list."""
    large: bool
    """Whether texts are wrapped whole, line breaks kept."""

    @property
    def columns(self) -> int:
        """How many reward functions have a column."""
        room = (self.width - LEFT_FOR_TEXT) // COLUMN_W if self.width >= COLUMNS_FROM else 0
        return min(len(self.names), MOST_COLUMNS, max(0, room))

    @property
    def column(self) -> int:
        """Cells of each of them: as many as the longest name wants, where there is room."""
        count = max(1, self.columns)
        longest = max(map(cell_len, map(one_line, self.names[: self.columns])), default=0) + 2
        return max(COLUMN_W, min(longest, WIDEST_COLUMN_W, (self.width - LEFT_FOR_TEXT) // count))


def heading(group: GroupView, width: int, *, first: bool, newer: Line = ()) -> Line:
    """The rule over a group: step, prompt, right answer, mean and spread."""
    parts: list[Line] = []
    if first:
        parts.append([Span("newest group", "title")] if not newer else list(newer))
    parts.append([Span(f"step {group.step:,}", "text" if first else "dim")])
    place = len(parts)
    parts.append([])
    if group.gold is not None:
        parts.append([Span("gold ", "dim"), Span(one_line(group.gold, 24))])
    parts.append([Span("mean ", "dim"), Span(fixed(group.mean))])
    if group.signal != "some":
        word = "flat" if group.signal == "none" else "masked"
        parts.append([Span(f"{word}: teaches nothing", "attention")])
    else:
        parts.append([Span("spread ", "dim"), Span(fixed(group.spread))])
    # The prompt takes what the others leave; where that is too little, the last of them go.
    while (room := width - _cells(parts) - 3) < min(24, cell_len(group.prompt)) and len(parts) > place + 2:
        parts.pop()
    prompt = f"“{one_line(group.prompt, max(8, room))}”" if group.prompt.strip() else "empty prompt"
    parts[place] = [Span(prompt, "strong" if first else "text")]
    return ruled(parts, width)


def _cells(parts: list[Line]) -> int:
    """Cells of a ruled heading with an empty prompt."""
    return 2 + sum(width_of(part) for part in parts) + 4 * (len(parts) - 1) + 1


def names_line(look: Look) -> Line:
    """What stands in the columns."""
    words = f" {'adv':>6}{'total':>8}"
    for name in told_apart(look.names[: look.columns], look.column - 1):
        words += pad(" " + name, look.column, right=True)
    return [Span(f"{words} tokens", "dim")]


def completion_lines(row: CompletionRow, look: Look, *, here: bool = False) -> list[Line]:
    """A completion: advantage, total, rewards, tokens, and its text in the room that is left."""
    tail = " selected" if here else ""
    head = _head(row, look, here, tail)
    used = width_of(head)
    room = max(1, look.width - used - 1)
    texts = wrapped(row.text, room)[:MOST_LINES_LARGE] if look.large else _few(row.text, room, look.most)
    if not any(texts):
        return [[*head, Span("(empty)", "dim" + tail)]]
    lines: list[Line] = []
    for number, text in enumerate(texts):
        start = head if number == 0 else [Span("❙" if here else " ", "accent" + tail), Span(" " * (used - 1))]
        lines.append([*start, Span(text, "text" + tail)])
    return lines


def _head(row: CompletionRow, look: Look, here: bool, tail: str) -> list[Span]:
    sign, role = advantage_sign(row.advantage)
    head = [
        Span("❙" if here else " ", "accent" + tail),
        Span(f"{sign} ", role + tail),
        Span(pad(within(abs(row.advantage), 4), 4, right=True), role + tail),
        Span(pad(within(row.total, 7), 8, right=True), "strong" + tail),
    ]
    for index in range(look.columns):
        value = row.rewards[index] if index < len(row.rewards) else None
        head.append(Span(pad(within(value, COLUMN_W - 1), look.column, right=True), "text" + tail))
    head.append(Span(pad(_tokens(row.tokens), 7 if look.columns else 5, right=True), "dim" + tail))
    ends = " ✂ masked " if row.masked else " ✂ " if row.truncated else "   "
    head.append(Span(ends, "attention" + tail))
    return head


def _tokens(count: int) -> str:
    return str(count) if count < 10_000 else f"{count // 1000}k"


def _few(text: str, room: int, most: int) -> list[str]:
    """The text as one line that goes on in at most so many rows, the last one cut."""
    rows = wrapped(one_line(text), room)
    if len(rows) <= most:
        return [row for row in rows if row.strip()] or rows[:1]
    return [*rows[: most - 1], one_line(rows[most - 1] + rows[most], room)]


def advantage_sign(advantage: float) -> tuple[str, str]:
    """Sign and role of an advantage."""
    if abs(advantage) < 0.005:
        return "·", "dim"
    return ("▲", "good") if advantage > 0 else ("▼", "bad")
