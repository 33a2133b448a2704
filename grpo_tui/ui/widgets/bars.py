"""The first line of each screen (panes, run and state) and the last one (clickable keys)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.cells import cell_len

from grpo_tui.core.text import shorten
from grpo_tui.present.formatting import step_time
from grpo_tui.present.glyphs import state_sign
from grpo_tui.ui.actions import for_footer
from grpo_tui.ui.needs import Listed
from grpo_tui.ui.paint import Line, LinePane, Span, spread, width_of
from grpo_tui.ui.panes import PANES

if TYPE_CHECKING:
    from grpo_tui.present.train_view import ReplayView, TrainView

TIGHT = 100
"""Below this width pane names are short while a run is open, to leave room for its name and step."""


LEAST_NAME = 8
"""Cells of a run's name that are kept even at the expense of its step."""


class Header(LinePane):
    """The line at the top of every pane."""

    def __init__(self, pane: str) -> None:
        super().__init__(classes="bar")
        self._pane = pane
        self._view: TrainView | None = None
        self._held = False

    def show(self, view: TrainView | None, *, held: bool = False) -> None:
        if (view, held) != (self._view, self._held):
            self._view, self._held = view, held
            self.changed()

    def lines(self, width: int, height: int) -> list[Line]:
        left = self._names(width)
        return [spread(left, self._run(width - width_of(left) - 2), width)]

    def _names(self, width: int) -> list[Span]:
        """Return the pane names. Positions are fixed: the current one is highlighted with its gaps."""
        tight = width < TIGHT
        names: list[Span] = []
        gap = " "
        for pane in PANES:
            here = pane.id == self._pane
            name = pane.short if tight and self._view is not None else pane.name
            after = " " if here or not tight else ""
            role = "here" if here else "dim"
            names.append(Span(f"{gap}{pane.key} {name}{after}", role, f"app.pane('{pane.id}')"))
            gap = "" if tight and here else " "
        return names

    def _run(self, width: int) -> Line:
        """Return as many parts of the run as fit. The state is kept longest, then the name."""
        view = self._view
        if view is None:
            return ()
        if view.replay is not None:
            return self._replayed(view, view.replay, width)
        sign, role = state_sign(view.state)
        state = [Span(f"{sign} {view.state}", "strong " + role)]
        if self._held:
            state.append(Span("  view held", "attention"))
        step = f"step {view.step:,}" + (f" / {view.total_steps:,}" if view.total_steps else "")
        speed = step_time(view.step_time_s) if view.live and view.step_time_s is not None else ""
        rate = f"{view.tokens_per_s:,.0f} tokens/s" if speed and view.tokens_per_s is not None else ""
        for parts in ([step, speed, rate], [step, speed], [step], [f"step {view.step:,}"], []):
            tail = [Span(f"   {part}") for part in parts if part]
            room = width - width_of(state) - width_of(tail) - 4
            # The token rate is shown only if the name still fits in full.
            if (
                room >= (cell_len(view.name) if len(parts) == 3 else min(cell_len(view.name), LEAST_NAME))
                or not parts
            ):
                name = [Span(shorten(view.name, room), "strong"), Span("  ")] if room > 3 else []
                return [*name, *state, *tail, Span(" ")]
        return state

    def _replayed(self, view: TrainView, replay: ReplayView, width: int) -> Line:
        """Return the step of a replay and its speed. Only Train has its keys."""
        of = f"{view.step:,} of {replay.last_step:,}"
        at_end = view.step >= replay.last_step
        word = "space pauses" if replay.playing else "space restarts" if at_end else "space plays"
        keys = [word] if self._pane == "train" else []
        speed = [f"×{replay.speed:g}"] if replay.playing else [] if at_end else ["paused"]
        short = speed if replay.playing else keys
        for told in ([f"step {of}", *speed, *keys], [of, *speed, *keys], [of, *short], [f"{view.step:,}"]):
            text = f"replay: {' · '.join(told)}"
            if cell_len(text) < width:
                break
        room = width - cell_len(text) - 4
        name = [Span(shorten(view.name, room), "strong"), Span("  ")] if room >= LEAST_NAME else []
        return [*name, Span(text, "attention"), Span(" ")]


class Footer(LinePane):
    """The line at the bottom of every pane."""

    def __init__(self, pane: str) -> None:
        super().__init__(classes="bar")
        self._pane = pane
        self.parts: tuple[str, ...] = ()
        """Active parts, as in `Action.part`."""
        self.focused = ""
        """`chart` while a chart of Train has the focus; overrides `parts`."""
        self._view: TrainView | None = None
        self._listed: Listed | None = None
        self._shown: tuple[str, ...] | None = None

    def show(self, view: TrainView | None, listed: Listed | None = None) -> None:
        self._view, self._listed = view, listed
        shown = tuple(a.id for a in for_footer(self._pane, view, listed, self._parts()))
        if shown != self._shown:
            self._shown = shown
            self.changed()

    def _parts(self) -> tuple[str, ...]:
        return (self.focused,) if self.focused else self.parts

    def lines(self, width: int, height: int) -> list[Line]:
        """Return as many whole keys as fit. Help and leave are always included."""
        actions = for_footer(self._pane, self._view, self._listed, self._parts())
        parts = [[Span(f"{a.key_shown} ", "key", a.target), Span(a.label, "dim", a.target)] for a in actions]
        gap = "   " if width >= 100 else "  "
        typing = "typing" in self._parts()  # global keys are letters then
        always = [] if typing else parts[-2:]
        kept = parts[:-2]
        while kept and sum(width_of(p) + len(gap) for p in [*kept, *always]) + 1 > width:
            kept.pop()
        line = [Span(" ")]
        for part in [*kept, *always]:
            line += [*part, Span(gap)]
        return [line]
