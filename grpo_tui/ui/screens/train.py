"""Pane 4, Train: charts, rewards, newest generations and the current phase of the open run; steers it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.events import DescendantFocus, Resize
from textual.screen import ModalScreen, Screen

from grpo_tui.core.commands import Outcome
from grpo_tui.core.text import one_line, shell_word
from grpo_tui.present.formatting import from_here
from grpo_tui.present.train_view import ChartView, TrainView
from grpo_tui.ui.actions import MOVED, action, bindings
from grpo_tui.ui.kit.table import CursorList
from grpo_tui.ui.needs import refusal
from grpo_tui.ui.pages import Pages
from grpo_tui.ui.paint import LineScroll
from grpo_tui.ui.shell import Shell
from grpo_tui.ui.textual_private import KeepsStyles
from grpo_tui.ui.widgets.bars import Footer, Header
from grpo_tui.ui.widgets.chart import Chart
from grpo_tui.ui.widgets.event_list import BeforeAfterList, EventSection
from grpo_tui.ui.widgets.groups import GroupList
from grpo_tui.ui.widgets.log_list import LogSection
from grpo_tui.ui.widgets.summary import (
    EventLines,
    FunctionTable,
    HealthLine,
    NowLine,
    RewardLine,
    RunSettings,
)

if TYPE_CHECKING:
    from grpo_tui.present.run_findings import RunFinding
    from grpo_tui.store.layout import RunFolder
    from grpo_tui.ui.replaying import ReplayPoller


class TrainScreen(KeepsStyles, Screen[None], Shell):
    """The open run."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings("train"),
        *(Binding(old, f"moved('{verb}', '{new}')", show=False) for old, verb, new in MOVED),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._held: TrainView | None = None
        self._offset = 0
        self._logarithmic: frozenset[str] = frozenset()
        self._part_wanted = ""
        self._large = False
        self._with_settings = False
        self._recorded: tuple[tuple[str, str], ...] | None = None
        """Settings recorded by the run; None until they are read."""
        self._pages: Pages | None = None
        self._pages_of: RunFolder | None = None

    def compose(self) -> ComposeResult:
        yield Header("train")
        yield RewardLine(id="reward-line")
        yield HealthLine(id="health-line")
        with Horizontal(id="charts"):
            with Vertical(id="column-0"):
                yield Chart(id="chart-0")
                yield Chart(id="chart-7")
                yield FunctionTable(id="functions")
            with Vertical(id="column-1"):
                yield Chart(id="chart-1")
                yield Chart(id="chart-2")
                yield Chart(id="chart-5")
            with Vertical(id="column-2"):
                yield Chart(id="chart-3")
                yield Chart(id="chart-4")
                yield Chart(id="chart-6")
            yield RunSettings(id="settings")
        yield GroupList(id="groups")
        yield LogSection(id="log")
        yield EventSection(id="event-list")
        yield BeforeAfterList(id="before-after")
        yield NowLine(id="now")
        yield EventLines(id="events")
        yield Footer("train")

    def on_mount(self) -> None:
        self.choose_part(None)
        self.shell.view_signal.subscribe(self, self._on_view)
        self._on_view(self.shell.view)
        self.query_one("#groups").focus()

    def on_unmount(self) -> None:
        self.close_pages()

    def charts_shown(self) -> TrainView | None:
        """Return the held view while the view is held, else the newest."""
        return self._held or self.shell.view

    # -- showing ---------------------------------------------------------------------------------

    def _on_view(self, view: TrainView | None) -> None:
        if self.is_attached and self is not self.app.screen and not isinstance(self.app.screen, ModalScreen):
            return  # updating would repaint the screen on top; resuming shows the newest view
        held = self._held is not None and view is not None and view.folder == self._held.folder
        self.query_one(Header).show(view, held=held)
        self.query_one(Footer).show(view)
        if not held:
            self._held = None
            self._show(view)

    def on_screen_resume(self) -> None:
        self._on_view(self.shell.view)

    def _show(self, view: TrainView | None) -> None:
        if view is None:
            return
        self.query_one(RewardLine).show(view)
        self.query_one(HealthLine).show(view)
        self.show_charts(view, _waits_for_steps(view))
        self.query_one(FunctionTable).show(view.functions, view.no_functions)
        self.query_one(NowLine).show(view)
        self.query_one(EventLines).show(view)
        self.choose_part(view)
        self.show_parts(view)

    def on_resize(self, event: Resize) -> None:
        self.call_after_refresh(self._show, self._held or self.shell.view)

    # -- the view --------------------------------------------------------------------------------

    def action_view_hold(self) -> None:
        if self.shell.replay is not None:
            self.shell.replay.turn()
            return
        self._held = None if self._held is not None else self.shell.view
        self._on_view(self.shell.view)

    def action_hardware_open(self) -> None:
        from grpo_tui.ui.screens.hardware import HardwareScreen

        self.app.push_screen(HardwareScreen())

    # -- replay ----------------------------------------------------------------------------------

    def action_replay_open(self) -> None:
        folder = self.shell.run_folder
        if folder is not None:
            self.shell.open_run(folder.root, replay=True)

    def action_replay_move(self, by: int) -> None:
        if (replay := self._replayed()) is not None:
            replay.move(by)

    def action_replay_speed(self, up: bool) -> None:
        if (replay := self._replayed()) is not None:
            replay.change_speed(up)

    def action_replay_go(self) -> None:
        from grpo_tui.ui.screens.dialogs import WordsDialog

        if (replay := self._replayed()) is not None:

            def chosen(words: str) -> None:
                if words.isdecimal() and len(words) < 19:
                    replay.go(int(words))
                elif words:
                    self.app.notify(f"{one_line(words, 20)} is not a step.", severity="warning")

            hint = f"steps {replay.steps[0]:,} to {replay.steps[-1]:,} are recorded"
            self.ask(WordsDialog("go to step", "", hint), chosen)

    def _replayed(self) -> ReplayPoller | None:
        """Return the replay. Without one, say so."""
        if self.shell.replay is None:
            loaded = "This is not a replay. To replay the run, press p in Runs."
            self.app.notify(LOADING if self.shell.view is None else loaded, severity="warning")
        return self.shell.replay

    # -- steering --------------------------------------------------------------------------------

    def action_run_checkpoint(self) -> None:
        self._steer("run.checkpoint", "checkpoint")

    def action_run_abort(self) -> None:
        self._steer("run.abort", "abort_reward")

    def action_run_stop(self) -> None:
        """Ask how to stop. While the model loads there is nothing to save."""
        view = self.shell.view
        loading = view is not None and view.live and view.state == "starting"
        self._stop("stop_now" if loading else "stop")

    def action_run_stop_now(self) -> None:
        self._stop("stop_now")

    def _stop(self, kind: str) -> None:
        from grpo_tui.ui.screens.dialogs import StopDialog

        view = self._allowed(f"run.{kind}")
        if view is not None:
            self.ask(StopDialog(view, saves=view.state != "starting"), self.shell.steer)

    def action_run_set(self) -> None:
        view = self._allowed("run.set")
        if view is not None:
            self._ask_set(view)

    def _ask_set(
        self, view: TrainView, typed: Mapping[str, str] | None = None, refusal: str = "", at: str = ""
    ) -> None:
        """Ask for settings. If the run rejects them, the dialog comes back with what was typed, and where."""
        from grpo_tui.ui.screens.train_dialogs import SetDialog

        def refused(why: str) -> bool:
            here = self.app.screen is self and self.shell.view is not None
            if here:  # with the same view, so that a field nobody edited is no change
                self._ask_set(view, dialog.typed, why, dialog.at)
            return here

        dialog = SetDialog(view, typed, refusal, at)
        self.ask(dialog, lambda changes: self.shell.steer("set", changes, refused=refused))

    def action_run_undo(self) -> None:
        self._steer("run.undo", "undo")

    def action_run_reload(self) -> None:
        from grpo_tui.ui.screens.train_dialogs import ReloadScreen

        def chosen(args: dict[str, object]) -> None:
            self.app.notify("Reload requested. The edited rewards count from the next generation on.")
            self.shell.steer("reload", args, self._tell_outcome)

        folder = self.shell.run_folder
        if self._allowed("run.reload") is not None and folder is not None:
            self.ask(ReloadScreen(folder.root), chosen)

    def _tell_outcome(self, outcome: Outcome) -> None:
        self.app.notify(one_line(outcome.reason, 300))

    def action_run_evaluate(self) -> None:
        if self._allowed("run.evaluate") is not None:
            self.app.notify("Asked for an evaluation after the current step.")
            self.shell.steer("evaluate", then=self._tell_outcome)

    def action_run_sample(self) -> None:
        from grpo_tui.ui.screens.dialogs import SampleDialog

        view = self._allowed("run.sample")
        if view is not None:
            self.ask(SampleDialog(view), lambda args: self.shell.steer("sample", args, self._show_samples))

    def action_live_chat(self) -> None:
        """Chat with the live policy. The base model is asked only if wanted: it takes memory of its own."""
        from grpo_tui.ui.screens.chat import ChatScreen

        folder = self.shell.run_folder
        if self._allowed("live.chat") is not None and folder is not None:
            root = folder.root
            self.app.push_screen(ChatScreen(root, f"{from_here(root)}@live", root, beside=False))

    def _show_samples(self, outcome: Outcome) -> None:
        from grpo_tui.ui.screens.reading import SampleResult

        self.app.push_screen(SampleResult(outcome))

    def action_pause_or_resume(self) -> None:
        """Pause or resume. A pending command of either kind is canceled by sending the other."""
        view, on_its_way = self.shell.view, self.shell.turning
        paused = on_its_way == "pause" if on_its_way else view is not None and view.state == "paused"
        kind = "resume" if paused else "pause"
        if on_its_way:
            self.app.notify(f"The {on_its_way} is canceled.")
            self.shell.steer(kind)
        elif self._allowed(f"run.{kind}") is not None:
            if kind == "pause":
                self.app.notify("Pausing after the current step. Press P again to keep training.")
            self.shell.steer(kind)

    def action_moved(self, verb: str, key: str) -> None:
        self.app.notify(f"{verb} is {key} now.")

    def _steer(self, asked: str, kind: str) -> None:
        if self._allowed(asked) is not None:
            self.shell.steer(kind)

    def _allowed(self, asked: str) -> TrainView | None:
        """Return the view if the action with this id is available now. Otherwise say why not."""
        view = self.shell.view
        reason = LOADING if view is None else refusal(action(asked), view)
        if reason is not None:
            self.app.notify(reason, severity="warning")
            return None
        return view

    # -- charts ----------------------------------------------------------------------------------

    def show_charts(self, view: TrainView, waits: str) -> None:
        """Show the charts of a view. Before the first step, show their titles and what they wait for."""
        visible = self._visible_charts()
        if not view.charts:
            from grpo_tui.present.big_chart import title_of

            for place, widget in enumerate(visible):
                title = title_of(FIRST_KEYS[place]) if place < len(FIRST_KEYS) else ""
                widget.show(None, title=title, waits=waits if place == 0 else "")
            return
        charts = arranged(view.charts, self.shell.preferences.charts)
        # If several fit, the first one stays: the reward shows progress.
        fixed = 1 if len(visible) > 1 else 0
        turning = charts[fixed:]
        for place, widget in enumerate(visible):
            shown = charts[0] if place < fixed else None
            if place >= fixed and place - fixed < len(turning):
                shown = turning[(self._offset + place - fixed) % len(turning)]
            logarithmic = shown is not None and shown.key in self._logarithmic
            widget.show(shown, logarithmic=logarithmic, waits=waits if shown and not view.step else "")

    def _visible_charts(self) -> list[Chart]:
        charts = (self.query_one(f"#chart-{i}", Chart) for i in range(CHARTS))
        return [c for c in charts if c.display and all(a.display for a in c.ancestors)]

    def _focused_chart(self) -> Chart | None:
        focused = self.focused
        return focused if isinstance(focused, Chart) and focused.key is not None else None

    def on_descendant_focus(self, event: DescendantFocus) -> None:
        footer = self.query_one(Footer)
        footer.focused = "chart" if isinstance(event.widget, Chart) else ""
        footer.show(self.shell.view)

    # -- keys ------------------------------------------------------------------------------------

    def action_chart_turn(self, direction: int) -> None:
        view = self.charts_shown()
        if view is None or not view.charts:
            return
        visible = len(self._visible_charts())
        by = max(1, visible - 1)
        turning = len(view.charts) - (1 if visible > 1 else 0)
        if turning > 0:
            self._offset = (self._offset + direction * by) % turning
        self.show_charts(view, "")

    def action_chart_open(self) -> None:
        chart = self._focused_chart() or next((c for c in self._visible_charts() if c.key is not None), None)
        if chart is not None and chart.key is not None:
            self._enlarge(chart.key)

    def action_chart_enlarge(self, place: int) -> None:
        key = self.query_one(f"#chart-{place}", Chart).key
        if key is not None:
            self._enlarge(key)

    def _enlarge(self, key: str) -> None:
        from grpo_tui.ui.screens.chart import ChartScreen

        folder = self.shell.run_folder
        if folder is not None:
            self.app.push_screen(ChartScreen(folder.root, key))

    def action_chart_log(self) -> None:
        view, chart = self.charts_shown(), self._focused_chart()
        keys = {
            c.key for c in ([chart] if chart is not None else self._visible_charts()) if c.key is not None
        }
        if view is not None and keys:
            on = keys <= self._logarithmic
            self._logarithmic = self._logarithmic - keys if on else self._logarithmic | keys
            self.show_charts(view, "")

    def action_chart_pick(self) -> None:
        from grpo_tui.ui.screens.metrics import MetricPicker

        folder, chart = self.shell.run_folder, self._focused_chart()
        if folder is None:
            return
        key = chart.key if chart is not None and chart.key is not None else ""
        purpose = "enter into this chart" if chart is not None else "enter enlarge"

        self.ask(MetricPicker([folder.root], key, purpose), lambda key: self._take(key, chart))

    def _take(self, key: str, chart: Chart | None) -> None:
        view = self.charts_shown()
        if chart is None or view is None or key not in {c.key for c in view.charts}:
            self._enlarge(key)
            return
        visible = self._visible_charts()
        shown = [c.key for c in visible if c.key is not None]
        place = visible.index(chart) if chart in visible else 0
        self.shell.prefer(charts=chosen_charts(shown, place, key, self.shell.preferences.charts))
        self._offset = 0
        self.show_charts(view, "")
        chart.focus()

    def help_here(self) -> bool:
        """Explain the focused chart's metric. Return False when no chart has the focus."""
        chart = self._focused_chart()
        if chart is None or chart.key is None:
            return False
        from grpo_tui.ui.screens.reading import MeaningScreen

        self.app.push_screen(MeaningScreen(chart.key))
        return True

    def action_view_settings(self) -> None:
        self._with_settings = not self._with_settings or self._large
        view = self.charts_shown()
        self._turn_to(self._part_wanted, large=False)
        if view is not None:
            self._show(view)
            self._ask_settings()

    def _ask_settings(self) -> None:
        from grpo_tui.present.window_load import settings_of

        pages = self._pages

        def take(recorded: tuple[tuple[str, str], ...]) -> None:
            view = self.charts_shown()
            if pages is self._pages and view is not None:
                self._recorded = recorded
                self.query_one(RunSettings).show(recorded, view.settings)

        if pages is not None and self._with_settings:
            pages.ask("settings", lambda stores: settings_of(stores.run.fact("config")), take)

    # -- the lower parts -------------------------------------------------------------------------

    @property
    def part(self) -> str:
        """The visible part: `groups`, `log`, `event-list` or `before-after`."""
        return next(name for name in PARTS if self.query_one(f"#{name}").display)

    def show_parts(self, view: TrainView) -> None:
        self._open_pages()
        self.query_one(RunSettings).show(self._recorded, view.settings)
        self.query_one(GroupList).show(view, view.no_groups)
        self.query_one(BeforeAfterList).show(view.before_after, view.folder)
        self.query_one(LogSection).look(view.now)
        self.query_one(EventSection).look(view)

    def choose_part(self, view: TrainView | None) -> None:
        """Show the part the user chose. By default before and after when a run has ended, else the groups."""
        ready = view is not None and view.before_after is not None
        ended = view is not None and not view.live
        wanted = self._part_wanted or ("before-after" if ready and ended else "groups")
        if wanted == "before-after" and not ready:
            wanted = "groups"
        states = {
            "-after": wanted == "before-after",
            "-large": self._large,
            "-settings": self._with_settings,
        }
        self.set_state(states, SIZED)
        focused = isinstance(self.focused, LineScroll) or self.focused is None
        turned = not self.query_one(f"#{wanted}").display
        for name in PARTS:
            self.query_one(f"#{name}").display = name == wanted
        if focused and turned:
            self._focus_part(wanted)
        found = ("findings",) if view is not None and view.findings else ()
        self.query_one(Footer).parts = (wanted, *(("large",) if self._large else ()), *found)

    def _focus_part(self, name: str) -> None:
        part = self.query_one(f"#{name}")
        (part if isinstance(part, LineScroll) else part.query_one(CursorList)).focus()

    def _turn_to(self, part: str, *, large: bool | None = None) -> None:
        closed = self._large and large is False
        self._part_wanted = part
        self._large = self._large if large is None else large
        view = self.charts_shown()
        self.choose_part(view)
        if closed:  # the small list has no room to read back in: it is there for what is new
            self.query_one(GroupList).action_first()
        self._focus_part(self.part)
        if view is not None:
            self.show_parts(view)
            self.query_one(Footer).show(view)

    def _open_pages(self) -> None:
        folder = self.shell.run_folder
        if folder == self._pages_of:
            return
        self.close_pages()
        self._pages_of = folder
        if folder is not None:
            self._pages = Pages(folder.database, self.call_later)
            self.in_thread("pages", self._pages.run)
        for part in (self.query_one(LogSection), self.query_one(EventSection), self.query_one(GroupList)):
            part.follow(self._pages)
        self._recorded = None
        self._ask_settings()

    def close_pages(self) -> None:
        if self._pages is not None:
            self._pages.stop()
        self._pages = self._pages_of = None

    def action_view_log(self) -> None:
        view = self.charts_shown()
        order = ["groups", "log"]
        if view is not None and view.before_after is not None:
            order = ["before-after", "log", "groups"]
        now = self.part if self.part in order else order[0]
        self._turn_to(order[(order.index(now) + 1) % len(order)])

    def action_view_groups(self) -> None:
        large = not (self._large and self.part == "groups")
        self._turn_to("groups" if large else "", large=large)

    def action_view_events(self) -> None:
        shown = self.part == "event-list"
        self._turn_to("" if shown else "event-list", large=not shown)

    def action_view_findings(self) -> None:
        from grpo_tui.present.run_findings import read_findings

        folder, pages = self.shell.run_folder, self._pages
        if folder is not None and pages is not None:
            pages.ask(
                "findings",
                lambda stores: read_findings(folder.root, stores.run),
                lambda found: self._list_findings(folder, found),
                lambda why: self.app.notify(why, severity="warning"),
            )

    def _list_findings(self, folder: RunFolder, found: tuple[RunFinding, ...]) -> None:
        from grpo_tui.ui.screens.train_dialogs import RunFindingsScreen

        if not found:
            self.app.notify("No problems were found in this run.")
        elif self.app.screen is self:
            view = self.shell.view
            live = None if self.shell.replay is not None else view is not None and view.live
            run = shell_word(from_here(folder.root))
            screen = RunFindingsScreen(found, run, live=live)
            self.ask(screen, lambda answer: self._follow_finding(folder, *answer))

    def _follow_finding(self, folder: RunFolder, what: str, one: RunFinding) -> None:
        change, view = one.change, self.shell.view
        if what == "completions":
            self.shell.show_generations(one.query)
        elif what == "set" and change is not None and change.field is not None:
            if self._allowed("run.set") is not None:
                because = f"{one.finding.id}: {change.text}"
                self.shell.steer("set", {change.field: change.value, "because": because, "yes": True})
                if any(other.field != change.field for other in one.settings):
                    self._write_next(folder, one)
        elif what == "write":
            self._write_next(folder, one)
        elif what == "chart":
            from grpo_tui.ui.screens.chart import ChartScreen

            ends = {chart.key: chart.end for chart in view.charts} if view is not None else {}
            key = one.chart if one.chart in ends else "reward"
            first, last = one.span
            self.app.push_screen(ChartScreen(folder.root, key, (first, min(last, ends.get(key, last)))))

    def _write_next(self, folder: RunFolder, one: RunFinding) -> None:
        from grpo_tui.ui.starting import Child

        child = Child(["doctor", str(folder.root), "--apply", one.finding.id, "--next"], ())
        self.in_thread("next config", child.run, partial(self.shell.tell_ended, "Not written", ()))

    def action_view_large(self) -> None:
        self._turn_to(self._part_wanted, large=not self._large)

    def action_view_back(self) -> None:
        """End the search, or shrink the part, or go back to the groups, in this order."""
        if self.part == "log" and self.query_one(LogSection).end_search():
            return
        if self._large or self._part_wanted:
            self._turn_to(
                "" if self.part == "event-list" or not self._large else self._part_wanted, large=False
            )

    def action_part_end(self) -> None:
        part = self.query_one(f"#{self.part}")
        if isinstance(part, LogSection):
            part.log_list.action_last()
        elif isinstance(part, EventSection):
            part.event_list.action_first()
        elif isinstance(part, GroupList):
            part.action_first()

    def action_log_search(self) -> None:
        self._turn_to("log")
        self.query_one(LogSection).search()

    def action_log_hit(self, forward: bool) -> None:
        self._turn_to("log")
        self.query_one(LogSection).next_hit(forward=forward)

    def action_log_level(self) -> None:
        self._turn_to("log")
        self.query_one(LogSection).turn_level()

    def action_groups_score(self) -> None:
        from grpo_tui.ui.requests import rewards_of_run

        chosen, folder = self.query_one(GroupList).selected, self.shell.run_folder
        if chosen is None or folder is None:
            self.app.notify("No completion is recorded yet.", severity="warning")
        else:
            self.shell.show_rewards(rewards_of_run(folder.root, chosen[0].id))

    def action_groups_inspect(self) -> None:
        chosen = self.query_one(GroupList).selected
        self.shell.show_generations(group=None if chosen is None else chosen[0].id)

    def action_part_copy(self) -> None:
        focused = self.focused
        if isinstance(focused, Chart) and focused.newest:
            self.shell.copy(f"newest value of {focused.key}", focused.newest)
            return
        part = self.query_one(f"#{self.part}")
        if isinstance(part, LogSection | EventSection | GroupList):
            part.copy()


