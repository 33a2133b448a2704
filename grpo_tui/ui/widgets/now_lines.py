"""What goes on now, and what happened last: two small sections at the bottom of the Train pane."""

from __future__ import annotations

from grpo_tui.present.formatting import duration, moment, percent
from grpo_tui.present.train_view import EventRow, TrainView
from grpo_tui.ui.paint import Line, LinePane, Span, pad, ruled, width_of

DOING = {
    "load": "loading the model",
    "generate": "generating",
    "reward": "scoring",
    "update": "updating the policy",
    "save": "saving",
    "eval": "evaluating",
    "wait": "waiting",
}


class NowLine(LinePane):
    """The phase and its age, and the share of time each phase takes."""

    _view: TrainView | None = None

    def show(self, view: TrainView) -> None:
        """Show this view."""
        self._view = view
        self.changed()

    def lines(self, width: int, height: int) -> list[Line]:
        """One ruled line."""
        view = self._view
        if view is None:
            return [ruled([[Span("now", "title")]], width)]
        parts: list[Line] = [[Span("ended" if view.ended else "now", "title")], self._phase(view)]
        if view.phase_shares and view.state != "paused":
            shares = [
                Span(f"{'  ' if i else ''}{name} {percent(share)}", "dim")
                for i, (name, share) in enumerate(view.phase_shares)
                if share >= 0.005
            ]
            parts.append(shares)
        return [ruled(parts, width)]

    def _phase(self, view: TrainView) -> Line:
        for_s = f" for {duration(view.phase_s)}" if view.phase_s is not None else ""
        if view.state == "paused":
            return [Span(paused_words(view), "strong attention")]
        if view.ended:
            of = f" of {view.total_steps:,}" if view.total_steps else ""
            return [Span(f"{view.state} at step {view.step:,}{of}")]
        if view.phase == "reward" and view.reward_function:
            return [Span(f"scoring with {view.reward_function}{for_s}")]
        return [Span(f"{DOING.get(view.phase, view.phase)}{for_s}")]


def paused_words(view: TrainView) -> str:
    """The one sentence a paused run is known by."""
    for_s = f" for {duration(view.phase_s)}" if view.phase_s is not None else ""
    return f"⏸ paused at step {view.step:,}{for_s}; memory is kept; r resumes"


class EventLines(LinePane):
    """What happened to the run, newest first, in as many lines as there is room for."""

    _events: tuple[EventRow, ...] = ()
    _now = 0.0

    def show(self, view: TrainView) -> None:
        """Show this view's events."""
        self._events, self._now = view.events, view.now
        self.changed()

    def lines(self, width: int, height: int) -> list[Line]:
        """Sign, step, words, and when it was."""
        if not self._events:
            return [[Span("   Commands, checkpoints and changed settings will show here.", "dim")]]
        lines: list[Line] = []
        for event in self._events[: max(1, height)]:
            step = f"step {event.step:,}" if event.step is not None else "now"
            when = moment(event.at, self._now)
            line = [
                Span(f" {event.sign} ", event.role),
                Span(pad(step, 11), "dim"),
                Span(event.text, "bad" if event.role == "bad" else "text"),
            ]
            if width_of(line) + len(when) + 3 <= width:
                line += [Span(" " * (width - width_of(line) - len(when) - 1)), Span(when, "dim")]
            lines.append(line)
        return lines
