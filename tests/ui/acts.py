"""Do the actions of a pane by their names, see what each changes, and miss none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from grpo_tui.ui.actions import ACTIONS, action
from tests.ui.conftest import until


class Acts:
    """Does actions, and remembers which."""

    def __init__(self, pilot: Any) -> None:
        self._pilot, self._done = pilot, set[str]()

    async def __call__(self, name: str, seen: Callable[[], Any]) -> None:
        """Do an action whose effect cannot be seen before, and wait for it."""
        assert not seen(), f"{name} changes nothing: what it leads to is there already"
        await self._pilot.app.run_action(action(name).target)
        await until(self._pilot, seen)
        self._done.add(name)

    async def said(self, name: str, words: str) -> None:
        """Do an action that says something."""
        self._pilot.app.clear_notifications()
        await self(name, lambda: any(words in note.message for note in self._pilot.app._notifications))

    async def copied(self, name: str, text: Callable[[str], Any]) -> None:
        """Do an action that copies a text."""
        self._pilot.app._clipboard = ""
        app = self._pilot.app
        await self(name, lambda: bool(app.clipboard))
        assert text(app.clipboard), app.clipboard

    def missed(self, *panes: str) -> set[str]:
        """The actions of these panes that were not done."""
        return {a.id for a in ACTIONS if a.pane in panes} - self._done
