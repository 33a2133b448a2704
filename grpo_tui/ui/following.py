"""The part of the app that follows one run: its poller, its newest view, the commands sent to it."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from textual.app import ScreenStackError
from textual.css.query import NoMatches
from textual.signal import Signal
from textual.widget import Widget

from grpo_tui.core.text import one_line
from grpo_tui.ui.collecting import CollectingApp

if TYPE_CHECKING:
    from textual.screen import Screen

    from grpo_tui.core.commands import Outcome
    from grpo_tui.present.train_view import TrainView
    from grpo_tui.store.layout import RunFolder
    from grpo_tui.ui.messages import CommandEnded, CommandLost, RunAdvanced
    from grpo_tui.ui.poller import Poller

BEGIN_S = 20.0
"""How long a screen that is left at once may take to begin on a crowded machine."""


class FollowingApp(CollectingApp):
    """Follows one run at a time. What the first paint does not need is imported after it."""

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        super().__init__()
        self.clock = clock
        self.view: TrainView | None = None
        self.view_signal: Signal[TrainView | None] = Signal(self, "open run")
        self._poller: Poller | None = None
        self._then: dict[str, list[Callable[[Outcome], None]]] = {}
        self.turning = ""

    # -- the run ---------------------------------------------------------------------------------

    def open_run(self, path: Path) -> None:
        """Follow a run and show it in Train."""
        if self._poller is None or self._poller.folder.root != path:
            self.view = None
            self.view_signal.publish(None)
            self._follow(path)
            self.switch_mode("train")
            while len(self.screen_stack) > 1:  # a chart of the run before
                self.pop_screen()
        self.switch_mode("train")

    def _follow(self, path: Path) -> None:
        from grpo_tui.ui.poller import Poller

        if self._poller is not None:
            self._poller.stop()
        self._then.clear()
        self.turning = ""
        self._poller = Poller(path, self.post_message, clock=self.clock, untouched_s=self.untouched_s)
        self.run_worker(self._poller.run, thread=True, group="poller", exit_on_error=False)

    def on_run_advanced(self, message: RunAdvanced) -> None:
        """Hand the newest view on; one of a run that was left meanwhile is passed over."""
        if message.source is self._poller:
            self.view = message.view
            self.view_signal.publish(message.view)

    @property
    def run_folder(self) -> RunFolder | None:
        """The open run's folder."""
        return None if self._poller is None else self._poller.folder

    @property
    def farewell(self) -> str:
        """What a person should know on leaving; empty when no live run is open."""
        if self._poller is None:
            return ""
        live = self.view.live if self.view is not None else self._poller.looks_live()
        return (
            f"training goes on; `grpo-tui attach {one_line(str(self._poller.folder.root))}`" if live else ""
        )

    @property
    def _background_screens(self) -> list[Screen[Any]]:
        """The screens that show through the top one, which Textual takes to be transparent always.

        Without this, whatever an opaque screen covers has all of it painted anew with every message.
        """
        opaque = self.screen.styles.background.a == 1
        return [] if opaque else super()._background_screens

    def clear_selection(self) -> None:
        """Forget what is selected on the top screen, when there is one.

        From Python 3.12 on Textual runs tasks eagerly: a field in the first screen asks for this before the
        screen is up.
        """
        with contextlib.suppress(ScreenStackError):
            super().clear_selection()

    def _handle_exception(self, error: Exception) -> None:
        """Leave in peace, though a screen that is taken away while it begins finds no parts."""
        if not (self._exit and isinstance(error, NoMatches)):
            super()._handle_exception(error)

    async def _replace_screen(self, screen: Screen[Any]) -> Screen[Any]:
        """Let a screen begin before it goes: it would look for its parts and find none.

        Textual ends the program when a screen is left, by a second key, while it is still being put up.
        """
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(screen._mounted_event.wait(), BEGIN_S)
        parts = list(screen.walk_children(Widget, with_self=True))
        replaced = await super()._replace_screen(screen)
        if not screen.is_running:
            self._let_go(screen, parts)
        return replaced

    def _let_go(self, screen: Screen[Any], parts: Iterable[Widget]) -> None:
        """Keep nothing of a closed screen.

        A signal holds its subscribers until it is published again, which for an ended run takes long. Textual
        remembers the last thousand caches of painted lines, of closed screens too: some 50 MB.
        """
        self.view_signal.unsubscribe(screen)
        for part in parts:
            part._styles_cache.clear()

    # -- commands --------------------------------------------------------------------------------

    def steer(
        self, kind: str, args: Mapping[str, Any] | None = None, then: Callable[[Outcome], None] | None = None
    ) -> None:
        """Send a command to the open run; `then` gets its outcome when it was applied."""
        if self._poller is None:
            return
        if then is not None:
            self._then.setdefault(kind, []).append(then)
        if kind in ("pause", "resume"):
            self.turning = kind
        self._poller.send(kind, args)

    def on_command_ended(self, message: CommandEnded) -> None:
        """An applied command shows in the event line; a refused one is said aloud."""
        from grpo_tui.present.events import command_row

        then = self._waiting_for(message.command.kind)
        self._turned(message.command.kind)
        if not message.outcome.applied:
            row = command_row(message.command, message.outcome)
            self.notify(row.text, severity="error", timeout=10, markup=False)
        elif then is not None:
            then(message.outcome)

    def on_command_lost(self, message: CommandLost) -> None:
        """Say why a command could not be sent."""
        self._waiting_for(message.kind)
        self._turned(message.kind)
        self.notify(f"{message.kind}: {message.reason}", severity="error", timeout=10, markup=False)

    def _turned(self, kind: str) -> None:
        if kind == self.turning:
            self.turning = ""

    def _waiting_for(self, kind: str) -> Callable[[Outcome], None] | None:
        """Who waits for the oldest command of a kind; commands of one kind end in their order."""
        waiting = self._then.get(kind)
        return waiting.pop(0) if waiting else None
