"""The part of Config that plans a run, checks it in full, tries it and starts it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from grpo_tui.core.findings import Finding, errors_of
from grpo_tui.present.formatting import clock, duration, path_text, plural
from grpo_tui.rewards.consent import needed, needed_to_start
from grpo_tui.ui.config_worker import ConfigCheck
from grpo_tui.ui.messages import (
    CheckAt,
    CheckFailed,
    ConfigChecked,
    ConsentAsked,
    StartEnded,
    TrialEnded,
    TrialStage,
)
from grpo_tui.ui.paint import Line, Span
from grpo_tui.ui.screens.config_dialogs import CheckScreen
from grpo_tui.ui.screens.dialogs import Choice, MenuDialog, SeedsDialog
from grpo_tui.ui.screens.reading import TextScreen

if TYPE_CHECKING:
    from grpo_tui.config.plan.memory import Device
    from grpo_tui.config.run_config import RunConfig
    from grpo_tui.ui.requests import ConfigRequest
    from grpo_tui.ui.screens.config import ConfigScreen
    from grpo_tui.ui.starting import Trial

MOST_TOLD = 4


class ConfigStart:
    """Plan, full check, trial and start of the config."""

    def __init__(self, screen: ConfigScreen) -> None:
        self.screen = screen
        self._busy = ""
        self._busy_since = 0.0
        self._check: ConfigCheck | None = None
        self._checking = False
        self._trial: Trial | None = None
        self._checked_at: float | None = None
        """When the displayed check completed; None if it was stopped before."""

    def plan_rows(self) -> list[list[tuple[int, Line]]]:
        state = self.screen.state
        if state is None:
            return []
        if state.plan is None:
            why = "the file cannot be read" if state.broken is not None else "fix the errors first"
            return [[(0, [Span(f"not planned: {why}", "dim")])]]
        from grpo_tui.present.plan_text import plan_lines

        return [
            [(rank, [Span(text, role) for text, role in part]) for rank, part in line]
            for line in plan_lines(state.plan, looking=not state.whole)
        ]

    def busy_line(self) -> Line:
        if not self._busy:
            return ()
        for_s = time.monotonic() - self._busy_since
        line = [Span(f"◌ {self._busy}, {duration(for_s)}  ", "attention")]
        if self._checking or self._trial is not None:
            line += [Span("esc ", "key", "screen.config_back"), Span("stops it ", "dim")]
        return line

    def state_line(self) -> Line:
        worker, draft = self.screen.worker, self.screen.draft
        if worker is None or draft is None or worker.checked is None or self._checking:
            return ()
        if worker.checked[0] != draft.text:
            return [Span("changed since the check", "dim")]
        if self._checked_at is None:
            return [Span("the check was stopped before it finished", "dim")]
        return [Span(f"checked at {clock(self._checked_at)}", "dim")]

    def _is_busy(self, what: str) -> None:
        if what and not self._busy:
            self._busy_since = time.monotonic()
        self._busy = what
        self.screen.show_state()

    def gpu(self) -> None:
        from grpo_tui.present.plan_text import devices

        worker = self.screen.worker
        if worker is None or self.screen.state is None:
            return
        gpus = worker.machine.gpus if worker.machine is not None else ()
        listed = devices([(gpu.index, gpu.name, gpu.total_bytes, gpu.free_bytes) for gpu in gpus])
        choices = [Choice("the GPU of this machine", "", (None,))]
        choices += [Choice(name, what, (device,)) for name, what, device in listed]
        self.screen.app.push_screen(MenuDialog("plan memory for", choices), self._planned_for)

    def _planned_for(self, answer: tuple[Device | None] | None) -> None:
        if answer is not None and self.screen.worker is not None:
            self.screen.worker.device = answer[0]
            self.screen.changed(typed=True)

    # -- the full check --------------------------------------------------------------------------

    def check(self) -> None:
        """Check model, tokenizer, data, rewards and servers. Only one check runs at a time."""
        config = self.screen.state.inspected.config if self.screen.state is not None else None
        codes = needed(config) if config is not None and not self._busy else ()
        if codes:  # after a no, whatever needs no such code is still checked
            self.screen.post_message(ConsentAsked(codes, self._start_check, self._start_check))
        else:
            self._start_check()

    def _start_check(self) -> None:
        request, state = self.screen.request, self.screen.state
        if request is None or state is None or self._busy or not self.screen.readable():
            return
        if self._check is None:
            self._check = ConfigCheck(self.screen.post_message)
        self._checking, self._checked_at = True, None
        self._is_busy("checking")
        job = partial(self._check.run, self.screen.snapshot(), request.run_dir)
        self.screen.run_worker(job, thread=True, group="check", exit_on_error=False)

    def check_at(self, message: CheckAt) -> None:
        if self._checking:
            self._is_busy(message.line or "checking")

    def config_checked(self, message: ConfigChecked) -> None:
        """Show the results so far. When complete, list them in a screen of their own."""
        worker, request = self.screen.worker, self.screen.request
        if message.whole or (self._check is not None and self._check.cancelled):
            self._ended()
        if worker is None or request is None or message.snapshot.path != request.path:
            return  # another config was opened meanwhile
        worker.checked = (message.snapshot.text, message.found)
        if message.whole:
            self._checked_at = self.screen.shell.clock()
            if self.screen.app.screen is self.screen:
                from grpo_tui.present.config_evaluate import start_beside

                found = replace(message.found, findings=start_beside(message.found.findings))
                self.screen.app.push_screen(CheckScreen(found), self.screen.chosen_finding)
        self.screen.changed(typed=True)

    def check_failed(self, message: CheckFailed) -> None:
        self._ended()
        self.screen.app.notify(message.text, severity="error", timeout=20)

    def _ended(self) -> None:
        self._checking = False
        self._is_busy("")

    def end_work(self) -> bool:
        """Stop the running check or trial. Return whether there was one."""
        if self._trial is not None:
            self._trial.cancel()
            self._is_busy("stopping the trial")
            return True
        if not self._checking or self._check is None:
            return False
        self._check.cancel()
        self._is_busy("stopping the check")
        return True

    def stop(self) -> None:
        if self._trial is not None:
            self._trial.cancel()
        if self._check is not None:
            self._check.close()

    # -- the start -------------------------------------------------------------------------------

    def begin(self) -> None:
        state, draft = self.screen.state, self.screen.draft
        if state is None or draft is None or self._busy or not self.screen.readable():
            return
        config = state.inspected.config
        errors = errors_of(state.findings)
        if draft.edited:
            self._ask_save(self.begin)
        elif errors or config is None:
            self._ask_errors(errors, config)
        else:
            self._ask_start(config, state.counts()[1])

    def _ask_save(self, then: Callable[[], None]) -> None:
        def answered(answer: str | None) -> None:
            if answer is not None:
                self.screen.files.save(then=then)

        choices = [
            Choice("save and continue", "", "save", "w"),
            Choice("not yet", "back to the config", None, "n"),
        ]
        sentences = ["There are unsaved changes. A run starts from the saved file."]
        self.screen.app.push_screen(MenuDialog("save first?", choices, sentences), answered)

    def _ask_errors(self, errors: tuple[Finding, ...], config: RunConfig | None) -> None:
        told = [f"✗ {_placed(finding)}" for finding in errors[:MOST_TOLD]]
        if len(errors) > MOST_TOLD:
            told.append(f"and {len(errors) - MOST_TOLD} more")
        choices = [Choice("fix them", "list the errors", "list", "f")]
        if config is not None:
            choices.append(Choice("start anyway", "the run's record notes the errors", "force", "!"))
        choices.append(Choice("not yet", "back to the config", None, "n"))
        title = f"{plural(len(errors), 'error')} to fix before the run can start"
        self.screen.app.push_screen(MenuDialog(title, choices, told), self._answered)

    def _ask_start(self, config: RunConfig, warnings: int) -> None:
        counted = plural(warnings, "warning")
        sentences = [
            f"Train {config.model} into {path_text(self.run_folder_of(config), 60)}.",
            *([f"⚠ {counted}: l lists {'it' if warnings == 1 else 'them'}."] if warnings else []),
            "Leaving the screen does not stop a run."
            if self._known_whole()
            else "Model, data and rewards are checked first. Leaving the screen does not stop a run.",
        ]
        choices = [
            Choice("start", "training starts and opens in Train", "start", "y"),
            Choice("several seeds", "one run for each seed, one after the other", "seeds", "s"),
            *([Choice("read first", "list the warnings", "list", "l")] if warnings else []),
            Choice("not yet", "back to the config", None, "n"),
        ]
        self.screen.app.push_screen(MenuDialog("start training?", choices, sentences), self._answered)

    def run_folder_of(self, config: RunConfig) -> Path:
        """Return the folder for the run: another one if the configured folder already has a run."""
        from grpo_tui.present.config_evaluate import free_folder

        state = self.screen.state
        free = free_folder(state.findings) if state is not None else None
        return free if free is not None else self._configured_folder(config)

    def _configured_folder(self, config: RunConfig) -> Path:
        request = self.screen.request
        return request.run_dir if request is not None and request.run_dir is not None else config.run_root

    def _moved(self) -> bool:
        """Return whether a start uses another folder than the config names."""
        from grpo_tui.present.config_evaluate import free_folder

        return self.screen.state is not None and free_folder(self.screen.state.findings) is not None

    def _answered(self, answer: str | None) -> None:
        if answer == "list":
            self.screen.action_config_findings()
        elif answer == "seeds":
            self._ask_seeds()
        elif answer in ("start", "force"):
            self._start(force=answer == "force")

    def _ask_seeds(self) -> None:
        config = self.screen.state.inspected.config if self.screen.state is not None else None
        if config is None:
            return

        def answered(seeds: list[int] | None) -> None:
            if seeds:
                self._start(force=False, seeds=seeds)

        folder = path_text(self._configured_folder(config), 40)
        self.screen.app.push_screen(SeedsDialog(folder), answered)

    def _start(self, *, force: bool, seeds: Sequence[int] = ()) -> None:
        request, state = self.screen.request, self.screen.state
        if request is None or state is None or state.inspected.config is None:
            return
        if self._asks_consent(partial(self._start, force=force, seeds=seeds)):
            return
        if seeds:  # each in a folder of its own, whatever is in the configured one
            folder = self._configured_folder(state.inspected.config)
            words = [*self._train_words(request), "--seeds", ",".join(map(str, seeds))]
            folder = folder.with_name(f"{folder.name}-seed-{seeds[0]}")
        else:
            folder = self.run_folder_of(state.inspected.config)
            words = self._train_words(replace(request, run_dir=folder) if self._moved() else request)
        if force:
            words.append("--force")
        if self._known_whole():
            self._is_busy("starting the training process")
        else:
            self._is_busy("starting: model, data and rewards are checked, then the training process")
        job = partial(self._launch, words, folder)
        self.screen.run_worker(job, thread=True, group="start", exit_on_error=False)

    def _asks_consent(self, again: Callable[[], None]) -> bool:
        """Ask about code that a start would run and that is not the user's own. Return whether it asked."""
        request, state = self.screen.request, self.screen.state
        config = state.inspected.config if state is not None else None
        if request is None or config is None:
            return False
        launcher = [] if request.launcher is not None else [config.section.launcher or ""]
        codes = needed_to_start(config, self.run_folder_of(config).absolute(), launcher)
        if codes:
            self.screen.post_message(ConsentAsked(codes, again))
        return bool(codes)

    def _train_words(self, request: ConfigRequest) -> list[str]:
        words = [str(request.path)]
        for override in request.overrides:
            words += ["--set", override]
        if request.run_dir is not None:
            words += ["--run-dir", str(request.run_dir)]
        if request.launcher is not None:
            words += ["--launcher", request.launcher]
        if self._known_whole():
            words.append("--quick-check")  # it was checked in full here
        return words

    def _known_whole(self) -> bool:
        """Return whether the current text was checked in full here."""
        checked = self.screen.worker.checked if self.screen.worker is not None else None
        if checked is None or self.screen.draft is None or checked[0] != self.screen.draft.text:
            return False
        return "rewards" in checked[1].done

    def _launch(self, words: list[str], folder: Path) -> None:
        from grpo_tui.ui.starting import start_run

        started, said = start_run(words)
        self.screen.post_message(StartEnded(folder.absolute(), started, said))

    def start_ended(self, message: StartEnded) -> None:
        self._is_busy("")
        if message.started:
            self.screen.shell.open_run(message.folder)
        else:
            word = f"It did not start: {message.said}"
            self.screen.app.notify(word, severity="error", timeout=30)

    # -- the trial -------------------------------------------------------------------------------

    def trial(self, *, drills: bool = False) -> None:
        """Train two steps on the longest prompts in a temporary folder, or run the drills. Esc stops it."""
        again = partial(self.trial, drills=drills)
        request, draft = self.screen.request, self.screen.draft
        if request is None or draft is None or self._busy or not self.screen.readable():
            return
        if draft.edited:
            self._ask_save(again)
            return
        if self._asks_consent(again):
            return
        from grpo_tui.ui.starting import Trial

        trial = self._trial = Trial(self._train_words(request), drills=drills)
        steps = "training two steps on the longest prompts, saving and reloading"
        self._is_busy("running the drills, each in a trial" if drills else steps)

        def told(stage: str) -> None:
            self.screen.post_message(TrialStage(stage))

        def work() -> None:
            self.screen.post_message(TrialEnded(*trial.run(told)))

        self.screen.run_worker(work, thread=True, group="trial", exit_on_error=False)

    def trial_stage(self, message: TrialStage) -> None:
        if self._trial is not None:
            self._is_busy(message.stage)

    def trial_ended(self, message: TrialEnded) -> None:
        """Show the measurements, which also correct the plan, or say why it cannot train."""
        ended = self._trial is not None and self._trial.cancelled()
        title = "drills" if self._trial is not None and self._trial.drills else "trial"
        self._trial = None
        self._is_busy("")
        if message.came_back:
            self.screen.changed(typed=True)
            self.screen.app.push_screen(TextScreen(title, message.said.strip(), prose=True))
        else:
            word = f"{'' if ended else 'It cannot train: '}{message.said}"
            self.screen.app.notify(word, severity="information" if ended else "error", timeout=30)

    def baseline(self) -> None:
        """Open this config in Rewards, where `B` measures the baseline."""
        request = self.screen.files.rewards_request()
        if request is not None:
            self.screen.shell.show_rewards(request)
        elif self.screen.state is not None:
            self.screen.app.notify("Press W to save it first.")

    def data(self) -> None:
        state = self.screen.state
        if state is None:
            return
        config = state.inspected.config
        if config is None:
            self.screen.app.notify("Fix the config error before opening the data. Press l to list it.")
            return
        from grpo_tui.ui.screens.data import DataScreen

        self.screen.app.push_screen(DataScreen(state.snapshot.path, config=config))


def _placed(finding: Finding) -> str:
    """Return a finding's sentence, preceded by its field unless it names that."""
    field = finding.field
    return finding.message if field is None or field in finding.message else f"{field}: {finding.message}"
