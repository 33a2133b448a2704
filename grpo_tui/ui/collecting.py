"""Look for cyclic garbage while nobody waits for the screen.

Python looks through all objects of the process at any moment, by their number: a tenth of a second without an
answer to any key.
"""

from __future__ import annotations

import gc
import time

from textual.app import App
from textual.events import Event, InputEvent

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


class CollectingApp(App[str]):
    """An app that collects garbage when it is left alone."""

    _touched_at = _collected_at = float("-inf")

    def on_mount(self) -> None:
        """Begin to look for a quiet moment."""
        self._collected_at = time.monotonic()
        self.set_interval(LOOK_EVERY_S, self.collect_when_quiet)

    async def on_event(self, event: Event) -> None:
        """Remember when a person last did something."""
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
