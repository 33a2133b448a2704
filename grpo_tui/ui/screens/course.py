"""Trends of the run and of one prompt over the steps, on top of Generations."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from grpo_tui.core.text import one_line
from grpo_tui.present.course import ProbeStep, Stretch, course_lines, probe_lines, visit_lines
from grpo_tui.ui.actions import bindings
from grpo_tui.ui.kit.reading import FullReadingScreen
from grpo_tui.ui.paint import Line, LineScroll, Span, ruled

if TYPE_CHECKING:
    from grpo_tui.present.group_card import GroupCard
    from grpo_tui.store.reader import Visit


class CourseLines(LineScroll):
    """Trends of the run, then of the prompt."""

    def __init__(self, names: Sequence[str], card: GroupCard | None) -> None:
        super().__init__(id="course-lines")
        self._names, self._card = tuple(names), card
        self.stretches: tuple[Stretch, ...] | None = None
        self.probes: tuple[ProbeStep, ...] = ()
        self.visits: tuple[Visit, ...] = ()
        self.trouble = ""

    def lines(self, width: int) -> list[Line]:
        lines: list[Line] = [ruled([[Span("trends over the run", "title")]], width)]
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


class CourseScreen(FullReadingScreen):
    """Trends over the run, and of the prompt of `card` if there is one."""

    BINDINGS = bindings("course")
    PANE = "course"

    def __init__(self, names: Sequence[str], card: GroupCard | None) -> None:
        self._course = CourseLines(names, card)
        super().__init__("generations", self._course)
        self.left = threading.Event()
        """Set when the screen is closed, to stop reading."""

    def on_unmount(self) -> None:
        self.left.set()

    def take_run(self, found: tuple[Sequence[Stretch], Sequence[ProbeStep]]) -> None:
        stretches, probes = found
        self._course.stretches, self._course.probes = tuple(stretches), tuple(probes)
        self._course.changed()

    def take_trouble(self, why: str) -> None:
        self._course.trouble = why
        self._course.changed()

    def take_visits(self, visits: Sequence[Visit]) -> None:
        self._course.visits = tuple(visits)
        self._course.changed()
