"""Pane 3, Rewards: what the rewards give for which completions, and whether they can be fooled."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from textual import on
from textual.app import ComposeResult, SuspendNotSupported
from textual.screen import Screen

from grpo_tui.core.text import one_line, shell_word
from grpo_tui.present.baseline_text import whole
from grpo_tui.present.formatting import duration, from_here, path_text, plural
from grpo_tui.present.rewards_view import RewardsView, orders, sample_detail
from grpo_tui.present.train_view import TrainView
from grpo_tui.rewards.baseline import Baseline
from grpo_tui.rewards.generating import Generated
from grpo_tui.rewards.lab import Aggregation
from grpo_tui.rewards.next_reward import Growth
from grpo_tui.rewards.probes import ProbeReport
from grpo_tui.rewards.sample_sources import Origin
from grpo_tui.rewards.samples import Sample
from grpo_tui.rewards.scoring import Report
from grpo_tui.ui.actions import bindings
from grpo_tui.ui.editing import edit, editor_command
from grpo_tui.ui.kit.table import CursorList
from grpo_tui.ui.lab_worker import LabWorker
from grpo_tui.ui.paint import Line, Span
from grpo_tui.ui.requests import RewardsRequest, rewards_of_run
from grpo_tui.ui.screens.reading import TextScreen
from grpo_tui.ui.screens.rewards_dialogs import (
    CompletionDialog,
    NewFileDialog,
    NextRewardScreen,
    ProbesScreen,
    SourceDialog,
    WeightDialog,
    probed_word,
)
from grpo_tui.ui.shell import Shell
from grpo_tui.ui.textual_private import KeepsStyles
from grpo_tui.ui.widgets.bars import Footer, Header
from grpo_tui.ui.widgets.reward_table import (
    DetailLines,
    FindingLines,
    FunctionRows,
    RewardsSummary,
    SampleTable,
)

BUSY_S = 0.4
"""Work shorter than this is not shown as running."""
LOOK_S = 0.25
AGGREGATIONS = ("sum_then_normalize", "normalize_then_sum")
SCALES = ("group", "batch", "none")
STEP = 0.1
YOURS = "yours"
"""Kind of a sample written by the user."""
EMPTY: list[Line] = [
    (),
    [
        Span("   ctrl+n                                  ", "key", "screen.rewards_next"),
        Span("creates a rewards file", "dim"),
    ],
    [
        Span("   grpo-tui rewards CONFIG.yaml   ", "key"),
        Span("         opens the rewards of a config", "dim"),
    ],
    [
        Span("   grpo-tui rewards rewards.py:correct …   ", "key"),
        Span("opens functions without a config", "dim"),
    ],
    (),
    [Span("   Or open a run with 1, then press 3 for its rewards.", "dim")],
]


class _Busy(NamedTuple):
    what: str
    function: str
    since: float


class RewardsScreen(KeepsStyles, Screen[None], Shell):
    """The rewards of a config, applied to samples."""

    BINDINGS = bindings("rewards")
    PANE = "rewards"

    def __init__(self) -> None:
        super().__init__()
        self._request: RewardsRequest | None = None
        self._order: str | int | None = None
        self._low_first = False
        self._busy: _Busy | None = None
        self._trouble = ""
        self.samples: tuple[Sample, ...] = ()
        self.origin: Origin | None = None
        self.scored: RewardsView | None = None
        self.worker: LabWorker | None = None
        self.goes_to: int | None = None
        """Index of the sample to select with the next scores."""
        self.words: str = ""
        """Only samples that contain these words are shown."""
        self._names: tuple[str, ...] = ()
        self._weights: tuple[float, ...] = ()
        self._first: tuple[float, ...] = ()
        """Weights in the config."""
        self._muted: frozenset[int] = frozenset()
        self._modes: Aggregation | None = None
        """How totals become advantages, if the user changed it; None for the config's modes."""

    def compose(self) -> ComposeResult:
        samples = SampleTable(id="samples")
        yield Header("rewards")
        yield RewardsSummary(id="rewards-summary")
        yield samples.over("sample-heading")
        yield samples
        yield FunctionRows(id="reward-functions")
        yield FindingLines(id="findings")
        yield DetailLines(id="sample-detail")
        yield Footer("rewards")

    def on_mount(self) -> None:
        self.query_one(SampleTable).waits = EMPTY
        self.query_one(SampleTable).focus()
        self.shell.view_signal.subscribe(self, self._on_view)
        self.set_interval(LOOK_S, self._look)
        self._show()

    def on_unmount(self) -> None:
        if self.worker is not None:
            self.worker.stop()

    def on_screen_resume(self) -> None:
        self._on_view(self.shell.view)
        request = self.shell.take_rewards_request()
        folder = self.shell.run_folder
        own = self._request is None or self._request.run is not None
        if request is None and own and folder is not None:
            now = self._request.run if self._request is not None else None
            request = rewards_of_run(folder.root) if folder.root != now else None
        if request is not None:
            self._open(request)

    def _open(self, request: RewardsRequest) -> None:
        known = self._request
        if self.worker is None:
            self.worker = LabWorker(self)
            self.in_thread("lab", self.worker.run)
            self.in_thread("lab files", self.worker.watch)
        self.goes_to, self._trouble, self.words = 0, "", ""
        loaded = known is not None and known.run in (None, request.run) and self.report is not None
        if loaded and request.run is not None and request.origin is not None:
            self.worker.take(request.origin)  # the loaded rewards score the run's completions
            return
        self._request = request
        self.scored = None
        self.samples = ()
        self.query_one(SampleTable).waits = []
        self.worker.open(request.config, request.origin or Origin(), request.title)
        self._show()

    # -- called by the worker --------------------------------------------------------------------

    @property
    def report(self) -> Report | None:
        return self.scored.report if self.scored is not None else None

    def lab_works(self, what: str, function: str, since: float) -> None:
        """Show what is being done: with which reward, if any, and since when (monotonic)."""
        self._busy = _Busy(what, function, since)
        self._look()

    def lab_rests(self) -> None:
        self._busy = None
        self._look()

    def lab_failed(self, text: str) -> None:
        self._busy, self._trouble = None, text
        if self.report is None:
            self.query_one(SampleTable).waits = EMPTY
        self._show()

    def take_scores(self, view: RewardsView, samples: tuple[Sample, ...], origin: Origin) -> None:
        changed = tuple(column.name for column in view.columns) != self._names
        other = changed or _loaded_anew(self.scored, view)
        self.scored, self.samples, self.origin = view, samples, origin
        self._trouble = ""
        self.take_weights(view)
        if changed:
            self._order = self._order if isinstance(self._order, str) else None
        if other:  # the probe results are of the previous rewards
            self.query_one(RewardsSummary).probed = ""
        self._show()

    def take_probes(self, report: ProbeReport) -> None:
        self._show_probed(report)
        if self.app.screen is self:
            self.app.push_screen(ProbesScreen(report))

    def _show_probed(self, report: ProbeReport) -> None:
        summary = self.query_one(RewardsSummary)
        summary.probed = probed_word(report)
        summary.changed()

    def take_baseline(self, found: Baseline, generated: Generated) -> None:
        if self.app.screen is self:
            text = whole(found, generated, min(self.app.size.width - 10, 110))
            self.app.push_screen(TextScreen("baseline", text, prose=True))

    def tell_case(self, path: Path, name: str) -> None:
        """Report a sample that was saved as a case."""
        test = f"grpo-tui cases run {shell_word(from_here(path))}"
        self.app.notify(f"Kept as “{name}” in {path_text(path, 60)}. `{test}` tests it.")

    def refuse(self, why: str) -> None:
        self.app.notify(why, severity="warning", timeout=10)

    # -- showing ---------------------------------------------------------------------------------

    def _on_view(self, view: TrainView | None) -> None:
        if self.is_attached:
            self.query_one(Header).show(view)
            self._look()

    @property
    def beside_run(self) -> bool:
        """Whether these rewards are not those of a run, so that a replay refuses nothing here."""
        return self._request is not None and self._request.run is None

    def _show(self) -> None:
        view = self.scored
        summary = self.query_one(RewardsSummary)
        summary.view, summary.trouble = view, self._trouble
        summary.title = self._request.title if self._request is not None else ""
        rows = self.query_one(FunctionRows)
        rows.show(view)
        table = self.query_one(SampleTable)
        table.chosen = rows.chosen
        table.show(view, self._order, low_first=self._low_first, words=self.words, keep=self.goes_to)
        if view is not None:
            self.goes_to = None
        findings = self.query_one(FindingLines)
        findings.display = self._has_room and (view is not None or bool(self._trouble))
        summary.told_below = findings.display
        findings.show(view, self._trouble)
        height = self.app.size.height
        findings.fit(3 if height < 30 and view is not None else 7 if height < 46 else 12)
        self._show_chosen()
        self._look()

    @property
    def _has_room(self) -> bool:
        return self.app.size.height >= 20

    def _show_chosen(self) -> None:
        index, report = self.query_one(SampleTable).selected, self.report
        known = report is not None and index is not None and index < len(report.scored.samples)
        detail = self.query_one(DetailLines)
        detail.display = known and self._has_room
        detail.show(sample_detail(report, index) if known else None)  # type: ignore[arg-type]

    def _look(self) -> None:
        """Show what is running, once it has run for a while."""
        summary, footer = self.query_one(RewardsSummary), self.query_one(Footer)
        busy = self._busy
        for_s = time.monotonic() - busy.since if busy is not None else 0.0
        if busy is not None and (for_s > BUSY_S or self.scored is None):
            who = f"{busy.function}: " if busy.function else ""
            line: list[Span] = [Span(f" ◌ {who}{busy.what}, {duration(for_s)}", "attention")]
            if busy.function:
                line += [Span("   esc ", "key", "screen.rewards_back"), Span("stops it", "dim")]
        else:
            line = []
        if line != summary.busy:
            summary.busy = line
        summary.weighing = self.on_weights
        summary.changed()
        empty = ["empty"] if self._request is None else []
        parts = ["weights"] if self.on_weights else self._shown_parts if self.scored is not None else empty
        footer.parts = (*parts, *(["busy"] if len(line) > 1 else []))
        footer.show(None if self.beside_run else self.shell.view)

    @property
    def _shown_parts(self) -> list[str]:
        """Parts for the footer. Recorded scores are shown before, or without, the loaded functions."""
        loaded = self.scored is not None and self.scored.about.took_s > 0
        config = self.worker.config if self.worker is not None else None
        model = loaded and config is not None and bool(config.model)
        return ["scored", *(["loaded"] if loaded else []), *(["model"] if model else [])]

    def on_resize(self) -> None:
        self.call_after_refresh(self._show)

    @on(CursorList.Highlighted, "#samples")
    def _chosen_sample(self) -> None:
        self._show_chosen()

    @on(CursorList.Highlighted, "#reward-functions")
    def _chosen_function(self) -> None:
        self._choose(self.query_one(FunctionRows).chosen)

    def on_cursor_list_turned(self) -> None:
        self._look()

    def _choose(self, k: int) -> None:
        table = self.query_one(SampleTable)
        table.chosen = k
        table.changed()

    # -- keys ------------------------------------------------------------------------------------

    def action_step(self, by: int) -> None:
        rows, view = self.query_one(FunctionRows), self.scored
        if self.on_weights:
            if rows.chosen < len(self._weights):
                self.set_weight(rows.chosen, round(self._weights[rows.chosen] + by * STEP, 6))
        elif view is not None:
            rows.choose(min(len(view.columns) - 1, max(0, rows.chosen + by)))
            self._choose(rows.chosen)

    def action_rewards_edit(self) -> None:
        if self.on_weights:
            self.type_weight()
        else:
            self.edit_chosen()

    def action_rewards_sort(self) -> None:
        if self.scored is None:
            return
        from grpo_tui.ui.screens.dialogs import AGAIN, Choice, MenuDialog

        known = orders(self.scored)
        choices = [
            Choice(word, AGAIN if order is not None and order == self._order else "", (order,))
            for order, word in known.items()
        ]

        at = list(known).index(self._order) if self._order in known else 0
        self.ask(MenuDialog("sort by", choices, at=at), lambda picked: self._sort(picked[0]))

    def _sort(self, order: str | int | None) -> None:
        self._low_first = order is not None and order == self._order and not self._low_first
        self._order, self.goes_to = order, None
        self._show()
        self.query_one(SampleTable).action_first()

    def show_only(self, words: str) -> None:
        """Show only samples that contain these words; "" shows all."""
        self.words = words
        self._show()

    def action_rewards_score(self) -> None:
        if self.worker is not None:
            self.worker.again()

    def action_rewards_probe(self) -> None:
        if self.worker is not None and self.report is not None:
            self.worker.probe()
        else:
            self.app.notify("No rewards are loaded yet.", severity="warning")

    def action_rewards_whole(self) -> None:
        self._whole(lambda what, text: self.app.push_screen(TextScreen(what, text)))

    def action_rewards_copy(self) -> None:
        self._whole(self.shell.copy)

    def _whole(self, then: Callable[[str, str], object]) -> None:
        index = self.chosen_sample()
        if index is not None and self.report is not None:
            then(f"sample {index + 1}", sample_detail(self.report, index).text())

    def action_rewards_back(self) -> None:
        """Stop the running call, or leave the weights, or clear the words, or the order."""
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
        view = self.scored
        k = self.query_one(FunctionRows).chosen
        column = view.columns[k] if view is not None and k < len(view.columns) else None
        if column is None or not column.file:
            what = f"{column.name} has no file of its own" if column else "No function is loaded"
            self.app.notify(f"{what}.", severity="warning")
            return
        words = editor_command(os.environ, Path(column.file), column.line)
        if words is None:
            self.app.notify("No editor is set. Set EDITOR.", severity="warning")
            return
        try:
            with self.app.suspend():
                trouble = edit(words)
        except SuspendNotSupported:
            trouble = "this terminal cannot run an editor"
        if trouble:
            self.app.notify(one_line(trouble, 200), severity="warning")

    # -- samples ---------------------------------------------------------------------------------

    def chosen_sample(self) -> int | None:
        """Return the index of the selected sample. If there is none, say what to do."""
        selected = self.query_one(SampleTable).selected
        if self.scored is None and self._busy is not None:
            self.app.notify(f"Still loading: {self._busy.what}.")
            return None
        if selected is None or selected >= len(self.samples) or self.worker is None:
            self.app.notify("There are no samples yet. Press f to load some.", severity="warning")
            return None
        return selected

    def gold_of(self, index: int) -> str:
        view = self.scored
        return view.groups[view.rows[index].group].gold if view is not None else ""

    def action_rewards_add(self) -> None:
        index = self.chosen_sample()
        if index is None:
            return
        sample = self.samples[index]
        fresh = replace(sample, completion="", kind=YOURS, recorded=None, truncated=False)
        self._ask_for("a completion of your own", fresh, index, lambda new: self._insert(index + 1, new))

    def edit_chosen(self) -> None:
        index = self.chosen_sample()
        if index is not None:
            self._ask_for(
                "edit the completion", self.samples[index], index, lambda new: self._put(index, new)
            )

    def action_rewards_duplicate(self) -> None:
        index = self.chosen_sample()
        if index is not None:
            self._insert(index + 1, replace(self.samples[index], recorded=None))

    def action_rewards_remove(self) -> None:
        index = self.chosen_sample()
        if index is None:
            return
        if len(self.samples) == 1:
            self.app.notify("This is the last sample. Press f to load others.", severity="warning")
            return
        self.goes_to = max(0, index - 1)
        self._score([s for i, s in enumerate(self.samples) if i != index], "a sample removed")

    def action_rewards_tags(self) -> None:
        from grpo_tui.rewards.samples import tags_of
        from grpo_tui.ui.screens.dialogs import WordsDialog

        index = self.chosen_sample()
        if index is None:
            return
        sample = self.samples[index]
        known = dict.fromkeys(tag for one in self.samples for tag in one.tags)
        hint = f"In use: {' '.join(known)}" if known else "Any words, such as hard or fooled."

        def typed(words: str) -> None:
            if (tags := tags_of(words)) != sample.tags and self.worker is not None:
                self.goes_to = index
                tagged = replace(sample, tags=tags)
                self.samples = (*self.samples[:index], tagged, *self.samples[index + 1 :])
                self.worker.tag(index, tags)

        self.ask(WordsDialog(f"tags of sample {index + 1}", " ".join(sample.tags), hint), typed)

    def action_rewards_filter(self) -> None:
        from grpo_tui.ui.screens.dialogs import WordsDialog

        hint = "Words in completion, prompt or kind; #hard is a tag. Empty shows all."
        dialog = WordsDialog("show only", self.words, hint)
        self.ask(dialog, lambda words: self.show_only(" ".join(words.split())))

    def action_rewards_write(self) -> None:
        from grpo_tui.rewards.samples import save_jsonl
        from grpo_tui.ui.screens.dialogs import PathDialog

        if self.chosen_sample() is None:
            return

        def named(path: Path) -> None:
            try:
                save_jsonl(self.samples, path)
            except OSError as error:
                self.app.notify(f"Not written: {error}", severity="warning")
                return
            where = path_text(path, 60)
            count = plural(len(self.samples), "sample")
            self.app.notify(f"{count} written to {where}. Press f to load them.")

        origin = self.origin
        name = origin.file if origin is not None and origin.file is not None else Path("samples.jsonl")
        hint = "JSONL, tags kept; grpo-tui score CONFIG --samples FILE reads it."
        dialog = PathDialog(
            "write the samples", str(name.with_suffix(".jsonl")), _no_file, hint, replaces=True
        )
        self.ask(dialog, named)

    def action_rewards_keep(self) -> None:
        index = self.chosen_sample()
        if index is not None and self.worker is not None:
            self.worker.keep(index)

    def action_rewards_model(self) -> None:
        index = self.chosen_sample()
        if index is not None and self.worker is not None:
            self.goes_to = index
            self.worker.generate(index)

    def action_rewards_baseline(self) -> None:
        if self.worker is not None and self.report is not None:
            self.goes_to = 0
            self.worker.baseline()
        else:
            self.app.notify("No rewards are loaded yet.", severity="warning")

    def action_rewards_samples(self) -> None:
        folder = self.shell.run_folder
        if self.worker is None or self.report is None:
            self.app.notify("No rewards are loaded yet, so nothing can be scored.", severity="warning")
            return

        def chosen(origin: Origin) -> None:
            if self.worker is not None:
                self.goes_to = 0
                self.worker.take(origin)

        dialog = SourceDialog(folder.root if folder is not None else None, dataset=self.report.batch > 0)
        self.ask(dialog, chosen)

    def action_rewards_data(self) -> None:
        config = self.worker.config if self.worker is not None else None
        if config is None or not config.model:
            self.app.notify(
                "No rows: these are only functions. Open a config: grpo-tui rewards CONFIG.yaml",
                severity="warning",
            )
            return
        from grpo_tui.ui.screens.data import DataScreen

        self.app.push_screen(DataScreen(config))

    # -- editing samples -------------------------------------------------------------------------

    def _ask_for(self, title: str, sample: Sample, index: int, then: Any) -> None:
        from grpo_tui.core.text import completion_text, prompt_text

        before = completion_text(sample.completion)

        def written(text: str) -> None:
            if text != before or sample.kind == YOURS:
                then(replace(sample, completion=text, recorded=None, kind=_kind_of(sample)))

        self.ask(CompletionDialog(title, prompt_text(sample.prompt), self.gold_of(index), before), written)

    def _insert(self, place: int, sample: Sample) -> None:
        self.goes_to = place
        self._score([*self.samples[:place], sample, *self.samples[place:]], "a sample added")

    def _put(self, place: int, sample: Sample) -> None:
        self.goes_to = place
        samples = list(self.samples)
        samples[place] = sample
        self._score(samples, f"sample {place + 1} changed")

    def _score(self, samples: list[Sample], reason: str) -> None:
        if self.worker is not None:
            self.samples = tuple(samples)
            self.worker.replace(samples, reason)

    @property
    def _rows(self) -> FunctionRows:
        return self.query_one(FunctionRows)

    # -- weights: apply to existing scores and do not change the config --------------------------

    @property
    def on_weights(self) -> bool:
        """Whether the weights have the focus and the keys change them."""
        return self._rows.has_focus

    def take_weights(self, view: RewardsView) -> None:
        """Adopt the weights of a scoring if its functions are not the previous ones."""
        names = tuple(column.name for column in view.columns)
        self._first = tuple(result.info.weight for result in view.report.scored.functions)
        if view.about.own_modes:
            self._modes = None
        if names != self._names:
            self._names = names
            self._weights = tuple(column.weight for column in view.columns)
            self._muted = frozenset(k for k, column in enumerate(view.columns) if column.muted)

    def set_weight(self, k: int, weight: float) -> None:
        """Set a weight, and unmute the function."""
        self._weights = (*self._weights[:k], weight, *self._weights[k + 1 :])
        self._muted -= {k}
        self._tell()

    def type_weight(self) -> None:
        k = self._rows.chosen
        if k < len(self._weights):
            self.ask(WeightDialog(self._names[k], self._weights[k]), partial(self.set_weight, k))

    def action_rewards_weights(self) -> None:
        if self._weights and not self.on_weights:
            self._rows.focus()
        else:
            self.query_one(SampleTable).focus()

    def action_rewards_mute(self) -> None:
        k = self._rows.chosen
        if k >= len(self._weights):
            return
        muted = self._muted - {k} if k in self._muted else self._muted | {k}
        if len(muted) == len(self._weights):
            self.app.notify("At least one reward must stay unmuted.")
            return
        self._muted = muted
        self._tell()

    def action_rewards_alone(self) -> None:
        k = self._rows.chosen
        if k < len(self._weights):
            alone = frozenset(range(len(self._weights))) - {k}
            self._muted = frozenset() if self._muted == alone else alone
            self._tell()

    def action_rewards_reset(self) -> None:
        if self._first:
            self._weights, self._muted, self._modes = self._first, frozenset(), None
            self._tell()

    def action_rewards_scale(self) -> None:
        self._turn("scale_rewards", SCALES)

    def action_rewards_combine(self) -> None:
        self._turn("multi_objective_aggregation", AGGREGATIONS)

    def _turn(self, name: str, known: tuple[str, ...]) -> None:
        report = self.report
        if report is None:
            return
        modes = self._modes or report.aggregation
        now = getattr(modes, name)
        place = known.index(now) + 1 if now in known else 0
        self._modes = replace(modes, **{name: known[place % len(known)]})
        self._tell()

    def _tell(self) -> None:
        if self.worker is not None:
            self.worker.weigh(self._weights, self._muted, self._modes)

    # -- new rewards -----------------------------------------------------------------------------

    def action_rewards_new(self) -> None:
        self.ask(NewFileDialog(), self._begin)

    def _begin(self, path: Path) -> None:
        from grpo_tui.rewards.next_reward import Task, TemplateError, start_file, with_reward
        from grpo_tui.rewards.scoring import config_of_functions

        try:
            stage = start_file(path, Task())
        except (OSError, TemplateError) as error:
            reason = getattr(error, "strerror", None) or error
            self.app.notify(one_line(f"{path}: {reason}", 200), severity="warning")
            return
        file = path.absolute()
        request = RewardsRequest(path.name, lambda: with_reward(config_of_functions([]), file, stage))
        self.shell.show_rewards(request)
        where = path_text(path, 60)
        self.app.notify(f"{where} has one reward. Press e to edit it, ctrl+n to add the next.")

    def action_rewards_next(self) -> None:
        if self.worker is not None and self.report is not None:
            self.worker.grow()
        else:
            self.action_rewards_new()

    def take_growth(self, seen: Growth, section: str) -> None:
        """Show the next reward and the section of the config with it."""
        if self.app.screen is not self:
            return
        if seen.probed is not None:
            self._show_probed(seen.probed)
        found, config = self.worker.config if self.worker is not None else None, None
        if found is not None and self.beside_run:  # a run's own config is never changed
            config = found.path

        def chosen(_: object) -> None:
            if seen.advice.stage is not None and self.worker is not None:
                self.worker.add(seen, seen.advice.stage, config)

        self.ask(NextRewardScreen(seen, section, config), chosen)

    def tell_added(self, file: Path, name: str, config: Path | None) -> None:
        """Report a reward that was added to its file, and to a config if that is not None."""
        use = f" and in {one_line(config.name, 40)}." if config is not None else ". No config uses it yet."
        self.app.notify(f"{name} is in {path_text(file, 60)}{use}", timeout=8)


def _loaded_anew(before: RewardsView | None, now: RewardsView) -> bool:
    """Return whether the rewards were reloaded between two scorings."""
    if before is None or not now.about.reason.endswith((" saved", " again")):
        return False
    return (before.about.scored_at, before.about.took_s) != (now.about.scored_at, now.about.took_s)


def _kind_of(sample: Sample) -> str:
    """Return the kind after an edit: an edited sample is no longer known to be right or wrong."""
    return sample.kind if sample.kind in ("", YOURS) else YOURS


def _no_file(path: Path) -> str:
    """Return why samples cannot be written to a path, or ""."""
    if path.is_dir() or not path.parent.is_dir():
        return f"{path_text(path, 50)} is not a valid file name"
    return ""
