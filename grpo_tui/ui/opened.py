"""Screens that open over a pane and are left again: once, however often they are asked to go.

Two clicks, or two words of a search that ends, reach a screen in one breath; the second one finds it gone
already.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from textual.await_complete import AwaitComplete

from grpo_tui.ui.switching import KeepsStyles
from grpo_tui.ui.tint import TintsWhatLiesBehind

if TYPE_CHECKING:
    from textual.screen import Screen


class LeftOnce(KeepsStyles, TintsWhatLiesBehind):
    """For a screen that is dismissed: a second time does nothing; Textual would take what lies below."""

    def dismiss(self, result: Any = None) -> AwaitComplete:
        """Leave with a result, unless it was left already or another screen is on top."""
        if not cast("Screen[Any]", self).is_active:
            return AwaitComplete.nothing()
        return cast("AwaitComplete", super().dismiss(result))  # type: ignore[misc]
