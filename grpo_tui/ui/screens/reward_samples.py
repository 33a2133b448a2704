"""What a person does with samples in the pane Rewards: write, change, tag, find, remove, keep, fetch others.

Mixed into the screen.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from grpo_tui.core.text import one_line
from grpo_tui.present.formatting import from_here, plural
from grpo_tui.ui.shell import Shell
from grpo_tui.ui.widgets.reward_table import SampleTable

if TYPE_CHECKING:
    from textual.screen import Screen

    from grpo_tui.present.rewards_view import RewardsView
    from grpo_tui.rewards.samples import Sample
    from grpo_tui.rewards.scoring import Report
    from grpo_tui.rewards.sources import Origin
    from grpo_tui.ui.lab_worker import LabWorker

YOURS = "yours"
"""The kind of a sample that a person wrote."""


class SampleEditing(Shell):
    """The keys that change the samples."""

    samples: tuple[Sample, ...] = ()
    origin: Origin | None = None
    """Where they come from."""
    scored: RewardsView | None = None
    report: Report | None = None
    worker: LabWorker | None = None
    goes_to: int | None = None
    """The sample that the cursor goes to with the next scores."""
    words: str = ""
    """Only samples that hold these words are shown."""

    @property
    def _pane(self) -> Screen[Any]:
        return cast("Screen[Any]", self)

    def chosen_sample(self) -> int | None:
        """The sample under the cursor; says what to do when there is none."""
        selected = self._pane.query_one(SampleTable).selected
        if selected is None or selected >= len(self.samples) or self.worker is None:
            self._pane.app.notify(
                "There are no samples yet: f chooses where they come from.", severity="warning", markup=False
            )
            return None
        return selected

    def gold_of(self, index: int) -> str:
        """The right answer of a sample's row."""
        view = self.scored
        return view.groups[view.rows[index].group].gold if view is not None else ""

    # -- keys ------------------------------------------------------------------------------------

    def action_rewards_add(self) -> None:
        """Write a completion for the row under the cursor."""
        index = self.chosen_sample()
        if index is None:
            return
        sample = self.samples[index]
        fresh = replace(sample, completion="", kind=YOURS, recorded=None, truncated=False)
        self._ask_for("a completion of your own", fresh, index, lambda new: self._insert(index + 1, new))

    def edit_chosen(self) -> None:
        """Change the completion under the cursor."""
        index = self.chosen_sample()
        if index is not None:
            self._ask_for(
                "edit the completion", self.samples[index], index, lambda new: self._put(index, new)
            )

    def action_rewards_duplicate(self) -> None:
        """The sample once more, to be changed."""
        index = self.chosen_sample()
        if index is not None:
            self._insert(index + 1, replace(self.samples[index], recorded=None))

    def action_rewards_remove(self) -> None:
        """Take the sample out of the list; what it came from stays."""
        index = self.chosen_sample()
        if index is None:
            return
        if len(self.samples) == 1:
            self._pane.app.notify(
                "It is the last sample; f fetches others.", severity="warning", markup=False
            )
            return
        self.goes_to = max(0, index - 1)
        self._score([s for i, s in enumerate(self.samples) if i != index], "a sample removed")

    def action_rewards_tags(self) -> None:
        """Give the sample tags, or take some away."""
        from grpo_tui.rewards.samples import tags_of
        from grpo_tui.ui.screens.choosing import WordsDialog

        index = self.chosen_sample()
        if index is None:
            return
        sample = self.samples[index]
        known = dict.fromkeys(tag for one in self.samples for tag in one.tags)
        hint = f"There are: {' '.join(known)}" if known else "Words that you choose, such as hard or fooled."

        def typed(words: str | None) -> None:
            if words is not None and (tags := tags_of(words)) != sample.tags:
                self._tag(index, replace(sample, tags=tags))

        self._pane.app.push_screen(
            WordsDialog(f"tags of sample {index + 1}", " ".join(sample.tags), hint), typed
        )

    def _tag(self, index: int, sample: Sample) -> None:
        """Tags change no score."""
        self.goes_to = index
        self.samples = (*self.samples[:index], sample, *self.samples[index + 1 :])
        if self.worker is not None:
            self.worker.tag(index, sample.tags)

    def action_rewards_filter(self) -> None:
        """Show only the samples that hold some words."""
        from grpo_tui.ui.screens.choosing import WordsDialog

        hint = "Words in completion, prompt or kind; #hard is a tag. Empty shows all."

        def typed(words: str | None) -> None:
            if words is not None:
                self.show_only(" ".join(words.split()))

        self._pane.app.push_screen(WordsDialog("show only", self.words, hint), typed)

    def show_only(self, words: str) -> None:
        """Show the samples that hold these words; all of them for none. The screen shows them."""
        raise NotImplementedError

    def action_rewards_write(self) -> None:
        """Write the samples to a JSONL file, tags and all."""
        from grpo_tui.rewards.samples import save_jsonl
        from grpo_tui.ui.screens.choosing import PathDialog

        if self.chosen_sample() is None:
            return

        def named(path: Path | None) -> None:
            if path is None:
                return
            try:
                save_jsonl(self.samples, path)
            except OSError as error:
                self._pane.app.notify(f"Not written: {error}", severity="warning", markup=False)
                return
            where = one_line(from_here(path), 60)
            count = plural(len(self.samples), "sample")
            self._pane.app.notify(f"{count} written to {where}; f fetches them again.", markup=False)

        origin = self.origin
        name = origin.file if origin is not None and origin.file is not None else Path("samples.jsonl")
        hint = "JSONL, tags kept; grpo-tui score CONFIG --samples FILE reads it."
        dialog = PathDialog(
            "write the samples", str(name.with_suffix(".jsonl")), _no_file, hint, replaces=True
        )
        self._pane.app.push_screen(dialog, named)

    def action_rewards_keep(self) -> None:
        """Keep the sample as a case, with what it gets now."""
        index = self.chosen_sample()
        if index is not None and self.worker is not None:
            self.worker.keep(index)

    def action_rewards_model(self) -> None:
        """Let the model of the config answer the row under the cursor."""
        index = self.chosen_sample()
        if index is not None and self.worker is not None:
            self.goes_to = index
            self.worker.generate(index)

    def action_rewards_baseline(self) -> None:
        """Let the model of the config answer rows, before any training."""
        if self.worker is not None and self.report is not None:
            self.goes_to = 0
            self.worker.baseline()
        else:
            self._pane.app.notify("No rewards are loaded yet.", severity="warning", markup=False)

    def action_rewards_samples(self) -> None:
        """Ask where samples shall come from."""
        from grpo_tui.ui.screens.rewards_dialogs import SourceDialog

        folder = self.shell.run_folder
        if self.worker is None or self.report is None:
            self._pane.app.notify(
                "No rewards are loaded yet, so nothing can be scored.", severity="warning", markup=False
            )
            return

        def chosen(origin: Origin | None) -> None:
            if origin is not None and self.worker is not None:
                self.goes_to = 0
                self.worker.take(origin)

        dialog = SourceDialog(folder.root if folder is not None else None, dataset=self.report.batch > 0)
        self._pane.app.push_screen(dialog, chosen)

    def action_rewards_data(self) -> None:
        """The rows of the config's dataset, over this pane."""
        config = self.worker.config if self.worker is not None else None
        if config is None or not config.model:
            self._pane.app.notify(
                "Functions alone have no rows; open a config: grpo-tui rewards CONFIG.yaml",
                severity="warning", markup=False,
            )  # fmt: skip
            return
        from grpo_tui.ui.screens.data import DataScreen

        self._pane.app.push_screen(DataScreen(config.path or Path(config.cwd), config=config))

    # -- how -------------------------------------------------------------------------------------

    def _ask_for(self, title: str, sample: Sample, index: int, then: Any) -> None:
        from grpo_tui.core.text import prompt_text
        from grpo_tui.present.rewards_view import editable_text
        from grpo_tui.ui.screens.rewards_dialogs import CompletionDialog

        before = editable_text(sample)

        def written(text: str | None) -> None:
            if text is not None and (text != before or sample.kind == YOURS):
                then(replace(sample, completion=text, recorded=None, kind=_kind_of(sample)))

        dialog = CompletionDialog(title, prompt_text(sample.prompt), self.gold_of(index), before)
        self._pane.app.push_screen(dialog, written)

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


def _kind_of(sample: Sample) -> str:
    """What was gold or wrong is no longer known to be, once it is changed."""
    return sample.kind if sample.kind in ("", YOURS) else YOURS


def _no_file(path: Path) -> str:
    """Why samples cannot be written there, empty when they can."""
    if path.is_dir() or not path.parent.is_dir():
        return f"{one_line(from_here(path), 50)} is no name of a file here"
    return ""
