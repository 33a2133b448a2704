"""How the run and one prompt change over the steps, over the pane Generations."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.screen import Screen

from grpo_tui.core.text import one_line
from grpo_tui.present.course import course_lines, probe_lines, visit_lines
from grpo_tui.ui.actions import bindings
from grpo_tui.ui.opened import LeftOnce
from grpo_tui.ui.paint import Line, LineScroll, Span, ruled
from grpo_tui.ui.shell import Shell
from grpo_tui.ui.widgets.footer import Footer
from grpo_tui.ui.widgets.header import Header

if TYPE_CHECKING:
    from grpo_tui.present.course import ProbeStep, Stretch
    from grpo_tui.present.group_card import GroupCard
    from grpo_tui.store.reader import Visit


class CourseLines(LineScroll):
    """The run, then the prompt."""

    def __init__(self, names: Sequence[str], card: GroupCard | None) -> None:
        super().__init__(id="course-lines")
        self._names, self._card = tuple(names), card
        self.stretches: tuple[Stretch, ...] | None = None
        self.probes: tuple[ProbeStep, ...] = ()
        self.visits: tuple[Visit, ...] = ()
        self.trouble = ""

    def lines(self, width: int) -> list[Line]:
        """As far as it is read."""
        lines: list[Line] = [ruled([[Span("the run over its steps", "title")]], width)]
        if self.trouble:
            lines.append([Span(f"  ✗ {one_line(self.trouble, max(20, width - 6))}", "bad")])
        elif self.stretches is None:
            lines.append([Span("  Looking through the run …", "dim")])
        else:
            found = course_lines(self.stretches, self._names, width)
            lines += [[Span(text, role) for text, role in line] for line in found]
        if self.probes:
            lines += [(), ruled([[Span("probe prompts", "title")]], width)]
            found = probe_lines(self.probes, self._names, width)
            lines += [[Span(text, role) for text, role in line] for line in found]
        if self._card is not None:
            prompt = one_line(self._card.prompt.strip(), max(12, width - 40))
            lines += [(), ruled([[Span("this prompt", "title")], [Span(f"“{prompt}”", "strong")]], width)]
            found = visit_lines(self.visits, self._card.id, width)
            lines += [[Span(text, role) for text, role in line] for line in found]
        return lines


class CourseScreen(LeftOnce, Screen[None], Shell):
    """The course of a run.

    Args:
        names: the reward functions.
        card: the group whose prompt is followed; None for none.
    """

    BINDINGS = bindings("course")
    PANE = "course"

    def __init__(self, names: Sequence[str], card: GroupCard | None) -> None:
        super().__init__()
        self._lines = CourseLines(names, card)
        self.left = threading.Event()
        """Set once nobody looks any more."""

    def compose(self) -> ComposeResult:
        """Header, the lines, footer."""
        yield Header("generations")
        yield self._lines
        yield Footer(self.PANE)

    def on_mount(self) -> None:
        """Ready to scroll."""
        self.query_one(Header).show(self.shell.view)
        self.query_one(Footer).show(self.shell.view)
        self._lines.focus()

    def on_unmount(self) -> None:
        """Nobody waits for the rest."""
        self.left.set()

    def take_run(self, found: tuple[Sequence[Stretch], Sequence[ProbeStep]]) -> None:
        """Show what was read of the run."""
        stretches, probes = found
        self._lines.stretches, self._lines.probes = tuple(stretches), tuple(probes)
        self._lines.changed()

    def take_trouble(self, why: str) -> None:
        """Say why the run is not shown."""
        self._lines.trouble = why
        self._lines.changed()

    def take_visits(self, visits: Sequence[Visit]) -> None:
        """Show what was read of the prompt."""
        self._lines.visits = tuple(visits)
        self._lines.changed()

    def action_course_back(self) -> None:
        """Back to the pane."""
        self.dismiss(None)

    def action_course_down(self) -> None:
        """A line on."""
        self._lines.scroll_relative(y=1, animate=False)

    def action_course_up(self) -> None:
        """A line back."""
        self._lines.scroll_relative(y=-1, animate=False)
