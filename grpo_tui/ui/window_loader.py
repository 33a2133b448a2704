"""Read what a full-screen chart shows in a thread: when another part is wished, or a run moved on."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from textual.message import Message

from grpo_tui.core.text import one_line
from grpo_tui.present.window_load import RunSource, load_window
from grpo_tui.ui.messages import WindowLoaded

if TYPE_CHECKING:
    from grpo_tui.ui.widgets.big_chart import Wish

LOOK_S = 1.0
"""How often a run is asked for something new."""
SHARE = 30
"""Rests so many times as long as a reading took: a long run must not keep a core busy."""
EVAL = "eval_"


class WindowLoader:
    """Reads runs for one chart; `run` is the body of the thread.

    Args:
        sources: The runs; opened, read and closed by the thread.
        post: Takes each message.
    """

    def __init__(self, sources: Sequence[RunSource], post: Callable[[Message], object]) -> None:
        self._sources, self._post = tuple(sources), post
        self._wish: tuple[Wish, int] | None = None
        self._wake, self._stopped = threading.Event(), threading.Event()

    def ask(self, wish: Wish, columns: int) -> None:
        """Wish for a part of the runs; returns at once, a later wish takes the place of this one."""
        self._wish = (wish, columns)
        self._wake.set()

    def stop(self) -> None:
        """End the thread soon."""
        self._stopped.set()
        self._wake.set()

    def run(self) -> None:
        """Look again and again until stopped."""
        read: tuple[Wish, int] | None = None
        try:
            while not self._stopped.is_set():
                self._wake.clear()
                wish, began = self._wish, time.monotonic()
                moved = [source.look() for source in self._sources]
                if wish is not None and (wish != read or any(moved)):
                    if wish != read and any(source.long for source in self._sources):
                        self._read(*wish, band=False)  # something to look at, while the rest is read
                    if wish == self._wish:
                        self._read(*wish)
                    read = wish
                self._wake.wait(max(LOOK_S, SHARE * (time.monotonic() - began)))
        finally:
            for source in self._sources:
                source.close()

    def _read(self, wish: Wish, columns: int, *, band: bool = True) -> None:
        for source in self._sources:
            source.band = band and len(self._sources) == 1 and not wish.together
        trouble = next((source.trouble for source in self._sources if source.trouble), "")
        try:
            view = load_window(self._sources, keys_of(wish), wish.window, columns)
        except Exception as error:  # a file that vanishes meanwhile is a passing trouble; the next look tells
            view, trouble = None, one_line(f"The run cannot be read: {error}", 200)
        self._post(WindowLoaded(view, wish, trouble))


def keys_of(wish: Wish) -> list[tuple[str, str]]:
    """The metrics of a wish, each with the name of its line."""
    if not wish.together:
        return [(wish.key, "")]
    plain = wish.key.removeprefix(EVAL)
    return [(plain, "train"), (EVAL + plain, "eval")]
