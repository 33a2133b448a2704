"""Load what a key may ask for next while no key comes: the first look at a pane waits for no file then."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from threading import Event

SCREENS = (
    "train", "reading", "generations", "chart", "config", "rewards", "metrics", "hardware", "dialogs",
    "results", "tokens", "what_if", "course", "data",
)  # fmt: skip
"""By how likely and how costly their first look is."""
MODULES = tuple(f"grpo_tui.ui.screens.{name}" for name in SCREENS)
AFTER_S = 1.5
"""The open run comes first."""
LOOK_AGAIN_S = 0.25


def preload(quiet: Callable[[], bool], ended: Event, modules: Iterable[str] = MODULES) -> None:
    """Load these modules one by one, each when it is quiet, until all are there or it ends."""
    if ended.wait(AFTER_S):
        return
    for name in modules:
        while not quiet():
            if ended.wait(LOOK_AGAIN_S):
                return
        importlib.import_module(name)
        if ended.wait(0.02):  # whoever waits for the interpreter gets it between two
            return
