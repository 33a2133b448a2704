"""Pane 4: is it learning? Charts, rewards, newest generations, what goes on, and the keys that steer."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.events import Resize
from textual.screen import ModalScreen, Screen

from grpo_tui.core.commands import Outcome
from grpo_tui.present.train_view import TrainView
from grpo_tui.ui.actions import Action, action, bindings, refusal
from grpo_tui.ui.screens.dialogs import ConfirmDialog, SampleDialog, SampleResult, SetDialog
from grpo_tui.ui.screens.train_charts import ChartSlots
from grpo_tui.ui.screens.train_parts import LowerParts
from grpo_tui.ui.switching import KeepsStyles
from grpo_tui.ui.widgets.before_after_list import BeforeAfterList
from grpo_tui.ui.widgets.chart import Chart
from grpo_tui.ui.widgets.event_list import EventSection
from grpo_tui.ui.widgets.footer import Footer
from grpo_tui.ui.widgets.functions import FunctionTable
from grpo_tui.ui.widgets.groups import GroupList
from grpo_tui.ui.widgets.header import Header
from grpo_tui.ui.widgets.log_section import LogSection
from grpo_tui.ui.widgets.now_lines import EventLines, NowLine
from grpo_tui.ui.widgets.summary import HealthLine, RewardLine


class TrainScreen(KeepsStyles, Screen[None], ChartSlots, LowerParts):
    """The open run."""

    BINDINGS = bindings("train")

    def __init__(self) -> None:
        super().__init__()
        self._held: TrainView | None = None

    def compose(self) -> ComposeResult:
        """From the header down to the footer; the grid takes the charts in reading order."""
        yield Header("train")
        yield RewardLine(id="reward-line")
        yield HealthLine(id="health-line")
        with Horizontal(id="charts"):
            with Vertical(id="column-0"):
                yield Chart(id="chart-0")
                yield FunctionTable(id="functions")
            with Vertical(id="column-1"):
                yield Chart(id="chart-1")
                yield Chart(id="chart-2")
            with Vertical(id="column-2"):
                yield Chart(id="chart-3")
                yield Chart(id="chart-4")
        yield GroupList(id="groups")
        yield LogSection(id="log")
        yield EventSection(id="event-list")
        yield BeforeAfterList(id="before-after")
        yield NowLine(id="now")
        yield EventLines(id="events")
        yield Footer("train")

    def on_mount(self) -> None:
        """Start with what is known, and follow what comes."""
        self.choose_part(None)
        self.shell.view_signal.subscribe(self, self._on_view)
        self._on_view(self.shell.view)
        self.query_one("#groups").focus()

    def on_unmount(self) -> None:
        """Read no more pages."""
        self.close_pages()

    def charts_shown(self) -> TrainView | None:
        """The held view while it is held."""
        return self._held or self.shell.view

    # -- showing ---------------------------------------------------------------------------------

    def _on_view(self, view: TrainView | None) -> None:
        if self.is_attached and self is not self.app.screen and not isinstance(self.app.screen, ModalScreen):
            return  # what lies under another screen would have it painted anew; a return shows the newest
        held = self._held is not None and view is not None and view.folder == self._held.folder
        self.query_one(Header).show(view, held=held)
        self.query_one(Footer).show(view)
        if not held:
            self._held = None
            self._show(view)

    def on_screen_resume(self) -> None:
        """Show what came meanwhile."""
        self._on_view(self.shell.view)

    def _show(self, view: TrainView | None) -> None:
        if view is None:
            return
        self.query_one(RewardLine).show(view)
        self.query_one(HealthLine).show(view)
        self.show_charts(view, _waits_for_steps(view))
        self.query_one(FunctionTable).show(view.functions, seen=view.metric_rows > 0)
        self.query_one(NowLine).show(view)
        self.query_one(EventLines).show(view)
        self.choose_part(view)
        self.show_parts(view)

    def on_resize(self, event: Resize) -> None:
        """Another size shows another number of charts."""
        self.call_after_refresh(self._show, self._held or self.shell.view)

    # -- the view --------------------------------------------------------------------------------

    def action_view_hold(self) -> None:
        """Hold the view, or let it go on."""
        self._held = None if self._held is not None else self.shell.view
        self._on_view(self.shell.view)

    def action_hardware_open(self) -> None:
        """The machine over the whole screen."""
        from grpo_tui.ui.screens.hardware import HardwareScreen

        self.app.push_screen(HardwareScreen())

    # -- steering --------------------------------------------------------------------------------

    def action_run_pause(self) -> None:
        """Pause after the step."""
        self._pause_or_go_on("pause")

    def action_run_resume(self) -> None:
        """Go on after a pause."""
        self._pause_or_go_on("resume")

    def action_run_checkpoint(self) -> None:
        """Save a checkpoint."""
        self._steer(action("run.checkpoint"), "checkpoint")

    def action_run_abort(self) -> None:
        """Abort the reward call that runs."""
        self._steer(action("run.abort"), "abort_reward")

    def action_run_stop(self) -> None:
        """Stop, after asking once."""
        self._steer(action("run.stop"), "stop")

    def action_run_stop_now(self) -> None:
        """Stop at once, after asking once."""
        self._steer(action("run.stop_now"), "stop_now")

    def action_run_set(self) -> None:
        """Ask for a setting and its value."""
        view = self._allowed(action("run.set"))
        if view is not None:

            def chosen(args: dict[str, object] | None) -> None:
                if args:
                    self.shell.steer("set", args)

            self.app.push_screen(SetDialog(view), chosen)

    def action_run_sample(self) -> None:
        """Ask for a prompt, and show what the policy makes of it."""
        view = self._allowed(action("run.sample"))
        if view is not None:

            def chosen(args: dict[str, object] | None) -> None:
                if args is not None:
                    self.shell.steer("sample", args, lambda o: self._show_samples(o))

            self.app.push_screen(SampleDialog(view), chosen)

    def _show_samples(self, outcome: Outcome) -> None:
        self.app.push_screen(SampleResult(outcome))

    def _pause_or_go_on(self, kind: str) -> None:
        """Pause or go on; what is on its way counts, though the run has not come to it yet."""
        on_its_way = self.shell.turning
        if on_its_way == kind:
            self.app.notify(f"The {kind} is on its way: it comes after the step.", markup=False)
        elif on_its_way:
            self.shell.steer(kind)
        else:
            self._steer(action(f"run.{kind}"), kind)

    def _steer(self, asked: Action, kind: str) -> None:
        view = self._allowed(asked)
        if view is None:
            return
        if not asked.dangerous:
            self.shell.steer(kind)
            return

        def answered(yes: bool | None) -> None:
            if yes:
                self.shell.steer(kind)

        self.app.push_screen(ConfirmDialog(asked, view), answered)

    def _allowed(self, asked: Action) -> TrainView | None:
        """The view when the action can be done now; says why when it cannot."""
        view = self.shell.view
        reason = refusal(asked, view)
        if view is None and self.shell.run_folder is not None:
            reason = "The run is just being read: press the key again in a moment."
        if reason is not None:
            self.app.notify(reason, severity="warning", markup=False)
            return None
        return view


def _waits_for_steps(view: TrainView) -> str:
    if view.trouble:
        return "Nothing to draw: run.db cannot be read."
    if view.ended:
        return "The run ended before its first step."
    if view.phase == "load":
        return "Begins with the first step."
    return "The charts begin when the first step ends."
