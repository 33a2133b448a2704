"""Pane 6, Results: whether the open run's model is better than its base, on what, and where it is."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from textual import on
from textual.app import ComposeResult
from textual.containers import Container, Vertical
from textual.screen import Screen

from grpo_tui.core.text import one_line, shell_word, wrapped
from grpo_tui.present.formatting import fixed, from_here, size
from grpo_tui.present.results_view import fingerprint, read_results
from grpo_tui.ui.actions import bindings
from grpo_tui.ui.kit.table import CursorList
from grpo_tui.ui.needs import NO_RUN
from grpo_tui.ui.paint import Line, Span
from grpo_tui.ui.shell import Shell
from grpo_tui.ui.textual_private import KeepsStyles
from grpo_tui.ui.widgets.bars import Footer, Header
from grpo_tui.ui.widgets.results import (
    ModelDetail,
    ModelList,
    ModelsTitle,
    PromptList,
    PromptsTitle,
    ResultsMeasures,
    ResultsSummary,
)

if TYPE_CHECKING:
    from grpo_tui.present.results_view import Model, Results
    from grpo_tui.present.train_view import TrainView
    from grpo_tui.ui.comparing import Comparing, Work
    from grpo_tui.ui.pushing import Pushing
    from grpo_tui.ui.starting import Child, Ended

LOOK_S = 2.0
"""How often the run folder is checked while the pane is shown."""
OPTIMIZER = "optimizer="
"""Begins the word for `--optimizer` among the settings of a fork."""
STEPS = "steps="
"""Begins the word for `--steps` among the branches of a race."""
OPTIONS = re.compile(r"^.* error: (argument )?|--branch |--(?=steps\b|set\b)")
"""What a refusal of `race` or `train` says of its command line, which the dialog does not have."""


_Read = tuple["Results | None", str, object]
"""Results of a run, why they cannot be read, and the state they were read at."""


class ResultsScreen(KeepsStyles, Screen[None], Shell):
    """The open run's comparisons and models."""

    PANE = "results"
    AUTO_FOCUS = "#prompt-list"
    BINDINGS = bindings("results")

    def __init__(self) -> None:
        super().__init__()
        self._root: Path | None = None
        self._mark: object = None
        """State of the folder when it was last read."""
        self._reading = False
        self._wanted: tuple[Path, int] | None = None
        """The comparison to show; None for the newest."""
        self.results: Results | None = None
        self._comparing: Comparing | None = None
        """The running comparison, which may be of a previously open run."""
        self._merging: Work | None = None
        self._exporting: Child | None = None
        self._pushing: Pushing | None = None

    def compose(self) -> ComposeResult:
        yield Header("results")
        yield ResultsSummary(id="results-summary")
        yield ResultsMeasures(id="results-measures")
        with Container(id="results-parts"):
            with Vertical(id="prompts-part"):
                yield PromptsTitle(id="prompts-title")
                yield PromptList(id="prompt-list")
            with Vertical(id="models-part"):
                yield ModelsTitle(id="models-title")
                yield ModelList(id="model-list")
                yield ModelDetail(id="model-detail")
        yield Footer("results")

    def on_mount(self) -> None:
        self.shell.view_signal.subscribe(self, self._on_view)
        self.set_interval(LOOK_S, self._look)

    def on_screen_resume(self) -> None:
        self._on_view(self.shell.view)

    @property
    def complete(self) -> bool:
        return self._root is None or (self.results is not None and not self._reading)

    # -- reading ---------------------------------------------------------------------------------

    def _on_view(self, view: TrainView | None) -> None:
        if not self.is_attached or self is not self.app.screen:
            return
        self.query_one(Header).show(view)
        folder = self.shell.run_folder
        root = folder.root if folder is not None else None
        if root != self._root:
            self._root, self._mark, self._wanted, self.results = root, None, None, None
            self._forget_end()
            self._show("")
        self._look()

    def _look(self) -> None:
        """Read the folder if it has changed. Uses a thread because a disk may be slow."""
        if self._working is not None:
            self.query_one(ResultsSummary).changed()
        if self._root is None or self._reading or self is not self.app.screen:
            return
        self._reading = True
        view = self.shell.view
        state = view.state if view is not None else ""
        job = partial(self._read, self._root, state, self._mark, self._wanted)
        self.in_thread("results", job, partial(self._take, self._root))

    def _read(self, root: Path, state: str, before: object, wanted: tuple[Path, int] | None) -> _Read:
        mark = (fingerprint(root), state, wanted)
        if mark == before:
            return None, "", mark
        try:
            return read_results(root, wanted), "", mark
        except (OSError, RuntimeError, ValueError) as error:
            return None, str(error) or type(error).__name__, mark

    def _take(self, root: Path, read: _Read) -> None:
        """Show the results, unless another run was opened meanwhile."""
        self._reading = False
        results, trouble, mark = read
        if root != self._root:
            self._look()
        elif results is not None or trouble:
            first = self.results is None
            self._mark, self.results = mark, results
            self._show(trouble)
            if first and results is not None:
                self.query_one("#prompt-list" if results.shown is not None else "#model-list").focus()
            self._look()  # for requests that arrived meanwhile

    # -- showing ---------------------------------------------------------------------------------

    def _show(self, trouble: str) -> None:
        results = self.results
        summary, measures = self.query_one(ResultsSummary), self.query_one(ResultsMeasures)
        summary.run = from_here(self._root) if self._root is not None else ""
        summary.replayed = self.shell.replay is not None
        summary.results, summary.trouble, measures.results = results, trouble, results
        summary.changed(layout=True)
        measures.changed(layout=True)
        self._show_prompts(results)
        self._show_models(results)
        self._name_keys()

    def _show_prompts(self, results: Results | None) -> None:
        shown = results.shown if results is not None else None
        prompts, title = self.query_one(PromptList), self.query_one(PromptsTitle)
        self.set_class(shown is None, "-only-models")
        chosen = prompts.selected
        prompts.rows = results.prompts if results is not None else ()
        title.results = results
        numbers = [one.number for one in prompts.rows]
        prompts.cursor = (
            numbers.index(chosen.number) if chosen is not None and chosen.number in numbers else 0
        )
        prompts.changed()
        title.changed()

    def _show_models(self, results: Results | None) -> None:
        models = self.query_one(ModelList)
        chosen = models.selected
        models.rows = results.models if results is not None else ()
        names = [one.name for one in models.rows]
        models.cursor = names.index(chosen.name) if chosen is not None and chosen.name in names else 0
        models.refresh(layout=True)
        models.changed()
        title = self.query_one(ModelsTitle)
        title.results = results
        title.changed()
        self._show_detail()

    def _show_detail(self) -> None:
        detail = self.query_one(ModelDetail)
        detail.model, detail.results = self.query_one(ModelList).selected, self.results
        detail.live = self.shell.view is not None and self.shell.view.live
        detail.changed(layout=True)

    def _name_keys(self) -> None:
        footer = self.query_one(Footer)
        several = self.results is not None and len(self.results.comparisons) > 1
        listed = isinstance(self.focused, CursorList) and bool(self.focused.count)
        usable = (chosen := self._chosen()) is not None and chosen.usable
        parts = {"several": several, "list": listed, "working": self._working is not None, "usable": usable}
        parts["comparable"] = usable and self._comparing is None
        if isinstance(self.focused, ModelList) and (model := self.focused.selected) is not None:
            parts |= {"models": model.path != self._root, "adapter": model.adapter and model.usable}
        footer.parts = tuple(part for part, holds in parts.items() if holds)
        footer.show(self.shell.view)

    def on_descendant_focus(self) -> None:
        self._name_keys()

    @on(CursorList.Highlighted, "#model-list")
    def _chosen_model(self) -> None:
        self._show_detail()
        self._name_keys()

    # -- actions ---------------------------------------------------------------------------------

    @on(CursorList.Selected)
    def _opened(self, event: CursorList.Selected) -> None:
        from grpo_tui.ui.screens.answers import AnswersScreen
        from grpo_tui.ui.screens.reading import TextScreen

        shown = self.results.shown if self.results is not None else None
        if isinstance(event.rows, PromptList):
            pair = event.rows.selected
            if pair is not None and shown is not None:
                self.app.push_screen(AnswersScreen(pair, shown))
        elif (model := self.query_one(ModelList).selected) is not None:
            self.app.push_screen(TextScreen(f"model of step {model.step:,}", _about(model)))

    def action_results_open(self) -> None:
        """Open the selected row of the focused list, or of the first list with rows."""
        lists = (self.query_one(PromptList), self.query_one(ModelList))
        chosen = next(
            (one for one in (self.focused, *lists) if isinstance(one, CursorList) and one.count), None
        )
        if chosen is not None:
            chosen.action_open()

    def action_turn(self, by: int) -> None:
        results = self.results
        if results is None or len(results.comparisons) < 2:
            self.app.notify("No other comparison of this run is kept.")
            return
        one = results.comparisons[(results.at + by) % len(results.comparisons)]
        self._wanted = (one.file, one.at)
        self._look()

    def action_results_copy(self) -> None:
        model = self.query_one(ModelList).selected
        shown = self.results.shown if self.results is not None else None
        if shown is not None and not isinstance(self.focused, ModelList):
            self.shell.copy("the verdict", shown.sentence)
        elif model is not None and model.commands:
            self.shell.copy("the command", "\n".join(model.commands))
        elif model is not None:
            self.shell.copy("the path", str(model.path))
        else:
            self.app.notify("Nothing to copy yet.")

    # -- comparing -------------------------------------------------------------------------------

    def action_results_compare(self) -> None:
        if self._comparing is not None:
            self.app.notify("A comparison is running. S stops it.")
        elif (chosen := self._usable("compare")) is not None:
            self._beside_training("compare", "A comparison", partial(self._begin, chosen))

    def action_results_chat(self) -> None:
        if (chosen := self._usable("chat with")) is not None:
            self._beside_training("chat", "A chat", partial(self._chat, chosen))

    def _chat(self, model: Model) -> None:
        from grpo_tui.ui.screens.chat import ChatScreen

        if self._root is not None:
            self.app.push_screen(ChatScreen(self._root, model.name, model.path, beside=True))

    def _chosen(self, but: Path | None = None) -> Model | None:
        """Return the selected model, or the newest that can be loaded and is not in the folder `but`."""
        models = self.query_one(ModelList)
        usable = (one for one in models.rows if one.usable and one.path != but)
        return models.selected if self.focused is models else next(usable, None)

    def _usable(self, verb: str) -> Model | None:
        """Return the selected or newest model. Says why if there is none that can be loaded."""
        chosen = self._chosen()
        if chosen is None:
            self.app.notify(NO_RUN if self._root is None else f"No model to {verb} yet.", severity="warning")
        elif not chosen.usable:
            word = f"The checkpoint of step {chosen.step:,} cannot be loaded: {chosen.marks}"
            self.app.notify(word, severity="warning")
        else:
            return chosen
        return None

    def _beside_training(self, verb: str, what: str, begin: Callable[[], None]) -> None:
        from grpo_tui.ui.screens.dialogs import DialogText, YesNo

        view = self.shell.view
        if view is None or not view.live or view.state == "paused":
            begin()
            return
        words = f"The run is training. {what} would compete with it for memory and compute."
        told: list[Line] = [[Span(f" {row}")] for row in wrapped(words, 60)]
        self.ask(YesNo(f"{verb} now?", DialogText(told), verb, "later"), lambda _: begin())

    def _begin(self, model: Model) -> None:
        from grpo_tui.ui.comparing import Comparing, code_to_compare

        if self._root is None or self._comparing is not None:
            return
        if self.asks_consent(code_to_compare(self._root, model.path), partial(self._begin, model)):
            return
        comparing = self._comparing = Comparing(model.name)
        self._forget_end()
        self._show_work()
        self.in_thread(
            "comparison", partial(comparing.run, self._tell_stage), partial(self._compared, self._root)
        )

    def _forget_end(self) -> None:
        summary = self.query_one(ResultsSummary)
        summary.failure = summary.stopped = ""

    def _tell_stage(self) -> None:
        """Show the stage of the work under way. Safe from any thread."""
        self.call_later(self.query_one(ResultsSummary).changed)

    def _show_work(self) -> None:
        summary = self.query_one(ResultsSummary)
        summary.work = self._working
        summary.changed(layout=True)
        self._name_keys()

    def _compared(self, root: Path, result: tuple[bool, str]) -> None:
        """Notify in any pane, and show the new comparison, or why it failed, if its run is still open."""
        (done, said), ended, self._comparing = result, self._comparing, None
        if ended is None:
            return
        summary, is_open = self.query_one(ResultsSummary), root == self._root
        if done:
            self._wanted = None if is_open else self._wanted
            self.app.notify(f"{ended.name}: {said}", timeout=20)
        elif ended.cancelled:
            summary.stopped = said if is_open else ""
            self.app.notify(said)
        else:
            summary.failure = said if is_open else ""
            self.app.notify(f"The comparison failed: {said}", severity="error", timeout=20)
        self._show_work()
        self._look()

    @property
    def _working(self) -> Work | None:
        """The comparison or merge under way, which `S` stops."""
        return self._comparing or self._merging

    def action_results_stop(self) -> None:
        if self._working is None:
            self.app.notify("No comparison or merge is running.")
        else:
            self._working.cancel()
            self._show_work()

    # -- forking ---------------------------------------------------------------------------------

    def action_results_fork(self) -> None:
        """Ask for the settings of a new run that starts from the selected or newest checkpoint."""
        chosen = self._checkpoint("forked")
        if chosen is not None:
            self._ask_fork(chosen)

    def _ask_fork(self, model: Model, words: str = "", refusal: str = "") -> None:
        from grpo_tui.ui.screens.dialogs import WordsDialog

        if self._root is None:
            return
        names = (self._root.with_name(f"{self._root.name}-{number}") for number in count(2))
        free = next(path for path in names if not path.exists())
        own = one_line(free.name, 20)
        hint = f"such as beta=0.04 optimizer=new. A word in front names the folder (default {own})"
        title = f"fork from step {model.step:,}: settings to change"
        self.ask(WordsDialog(title, words, hint, refusal), lambda typed: self._fork(model, typed, free))

    def _checkpoint(self, done: str) -> Model | None:
        """Return the selected or newest checkpoint, and for the final model that of its step.

        Says why if there is none.
        """
        chosen = self._chosen(but=self._root)
        if chosen is not None and chosen.live:
            self.app.notify("Save it first: C in Train saves a checkpoint.", severity="warning")
            return None
        said = f"Only a complete checkpoint can be {done}."
        if chosen is not None and chosen.path == self._root:
            kept = [one for one in self.query_one(ModelList).rows if one.usable and one.path != self._root]
            said += f" The final model was saved at step {chosen.step:,}, of which no checkpoint is kept."
            said += f" Select the newest, of step {kept[0].step:,}." if kept else ""
            chosen = next((one for one in kept if one.step == chosen.step), None)
        if chosen is not None and chosen.usable:
            return chosen
        self.app.notify(said, severity="warning")
        return None

    def _fork(self, model: Model, words: str, free: Path) -> None:
        from grpo_tui.rewards.consent import needed_to_resume
        from grpo_tui.ui.starting import start_run

        try:
            changes = shlex.split(words)
        except ValueError:
            self._ask_fork(model, words, "A quote is not closed.")
            return
        if self._root is None:
            return
        if self.asks_consent(needed_to_resume(self._root), partial(self._fork, model, words, free)):
            return
        folder = changes.pop(0) if changes and "=" not in changes[0] else str(free)
        asked = [str(self._root), "--resume", str(model.step), "--run-dir", folder]
        for change in changes:
            new = change.startswith(OPTIMIZER)
            asked += ["--optimizer", change.removeprefix(OPTIMIZER)] if new else ["--set", change]
        self.app.notify(f"Forking from step {model.step:,} …")
        forked = partial(self._forked, model, words, Path(folder).absolute())
        self.in_thread("fork", partial(start_run, asked, "forked"), forked)

    def _forked(self, model: Model, words: str, folder: Path, ended: tuple[bool, str]) -> None:
        started, said = ended
        if not started:
            ask = partial(self._ask_fork, model, words)
            self._ask_again(ask, f"The run was not forked: {OPTIONS.sub('', said)}")
            return
        self.app.notify(said)
        if self.app.screen is self:
            self.shell.open_run(folder)

    def action_results_race(self) -> None:
        """Ask for the branches of a race from the selected or newest checkpoint, and start it."""
        chosen = self._checkpoint("raced from")
        if chosen is not None:
            self._ask_race(chosen, f"{STEPS}50 | ")

    def _ask_race(self, model: Model, words: str, refusal: str = "") -> None:
        from grpo_tui.ui.screens.dialogs import WordsDialog

        hint = "branches between bars: learning_rate=1e-6 | temperature=1.1 beta=0.02"
        title = f"race from step {model.step:,}: which settings help?"
        self.ask(WordsDialog(title, words, hint, refusal), lambda typed: self._race(model, typed))

    def _race(self, model: Model, words: str) -> None:
        from grpo_tui.rewards.consent import needed_to_resume
        from grpo_tui.ui.starting import start_run

        if self._root is None:
            return
        if self.asks_consent(needed_to_resume(self._root), partial(self._race, model, words)):
            return
        asked = [f"{self._root}@{model.step}"]
        for part in filter(None, map(str.strip, words.split("|"))):
            steps = part.startswith(STEPS)
            asked += ["--steps", part.removeprefix(STEPS)] if steps else ["--branch", part]
        self.app.notify(f"Starting a race from step {model.step:,} …")
        raced = partial(self._raced, model, words)
        self.in_thread("fork", partial(start_run, asked, command="race"), raced)

    def _raced(self, model: Model, words: str, ended: tuple[bool, str]) -> None:
        """Say that the race runs."""
        started, said = ended
        if started:
            told = "The race runs in the background. Its comparison comes up here."
            self.app.notify(told, timeout=20)
            return
        ask = partial(self._ask_race, model, words)
        self._ask_again(ask, f"No race was started: {OPTIONS.sub('', said)}")

    def _ask_again(self, ask: Callable[[str], None], refusal: str) -> None:
        """Bring the dialog back with what was typed and the refusal. In another pane, only say it."""
        if self.app.screen is self:
            ask(refusal)
        else:
            self.app.notify(refusal, severity="error", timeout=20)

    # -- exporting -------------------------------------------------------------------------------

    def action_results_card(self) -> None:
        from grpo_tui.ui.starting import Child

        root = self._root
        if root is None:
            self.app.notify("There is no run to describe.", severity="warning")
            return
        child = Child(["card", str(root), "--write"], "note: ")
        self.in_thread("card", child.run, partial(self._described, root))

    def _described(self, root: Path, ended: Ended) -> None:
        done = replace(ended, printed=f"Wrote {from_here(root / 'README.md')}.")
        self.shell.tell_ended("No card was written", (), done)

    def action_results_export(self) -> None:
        from grpo_tui.present.config_compare import not_bundle
        from grpo_tui.ui.screens.dialogs import PathDialog

        root = self._root
        if root is None:
            self.app.notify("There is no run to export.", severity="warning")
            return
        if self._exporting is not None:
            self.app.notify("An export is running.")
            return
        hint = "a new folder, or a file that ends in .zip"
        dialog = PathDialog("export a bundle to", f"{root.name}-bundle", not_bundle, hint)
        self.ask(dialog, lambda path: self._export(root, path))

    def _export(self, root: Path, path: Path) -> None:
        from grpo_tui.ui.starting import Child

        notes: list[str] = []
        words = ["export", str(root), "--format", "bundle", "-o", str(path)]
        child = self._exporting = Child(words, "note: ")
        self.in_thread("export", partial(child.run, notes.append), partial(self._exported, notes))

    def _exported(self, notes: list[str], ended: Ended) -> None:
        self._exporting = None
        self.shell.tell_ended("Not exported", notes, ended)

    # -- merging and deleting --------------------------------------------------------------------

    def action_results_merge(self) -> None:
        from grpo_tui.ui.screens.dialogs import PathDialog

        if self._merging is not None:
            self.app.notify("A merge is running. S stops it.")
            return
        chosen = self._usable("merge")
        if chosen is None:
            return
        if not chosen.adapter:
            self.app.notify("Only a LoRA adapter can be merged.", severity="warning")
            return
        title, name = f"merge step {chosen.step:,} into", f"{chosen.name.replace('@', '-')}-merged"

        def named(path: Path) -> None:
            self._beside_training("merge", "A merge", partial(self._merge, chosen, path))

        self.ask(PathDialog(title, name, _not_empty, "a new folder"), named)

    def _merge(self, model: Model, path: Path) -> None:
        from grpo_tui.ui.comparing import Work

        what = f"merging step {model.step:,} into {path.name}"
        merging = self._merging = Work(what, ["merge", model.name, str(path)])
        self._show_work()
        self.in_thread("merge", partial(merging.follow, self._tell_stage), self._merged)

    def _merged(self, ended: Ended) -> None:
        stopped = self._merging is not None and self._merging.cancelled
        self._merging = None
        self._show_work()
        if stopped and ended.code != 0:
            self.app.notify("The merge was stopped, and nothing was written.")
        else:
            self.shell.tell_ended("Not merged", (), ended)

    def action_results_delete(self) -> None:
        from grpo_tui.ui.screens.dialogs import DialogText, YesNo

        models, root = self.query_one(ModelList), self._root
        chosen = models.selected if self.focused is models else None
        if chosen is None or root is None or chosen.path == root:
            self.app.notify("Select a checkpoint in the list of models first.", severity="warning")
            return
        left = [one for one in models.rows if one.usable and one.path not in (root, chosen.path)]
        told: list[Line] = [[Span(f" {size(chosen.size_bytes)}, {from_here(chosen.path)}")]]
        told += [[Span(" No complete checkpoint will be left to resume from.", "attention")]] * (not left)
        question = YesNo(f"delete step {chosen.step:,}?", DialogText(told), "delete", "keep it")
        self.ask(question, lambda _: self._delete(root, chosen))

    def _delete(self, root: Path, model: Model) -> None:
        from grpo_tui.ui.starting import Child

        child = Child(["checkpoints", str(root), "--delete", str(model.step), "--yes"], "note: ")
        self.in_thread("delete", child.run, partial(self._deleted, model))

    def _deleted(self, model: Model, ended: Ended) -> None:
        done = replace(ended, printed=f"Deleted {model.path.name}, {size(model.size_bytes)}.")
        self.shell.tell_ended("Not deleted", (), done)
        self._look()

    def action_results_push(self) -> None:
        from grpo_tui.ui.pushing import Pushing

        chosen = self._chosen()
        if self._pushing is not None and not self._pushing.over:
            self.app.notify("An upload is running.")
        elif chosen is None or not chosen.usable:
            self.app.notify("No model to upload yet.", severity="warning")
        else:
            self._pushing = Pushing(self.shell, chosen.name)
            self._pushing.ask()

    def on_unmount(self) -> None:
        for work in (self._comparing, self._merging, self._exporting, self._pushing):
            if work is not None:
                work.cancel()


def _not_empty(path: Path) -> str:
    return (
        "it exists. Choose a new folder" if path.is_file() or (path.is_dir() and any(path.iterdir())) else ""
    )


def _about(model: Model) -> str:
    reward = f", reward {fixed(model.reward)}" if model.reward is not None else ""
    marks = f", {model.marks}" if model.marks else ""
    kind = "LoRA adapter, which needs its base model" if model.adapter else "whole model"
    kind = "policy being trained" if model.live else kind
    lines = [
        str(model.path.absolute()),
        f"step {model.step:,}, {size(model.size_bytes)}{reward}{marks}",
        *([kind] if model.usable else []),
        "",
        *model.commands,
        *([f"grpo-tui compare {shell_word(model.name)}"] if model.usable else []),
    ]
    return "\n".join(lines)
