"""Two lines under the header: the reward in numbers with the progress, and how the run is in plain words."""

from __future__ import annotations

from grpo_tui.present.formatting import duration, fixed, percent, plural
from grpo_tui.present.train_view import TrainView
from grpo_tui.ui.paint import Line, LinePane, Span, fitting, spread, width_of

WIDEST_BAR = 40


class RewardLine(LinePane):
    """Reward now, its change, spread, flat groups; progress and time left."""

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
        change = _change(view) if width >= 34 else []
        parts: list[tuple[int, Line]] = [(0, [*reward, *change])]
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
        smallest = width_of(_progress(view, 0)) + 3
        left = fitting(parts, max(0, width - smallest))
        return [spread(left, _progress(view, width - width_of(left) - 4), width)]


def _change(view: TrainView) -> list[Span]:
    change = view.reward_change
    if change is None:
        return []
    steps = f" in {plural(min(20, max(1, view.step - 1)), 'step')}"
    if abs(change) < 0.005:
        return [Span(" → 0.00", "dim"), Span(steps, "dim")]
    sign, role = ("▲", "good") if change > 0 else ("▼", "bad")
    if not view.reward_moves:
        role = "dim"
    return [Span(f" {sign} {fixed(abs(change))}", role), Span(steps, "dim")]


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
    """How the run is, in plain words. A failure's cause takes the lines it needs, at most three."""

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
            return _wrapped(spans, width)
        line: list[Span] = [Span(" ")]
        for span in _sentences(spans):
            if width_of(line) + width_of(span) > width:
                break
            line += span
        return [line]


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


def _wrapped(spans: list[Span], width: int) -> list[Line]:
    """The words over as many lines as needed, at most three."""
    lines: list[list[Span]] = [[Span(" ")]]
    for span in spans:
        for word in span.text.split(" "):
            if not word:
                continue
            piece = Span(word + " ", span.role)
            if width_of(lines[-1]) + width_of([Span(word)]) > width and len(lines) < 3 and len(lines[-1]) > 1:
                lines.append([Span("   ")])
            lines[-1].append(piece)
    return list(lines)
