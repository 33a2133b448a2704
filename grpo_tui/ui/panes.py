"""The panes in one table. The header, keys, help and modes of the app are built from it."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from textual.screen import Screen


@dataclass(frozen=True, slots=True)
class Pane:
    """One pane. Its screen is imported when it is first shown, or earlier by `ui/preload.py`."""

    id: str
    """Name of the mode and of the module."""
    key: str
    name: str
    short: str
    """The name in a narrow header."""
    screen: str
    """Class of its screen."""
    help: str

    def open(self) -> Screen[None]:
        """Return a new screen of this pane."""
        screen: Screen[None] = getattr(import_module(f"grpo_tui.ui.screens.{self.id}"), self.screen)()
        return screen


PANES = (
    Pane("runs", "1", "Runs", "Runs", "RunsScreen", "Show the list of runs."),
    Pane("config", "2", "Config", "Cfg", "ConfigScreen", "Show the open config as a form or as text."),
    Pane("rewards", "3", "Rewards", "Rew", "RewardsScreen",
         "Score completions with the rewards of the config."),
    Pane("train", "4", "Train", "Train", "TrainScreen", "Watch and steer the open run."),
    Pane("generations", "5", "Generations", "Gen", "GenerationsScreen",
         "Read the completions of the open run and why each got its reward."),
    Pane("results", "6", "Results", "Res", "ResultsScreen",
         "See whether the open run's model is better than its base, and where it is."),
)  # fmt: skip
