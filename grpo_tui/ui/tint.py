"""What lies behind a dialog, in fainter colours: each of them is mixed once, not for each piece of text."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from rich.console import RenderableType
from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.message_pump import MessagePump
from textual.renderables.background_screen import BackgroundScreen

PLAIN = Style()


@lru_cache(maxsize=4096)
def tinted(style: Style, tint: Color) -> Style:
    """A style with its colours mixed with the tint, and without what a click would do."""
    return next(iter(BackgroundScreen.process_segments([Segment("", style)], tint))).style or PLAIN


class Tint(BackgroundScreen):
    """The screen below."""

    @classmethod
    def process_segments(cls, segments: Iterable[Segment], color: Color) -> Iterable[Segment]:
        """Each piece in its fainter style."""
        for text, style, control in segments:
            yield Segment(text, style if control else tinted(style or PLAIN, color), control)


class TintsWhatLiesBehind(MessagePump):
    """For a screen, before `Screen` in its bases."""

    def render(self) -> RenderableType:
        """What Textual would show, sooner."""
        made: RenderableType = super().render()  # type: ignore[misc]
        return Tint(made.screen, made.color) if type(made) is BackgroundScreen else made
