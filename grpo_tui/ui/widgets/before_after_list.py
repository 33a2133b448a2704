"""What training changed: held prompts answered before and after, the gain, and where to go next."""

from __future__ import annotations

from rich.cells import cell_len

from grpo_tui.core.text import ending, one_line, shorten
from grpo_tui.present.formatting import fixed
from grpo_tui.present.train_view import BeforeAfter
from grpo_tui.ui.paint import Line, LineScroll, Span, pad, ruled

_RIGHT = {True: ("✓", "good"), False: ("✗", "bad"), None: ("·", "dim")}


class BeforeAfterList(LineScroll):
    """One row per held prompt."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._pair: BeforeAfter | None = None

    def show(self, pair: BeforeAfter | None) -> None:
        """Show these answers."""
        if pair != self._pair:
            self._pair = pair
            self.changed()

    def lines(self, width: int) -> list[Line]:
        """Heading, rows, and the next keys."""
        held = self._pair
        if held is None:
            return []
        prompts = max((len(p.prompt) for p in held.pairs), default=8)
        prompt_w = max(8, min(prompts + 1, width // 4))
        gold_w = max(6, min(12, max((len(p.gold) for p in held.pairs), default=4) + 2))
        rest = max(10, width - prompt_w - gold_w - 2)
        rewards = [r for p in held.pairs for r in (p.before_reward, p.after_reward) if r is not None]
        scored = max((len(fixed(r)) + 1 for r in rewards), default=0)
        before_w = min(rest // 2, max((len(p.before) for p in held.pairs), default=8) + 4 + scored)
        lines: list[Line] = [_title(held, width)]
        head = pad("prompt", prompt_w) + pad("gold", gold_w) + pad("  before", before_w) + "  after"
        lines.append([Span(" " + head, "dim")])
        for p in held.pairs:
            before, after = _RIGHT[p.before_right], _RIGHT[p.after_right]
            lines.append(
                [
                    Span(" " + pad(p.prompt, prompt_w)),
                    Span(pad(p.gold, gold_w), "strong"),
                    Span(before[0] + " ", before[1]),
                    Span(_reward(p.before_reward, scored), "dim"),
                    Span(pad(_with_end(p.before, before_w - 4 - scored), before_w - 2 - scored), "dim"),
                    Span(after[0] + " ", after[1]),
                    Span(_reward(p.after_reward, scored), "strong"),
                    Span(_with_end(p.after, rest - before_w - 2 - scored)),
                ]
            )
        lines.append(())
        lines.append([Span(" Next: ", "dim"), *_next()])
        return lines


def _reward(value: float | None, width: int) -> str:
    return pad(fixed(value), width - 1, right=True) + " " if width else ""


def _with_end(text: str, width: int) -> str:
    """The text cut in its middle: what an answer ends with matters more than how it goes on."""
    if cell_len(text) <= width or width < 12:
        return one_line(text, width)
    tail = ending(text, width * 3 // 5 + 1)
    head = shorten(text, width - cell_len(tail) + 1).removesuffix("…")
    while head and head[-1].isdigit():
        head = head[:-1]  # half a number would be another number
    return f"{head}{tail}"


def _title(held: BeforeAfter, width: int) -> Line:
    parts: list[Line] = [[Span("before and after", "title")]]
    known = [p for p in held.pairs if p.before_right is not None]
    if known:
        before = sum(bool(p.before_right) for p in known)
        after = sum(bool(p.after_right) for p in known)
        parts.append([Span(f"right, in the form asked: {before} → {after} of {len(known)}", "strong")])
    if held.gain is not None:
        sign, role = ("▲", "good") if held.gain > 0 else ("▼", "bad")
        parts.append([Span("reward ", "dim"), Span(f"{sign} {fixed(abs(held.gain))}", role)])
    return ruled(parts, width)


def _next() -> list[Span]:
    return [
        Span("l", "key", "screen.view_log"), Span(" the log   ", "dim"),
        Span("g", "key", "screen.view_groups"), Span(" the groups   ", "dim"),
        Span("]", "key", "screen.chart_next"), Span(" other charts   ", "dim"),
        Span("1", "key", "app.pane_runs"), Span(" all runs   ", "dim"),
        Span("q", "key", "app.app_leave"), Span(" leave", "dim"),
    ]  # fmt: skip
