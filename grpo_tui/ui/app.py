"""The application: opens runs, passes on what worker threads deliver, sends commands to the open run."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from textual.app import App, SystemCommand
from textual.driver import Driver
from textual.drivers.linux_driver import LinuxDriver
from textual.screen import Screen
from textual.signal import Signal
from textual.worker import Worker, WorkerState

from grpo_tui.core.commands import REPLAYED, Outcome
from grpo_tui.core.text import one_line, safe
from grpo_tui.present.glyphs import few_glyphs
from grpo_tui.ui.actions import ACTING, Action, bindings, on_pane
from grpo_tui.ui.needs import refusal
from grpo_tui.ui.paint import COMPONENTS
from grpo_tui.ui.panes import PANES
from grpo_tui.ui.preferences import PreferenceFile
from grpo_tui.ui.requests import ConfigRequest, RewardsRequest
from grpo_tui.ui.shell import Shell
from grpo_tui.ui.terminal import (
    TerminalTitle,
    can_be_continued,
    exit_on_signals,
    fitting,
    follow_stops,
    has_title,
    restore_terminal,
    sequences,
)
from grpo_tui.ui.textual_private import PatientDriver, TunedApp, leave_whole_collections_to_the_app
from grpo_tui.ui.theme import DARK, NAMES, THEMES, first_theme

if TYPE_CHECKING:
    from textual.actions import ActionParseResult
    from textual.dom import DOMNode
    from textual.notifications import SeverityLevel
    from textual.theme import Theme

    from grpo_tui.present.runs_view import RunRow
    from grpo_tui.present.train_view import TrainView
    from grpo_tui.store.layout import RunFolder
    from grpo_tui.ui.messages import CommandEnded, CommandLost, ConsentAsked, RunAdvanced, RunsListed
    from grpo_tui.ui.poller import Poller
    from grpo_tui.ui.replaying import ReplayPoller
    from grpo_tui.ui.starting import Ended


TITLE_EVERY_S = 1.0
MOST_WORKERS = 32
"""Upper limit of worker threads. Each is started when it is first needed."""
LIST_AFTER_S = 2.0
"""Longest time that the search for runs waits for the run that was asked for."""
NICENESS = 10
"""Training has priority on a shared CPU."""

WIDTHS: list[tuple[int, str]] | None = [(0, "-narrow"), (100, "-medium"), (160, "-wide")]
HEIGHTS: list[tuple[int, str]] | None = [
    (0, "-tiny"),
    (10, "-short"),
    (20, "-low"),
    (30, "-high"),
    (46, "-tall"),
]

Then = Callable[[Outcome], None]
"""Gets the outcome of a command that was applied."""
Refused = Callable[[str], bool]
"""Gets the reason why a command was rejected. Returns whether it has told the user."""


class GrpoApp(TunedApp, Shell):
    """The workbench. Opens the run, rewards or config that it is given in their pane.

    Args:
        roots: Folders to search for runs.
        clock: Wall clock, in seconds since the epoch.
        niceness: Added to the process's own after the first paint. Workers start later and inherit it.
    """

    TITLE = "grpo-tui"
    CSS_PATH = "styles/app.tcss"
    MODES: ClassVar[dict[str, Any]] = {pane.id: pane.open for pane in PANES}
    COMPONENT_CLASSES = COMPONENTS
    BINDINGS = bindings("all")
    HORIZONTAL_BREAKPOINTS = WIDTHS
    VERTICAL_BREAKPOINTS = HEIGHTS

    def __init__(
        self,
        roots: Sequence[Path],
        run: Path | None = None,
        *,
        rewards: RewardsRequest | None = None,
        config: ConfigRequest | None = None,
        clock: Callable[[], float] = time.time,
        niceness: int = 0,
    ) -> None:
        first = "rewards" if rewards is not None else "runs" if run is None else "train"
        first = "config" if config is not None else first
        self.DEFAULT_MODE = first  # type: ignore[misc]
        self._preference_file = PreferenceFile()
        self.preferences, self._trouble = self._preference_file.read()
        # Set before the styles are read: a theme set later makes Textual read all of them again.
        self.set_reactive(App.theme, NAMES.get(self.preferences.theme) or first_theme(os.environ))
        super().__init__()
        self.clock, self._niceness = clock, niceness
        self.view: TrainView | None = None
        self.view_signal: Signal[TrainView | None] = Signal(self, "open run")
        self._poller: Poller | None = None
        self._then: dict[str, list[tuple[Mapping[str, Any], Then | None, Refused | None]]] = {}
        self.turning = ""
        """`pause` or `resume` while the latest of these commands is pending, otherwise empty."""
        self.ascii_only = few_glyphs(os.environ)
        self._title: TerminalTitle | None = None
        self._hinted = False
        self._lived: str | None = None
        """Folder of the run that was live in the previous view."""
        self._watched: str | None = None
        """Folder whose errors are reported. `_errors` holds what was reported or was there at the start."""
        self._errors: set[tuple[str, int | None]] = set()
        self.rows: tuple[RunRow, ...] = ()
        self.rows_complete = False
        self.runs_signal: Signal[tuple[tuple[RunRow, ...], bool]] = Signal(self, "runs")
        self._roots, self._first_run = tuple(roots), run
        self.replay: ReplayPoller | None = None
        """The poller of the open run while it is a replay."""
        if config is None and rewards is not None and rewards.file is not None:
            config = ConfigRequest(rewards.file, rewards.overrides, in_rewards=True)
        self._rewards_request, self._config_request = rewards, config
        self.before_leaving: Callable[[Callable[[], None]], bool] | None = None
        """Called before the app exits. Returns True to keep it open; its argument exits, now or later."""
        self._consent: list[ConsentAsked] = []
        """Questions waiting for an answer. The first one is on screen."""
        self._generations_request: tuple[str, int | None] | None = None
        self._ended, self._viewed = threading.Event(), threading.Event()

    @property
    def available_themes(self) -> dict[str, Theme]:
        return super().available_themes | {theme.name: theme for theme in THEMES}

    def get_driver_class(self) -> type[Driver]:
        found = super().get_driver_class()
        return PatientDriver if found is LinuxDriver else found

    def on_mount(self) -> None:
        exit_on_signals(self.leave_now)
        if self.driver is not None and self.driver.can_suspend:
            follow_stops(self._give_terminal, self._take_terminal)
        self.call_after_refresh(self._start_workers)
        self._say_trouble(self._trouble)
        self.view_signal.subscribe(self, self._ring)
        self.call_after_refresh(self._begin_title)

    def _give_terminal(self) -> None:
        self.give_back_title()
        if self.driver is not None:
            self.driver.suspend_application_mode()

    def _take_terminal(self) -> None:
        if self.driver is not None:
            self.driver.resume_application_mode()
            self.refresh(layout=True)

    def _start_workers(self) -> None:
        from concurrent.futures import ThreadPoolExecutor

        with contextlib.suppress(OSError, AttributeError):
            os.nice(self._niceness)
        # Python's default pool has six threads on two CPUs. Long-lived workers would fill it.
        threads = ThreadPoolExecutor(MOST_WORKERS, thread_name_prefix="worker")
        asyncio.get_running_loop().set_default_executor(threads)
        self.in_thread("runs", self._watch_runs)
        if self._first_run is not None and self._poller is None:
            self._follow(self._first_run)
        self.in_thread("modules", self._preload)

    def _preload(self) -> None:
        from grpo_tui.ui.preload import preload

        preload(lambda: self.quiet, self._ended)

    def _watch_runs(self) -> None:
        if self._first_run is not None:
            self._viewed.wait(LIST_AFTER_S)  # the run that was asked for comes first
        from grpo_tui.ui.runs_watch import RunsWatch

        # The open run is listed even when it is outside the roots.
        roots = self._roots if self._first_run is None else (*self._roots, self._first_run)
        RunsWatch(roots, self.post_message, self._ended).run()

    def on_unmount(self) -> None:
        self._ended.set()
        self._viewed.set()
        if self._poller is not None:
            self._poller.stop()
        self.give_back_title()

    @property
    def roots(self) -> tuple[Path, ...]:
        return self._roots

    @property
    def places(self) -> str:
        """The search roots as text for the user, at most 60 cells."""
        return one_line(", ".join(_short(root) for root in self._roots), 60)

    def on_runs_listed(self, message: RunsListed) -> None:
        self.rows, self.rows_complete = message.rows, message.complete
        self.runs_signal.publish((message.rows, message.complete))

    def on_consent_asked(self, message: ConsentAsked) -> None:
        """Ask before running code that is not the user's own, one question at a time."""
        self._consent.append(message)
        if len(self._consent) == 1:
            self._ask_consent()

    def _ask_consent(self) -> None:
        from grpo_tui.rewards.consent import give, lines, unanswered
        from grpo_tui.ui.screens.dialogs import Choice, MenuDialog

        while self._consent and not unanswered(self._consent[0].codes):
            self._consent.pop(0).again()
        if not self._consent:
            return
        codes = unanswered(self._consent[0].codes)

        def answered(yes: bool | None) -> None:
            first = self._consent.pop(0)
            if yes:
                give(codes)
                first.again()
            else:
                declined = [first, *(m for m in self._consent if set(m.codes) <= set(codes))]
                self._consent = [message for message in self._consent if message not in declined]
                for message in declined:
                    message.otherwise()
            self._ask_consent()

        choices = [
            Choice("run it", "asks again only after a change", True, "y"),
            Choice("not now", "what needs no code still works", False, "n"),
        ]
        sentences = ["This would run code that is not yours. Read it first.", *lines(codes)]
        self.push_screen(MenuDialog("run this code?", choices, sentences, at=1), answered)

    def tell_ended(self, failed: str, notes: Sequence[str], ended: Ended) -> None:
        """Report what a command printed, and its notes, or why it failed."""
        if ended.code == 0:
            self.notify("; ".join([*map(one_line, ended.printed.splitlines()), *notes]), timeout=20)
        else:
            self.notify(f"{failed}: {ended.trouble}", severity="error", timeout=20)

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """Report a failed worker. Otherwise the screen would freeze without explanation."""
        if event.state == WorkerState.ERROR:
            reason = one_line(repr(event.worker.error), 300)
            self.notify(f"{event.worker.group} ended: {reason}", severity="error", timeout=60)

    def notify(
        self,
        message: str,
        *,
        title: str = "",
        severity: SeverityLevel = "information",
        timeout: float | None = None,
        markup: bool = False,
    ) -> None:
        """Show a notification. Markup is off by default, because names and errors come from outside."""
        super().notify(message, title=title, severity=severity, timeout=timeout, markup=markup)

    # -- global keys -----------------------------------------------------------------------------

    async def run_action(
        self,
        action: str | ActionParseResult,
        default_namespace: DOMNode | None = None,
        namespaces: Mapping[str, DOMNode] | None = None,
    ) -> bool:
        """Do an action of a key, a click or the palette. A replay refuses those that change something."""
        name = action.rpartition("(")[0] or action if isinstance(action, str) else action[1]
        if self._only_looks and name.rpartition(".")[2] in ACTING:
            self.notify(REPLAYED, severity="warning")
            return True
        return await super().run_action(action, default_namespace, namespaces)

    @property
    def _only_looks(self) -> bool:
        """Whether a replay is shown, which changes nothing, and not a file that the user opened beside it."""
        return self.replay is not None and not getattr(self.screen, "beside_run", False)

    def action_pane(self, pane: str) -> None:
        if pane == "train" and self._poller is None and self._first_run is None:
            self._to_pane("runs")
            self.notify("No run is open. Start one, or choose one here and press enter.")
        else:
            self._to_pane(pane)

    def show_config(self, request: ConfigRequest) -> None:
        self._config_request = request
        self.switch_mode("config")

    def take_config_request(self) -> ConfigRequest | None:
        """Return and clear the config that the pane was asked to open."""
        request, self._config_request = self._config_request, None
        return request

    def show_rewards(self, request: RewardsRequest) -> None:
        self.offer_rewards(request)
        self.switch_mode("rewards")

    def offer_rewards(self, request: RewardsRequest) -> None:
        """Set what the Rewards pane loads the next time it is shown."""
        self._rewards_request = request

    def take_rewards_request(self) -> RewardsRequest | None:
        """Return and clear what the Rewards pane was asked to show."""
        request, self._rewards_request = self._rewards_request, None
        return request

    def show_generations(self, query: str = "", group: int | None = None) -> None:
        self._generations_request = (query, group)
        self._to_pane("generations")

    def take_generations_request(self) -> tuple[str, int | None] | None:
        """Return and clear the query and the group that Generations was asked to show."""
        request, self._generations_request = self._generations_request, None
        return request

    def _to_pane(self, mode: str) -> None:
        """Show a pane. When it is already shown, close the screens on top of it."""
        again = self.current_mode == mode
        self.switch_mode(mode)
        while again and len(self.screen_stack) > 1:
            self.pop_screen()

    def action_app_next_part(self) -> None:
        self.screen.focus_next()

    def action_app_theme(self) -> None:
        chosen = "light" if self.theme == DARK.name else "dark"
        self.theme = NAMES[chosen]
        self.prefer(theme=chosen)

    def action_app_palette(self) -> None:
        self.action_command_palette()

    def action_command_palette(self) -> None:
        from grpo_tui.ui.palette import Names, Palette

        if not isinstance(self.screen, Palette):
            self.push_screen(Palette([Names], id="--command-palette"))

    def action_app_help(self) -> None:
        from grpo_tui.ui.screens.reading import HelpScreen

        asked = getattr(self.screen, "help_here", None)
        if asked is not None and asked():
            return
        if not isinstance(self.screen, HelpScreen):
            first = getattr(self.screen, "PANE", self.current_mode)
            self.push_screen(HelpScreen(first, acting=not self._only_looks))

    def action_app_suspend(self) -> None:
        if can_be_continued():
            self.action_suspend_process()
        else:
            self.notify("Cannot suspend: grpo-tui was not started from a shell.")

    def action_app_leave(self) -> None:
        if self.before_leaving is None or not self.before_leaving(self.leave_now):
            self.leave_now()

    def leave_now(self) -> None:
        if self._poller is None and self._first_run is not None:
            self._follow(self._first_run)
        self.exit(self.farewell)

    def action_help_quit(self) -> None:
        self.notify("Press q to leave. Training continues.")

    async def action_quit(self) -> None:
        self.action_app_leave()

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        for a in self.offered(screen):
            keys = f" ({a.key_alone})" if a.key_alone else ""
            yield SystemCommand(a.title, a.help + keys, partial(self.run_action, a.target))

    def offered(self, screen: Screen[Any]) -> list[Action]:
        """Return the actions that are currently available, each once even if several keys run it."""
        listed = getattr(screen, "listed", None)  # the list of runs has it
        here = on_pane(getattr(screen, "PANE", self.current_mode))
        view = None if getattr(screen, "beside_run", False) else self.view
        possible = [a for a in here if a.id != "app.palette" and refusal(a, view, listed) is None]
        return list({a.target: a for a in reversed(possible)}.values())[::-1]

    # -- the run ---------------------------------------------------------------------------------

    def open_run(self, path: Path, *, replay: bool = False) -> None:
        """Show a run in Train; with `replay`, as it was."""
        same = self._poller is not None and self._poller.folder.root == path
        if not same or replay or self.replay is not None:
            self.view = None
            self.view_signal.publish(None)
            if self.replay is not None:
                self.replay.end()
            if replay:
                from grpo_tui.present.replay import start_replay

                start_replay(path)
            self._follow(path)
            self.switch_mode("train")
            while len(self.screen_stack) > 1:  # screens of the previous run
                self.pop_screen()
        self.switch_mode("train")

    def _follow(self, path: Path) -> None:
        from grpo_tui.store.replay import replay_of
        from grpo_tui.ui.poller import Poller

        if self._poller is not None:
            self._poller.stop()
        self._then.clear()
        self.turning = ""
        opened, self.replay = 0 if self._poller is None else self._poller.folder.opened + 1, None
        if (replay := replay_of(path / "run.db")) is not None:
            from grpo_tui.ui.replaying import ReplayPoller

            self._poller = self.replay = ReplayPoller(path, self.post_message, replay, opened)
        else:
            self._poller = Poller(path, self.post_message, clock=self.clock, untouched_s=self.untouched_s)
        self.in_thread("poller", self._poller.run)

    def on_run_advanced(self, message: RunAdvanced) -> None:
        """Publish the newest view. Ignore one that belongs to a previously open run."""
        if message.source is self._poller:
            self.view = message.view
            self.view_signal.publish(message.view)
            if not self._viewed.is_set():
                self.call_after_refresh(self._viewed.set)

    @property
    def run_folder(self) -> RunFolder | None:
        return None if self._poller is None else self._poller.folder

    @property
    def farewell(self) -> str:
        """Text to print on exit. Empty when no live run is open."""
        if self._poller is None or self.replay is not None:
            return ""
        live = self.view.live if self.view is not None else self._poller.looks_live()
        return (
            f"training continues; `grpo-tui attach {one_line(str(self._poller.folder.root))}`" if live else ""
        )

    def let_go(self, screen: Screen[Any]) -> None:
        """Unsubscribe a closed screen, which the signal would otherwise keep alive until its next value."""
        self.view_signal.unsubscribe(screen)

    # -- commands --------------------------------------------------------------------------------

    def steer(
        self,
        kind: str,
        args: Mapping[str, Any] | None = None,
        then: Then | None = None,
        refused: Refused | None = None,
    ) -> None:
        """Send a command to the open run. `then` gets the outcome if the command is applied.

        `refused` gets the reason if it is rejected, and returns whether it has told the user.
        """
        if self._poller is None or self.replay is not None:
            return
        self._then.setdefault(kind, []).append((dict(args or {}), then, refused))
        if kind in ("pause", "resume"):
            self.turning = kind
        self._poller.send(kind, args)

    def on_command_ended(self, message: CommandEnded) -> None:
        """Report a rejected command. An applied one appears among the events."""
        from grpo_tui.present.events import command_row

        then, refused = self._ended_command(message.command.kind, message.command.args)
        if not message.outcome.applied:
            row = command_row(message.command, message.outcome)
            if refused is None or not refused(row.text):
                self.notify(row.text, severity="error", timeout=10)
        elif then is not None:
            then(message.outcome)

    def on_command_lost(self, message: CommandLost) -> None:
        self._ended_command(message.kind)
        self.notify(f"{message.kind}: {message.reason}", severity="error", timeout=10)

    def _ended_command(
        self, kind: str, args: Mapping[str, Any] | None = None
    ) -> tuple[Then | None, Refused | None]:
        """Pop the callbacks of the oldest command of a kind, with these arguments: a setting can wait."""
        if kind == self.turning:
            self.turning = ""
        waiting = self._then.get(kind, [])
        at = next((place for place, one in enumerate(waiting) if args is None or one[0] == args), None)
        return (None, None) if at is None else waiting.pop(at)[1:]

    # -- preferences -----------------------------------------------------------------------------

    def prefer(self, **changes: Any) -> None:
        """Save changed preferences. Names are the fields of `Preferences`."""
        self.preferences, trouble = self._preference_file.change(**changes)
        self._say_trouble(trouble)

    def _say_trouble(self, trouble: str) -> None:
        if trouble:
            self.notify(one_line(trouble, 300), severity="warning", timeout=10)

    # -- title -----------------------------------------------------------------------------------

    def _begin_title(self) -> None:
        if self.driver is not None and has_title(os.environ):
            self._title = TerminalTitle(self._write, plain=self.ascii_only)
            self.set_interval(TITLE_EVERY_S, self._show_title)

    def _show_title(self) -> None:
        if self._title is not None and self.preferences.title:
            self._title.show(self.view)

    def give_back_title(self) -> None:
        """Restore the previous terminal title. While the app runs, the next second sets it again."""
        if self._title is not None:
            self._title.give_back()

    def _write(self, data: str) -> None:
        if self.driver is not None:
            self.driver.write(data)

    def action_app_title(self) -> None:
        self.prefer(title=not self.preferences.title)
        if self.preferences.title:
            self._show_title()
        else:
            self.give_back_title()
        self.notify(f"The terminal title {'shows' if self.preferences.title else 'no longer shows'} the run.")

    # -- bell ------------------------------------------------------------------------------------

    def _ring(self, view: TrainView | None) -> None:
        """Ring once when a run that was live has ended, and report new errors."""
        if view is not None and view.replay is None:
            self._tell_errors(view)
        if view is None or view.replay is not None:
            self._lived = self._watched = None
        elif view.live:
            self._lived = view.folder
        elif view.ended and self._lived == view.folder:
            self._lived = None
            if self.preferences.bell:
                self.bell()

    def _tell_errors(self, view: TrainView) -> None:
        """Report each error found since the run was opened, once."""
        found = {(one.id, one.first_step): one for one in view.findings if one.severity == "error"}
        if self._watched != view.folder:
            self._watched, self._errors = view.folder, set(found)
        new = found.keys() - self._errors
        self._errors |= new
        for key in new:
            self.notify(one_line(found[key].message, 300), severity="error", timeout=20)
        if new and self.preferences.bell:
            self.bell()

    def action_app_bell(self) -> None:
        self.prefer(bell=not self.preferences.bell)
        rings = self.preferences.bell
        rings_for = "The bell rings once when the run ends or fails, and for a new error."
        self.notify(rings_for if rings else "The bell is off.")

    # -- clipboard -------------------------------------------------------------------------------

    def copy(self, what: str, text: str) -> None:
        """Copy text to the clipboard of the user's own machine through the terminal, and confirm it."""
        kept, whole = fitting(text), safe(text)
        self.copy_to_clipboard(kept)
        count = f"{len(kept):,} characters"
        if len(kept) < len(whole):
            count = f"the first {len(kept):,} of {len(whole):,} characters, the most a clipboard takes"
        hint = ""
        if os.environ.get("TMUX") and not self._hinted:
            hint, self._hinted = " tmux passes it on with `set -g set-clipboard on`.", True
        self.notify(f"Copied {one_line(what, 60)}: {count}.{hint}")

    def copy_to_clipboard(self, text: str) -> None:
        self._clipboard = text
        self._write(sequences(text, os.environ))


def _short(path: Path) -> str:
    if path == Path("."):
        return "this folder"
    home = str(Path.home())
    return "~" + str(path)[len(home) :] if str(path).startswith(home + os.sep) else str(path)


def run_app(
    roots: Sequence[Path],
    run: Path | None = None,
    rewards: RewardsRequest | None = None,
    config: ConfigRequest | None = None,
) -> str:
    """Run the workbench until the user leaves. Return the line to print on exit, which may be empty."""
    leave_whole_collections_to_the_app()
    app = GrpoApp(roots, run, rewards=rewards, config=config, niceness=NICENESS)
    try:
        parting = app.run() or ""
    except BaseException:
        restore_terminal()
        raise
    if app.return_code:  # it failed, and has printed why
        raise SystemExit(app.return_code)
    return parting
