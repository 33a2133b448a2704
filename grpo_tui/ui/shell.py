"""Typed access to the app for screens and widgets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from textual.screen import Screen

    from grpo_tui.ui.app import GrpoApp


class Shell:
    """Mixin that gives a screen or widget its app, typed."""

    @property
    def shell(self) -> GrpoApp:
        return cast("GrpoApp", cast("Screen[Any]", self).app)
