"""Show another pane at once: what stands is kept, and nothing is waited for."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any, cast

from textual import on
from textual.app import App
from textual.events import Mount, ScreenResume
from textual.geometry import Size
from textual.message_pump import MessagePump
from textual.reactive import Reactive
from textual.screen import Screen
from textual.widget import AwaitMount, Widget


class SwitchingApp(App[str]):
    """An app whose panes come back as fast as they can be painted."""

    _switches = False

    @property
    def _sizes(self) -> set[str]:
        """The classes that tell a screen its size."""
        return {name for _, name in (self.HORIZONTAL_BREAKPOINTS or []) + (self.VERTICAL_BREAKPOINTS or [])}

    def _get_screen(self, screen: Screen[Any] | str) -> tuple[Screen[Any], AwaitMount]:
        """What is looked at first is styled as it is mounted, and once.

        Textual would read all styles anew for a pane, twice: a fifth of the time until it is shown. It would
        tell any screen its size when all parts of it are styled, and style them again for that.
        """
        if isinstance(screen, Screen) and not screen.is_running and self._screen_stack:
            screen.add_class(*(self.screen.classes & self._sizes), update=False)
        found, mounted = super()._get_screen(screen)
        with contextlib.suppress(AttributeError, TypeError):  # a Textual that counts otherwise reads all anew
            shown, newest = self._screen_stacks.get(self._current_mode), self._css_update_count
            if found._css_update_count < 0 and shown and shown[-1]._css_update_count in (-1, newest):
                found._css_update_count = shown[-1]._css_update_count = newest
        return found, mounted

    def switch_mode(self, mode: str) -> AwaitMount:
        """Show a pane in one picture, once it has taken what came meanwhile."""
        if mode == self.current_mode:
            return super().switch_mode(mode)
        held = contextlib.ExitStack()
        held.enter_context(self.batch_update())
        self._switches = True
        try:
            mounted = super().switch_mode(mode)
        except BaseException:
            held.close()
            raise
        finally:
            self._switches = False
        if not self.screen.call_later(held.close):
            held.close()
        return mounted

    def delay_update(self, delay: float = 0.05) -> None:
        """Hold pictures back; a change of pane, for which Textual waits so long, does it by itself."""
        if not self._switches:
            super().delay_update(delay)


class KeepsStyles(MessagePump):
    """For a screen, before `Screen` in its bases: styles and layout stand until what they depend on changes.

    Textual works them all out anew whenever a screen comes to the top.
    """

    focused: Reactive[Widget | None] = Reactive(None, repaint=False)
    """Textual would paint the whole screen; what gets or loses the focus paints itself."""
    _styled_by: tuple[Any, ...] | None = None

    @on(Mount)
    def _was_styled(self) -> None:
        """What is mounted has just been styled."""
        self._styled_by = self._ground()

    @on(ScreenResume)
    def _keep_styles(self, event: ScreenResume) -> None:
        """Style only what another theme or another state of the terminal has changed."""
        ground = self._ground()
        if ground == self._styled_by:
            event.refresh_styles = False
        self._styled_by = ground

    def set_state(self, states: Mapping[str, bool], parts: str) -> None:
        """Set classes of the screen, and style the parts that depend on them.

        Args:
            states: Classes, and whether the screen has them.
            parts: Selects every part whose styles name one of them; Textual would style all parts anew.
        """
        screen = cast("Screen[Any]", self)
        if any(screen.has_class(name) != on for name, on in states.items()):
            screen.update_classes(states, update=False)
            for part in screen.query(parts):
                screen.app.stylesheet.apply(part)

    def _screen_resized(self, size: Size) -> None:
        """Lay out again only for another size; what else asks for it is laid out with the next picture."""
        laid_out = getattr(getattr(self, "_compositor", None), "size", None)
        if laid_out != size:
            super()._screen_resized(size)  # type: ignore[misc]

    def _ground(self) -> tuple[Any, ...]:
        app = cast("Screen[Any]", self).app
        return app.theme, app.classes, frozenset(app.pseudo_classes)
