"""Two lines under the header: the reward in numbers with the progress, and how the run is in plain words."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rich.cells import cell_len, chop_cells

from grpo_tui.core.text import shorten
from grpo_tui.present.formatting import duration, fixed, percent, plural
from grpo_tui.present.train_view import TrainView
from grpo_tui.ui.paint import Line, LinePane, Span, fitting, spread, width_of

WIDEST_BAR = 40
LEAST_CAUSE = 40
"""Characters of a cause that stay where the way on takes the rest."""


class RewardLine(LinePane):
    """Reward now, its change, spread, flat groups, masked completions; progress and time left."""

    _view: TrainView | None = None

    def show(self, view: TrainView) -> None:
        """Show this view."""
        self._view = view
        self.changed()

    def lines(self, width: int, height: int) -> list[Line]:
        """Numbers at the left, progress at the right."""
        view = self._view
        if view is None:
            return [[Span(" Opening the run …", "dim")]]
        reward = [Span(" reward ", "dim"), Span(fixed(view.reward), "strong")]
        reward += _change(view) if width >= 34 else []
        parts: list[tuple[int, Line]] = []
        if view.spread is not None:
            parts.append((3, [Span("spread ", "dim"), Span(fixed(view.spread))]))
        if view.flat_share is not None:
            role = "attention" if view.flat_share >= 0.5 else "text"
            parts.append((4, [Span("flat groups ", "dim"), Span(percent(view.flat_share), role)]))
            ends = [
                f"{percent(share)} at the {end}"
                for share, end in ((view.flat_top, "highest total"), (view.flat_bottom, "lowest total"))
                if share
            ]
            if ends:
                parts.append((5, [Span(", ".join(ends), "dim")]))
        if view.masked_share:
            parts.append((4, [Span("masked ", "dim"), Span(percent(view.masked_share), "attention")]))
        room = max(0, width - width_of(_progress(view, 0)) - 3)
        over = _over(view) if width >= 34 else []
        needed = sum(width_of(part) + 3 for rank, part in parts if rank < 5)
        if width_of(reward) + width_of(over) + needed > room:  # over how many steps goes before a figure does
            over = []
        left = fitting([(0, [*reward, *over]), *parts], room)
        return [spread(left, _progress(view, width - width_of(left) - 4), width)]


def _change(view: TrainView) -> list[Span]:
    change = view.reward_change
    if change is None:
        return []
    if abs(change) < 0.005:
        return [Span(" → 0.00", "dim")]
    sign, role = ("▲", "good") if change > 0 else ("▼", "bad")
    if not view.reward_moves:
        role = "dim"
    return [Span(f" {sign} {fixed(abs(change))}", role)]


def _over(view: TrainView) -> list[Span]:
    if view.reward_change is None:
        return []
    return [Span(f" in {plural(min(20, max(1, view.step - 1)), 'step')}", "dim")]


def _progress(view: TrainView, width: int) -> list[Span]:
    """A bar as long as fits, percent, time left; without a known end only the steps."""
    share = view.progress
    if share is None:
        return []
    words = f"  {share * 100:3.0f} %"
    if view.eta_s is not None:
        left = f"{duration(view.eta_s)} left" if view.state == "training" else ""
        words += f"  {left}" if left else ""
    room = min(WIDEST_BAR, width - len(words) - 1)
    if room < 8:
        return [Span(words.strip()), Span(" ")]
    done = round(share * room)
    return [Span("━" * done, "accent"), Span("─" * (room - done), "rule"), Span(words), Span(" ")]


class HealthLine(LinePane):
    """How the run is, in plain words. A failure takes up to three lines, of which the way on is whole."""

    _view: TrainView | None = None

    def show(self, view: TrainView) -> None:
        """Show this view."""
        before = self._view
        self._view = view
        if before is None or (before.health, before.trouble, before.state) != (
            view.health,
            view.trouble,
            view.state,
        ):
            size = self.size
            self.changed(layout=self.get_content_height(size, size, size.width) != size.height)

    def get_content_height(self, container: object, viewport: object, width: int) -> int:
        """One line, up to three for what must be read whole."""
        return max(1, min(3, len(self.lines(width, 3))))

    def lines(self, width: int, height: int) -> list[Line]:
        """The sentences, as many as fit; a failure wraps instead."""
        view = self._view
        if view is None:
            return [()]
        if view.trouble:
            return _wrapped([Span(f"⚠ {view.trouble}", "attention")], width)
        spans = [Span(text, role) for text, role in view.health]
        if view.state in ("failed", "crashed"):
            return _cause_and_way(spans, width)
        shown: list[Span] = []
        sentences = _sentences(spans)
        for sentence in sentences:
            if not _fits(_wrapped([*shown, *sentence], width), 2 if view.state == "stopped" else 1, width):
                break
            shown += sentence
        return _wrapped(shown, width) if shown else [[Span(" "), *(sentences[0] if sentences else ())]]


def _sentences(spans: list[Span]) -> list[list[Span]]:
    """Spans gathered up to the end of each sentence, so that none is shown by half."""
    found: list[list[Span]] = []
    open_one: list[Span] = []
    for span in spans:
        open_one.append(span)
        if span.text.rstrip().endswith((".", "!", "?")):
            found.append(open_one)
            open_one = []
    return [*found, open_one] if open_one else found


def _cause_and_way(spans: list[Span], width: int) -> list[Line]:
    """All of it where that fits, else the cause cut: what to type next is read whole."""
    cause, *rest = spans
    lines = _wrapped(spans, width)
    room = len(cause.text)
    while not _fits(lines, 3, width) and room > LEAST_CAUSE:
        room -= 4
        lines = _wrapped([Span(shorten(cause.text, room) + " ", cause.role), *rest], width)
    return lines


def _fits(lines: list[Line], most: int, width: int) -> bool:
    """True when so many lines show every word; the blank behind the last one needs no room."""
    return len(lines) <= most and all(width_of(line) <= width + 1 for line in lines)


def _pieces(text: str, room: int) -> Iterator[tuple[str, bool]]:
    """Words with their blanks, and whether a line may end before each; a word longer than a line in parts."""
    for word in re.findall(r" *[^ ]+ *", text):
        parts = chop_cells(word, room) if cell_len(word) > room > 1 else [word]
        yield from ((part, part is not parts[0] or word.startswith(" ")) for part in parts)


def _wrapped(spans: list[Span], width: int) -> list[Line]:
    """The words over as many lines as needed, at most three."""
    lines: list[list[Span]] = [[Span(" ")]]
    for span in spans:
        for word, breaks in _pieces(span.text, width - 3):
            used = width_of(lines[-1]) + cell_len(word.rstrip())
            between = breaks or lines[-1][-1].text.endswith(" ")
            if used > width and between and len(lines) < 3 and len(lines[-1]) > 1:
                lines.append([Span("   ")])
                word = word.lstrip()
            lines[-1].append(Span(word, span.role))
    return list(lines)
