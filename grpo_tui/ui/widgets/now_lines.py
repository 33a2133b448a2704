"""What goes on now, and what happened last: two small sections at the bottom of the Train pane."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpo_tui.present.formatting import DOING, duration, moment, percent
from grpo_tui.ui.paint import Line, LinePane, Span, pad, ruled, width_of

if TYPE_CHECKING:
    from grpo_tui.present.hardware_view import HardwareView, RankRow
    from grpo_tui.present.train_view import EventRow, TrainView

OPENS = "screen.hardware_open"
"""What a click on the machine does."""


class NowLine(LinePane):
    """The phase and its age, the machine, and the share of time each phase takes."""

    _view: TrainView | None = None

    def show(self, view: TrainView) -> None:
        """Show this view."""
        self._view = view
        self.changed()

    def lines(self, width: int, height: int) -> list[Line]:
        """One ruled line: the phase always, then what deserves attention, the figures, the shares."""
        view = self._view
        if view is None:
            return [ruled([[Span("now", "title")]], width)]
        head: list[Line] = [[Span("ended" if view.ended else "now", "title")], _phase(view)]
        shares = _shares(view)
        for machine in _machine(view.hardware):
            for parts in ([*head, shares], head) if shares else (head,):
                if _fits(parts, machine, width):
                    return [ruled(parts, width, machine)]
        parts = [*head, shares] if shares else head
        return [ruled(parts, width)]


def _phase(view: TrainView) -> Line:
    if view.state == "paused":
        return [Span(paused_words(view), "strong attention")]
    if view.ended:
        of = f" of {view.total_steps:,}" if view.total_steps else ""
        return [Span(f"{view.state} at step {view.step:,}{of}")]
    if view.state == "broken":
        return [Span("the run cannot be read")]
    behind = [rank for rank in view.ranks if rank.behind]
    if behind:
        return _waited_for(view, behind)
    for_s = f" for {duration(view.phase_s)}" if view.phase_s is not None else ""
    return [Span(f"{doing(view.phase, view.reward_function)}{for_s}")]


def _waited_for(view: TrainView, behind: list[RankRow]) -> Line:
    """The ranks that the others wait for, by number when it is one."""
    first = behind[0]
    since = min((rank.phase_since for rank in behind if rank.phase_since), default=view.now)
    who = f"rank {first.rank}" if len(behind) == 1 else f"{len(behind)} of {len(view.ranks)} ranks"
    for_s = duration(max(0.0, view.now - since))
    return [Span(f"{who} still {doing(first.phase, first.reward_function)} for {for_s}")]


def doing(phase: str, reward_function: str | None = None) -> str:
    """What is done in a phase, in words."""
    if phase == "reward" and reward_function:
        return f"scoring with {reward_function}"
    return DOING.get(phase, phase)


def _shares(view: TrainView) -> Line:
    if view.state == "paused":
        return ()
    return [
        Span(f"{'  ' if i else ''}{name} {percent(share)}", "dim")
        for i, (name, share) in enumerate(view.phase_shares)
        if share >= 0.005
    ]


def _machine(hardware: HardwareView | None) -> list[Line]:
    """The machine from the most to the least words: what deserves attention stays when figures go."""
    if hardware is None:
        return []
    figures: list[Line] = [[Span(words, "text", OPENS)] for words in hardware.figures]
    if not hardware.warnings:
        return figures
    first, more = hardware.warnings[0], len(hardware.warnings) - 1
    sign = Span(f"⚠ {first.short}" + (f" and {more} more" if more else ""), "attention", OPENS)
    return [*([*line, Span("   "), sign] for line in figures), [sign]]


def _fits(parts: list[Line], right: Line, width: int) -> bool:
    """True when a ruled line shows all of it."""
    return 2 + sum(map(width_of, parts)) + 4 * (len(parts) - 1) + 1 + width_of(right) + 3 <= width


def paused_words(view: TrainView) -> str:
    """The one sentence a paused run is known by."""
    for_s = f" for {duration(view.phase_s)}" if view.phase_s is not None else ""
    return f"⏸ paused at step {view.step:,}{for_s}; memory is kept; r resumes"


class EventLines(LinePane):
    """What happened to the run, newest first, in as many lines as there is room for."""

    _events: tuple[EventRow, ...] = ()
    _nothing = ""
    _now = 0.0

    def show(self, view: TrainView) -> None:
        """Show this view's events."""
        self._events, self._now, self._nothing = view.events, view.now, view.no_events
        self.changed()

    def lines(self, width: int, height: int) -> list[Line]:
        """Sign, step, words, and when it was."""
        if not self._events:
            return [[Span(f"   {self._nothing}", "dim")]]
        lines: list[Line] = []
        shown = self._events[: max(1, height)]
        steps = [f"step {event.step:,}" if event.step is not None else "now" for event in shown]
        cells = max(11, 2 + max(map(len, steps)))
        for event, step in zip(shown, steps, strict=True):
            when = moment(event.at, self._now)
            line = [
                Span(f" {event.sign} ", event.role),
                Span(pad(step, cells), "dim"),
                Span(event.text, "bad" if event.role == "bad" else "text"),
            ]
            if width_of(line) + len(when) + 3 <= width:
                line += [Span(" " * (width - width_of(line) - len(when) - 1)), Span(when, "dim")]
            lines.append(line)
        return lines