def _waits_for_steps(view: TrainView) -> str:
    if view.trouble:
        return "Nothing to draw: run.db cannot be read."
    if view.ended:
        return "The run ended before its first step."
    if view.phase == "load":
        return "Appears with the first step."
    return "Charts appear after the first step."


LOADING = "The run is still loading. Press the key again in a moment."
CHARTS = 8
"""Most charts shown at any size. The stylesheet hides those that do not fit."""
FIRST_KEYS = ("reward", "completions/mean_length", "entropy")
"""Charts that every run will have, to show before the first step."""


def arranged(charts: Sequence[ChartView], chosen: Sequence[str]) -> list[ChartView]:
    """Return the charts with the chosen ones first, in order. Skips chosen ones the run does not log."""
    by_key = {chart.key: chart for chart in charts}
    first = [by_key[key] for key in dict.fromkeys(chosen) if key in by_key]
    kept = {chart.key for chart in first}
    return [*first, *(chart for chart in charts if chart.key not in kept)]


def chosen_charts(shown: Sequence[str], place: int, key: str, before: Sequence[str]) -> tuple[str, ...]:
    """Return the choice after putting `key` in a place. If it is already shown, the two charts swap."""
    after = list(shown)
    if key in after:
        after[after.index(key)] = after[place]
    after[place] = key
    return tuple(dict.fromkeys([*after, *before]))


PARTS = ("groups", "log", "event-list", "before-after")
SIZED = "#charts, #settings, #health-line, #functions, #events, #now"
"""Parts whose styles depend on the classes set by `choose_part`."""
