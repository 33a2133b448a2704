"""Pane 3: what do the rewards give, on which completions, and can they be fooled?"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from textual.app import ComposeResult, SuspendNotSupported
from textual.screen import Screen

from grpo_tui.core.text import one_line
from grpo_tui.present.baseline_text import whole
from grpo_tui.present.formatting import duration, from_here
from grpo_tui.present.rewards_view import next_order, sample_detail
from grpo_tui.rewards.sources import Origin
from grpo_tui.ui.actions import bindings
from grpo_tui.ui.editing import edit, editor_command
from grpo_tui.ui.lab_worker import LabWorker
from grpo_tui.ui.messages import (
    BaselineDone,
    CaseKept,
    LabBusy,
    LabIdle,
    LabScored,
    LabTrouble,
    ProbesDone,
)
from grpo_tui.ui.paint import Line, Span
from grpo_tui.ui.rewards_wish import RewardsWish, rewards_of_run
from grpo_tui.ui.screens.probes import ProbesScreen, probed_word
from grpo_tui.ui.screens.reward_growing import RewardGrowing
from grpo_tui.ui.screens.reward_samples import SampleEditing
from grpo_tui.ui.screens.reward_weights import STEP, WeightMoving
from grpo_tui.ui.screens.text import TextScreen
from grpo_tui.ui.switching import KeepsStyles
from grpo_tui.ui.widgets.footer import Footer
from grpo_tui.ui.widgets.header import Header
from grpo_tui.ui.widgets.reward_functions import FunctionRows
from grpo_tui.ui.widgets.reward_lines import DetailLines, FindingLines, RewardsSummary
from grpo_tui.ui.widgets.reward_table import SampleHeading, SampleTable

if TYPE_CHECKING:
    from grpo_tui.present.rewards_view import RewardsView
    from grpo_tui.present.train_view import TrainView

BUSY_S = 0.4
"""What takes less is not said to be going on."""
LOOK_S = 0.25
EMPTY: list[Line] = [
    (),
    [
        Span("   n                                       ", "key", "screen.rewards_next"),
        Span("begins a rewards file", "dim"),
    ],
    [Span("   grpo-tui rewards CONFIG.yaml            ", "key"), Span("the rewards of a config", "dim")],
    [Span("   grpo-tui rewards rewards.py:correct …   ", "key"), Span("functions alone", "dim")],
    (),
    [Span("   Or open a run: 1 shows the runs, 3 then shows its rewards.", "dim")],
]


class RewardsScreen(KeepsStyles, Screen[None], SampleEditing, WeightMoving, RewardGrowing):
    """The rewards of a config, on samples."""

    BINDINGS = bindings("rewards")
    PANE = "rewards"

    def __init__(self) -> None:
        super().__init__()
        self._wish: RewardsWish | None = None
        self._order: str | int | None = None
        self._low_first = False
        self._busy: LabBusy | None = None
        self._trouble = ""

    def compose(self) -> ComposeResult:
        """Header, summary, samples, functions, findings, the chosen sample, footer."""
        yield Header("rewards")
        yield RewardsSummary(id="rewards-summary")
        yield SampleHeading(id="sample-heading")
        yield SampleTable(id="samples")
        yield FunctionRows(id="reward-functions")
        yield FindingLines(id="findings")
        yield DetailLines(id="sample-detail")
        yield Footer("rewards")

    def on_mount(self) -> None:
        """Follow the open run's header, and look at what goes on."""
        self.query_one(SampleTable).waits = EMPTY
        self.query_one(SampleTable).focus()
        self.shell.view_signal.subscribe(self, self._on_view)
        self.set_interval(LOOK_S, self._look)
        self._show()

    def on_unmount(self) -> None:
        """End the lab."""
        if self.worker is not None:
            self.worker.stop()

    def on_screen_resume(self) -> None:
        """Take what the app was asked for, else the rewards of the run that is open now."""
        self._on_view(self.shell.view)
        wish = self.shell.take_rewards_wish()
        folder = self.shell.run_folder
        own = self._wish is None or self._wish.run is not None
        if wish is None and own and folder is not None:
            now = self._wish.run if self._wish is not None else None
            wish = rewards_of_run(folder.root) if folder.root != now else None
        if wish is not None:
            self._open(wish)

    def _open(self, wish: RewardsWish) -> None:
        known = self._wish
        if self.worker is None:
            self.worker = LabWorker(self.post_message, self.shell.clock)
            self.run_worker(self.worker.run, thread=True, group="lab", exit_on_error=False)
            self.run_worker(self.worker.watch, thread=True, group="lab files", exit_on_error=False)
        self.goes_to, self._trouble, self.words = 0, "", ""
        loaded = known is not None and known.run in (None, wish.run) and self.report is not None
        if loaded and wish.run is not None and wish.origin is not None:
            self.worker.take(wish.origin)  # rewards that are loaded score what comes from the run
            return
        self._wish = wish
        self.scored = self.report = None
        self.samples = ()
        self.query_one(SampleTable).waits = []
        self.worker.open(wish.config, wish.origin or Origin(), wish.title)
        self._show()

    # -- what the lab says -----------------------------------------------------------------------

    def on_lab_busy(self, message: LabBusy) -> None:
        """Something goes on."""
        self._busy = message
        self._look()

    def on_lab_idle(self, message: LabIdle) -> None:
        """Nothing goes on."""
        self._busy = None
        self._look()

    def on_lab_trouble(self, message: LabTrouble) -> None:
        """Say what the lab cannot do."""
        self._busy, self._trouble = None, message.text
        if self.report is None:
            self.query_one(SampleTable).waits = EMPTY
        self._show()

    def on_lab_scored(self, message: LabScored) -> None:
        """Show the scores."""
        changed = tuple(column.name for column in message.view.columns) != self._names
        other = changed or _loaded_anew(self.scored, message.view)
        self.scored, self.report, self.samples = message.view, message.report, message.samples
        self.origin = message.origin
        self._trouble = ""
        self.take_weights(message.view, tuple(f.info.weight for f in message.report.scored.functions))
        if changed:
            self._order = self._order if isinstance(self._order, str) else None
        if other:  # what the probes showed was of the rewards before
            self.query_one(RewardsSummary).probed = ""
        self._show()

    def on_probes_done(self, message: ProbesDone) -> None:
        """Show what fools the rewards."""
        summary = self.query_one(RewardsSummary)
        summary.probed = probed_word(message.report)
        summary.changed()
        if self.app.screen is self:
            self.app.push_screen(ProbesScreen(message.report))

    def on_baseline_done(self, message: BaselineDone) -> None:
        """Show what the model does before any training; its answers stand behind it as samples."""
        if self.app.screen is self:
            text = whole(message.found, message.generated, min(self.app.size.width - 10, 110))
            self.app.push_screen(TextScreen("baseline", text, prose=True))

    def on_case_kept(self, message: CaseKept) -> None:
        """Say where it went."""
        if message.trouble:
            self.app.notify(message.trouble, severity="warning", timeout=10, markup=False)
            return
        place = one_line(from_here(message.path), 60)
        self.app.notify(
            f"Kept as “{message.name}” in {place}; grpo-tui cases run {place} tries it.", markup=False
        )

    # -- showing ---------------------------------------------------------------------------------

    def _on_view(self, view: TrainView | None) -> None:
        if self.is_attached:
            self.query_one(Header).show(view)
            self.query_one(Footer).show(view)

    def _show(self) -> None:
        view = self.scored
        summary, heading = self.query_one(RewardsSummary), self.query_one(SampleHeading)
        summary.view, summary.trouble = view, self._trouble
        summary.title = self._wish.title if self._wish is not None else ""
        rows = self.query_one(FunctionRows)
        rows.show(view)
        heading.view, heading.order, heading.low_first = view, self._order, self._low_first
        table = self.query_one(SampleTable)
        heading.chosen = table.chosen = rows.chosen
        table.show(view, self._order, low_first=self._low_first, words=self.words, keep=self.goes_to)
        heading.words, heading.shown = self.words, table.shown
        heading.changed()
        if view is not None:
            self.goes_to = None
        findings = self.query_one(FindingLines)
        findings.display = self._has_room and (view is not None or bool(self._trouble))
        findings.show(view, self._trouble)
        height = self.app.size.height
        findings.fit(3 if height < 30 and view is not None else 7 if height < 46 else 12)
        self._show_chosen()
        self._look()

    @property
    def _has_room(self) -> bool:
        """Whether more than the samples and the functions fit."""
        return self.app.size.height >= 20

    def _show_chosen(self) -> None:
        index, report = self.query_one(SampleTable).selected, self.report
        known = report is not None and index is not None and index < len(report.scored.samples)
        detail = self.query_one(DetailLines)
        detail.display = known and self._has_room
        detail.show(sample_detail(report, index) if known else None)  # type: ignore[arg-type]

    def _look(self) -> None:
        """Say what goes on, once it has gone on for a while."""
        summary, footer = self.query_one(RewardsSummary), self.query_one(Footer)
        busy = self._busy
        for_s = time.monotonic() - busy.since if busy is not None else 0.0
        if busy is not None and (for_s > BUSY_S or self.scored is None):
            who = f"{busy.function}: " if busy.function else ""
            line: list[Span] = [Span(f" ◌ {who}{busy.what}, {duration(for_s)}", "attention")]
            if busy.function:
                line += [Span("   esc ", "key", "screen.rewards_back"), Span("ends it", "dim")]
        else:
            line = []
        if line != summary.busy:
            summary.busy = line
        summary.weighing = self.on_weights
        summary.changed()
        parts = ["weights"] if self.on_weights else ["scored"] if self.scored is not None else []
        footer.parts = (*parts, *(["busy"] if len(line) > 1 else []))
        footer.show(self.shell.view)

    def on_resize(self) -> None:
        """Columns and the lower parts depend on the size."""
        self.call_after_refresh(self._show)

    def on_sample_table_chosen(self, event: SampleTable.Chosen) -> None:
        """Another sample."""
        self._show_chosen()

    def on_function_rows_chosen(self, event: FunctionRows.Chosen) -> None:
        """Another function."""
        self._choose(self.query_one(FunctionRows).chosen)

    def on_function_rows_turned(self, event: FunctionRows.Turned) -> None:
        """Other keys."""
        self.query_one(FunctionRows).changed()
        self._look()

    def _choose(self, k: int) -> None:
        heading, table = self.query_one(SampleHeading), self.query_one(SampleTable)
        heading.chosen = table.chosen = k
        heading.changed()
        table.changed()

    # -- keys ------------------------------------------------------------------------------------

    def action_rewards_left(self) -> None:
        """A lower weight, or the function before."""
        self._step(-1)

    def action_rewards_right(self) -> None:
        """A higher weight, or the next function."""
        self._step(1)

    def _step(self, by: int) -> None:
        rows, view = self.query_one(FunctionRows), self.scored
        if self.on_weights:
            self.move_weight(by * STEP)
        elif view is not None:
            rows.choose(min(len(view.columns) - 1, max(0, rows.chosen + by)))
            self._choose(rows.chosen)

    def action_rewards_edit(self) -> None:
        """The weight, or the completion."""
        if self.on_weights:
            self.type_weight()
        else:
            self.edit_chosen()

    def action_rewards_sort(self) -> None:
        """The next order."""
        if self.scored is not None:
            self._order = next_order(self.scored, self._order)
            self.goes_to = None
            self._show()
            if self._order is not None:
                self.query_one(SampleTable).action_first()

    def show_only(self, words: str) -> None:
        """Show the samples that hold these words; all of them for none."""
        self.words = words
        self._show()

    def action_rewards_turn(self) -> None:
        """The other end on top."""
        if self.scored is not None and self._order is not None:
            self._low_first = not self._low_first
            self._show()
            self.query_one(SampleTable).action_first()
        else:
            self.app.notify("s sorts first.", markup=False)

    def action_rewards_score(self) -> None:
        """Load and score again."""
        if self.worker is not None:
            self.worker.again()

    def action_rewards_probe(self) -> None:
        """Try to fool the rewards."""
        if self.worker is not None and self.report is not None:
            self.worker.probe()
        else:
            self.app.notify("No rewards are loaded yet.", severity="warning", markup=False)

    def action_rewards_whole(self) -> None:
        """The whole sample, to be read and copied."""
        self._whole(lambda what, text: self.app.push_screen(TextScreen(what, text)))

    def action_rewards_copy(self) -> None:
        """Copy the whole sample."""
        self._whole(self.shell.copy)

    def _whole(self, then: object) -> None:
        index = self.chosen_sample()
        if index is not None and self.report is not None and callable(then):
            then(f"sample {index + 1}", sample_detail(self.report, index).text())

    def action_rewards_back(self) -> None:
        """End the call that runs; else leave the weights, the words, the order."""
        if self._busy is not None and self._busy.function and self.worker is not None:
            self.worker.interrupt()
        elif not self.query_one(SampleTable).has_focus:
            self.query_one(SampleTable).focus()
        elif self.words:
            self.show_only("")
        elif self._order is not None:
            self._order = None
            self._show()

    def action_rewards_source(self) -> None:
        """The source of the chosen function in the person's editor."""
        view = self.scored
        k = self.query_one(FunctionRows).chosen
        column = view.columns[k] if view is not None and k < len(view.columns) else None
        if column is None or not column.file:
            what = f"{column.name} has no file of its own" if column else "No function is loaded"
            self.app.notify(f"{what}.", severity="warning", markup=False)
            return
        words = editor_command(os.environ, Path(column.file), column.line)
        if words is None:
            self.app.notify("No editor is known: set EDITOR.", severity="warning", markup=False)
            return
        try:
            with self.app.suspend():
                trouble = edit(words)
        except SuspendNotSupported:
            trouble = "this terminal cannot be given to an editor"
        if trouble:
            self.app.notify(one_line(trouble, 200), severity="warning", markup=False)


def _loaded_anew(before: RewardsView | None, now: RewardsView) -> bool:
    """Whether the rewards were loaded again between two scorings."""
    if before is None or not now.reason.endswith((" saved", " again")):
        return False
    return (before.scored_at, before.took_s) != (now.scored_at, now.took_s)
