"""Trends of the run and of one prompt over the steps, on top of Generations."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from grpo_tui.core.text import one_line
from grpo_tui.present.course import ProbeStep, Stretch, course_lines, probe_lines, visit_lines
from grpo_tui.ui.actions import bindings
from grpo_tui.ui.kit.reading import FullReadingScreen
from grpo_tui.ui.paint import Line, Span, ruled, spans

if TYPE_CHECKING:
    from grpo_tui.present.group_card import GroupCard
    from grpo_tui.store.reader import Visit


class CourseScreen(FullReadingScreen):
    """Trends over the run, and of the prompt of `card` if there is one."""

    BINDINGS = bindings("course")
    PANE, OVER = "course", "generations"

    def __init__(self, names: Sequence[str], card: GroupCard | None) -> None:
        super().__init__()
        self._names, self._card = tuple(names), card
        self._found: tuple[Sequence[Stretch], Sequence[ProbeStep]] | None = None
        self._visits: Sequence[Visit] = ()
        self._trouble = ""
        self.left = threading.Event()
        """Set when the screen is closed, to stop reading."""

    def lines(self, width: int) -> list[Line]:
        lines: list[Line] = [ruled([[Span("trends over the run", "title")]], width)]
        stretches, probes = self._found or ((), ())
        if self._trouble:
            lines.append([Span(f"  ✗ {one_line(self._trouble, max(20, width - 6))}", "bad")])
        elif self._found is None:
            lines.append([Span("  Looking through the run …", "dim")])
        else:
            lines += spans(course_lines(stretches, self._names, width))
        if probes:
            lines += [(), ruled([[Span("probe prompts", "title")]], width)]
            lines += spans(probe_lines(probes, self._names, width))
        if self._card is not None:
            prompt = one_line(self._card.prompt.strip(), max(12, width - 40))
            lines += [(), ruled([[Span("this prompt", "title")], [Span(f"“{prompt}”", "strong")]], width)]
            lines += spans(visit_lines(self._visits, self._card.id, width))
        return lines

    def on_unmount(self) -> None:
        self.left.set()

    def take_run(self, found: tuple[Sequence[Stretch], Sequence[ProbeStep]]) -> None:
        self._found = found
        self.body.changed()

    def take_trouble(self, why: str) -> None:
        self._trouble = why
        self.body.changed()

    def take_visits(self, visits: Sequence[Visit]) -> None:
        self._visits = visits
        self.body.changed()
