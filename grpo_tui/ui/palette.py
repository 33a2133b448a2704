"""Textual's palette of commands, which survives being closed while it still searches.

Textual's own looks for its list when the last results come, and ends the program when the list is gone.
"""

from __future__ import annotations

from textual.command import CommandList, CommandPalette


class Palette(CommandPalette):
    """Finds an action by name."""

    def _watch__list_visible(self) -> None:
        if self.query(CommandList):
            super()._watch__list_visible()
