"""Import screens while no key is pressed, so that opening a pane for the first time is quick."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from threading import Event

from grpo_tui.ui.panes import PANES

OVER_PANES = (
    "reading",
    "chart",
    "metrics",
    "hardware",
    "dialogs",
    "train_dialogs",
    "tokens",
    "what_if",
    "generations_dialogs",
    "data",
)
MODULES = tuple(f"grpo_tui.ui.screens.{name}" for name in (*(pane.id for pane in PANES), *OVER_PANES))
"""Panes first: their first look costs most."""
AFTER_S = 1.5
"""Gives the open run time to load first."""
LOOK_AGAIN_S = 0.25


def preload(quiet: Callable[[], bool], ended: Event, modules: Iterable[str] = MODULES) -> None:
    """Import the modules one at a time while `quiet` holds, until done or `ended` is set."""
    if ended.wait(AFTER_S):
        return
    for name in modules:
        while not quiet():
            if ended.wait(LOOK_AGAIN_S):
                return
        importlib.import_module(name)
        if ended.wait(0.02):  # lets other threads run between two imports
            return
    from grpo_tui.present.config_evaluate import read_fields

    read_fields()  # which the dialog of settings needs
