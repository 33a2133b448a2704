"""Check the edited reward files of the open run, and load them into it after a yes."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual.binding import BindingType

from grpo_tui.core.exchange import rebuilt
from grpo_tui.core.text import one_line, wrapped
from grpo_tui.present.formatting import duration
from grpo_tui.ui.kit.reading import ReadingScreen
from grpo_tui.ui.paint import Line, Span, spans

if TYPE_CHECKING:
    from grpo_tui.rewards.reload_check import ReloadCheck
    from grpo_tui.ui.starting import Ended

LOOK_S = 0.5


class ReloadScreen(ReadingScreen):
    """What the check found. Returns the arguments of the command `reload` after a yes."""

    BINDINGS: ClassVar[list[BindingType]] = [("y", "yes", "yes")]

    def __init__(self, root: Path) -> None:
        from grpo_tui.ui.starting import Child

        super().__init__("reload the rewards", "y reload   j k scroll   esc back")
        self._child = Child(["reload", str(root), "--check", "--json"], ())
        self._since = time.monotonic()
        self.trouble = ""
        self.found: ReloadCheck | None = None

    @property
    def passed(self) -> bool:
        """Whether the files can be loaded into the run."""
        return self.found is not None and not (self.found.broken or self.found.failed)

    def lines(self, width: int) -> list[Line]:
        if self.found is None and not self.trouble:
            waited = duration(time.monotonic() - self._since)
            what = "checking contract, cases, probes and recorded groups"
            return [[Span(f"  ◌ {one_line(what, max(20, width - 12))}, {waited}", "attention")]]
        if self.found is None:
            return [[Span(f"  {row}", "bad")] for row in wrapped(one_line(self.trouble), max(20, width - 4))]
        from grpo_tui.present.reload_lines import reload_lines
        from grpo_tui.rewards.reload_check import TRY_LATER

        end = "y loads them into the run, from the next generation on"
        if not self.passed:
            end = f"Not loaded. {TRY_LATER if self.found.early else 'Fix the files and press L again'}"
            if not self.found.broken:
                end += ". `grpo-tui reload RUN --force` loads them anyway"
        rows = wrapped(end, max(20, width - 4))
        return [*spans(reload_lines(self.found, width)), [], *([Span(f"  {row}", "strong")] for row in rows)]

    def on_mount(self) -> None:
        self.set_interval(LOOK_S, self._look)
        self.in_thread("reload", self._child.run, self._take)

    def on_unmount(self) -> None:
        self._child.cancel()

    def _look(self) -> None:
        if self.found is None and not self.trouble:
            self.body.changed()

    def _take(self, ended: Ended) -> None:
        """Show what the check found, which ran in a process of its own."""
        from grpo_tui.rewards.reload_check import ReloadCheck
        from grpo_tui.ui.starting import read_object

        body = read_object(ended.printed)
        self.found = rebuilt(ReloadCheck, body) if body is not None else None
        self.trouble = "" if body is not None else ended.trouble or "the check ended without a result"
        self.body.changed()

    def action_yes(self) -> None:
        if self.passed and self.found is not None:
            self.dismiss(self.found.arguments())
