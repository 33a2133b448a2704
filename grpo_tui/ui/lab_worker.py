"""Run the reward lab in a thread: load rewards, gather samples, score, and score again when a file is saved.

Jobs run one after another; only the newest of each kind counts. A second thread watches the reward files and
ends a call whose file has changed.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grpo_tui.config.paths import split_file_source
from grpo_tui.config.run_config import GONE, RunConfig, Stamp, stamp
from grpo_tui.core.text import one_line
from grpo_tui.present.baseline_text import progress
from grpo_tui.present.rewards_view import Circumstances, rewards_view
from grpo_tui.rewards import scoring
from grpo_tui.rewards.baseline import SCORING, BaselineOptions, ask_baseline, group_size
from grpo_tui.rewards.cases import CaseFileError, keep_case
from grpo_tui.rewards.consent import ConsentError, left_alone
from grpo_tui.rewards.generating import DatasetRow, GenerateError, Generator, Progress
from grpo_tui.rewards.lab import REPEAT_LIMIT_S, Aggregation, Lab, LabError, Scored
from grpo_tui.rewards.next_reward import (
    Growth,
    Stage,
    add_to_file,
    growth,
    put_into_config,
    section,
    with_reward,
)
from grpo_tui.rewards.probes import probe
from grpo_tui.rewards.sample_sources import (
    PROBED_ROWS,
    Origin,
    dataset_rows,
    rows_with_gold,
    samples_from,
    unanswered,
)
from grpo_tui.rewards.samples import Sample, SampleError
from grpo_tui.rewards.score_report import Failure
from grpo_tui.rewards.what_if import recorded_report
from grpo_tui.store.connection import RunDatabaseError
from grpo_tui.store.layout import RunFolder
from grpo_tui.ui.kit.jobs import Jobs, job

if TYPE_CHECKING:
    from grpo_tui.ui.screens.rewards import RewardsScreen


class SavedFiles:
    """Tracks the reward files. One thread reads them while another checks whether one was saved."""

    def __init__(self) -> None:
        self._stamps: dict[str, Stamp] = {}
        self._read: dict[str, Stamp] = {}

    def forget(self) -> None:
        self._stamps = {}

    def before_reading(self, files: Iterable[str]) -> None:
        """Track these files and record their state before they are read."""
        self._follow(files)
        self._read = {file: stamp(file) for file in self._stamps}

    def after_reading(self, files: Iterable[str]) -> None:
        """Track these files. One that was first found while reading counts as read in its current state."""
        self._follow(files)
        self._read = {**self._stamps, **self._read}

    def _follow(self, files: Iterable[str]) -> None:
        self._stamps = {file: self._stamps.get(file) or stamp(file) for file in files}

    def saved(self) -> list[str]:
        """Return the files saved since the last `seen`. A deleted file does not count as saved."""
        return [file for file, known in self._stamps.items() if stamp(file) not in (known, GONE)]

    def seen(self) -> None:
        self._stamps = {file: stamp(file) for file in self._stamps}

    def stale(self) -> bool:
        """Return whether a file differs from what was read, which may have been half written."""
        return any(stamp(file) != read for file, read in self._read.items())


OF_SCRIPT = (
    "the run's rewards cannot be loaded: a script of your own started it. To score with them, put them in a "
    "file of their own and run grpo-tui rewards FILE.py:FUNCTION"
)
MODEL = "model"
"""Kind of a sample that the model generated, and the name shown while it generates."""
LOOK_S = 0.05
SETTLE_S = 0.02
"""Wait after a save: an editor may write a file in several steps."""
LONG_S = 0.3
"""A call running longer than this is ended when its file is saved. Shorter ones end soon anyway."""


class LabWorker:
    """Owns a lab, its samples and its newest report. Call `run` and `watch` in two threads.

    A method with `@job` returns at once. What it finds is given to the screen.
    """

    def __init__(self, screen: RewardsScreen) -> None:
        self._screen, self._lab = screen, Lab()
        self.jobs: Jobs[Callable[[], None]] = Jobs()
        self._cancel: threading.Event | None = None
        """Set it to end the running generation; None while there is none."""
        self._busy = self._interrupted = self._superseded = False
        self._function = self._saved = ""
        self._function_at = 0.0
        self._files = SavedFiles()
        self._config: RunConfig | None = None
        self._title = ""
        self._dataset: scoring.Dataset | None = None
        self._origin = Origin()
        self._samples: list[Sample] = []
        self._edited = False
        self._report: scoring.Report | None = None
        self._before: scoring.Report | None = None
        self._good: scoring.Report | None = None
        """Newest report without a failed function. Changes are counted against it."""
        self._weights: tuple[float, ...] | None = None
        self._muted: frozenset[int] = frozenset()
        self._aggregation: Aggregation | None = None
        """Modes chosen by the user; None for the config's."""
        self._about = Circumstances()
        self._unopened: Callable[[], None] | None = None
        """Opens the config again, while its code waits for the user's consent."""

    # -- called by the screen; returns at once -----------------------------------------------------

    @property
    def config(self) -> RunConfig | None:
        return self._config

    def open(self, config: Callable[[], RunConfig], origin: Origin, title: str) -> None:
        """Load the rewards of a config and score samples. Drops all other jobs."""
        self.jobs.ask("open", lambda: self._open(config, origin, title), alone=True)

    def tag(self, index: int, tags: tuple[str, ...]) -> None:
        """Set the tags of a sample. Scores do not change."""
        self.jobs.ask(f"tag {index}", lambda: self._tag(index, tags))

    def again(self) -> None:
        self.jobs.ask("reload", lambda: self._reload("scored again"))

    def interrupt(self) -> None:
        """End the running call, if there is one."""
        if self._busy:
            self._interrupted = True
            if not self._end_generating():
                self._lab.interrupt()

    def stop(self) -> None:
        """End both threads and the lab."""
        self.jobs.stop()
        if self._busy and not self._end_generating():
            self._lab.interrupt()

    def _end_generating(self) -> bool:
        cancel = self._cancel
        if cancel is not None:
            cancel.set()
        return cancel is not None

    # -- the threads -----------------------------------------------------------------------------

    def run(self) -> None:
        try:
            while (doing := self.jobs.next()) is not None:
                self._interrupted = False
                self._busy = True
                try:
                    doing()
                except ConsentError as error:
                    again = partial(self.jobs.ask, "consent", doing)
                    self._show_trouble(f"ctrl+l asks again. {error}")
                    self._screen.asks_consent(error.codes, again)
                except (LabError, GenerateError, RunDatabaseError, OSError, ValueError) as error:
                    self._failed(error)
                finally:
                    self._busy = False
                    self._function = ""
                if not self.jobs.stopped.is_set():
                    self._tell(self._screen.lab_rests)
        finally:
            self._lab.close()

    def watch(self) -> None:
        """Watch the reward files until stopped. A saved file is scored at once."""
        while not self.jobs.stopped.wait(LOOK_S):
            saved = self._files.saved()
            if not saved:
                continue
            time.sleep(SETTLE_S)
            self._files.seen()
            self._saved = f"{one_line(Path(saved[0]).name, 60)} saved"
            self.jobs.ask("reload", partial(self._reload_saved, self._saved))
            if self._function and time.monotonic() - self._function_at > LONG_S:
                self._superseded = True
                self._lab.interrupt()

    def _failed(self, error: Exception) -> None:
        if self.jobs.stopped.is_set():
            return
        if self._superseded:  # a file was saved, which still has to be scored
            self._superseded = False
            self.jobs.ask("reload", partial(self._reload, self._saved))
            return
        stopped = "stopped by you. Press ctrl+l or save a reward file to score again"
        self._show_trouble(stopped if self._interrupted else str(error))

    def _tell(self, take: Callable[..., None], *what: Any) -> None:
        """Call a method of the screen, in its thread."""
        self._screen.call_later(take, *what)

    def _show_trouble(self, text: str) -> None:
        self._tell(self._screen.lab_failed, one_line(text, 600))

    # -- in the worker thread --------------------------------------------------------------------

    def _open(self, config: Callable[[], RunConfig], origin: Origin, title: str) -> None:
        self._report = self._before = self._good = self._weights = self._unopened = None
        self._muted, self._aggregation, self._dataset = frozenset(), None, None
        self._files.forget()
        self._doing("loading torch")
        self._config, self._title, self._origin = config(), title, origin
        if origin.kind == "run" and not origin.where and origin.step is None:
            self._show_recorded(whole=not self._config.reward_count)
        try:
            self._load()
        except ConsentError:
            self._unopened = partial(self._open, config, origin, title)
            self._show_recorded(whole=True)
            raise
        start = time.monotonic()
        self._doing("reading the dataset")
        trouble = ""
        try:
            self._dataset = dataset_rows(self._lab, self._config)
        except LabError as error:
            made_up = "" if origin.kind in ("file", "run") else "; using built-in questions instead"
            trouble = f"the dataset could not be read{made_up}: {error}"
        if origin.kind == "run" and origin.group is None and not self._recorded(origin):
            origin = Origin()
        try:
            self._gather(origin)
        except SampleError as error:
            if self._dataset is None or origin.kind != "gold":
                raise
            self._samples, self._origin = unanswered(self._dataset, origin.rows), origin
            trouble = f"{error}. Press enter to write a completion, f to load others"
        self._score("", start)
        if trouble:
            self._show_trouble(trouble)

    def _recorded(self, origin: Origin) -> scoring.Report | None:
        """Return what the config's run recorded for a group or its newest step; None when nothing."""
        assert self._config is not None
        run = self._config.origin
        if run is None or not RunFolder(run).database.is_file():
            return None
        try:
            return recorded_report(run, self._modes(), origin.group)
        except (SampleError, RunDatabaseError):
            return None

    def _show_recorded(self, *, whole: bool) -> None:
        """Show the recorded scores, without calling a function. `whole` when no check follows."""
        found = self._recorded(self._origin)
        if found is None:
            return
        self._samples, self._edited = list(found.scored.samples), False
        self._weights = None
        self._about = self._circumstances("as recorded", 0.0)
        self._show(found, whole=whole)

    @job("samples")
    def take(self, origin: Origin) -> None:
        """Score samples from another source."""
        assert self._config is not None
        start = time.monotonic()
        self._doing("gathering samples")
        self._gather(origin)
        self._before = self._good = None
        self._score("", start)

    def _gather(self, origin: Origin) -> None:
        assert self._config is not None
        found = samples_from(self._lab, self._config, self._dataset, origin)
        if not found:
            raise SampleError("there is nothing to score there")
        self._samples, self._origin, self._edited = found, origin, False

    @job("samples")
    def replace(self, samples: list[Sample], reason: str) -> None:
        """Score samples the user has written or edited."""
        self._samples, self._before, self._good, self._edited = samples, None, None, True
        self._score(reason, time.monotonic())

    def _reload_saved(self, reason: str) -> None:
        """Reload, unless the saved content is already loaded: a write can be seen before it is complete."""
        if self._files.stale():
            self._reload(reason)

    def _reload(self, reason: str) -> None:
        if self._config is None:
            return
        if self._unopened is not None:
            self._unopened()
            return
        start = time.monotonic()
        self._doing("loading the rewards")
        self._load()
        if not self._samples:
            self._gather(self._origin)
        if self._report is not None and not self._report.failed:
            self._good = self._report
        self._before = self._good or self._report
        self._score(reason, start)

    def _load(self) -> None:
        assert self._config is not None
        if not self._config.reward_count:
            raise ValueError(OF_SCRIPT)
        self._files.before_reading(self._names())
        try:
            self._lab.load(self._config)
            self._superseded = False
        finally:
            self._files.after_reading(self._names())

    def _names(self) -> set[str]:
        assert self._config is not None
        parts = (split_file_source(entry.source) for entry in self._config.section.rewards)
        return {part[0] for part in parts if part} | set(self._lab.files)

    def _score(self, reason: str, start: float) -> None:
        """Post the scores first. The checks come after, because they call the functions again."""
        first = self._scored()
        weights = self._weights if self._weights and len(self._weights) == len(first.functions) else None
        if weights is None:
            self._weights, self._muted = None, frozenset()
            weights = tuple(f.info.weight for f in first.functions)
        known = self._report.findings if self._report is not None else ()
        quick = scoring.unchecked(self._lab, first, weights, known, self._modes())
        self._about = self._circumstances(reason, time.monotonic() - start)
        self._show(quick, whole=False)
        checked = self._checked(first)
        options = scoring.ScoreOptions(weights=weights, aggregation=self._modes(), tell=self._calls)
        self._show(scoring.report(self._lab, first.samples, self._dataset, options, checked), whole=True)

    def _scored(self) -> Scored:
        """Score with every function. One that the user interrupts is marked as failed."""
        ended: dict[int, Failure] = {}
        while True:
            left = [f.index for f in self._lab.functions if f.index not in ended]
            try:
                scored = self._lab.score(
                    self._samples, only=left if ended else None, tell=self._calls, repeat_limit_s=0.0
                )
                break
            except LabError:
                index = next((f.index for f in self._lab.functions if f.name == self._function), None)
                if not self._interrupted or self._superseded or index is None or index in ended:
                    raise
                for_s = time.monotonic() - self._function_at
                ended[index] = Failure("hung", "", f"stopped by you after {for_s:.1f} s without an answer")
                self._interrupted = False
        functions = tuple(
            replace(f, failure=ended[f.info.index]) if f.info.index in ended else f for f in scored.functions
        )
        return replace(scored, functions=functions)

    def _checked(self, first: Scored) -> Scored:
        """Call the quick functions again, to find scores that differ between calls."""
        quick = [
            f.info.index
            for f in first.functions
            if f.seconds <= REPEAT_LIMIT_S and (f.failure is None or f.failure.kind in ("raised", "returned"))
        ]
        if not quick:
            return first
        again = self._lab.score(self._samples, only=quick, tell=self._calls)
        functions = tuple(
            new if new.info.index in quick else old
            for old, new in zip(first.functions, again.functions, strict=True)
        )
        return replace(first, functions=functions)

    def _tag(self, index: int, tags: tuple[str, ...]) -> None:
        found = self._report
        if found is None or index >= len(self._samples):
            return
        self._samples = [*self._samples]
        self._samples[index] = replace(self._samples[index], tags=tags)
        self._report = replace(found, scored=replace(found.scored, samples=tuple(self._samples)))
        self._before = self._retagged(self._before)
        self._good = self._retagged(self._good)
        self._show(self._report, whole=self._about.whole)

    def _retagged(self, earlier: scoring.Report | None) -> scoring.Report | None:
        """Copy the current tags into an earlier report, so that its samples still compare equal."""
        if earlier is None or len(earlier.scored.samples) != len(self._samples):
            return earlier
        samples = tuple(
            replace(old, tags=new.tags)
            for old, new in zip(earlier.scored.samples, self._samples, strict=True)
        )
        return replace(earlier, scored=replace(earlier.scored, samples=samples))

    @job("weigh")
    def weigh(
        self, weights: tuple[float, ...], muted: frozenset[int], aggregation: Aggregation | None
    ) -> None:
        """Aggregate the existing scores with other weights and modes; None takes the config's modes."""
        if self._report is not None and len(weights) == len(self._report.weights):
            self._weights, self._muted, self._aggregation = weights, muted, aggregation
            self._show(self._report, whole=self._about.whole)

    def _show(self, found: scoring.Report, *, whole: bool) -> None:
        weights = self._weights or found.weights
        modes = self._modes()
        if self._muted or weights != found.weights or self._about.muted or modes != found.aggregation:
            found = scoring.reweighed(self._lab, found, weights, self._muted, modes)
        self._report = found
        own = self._config is not None and modes == Aggregation.of(self._config)
        self._about = replace(self._about, whole=whole, muted=self._muted, own_modes=own)
        view = rewards_view(found, self._before, self._about)
        self._tell(self._screen.take_scores, view, tuple(self._samples), self._origin)

    def _modes(self) -> Aggregation:
        assert self._config is not None
        return self._aggregation or Aggregation.of(self._config)

    def _circumstances(self, reason: str, took_s: float) -> Circumstances:
        assert self._config is not None
        columns = self._dataset or scoring.Dataset.of_samples(self._samples)
        return Circumstances(
            title=self._title,
            origin=self._origin.words + (", changed" if self._edited else ""),
            scored_at=self._screen.shell.clock(),
            took_s=took_s,
            reason=reason,
            muted=self._muted,
            gold_column=scoring.gold_column_of(self._config, columns.columns),
        )

    @job("probe")
    def probe(self) -> None:
        """Test whether the rewards can be fooled."""
        assert self._config is not None
        self._doing("making probes")
        rows, column = rows_with_gold(self._lab, self._config, self._dataset, PROBED_ROWS)
        found = probe(self._lab, rows[:PROBED_ROWS], column, made_up=self._dataset is None, tell=self._calls)
        self._tell(self._screen.take_probes, found)

    @job("keep")
    def keep(self, index: int) -> None:
        """Save a sample as a case with its current scores."""
        if self._report is not None and self._config is not None:
            try:
                self._tell(self._screen.tell_case, *keep_case(self._config, self._report, index))
            except CaseFileError as error:
                self._tell(self._screen.refuse, one_line(str(error), 300))

    @job("grow")
    def grow(self) -> None:
        """Test the current rewards and suggest the next one."""
        if self._config is None or self._report is None:
            raise SampleError("no rewards are loaded yet")
        self._doing("testing the rewards to choose the next one")
        findings = self._report.findings
        seen = growth(self._lab, self._config, self._dataset, findings, self._calls)
        stage = seen.advice.stage
        section = section_for(self._config, seen, stage) if stage is not None else ""
        self._tell(self._screen.take_growth, seen, section)

    @job("add")
    def add(self, seen: Growth, stage: Stage, config: Path | None) -> None:
        """Add a reward to its file, and to a config if one is given. Then reload and score."""
        assert self._config is not None
        if why := left_alone(self._config):
            self._show_trouble(f"not added: {why}")
            return
        add_to_file(seen.file, stage, seen.task)
        before = self._config
        if not before.model:  # functions without a config start with the suggested weights
            before = _weighted(before, seen.advice.weights)
        self._config = with_reward(before, seen.file, stage)
        trouble = ""
        if config is not None:
            try:
                put_into_config(config, seen.file, stage)
            except (OSError, ValueError) as error:
                trouble = f"{stage.name} is in {seen.file.name}, but not in {config.name}: {error}"
        if before.model and (config is None or trouble):
            self._title = f"{self._title} + {stage.name}"
        self._tell(self._screen.tell_added, seen.file, stage.name, None if trouble else config)
        self._reload(f"{stage.name} added")
        if trouble:
            self._show_trouble(trouble)

    # -- with the config's model: each job loads it in a child process, so that an open pane holds no GPU

    @job("baseline")
    def baseline(self) -> None:
        """Generate answers to some rows, show them as samples and report the baseline."""
        config = self._with_model()
        cancel = self._cancel = threading.Event()
        try:
            found, generated = ask_baseline(self._lab, config, BaselineOptions(), self._teller(), cancel)
        finally:
            self._cancel = None
        self._samples, self._origin, self._edited = list(generated.samples), Origin(MODEL), False
        self._before = self._good = None
        self._score("", time.monotonic())
        self._tell(self._screen.take_baseline, found, generated)

    @job("generate")
    def generate(self, index: int) -> None:
        """Generate answers to a sample's prompt and insert them after its group."""
        config, samples = self._with_model(), list(self._samples)
        if index >= len(samples):
            return
        asked = samples[index]
        cancel = self._cancel = threading.Event()
        row = DatasetRow(1, asked.prompt, asked.columns)
        try:
            with Generator(config, self._teller(), cancel) as generator:
                made = list(generator.answers([row], group_size(config)).samples)
        finally:
            self._cancel = None
        self._samples, self._edited = behind_group(samples, index, made), True
        self._before = self._good = None
        self._score(f"{len(made)} answers of the model", time.monotonic())

    def _with_model(self) -> RunConfig:
        if self._config is None or not self._config.model:
            raise SampleError(
                "no model: these are only functions. Open a config: grpo-tui rewards CONFIG.yaml"
            )
        return self._config

    def _teller(self) -> Callable[[Progress], None]:
        since = time.monotonic()
        return lambda now: self._tell_progress(now, since)

    def _tell_progress(self, now: Progress, since: float) -> None:
        if now.what == SCORING:
            self._cancel = None  # from now on, the lab has to be interrupted
        self._tell(self._screen.lab_works, progress(now), MODEL, since)

    def _doing(self, what: str) -> None:
        self._function = ""
        self._tell(self._screen.lab_works, what, "", time.monotonic())

    def _calls(self, function: str, what: str) -> None:
        self._function, self._function_at = function, time.monotonic()
        self._tell(self._screen.lab_works, what, one_line(function, 40), self._function_at)


