"""What Textual does slowly or too often, done otherwise: by names of its own that it may change.

Each says what is lost without it.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import time
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, cast

from rich.console import RenderableType
from rich.segment import Segment
from rich.style import Style
from textual import on
from textual.app import App, ScreenStackError
from textual.await_complete import AwaitComplete
from textual.color import Color
from textual.css.query import NoMatches
from textual.events import Event, InputEvent, Mount, ScreenResume
from textual.geometry import Size
from textual.message_pump import MessagePump
from textual.reactive import Reactive
from textual.renderables.background_screen import BackgroundScreen
from textual.screen import Screen
from textual.widget import AwaitMount, Widget

BEGIN_S = 20.0
"""How long a screen that is left at once may take to begin on a crowded machine."""
LOOK_EVERY_S = 2.0
QUIET_S = 1.5
"""Without a key for so long, nobody is in the middle of something."""
APART_S = 60.0
"""Whole collections are at least so far apart."""
LONGEST_S = 75.0
"""A person who never rests does not make the process grow: closed screens are garbage of this kind."""
YOUNG = 10
"""Collections of young objects after which a whole one is worth it, as Python's own threshold has it."""
NEVER = 1_000_000_000


def leave_whole_collections_to_the_app() -> None:
    """Let Python collect young objects by itself, but not look through all of them."""
    young, middle, _ = gc.get_threshold()
    gc.set_threshold(young, middle, NEVER)


class TunedApp(App[str]):
    """An app whose panes come back at once and whose closed screens go; it collects garbage when left alone.

    Python looks through all objects of the process at any moment, by their number: a tenth of a second
    without an answer to any key.
    """

    _switches = False
    _touched_at = _collected_at = float("-inf")

    def on_mount(self) -> None:
        self._collected_at = time.monotonic()
        self.set_interval(LOOK_EVERY_S, self.collect_when_quiet)

    async def on_event(self, event: Event) -> None:
        if isinstance(event, InputEvent):
            self._touched_at = time.monotonic()
        await super().on_event(event)

    def untouched_s(self) -> float:
        """For how many seconds nobody did anything; from any thread."""
        return time.monotonic() - self._touched_at

    @property
    def quiet(self) -> bool:
        """Whether nobody is in the middle of something."""
        return self.untouched_s() > QUIET_S

    def collect_when_quiet(self) -> bool:
        """Look through all objects when it disturbs nobody, or when it was put off for too long."""
        now = time.monotonic()
        since = now - self._collected_at
        due = gc.get_count()[2] > YOUNG and since > (APART_S if self.quiet else LONGEST_S)
        if due:
            gc.collect()
            self._collected_at = now
        return due

    # -- screens ---------------------------------------------------------------------------------

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

    @property
    def _background_screens(self) -> list[Screen[Any]]:
        """The screens that show through the top one, which Textual takes to be transparent always.

        Without this, whatever an opaque screen covers has all of it painted anew with every message.
        """
        opaque = self.screen.styles.background.a == 1
        return [] if opaque else super()._background_screens

    def clear_selection(self) -> None:
        """Forget what is selected on the top screen, when there is one.

        From Python 3.12 on Textual runs tasks eagerly: a field in the first screen asks for this before the
        screen is up.
        """
        with contextlib.suppress(ScreenStackError):
            super().clear_selection()

    def _handle_exception(self, error: Exception) -> None:
        """Leave in peace, though a screen that is taken away while it begins finds no parts."""
        if not (self._exit and isinstance(error, NoMatches)):
            super()._handle_exception(error)

    async def _replace_screen(self, screen: Screen[Any]) -> Screen[Any]:
        """Let a screen begin before it goes: it would look for its parts and find none.

        Textual ends the program when a screen is left, by a second key, while it is still being put up.
        """
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(screen._mounted_event.wait(), BEGIN_S)
        parts = list(screen.walk_children(Widget, with_self=True))
        replaced = await super()._replace_screen(screen)
        if not screen.is_running:
            # Textual remembers the last thousand caches of painted lines, of closed screens too: some 50 MB.
            for part in parts:
                part._styles_cache.clear()
            self.let_go(screen)
        return replaced

    def let_go(self, screen: Screen[Any]) -> None:
        """Called once a screen is closed, to keep nothing of it."""


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


PLAIN = Style()


@lru_cache(maxsize=4096)
def tinted(style: Style, tint: Color) -> Style:
    """A style with its colours mixed with the tint, and without what a click would do."""
    return next(iter(BackgroundScreen.process_segments([Segment("", style)], tint))).style or PLAIN


class Tint(BackgroundScreen):
    """The screen below, in fainter colours: each of them is mixed once, not for each piece of text."""

    @classmethod
    def process_segments(cls, segments: Iterable[Segment], color: Color) -> Iterable[Segment]:
        """Each piece in its fainter style."""
        for text, style, control in segments:
            yield Segment(text, style if control else tinted(style or PLAIN, color), control)


class LeftOnce(KeepsStyles):
    """For a screen over a pane: dismissed a second time it does nothing; Textual would take what lies below.

    Two clicks, or two words of a search that ends, reach a screen in one breath; the second one finds it gone
    already.
    """

    def render(self) -> RenderableType:
        """What lies behind, as Textual would show it, sooner."""
        made: RenderableType = super().render()  # type: ignore[misc]
        return Tint(made.screen, made.color) if type(made) is BackgroundScreen else made

    def dismiss(self, result: Any = None) -> AwaitComplete:
        """Leave with a result, unless it was left already or another screen is on top."""
        if not cast("Screen[Any]", self).is_active:
            return AwaitComplete.nothing()
        return cast("AwaitComplete", super().dismiss(result))  # type: ignore[misc]
