"""The one door through which screens and widgets reach the app: its newest data, and what it does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from textual.screen import Screen

    from grpo_tui.ui.app import GrpoApp


class Shell:
    """Gives a screen its app, typed."""

    @property
    def shell(self) -> GrpoApp:
        """The app."""
        return cast("GrpoApp", cast("Screen[Any]", self).app)