def section_for(config: RunConfig, seen: Growth, stage: Stage) -> str:
    """Return the rewards section of a config with one more reward, for the user to copy."""
    if not config.model:
        config = _weighted(config, seen.advice.weights)
    folder = config.path.parent if config.path is not None else seen.file.absolute().parent
    rewards = [
        replace(entry, source=os.path.relpath(entry.source, folder)) if os.path.isabs(entry.source) else entry
        for entry in with_reward(config, seen.file, stage).section.rewards
    ]
    return section(rewards, seen.task)


def _weighted(config: RunConfig, weights: Mapping[str, float]) -> RunConfig:
    rewards = tuple(
        replace(entry, weight=weights.get(entry.name, entry.weight)) if entry.weight is None else entry
        for entry in config.section.rewards
    )
    return replace(config, section=replace(config.section, rewards=rewards))


def behind_group(samples: Sequence[Sample], index: int, made: Sequence[Sample]) -> list[Sample]:
    """Return the samples with generated answers inserted after the group of sample `index`."""
    asked = samples[index]
    key = (asked.group, asked.prompt_key)
    place = max(i for i, s in enumerate(samples) if (s.group, s.prompt_key) == key) + 1
    fresh = [replace(sample, group=asked.group, kind=MODEL) for sample in made]
    return [*samples[:place], *fresh, *samples[place:]]
