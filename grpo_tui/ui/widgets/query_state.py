"""What a query has found: how many, in how many groups, and when it began; or where it is not understood."""

from __future__ import annotations

from grpo_tui.core.text import one_line
from grpo_tui.present.formatting import plural
from grpo_tui.present.glyphs import spark
from grpo_tui.store.search import Found
from grpo_tui.ui.paint import Line, LinePane, Span, fitting

CURVE = 16


class QueryState(LinePane):
    """One line beside the query."""

    found = Found()
    line = ""
    trouble = ""
    unread = ""
    """What of the run cannot be read."""
    searching = False
    newer = False
    """Whether the run has moved on while a person reads further down."""

    def lines(self, width: int, height: int) -> list[Line]:
        """Right beside the query."""
        if trouble := self.trouble or self.unread:
            return [[Span(" ✗ ", "bad"), Span(one_line(trouble, max(1, width - 4)), "bad")]]
        found = self.found
        parts: list[tuple[int, Line]] = []
        if self.searching and (found.seconds > 0.3 or found.searched < found.of):
            parts.append((1, [Span("◌ searching", "attention")]))
        if self.newer:
            parts.append((1, [Span("newer ones: home", "attention", "screen.generations_newest")]))
        if self.line:
            parts.append((0, [Span(f"{found.count:,}", "strong"), Span(f" of {found.of:,}", "dim")]))
            parts.append((2, [Span(f"in {plural(found.groups, 'group')}", "dim")]))
            if found.over_steps and found.count:
                shares = [bucket.hits / bucket.of if bucket.of else 0.0 for bucket in found.over_steps]
                parts.append((3, [Span(spark(shares, CURVE, 0.0), "accent"), Span(" over steps", "dim")]))
                if found.began is not None:
                    parts.append((4, [Span(f"since step {found.began.first_step:,}", "text")]))
        elif found.of:
            parts.append((0, [Span(plural(found.of, "completion"), "dim")]))
            parts.append((2, [Span(f"in {plural(found.groups, 'group')}", "dim")]))
        return [[Span(" "), *fitting(parts, width - 2, gap=2)]]
