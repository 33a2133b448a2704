"""The application: it opens runs, hands out what the workers bring, and carries keys to the run.

Knows the screens and the workers; trains nothing, waits for nothing, and leaves a run going when it is left.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from textual.app import App, SystemCommand
from textual.screen import Screen
from textual.signal import Signal
from textual.worker import Worker, WorkerState

from grpo_tui.core.commands import Outcome
from grpo_tui.core.text import one_line
from grpo_tui.present.events import command_row
from grpo_tui.present.glyphs import ascii_locale
from grpo_tui.present.runs_view import RunRow
from grpo_tui.present.train_view import TrainView
from grpo_tui.ui.actions import bindings, on_pane, refusal
from grpo_tui.ui.messages import CommandEnded, CommandLost, RunAdvanced, RunsListed
from grpo_tui.ui.poller import Poller
from grpo_tui.ui.runs_watch import RunsWatch
from grpo_tui.ui.screens.help import HelpScreen
from grpo_tui.ui.screens.runs import RunsScreen
from grpo_tui.ui.screens.train import TrainScreen
from grpo_tui.ui.terminal import exit_on_signals, restore_terminal
from grpo_tui.ui.theme import DARK, LIGHT, THEMES, first_theme

NICENESS = 10
"""The screen gives way to training on a shared processor."""

WIDTHS: list[tuple[int, str]] | None = [(0, "-narrow"), (100, "-medium"), (160, "-wide")]
HEIGHTS: list[tuple[int, str]] | None = [
    (0, "-tiny"),
    (10, "-short"),
    (20, "-low"),
    (30, "-high"),
    (46, "-tall"),
]


class GrpoApp(App[str]):
    """The workbench.

    Args:
        roots: Folders under which runs are looked for.
        run: A run folder to open at once.
        clock: Wall clock, in seconds since the epoch.
    """

    TITLE = "grpo-tui"
    CSS_PATH = "styles/app.tcss"
    MODES: ClassVar[dict[str, Any]] = {"runs": RunsScreen, "train": TrainScreen}
    BINDINGS = bindings("all")
    HORIZONTAL_BREAKPOINTS = WIDTHS
    VERTICAL_BREAKPOINTS = HEIGHTS

    def __init__(
        self,
        roots: Sequence[Path],
        run: Path | None = None,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.DEFAULT_MODE = "runs" if run is None else "train"  # type: ignore[misc]
        super().__init__()
        self.clock = clock
        self.ascii_only = ascii_locale(os.environ)
        self.view: TrainView | None = None
        self.rows: tuple[RunRow, ...] = ()
        self.rows_complete = False
        self.view_signal: Signal[TrainView | None] = Signal(self, "open run")
        self.runs_signal: Signal[tuple[tuple[RunRow, ...], bool]] = Signal(self, "runs")
        self._roots, self._first_run = tuple(roots), run
        self._poller: Poller | None = None
        self._watch = RunsWatch(self._roots, self.post_message)
        self._then: dict[str, list[Callable[[Outcome], None]]] = {}
        for theme in THEMES:
            self.register_theme(theme)
        self.theme = first_theme(os.environ)

    def on_mount(self) -> None:
        """Start the workers; nothing is waited for."""
        exit_on_signals(self.action_app_leave)
        self.run_worker(self._watch.run, thread=True, group="runs", exit_on_error=False)
        if self._first_run is not None:
            self._follow(self._first_run)

    def on_unmount(self) -> None:
        """End the workers."""
        self._watch.stop()
        if self._poller is not None:
            self._poller.stop()

    @property
    def places(self) -> str:
        """The folders that are looked through, in words."""
        return one_line(", ".join(_short(root) for root in self._roots), 60)

    # -- runs ------------------------------------------------------------------------------------

    def open_run(self, path: Path) -> None:
        """Follow a run and show it in Train."""
        if self._poller is None or self._poller.folder.root != path:
            self.view = None
            self.view_signal.publish(None)
            self._follow(path)
        self.switch_mode("train")

    def _follow(self, path: Path) -> None:
        if self._poller is not None:
            self._poller.stop()
        self._poller = Poller(path, self.post_message, clock=self.clock)
        self.run_worker(self._poller.run, thread=True, group="poller", exit_on_error=False)

    def on_run_advanced(self, message: RunAdvanced) -> None:
        """Hand the newest view on; one of a run that was left meanwhile is passed over."""
        if message.source is self._poller:
            self.view = message.view
            self.view_signal.publish(message.view)

    def on_runs_listed(self, message: RunsListed) -> None:
        """Hand the list on."""
        self.rows, self.rows_complete = message.rows, message.complete
        self.runs_signal.publish((message.rows, message.complete))

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """A worker that failed is said aloud, for the screen would stand still without a reason."""
        if event.state == WorkerState.ERROR:
            reason = one_line(repr(event.worker.error), 300)
            self.notify(f"{event.worker.group} ended: {reason}", severity="error", timeout=60, markup=False)

    # -- commands --------------------------------------------------------------------------------

    def steer(
        self, kind: str, args: Mapping[str, Any] | None = None, then: Callable[[Outcome], None] | None = None
    ) -> None:
        """Send a command to the open run; `then` gets its outcome when it was applied."""
        if self._poller is None:
            return
        if then is not None:
            self._then.setdefault(kind, []).append(then)
        self._poller.send(kind, args)

    def on_command_ended(self, message: CommandEnded) -> None:
        """An applied command shows in the event line; a refused one is said aloud."""
        waiting = self._then.get(message.command.kind)
        then = waiting.pop(0) if waiting else None
        if not message.outcome.applied:
            row = command_row(message.command, message.outcome)
            self.notify(row.text, severity="error", timeout=10, markup=False)
        elif then is not None:
            then(message.outcome)

    def on_command_lost(self, message: CommandLost) -> None:
        """Say why a command could not be sent."""
        self.notify(f"{message.kind}: {message.reason}", severity="error", timeout=10, markup=False)

    # -- keys everywhere -------------------------------------------------------------------------

    def action_pane_runs(self) -> None:
        """Show the runs."""
        self.switch_mode("runs")

    def action_pane_train(self) -> None:
        """Show the open run, or say how one is opened."""
        if self._poller is None:
            self.notify("No run is open: choose one and press enter.", markup=False)
        else:
            self.switch_mode("train")

    def action_app_next_part(self) -> None:
        """Move the focus on."""
        self.screen.focus_next()

    def action_app_theme(self) -> None:
        """Light or dark."""
        self.theme = LIGHT.name if self.theme == DARK.name else DARK.name

    def action_app_palette(self) -> None:
        """Find an action by name."""
        self.action_command_palette()

    def action_app_help(self) -> None:
        """Keys and words."""
        if not isinstance(self.screen, HelpScreen):
            self.push_screen(HelpScreen())

    def action_app_leave(self) -> None:
        """Leave; what was a live run goes on without the screen."""
        self.exit(farewell(self.view, self._poller))

    def action_help_quit(self) -> None:
        """Ctrl+C says which key leaves."""
        self.notify("q leaves; a run goes on without the screen.", markup=False)

    async def action_quit(self) -> None:
        """Ctrl+Q leaves as q does."""
        self.action_app_leave()

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        """The palette: every action that can be done here and now."""
        pane = self.current_mode
        for a in on_pane(pane):
            if a.id != "app.palette" and refusal(a, self.view) is None:
                scope = "app" if a.pane == "all" else "screen"
                title = (a.label or a.help).capitalize().rstrip(".")
                keys = f" ({a.key_shown})" if a.key else ""
                yield SystemCommand(title, f"{a.help}{keys}", _run_action(self, f"{scope}.{a.method}"))


def _run_action(app: GrpoApp, name: str) -> Callable[[], Any]:
    async def run() -> None:
        await app.run_action(name)

    return run


def _short(path: Path) -> str:
    home = str(Path.home())
    return "~" + str(path)[len(home) :] if str(path).startswith(home + os.sep) else str(path)


def farewell(view: TrainView | None, poller: Poller | None) -> str:
    """What a person should know on leaving; empty when no live run is open."""
    if poller is None:
        return ""
    live = view.live if view is not None else poller.looks_live()
    return f"training goes on; `grpo-tui attach {one_line(str(poller.folder.root))}`" if live else ""


def run_app(roots: Sequence[Path], run: Path | None = None) -> str:
    """Show the workbench until it is left.

    Args:
        roots: Folders under which runs are looked for.
        run: A run folder to open at once.

    Returns:
        The line to print on leaving; empty when there is nothing to say.
    """
    with contextlib.suppress(OSError, AttributeError):
        os.nice(NICENESS)
    try:
        return GrpoApp(roots, run).run() or ""
    finally:
        restore_terminal()
