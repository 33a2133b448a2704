"""Textual's command palette, made robust against events while it opens, searches or closes.

Textual's own crashes when its list is removed before the last results arrive, when the pane changes while it
opens, when it is clicked away twice or after a resize, and on page down without room for a line.
"""

from __future__ import annotations

import contextlib
from operator import itemgetter
from typing import TYPE_CHECKING, Any, ClassVar, cast

from rich.text import Text
from textual.binding import BindingType
from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.errors import NoWidget
from textual.events import Click, Mount, ScreenResume
from textual.worker import Worker

from grpo_tui.ui.kit.reading import SUSPEND
from grpo_tui.ui.textual_private import PatientPalette

if TYPE_CHECKING:
    from grpo_tui.ui.app import GrpoApp


BY_TITLE = 10.0
"""Weight of a match in the title relative to one in the action's id."""


class Names(Provider):
    """Actions whose title or id has words that start with those typed."""

    async def discover(self) -> Hits:
        for name, told, run, _ in sorted(self.app.get_system_commands(self.screen), key=itemgetter(0)):
            yield DiscoveryHit(name, run, help=told)

    async def search(self, query: str) -> Hits:
        """Yield matching actions: matches in the title score higher, then shorter titles."""
        typed = query.lower().split()
        app = cast("GrpoApp", self.app)
        commands = zip(app.offered(self.screen), app.get_system_commands(self.screen), strict=True)
        for action, (name, told, run, _) in commands:
            by_title = name.lower().split()
            by_id = action.id.partition(".")[2].split("_")
            if not typed or not _begin(typed, [*by_title, *by_id]):
                continue
            score = (BY_TITLE if _begin(typed, by_title) else 1.0) / len(name)
            yield Hit(score, Text(name), run, help=told)


def _begin(typed: list[str], words: list[str]) -> bool:
    return all(any(word.startswith(begin) for word in words) for begin in typed)


class Palette(PatientPalette):
    """The command palette."""

    BINDINGS: ClassVar[list[BindingType]] = [SUSPEND]
    _missed = False
    """It never opened, because another pane was chosen meanwhile."""

    def on_mount(self, event: Mount) -> None:
        if not self.is_active:  # it would look for its screen in another pane's stack
            self._missed = True
            event.prevent_default()

    def on_screen_resume(self, event: ScreenResume) -> None:
        """Close when returning to the pane in which the palette never opened."""
        if self._missed:
            self.dismiss()

    async def on_click(self, event: Click) -> None:
        event.prevent_default()
        with contextlib.suppress(NoWidget):  # the terminal was made smaller
            if self.get_widget_at(event.screen_x, event.screen_y)[0] is self:
                await self.run_action("escape")

    def run_worker(self, *args: Any, **kwargs: Any) -> Worker[Any]:
        """Start a worker that does not end the program when closing interrupts a search."""
        return super().run_worker(*args, **{**kwargs, "exit_on_error": False})
