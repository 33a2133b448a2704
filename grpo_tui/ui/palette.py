"""Textual's palette of commands, which survives what comes while it begins, searches or is left.

Textual's own ends the program when its list is gone before the last results come, when the pane changes while
it begins, when it is clicked away twice or where a resize leaves no screen, and at a page down without room.
"""

from __future__ import annotations

import contextlib
from operator import itemgetter
from typing import TYPE_CHECKING, Any, cast

from rich.text import Text
from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.errors import NoWidget
from textual.events import Click, Mount, ScreenResume
from textual.worker import Worker

from grpo_tui.ui.textual_private import PatientPalette

if TYPE_CHECKING:
    from grpo_tui.ui.app import GrpoApp


BY_TITLE = 10.0
"""What a match in the title counts more than one in the action's id."""


class Names(Provider):
    """The actions whose titles or ids hold words that begin as those that were typed."""

    async def discover(self) -> Hits:
        """List every action while nothing is typed."""
        for name, told, run, _ in sorted(self.app.get_system_commands(self.screen), key=itemgetter(0)):
            yield DiscoveryHit(name, run, help=told)

    async def search(self, query: str) -> Hits:
        """Find actions: by title before those by id, the shorter title first."""
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
    """Whether each of the beginnings is one of a word."""
    return all(any(word.startswith(begin) for word in words) for begin in typed)


class Palette(PatientPalette):
    """Finds an action by name."""

    _missed = False
    """It never began, for another pane was chosen meanwhile."""

    def on_mount(self, event: Mount) -> None:
        if not self.is_active:  # it would look for the screen below it in the stack of another pane
            self._missed = True
            event.prevent_default()

    def on_screen_resume(self, event: ScreenResume) -> None:
        """Go when the pane comes back in which it never began."""
        if self._missed:
            self.dismiss()

    async def on_click(self, event: Click) -> None:
        event.prevent_default()
        with contextlib.suppress(NoWidget):  # the screen has become smaller since
            if self.get_widget_at(event.screen_x, event.screen_y)[0] is self:
                await self.run_action("escape")

    def run_worker(self, *args: Any, **kwargs: Any) -> Worker[Any]:
        """A search that is cut off by leaving is no error of the program."""
        return super().run_worker(*args, **{**kwargs, "exit_on_error": False})
