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
from grpo_tui.ui import starting
from grpo_tui.ui.config_worker import ConfigCheck
from grpo_tui.ui.paint import Line, Span, spans
from grpo_tui.ui.screens.config_dialogs import CheckScreen
from grpo_tui.ui.screens.dialogs import Choice, MenuDialog, SeedsDialog
from grpo_tui.ui.screens.reading import TextScreen

if TYPE_CHECKING:
    from grpo_tui.config.plan.memory import Device
    from grpo_tui.config.run_config import RunConfig
    from grpo_tui.preflight.report import Preflight
    from grpo_tui.present.config_view import Snapshot
    from grpo_tui.ui.requests import ConfigRequest
    from grpo_tui.ui.screens.config import ConfigScreen

MOST_TOLD = 4


class ConfigStart:
    """Plan, full check, trial and start of the config."""

    def __init__(self, screen: ConfigScreen) -> None:
        self.screen = screen
        self._busy = ""
        self._busy_since = 0.0
        self._check = ConfigCheck()
        self._checking = False
        self._begins = False
        """A start waits until the folder has been looked at."""
        self._trial: starting.Trial | None = None
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

        plan = plan_lines(state.plan, looking=not state.whole)
        return [[(rank, spans([part])[0]) for rank, part in line] for line in plan]

    def busy_line(self) -> Line:
        if not self._busy:
            return ()
        for_s = time.monotonic() - self._busy_since
        what = self._busy.partition("…")[0]  # the seconds that the check tells are those of a stage
        line = [Span(f"◌ {what}, {duration(for_s)}  ", "attention")]
        if self._checking or self._trial is not None:
            line += [Span("esc ", "key", "screen.config_back"), Span("stops it ", "dim")]
        return line

    def state_line(self) -> Line:
        worker, draft = self.screen.worker, self.screen.draft
        if draft is None or worker.checked is None or self._checking:
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

        machine = self.screen.worker.machine
        if self.screen.state is None:
            return
        gpus = machine.gpus if machine is not None else ()
        listed = devices([(gpu.index, gpu.name, gpu.total_bytes, gpu.free_bytes) for gpu in gpus])
        here = ("the GPU of this machine", "") if gpus else ("this machine", "no GPU found")
        choices = [Choice(*here, (None,))]
        choices += [Choice(name, what, (device,)) for name, what, device in listed]
        self.screen.ask(MenuDialog("plan memory for", choices), self._planned_for)

    def _planned_for(self, answer: tuple[Device | None]) -> None:
        self.screen.worker.device = answer[0]
        self.screen.changed(typed=True)

    # -- the full check --------------------------------------------------------------------------

    def check(self) -> None:
        """Check model, tokenizer, data, rewards and servers. Only one check runs at a time."""
        config = self.screen.state.inspected.config if self.screen.state is not None else None
        codes = needed(config) if config is not None and not self._busy else ()
        # After a no, whatever needs no such code is still checked.
        if not self.screen.asks_consent(codes, self._start_check, self._start_check):
            self._start_check()

    def _start_check(self) -> None:
        request, state = self.screen.request, self.screen.state
        if request is None or state is None or self._busy or not self.screen.readable():
            return
        self._checking, self._checked_at = True, None
        self._is_busy("checking")
        later, snapshot = self.screen.call_later, self.screen.snapshot()
        say, tell = partial(later, self._check_at), partial(later, self._checked, snapshot)
        job = partial(self._check.run, snapshot, request.run_dir, say, tell)
        self.screen.in_thread("check", job, partial(self._check_ended, snapshot))

    def _check_at(self, line: str) -> None:
        if self._checking:
            self._is_busy(line or "checking")

    def _check_ended(self, snapshot: Snapshot, ended: tuple[Preflight, bool] | str) -> None:
        if isinstance(ended, str):
            self._ended()
            self.screen.app.notify(ended, severity="error", timeout=20)
            return
        found, whole = ended
        if not whole:
            self._ended()
        self._checked(snapshot, found, whole=whole)

    def _checked(self, snapshot: Snapshot, found: Preflight, *, whole: bool = False) -> None:
        """Show the results so far. When complete, list them in a screen of their own."""
        request = self.screen.request
        if whole or self._check.cancelled:
            self._ended()
        if request is None or snapshot.path != request.path:
            return  # another config was opened meanwhile
        self.screen.worker.checked = (snapshot.text, found)
        if whole:
            self._checked_at = self.screen.shell.clock()
            if self.screen.app.screen is self.screen:
                from grpo_tui.present.config_evaluate import start_beside

                found = replace(found, findings=start_beside(found.findings))
                self.screen.ask(CheckScreen(found), self.screen.chosen_finding)
        self.screen.changed(typed=True)

    def _ended(self) -> None:
        self._checking = False
        self._is_busy("")

    def end_work(self) -> bool:
        """Stop the running check or trial. Return whether there was one."""
        if self._trial is not None:
            self._trial.cancel()
            self._is_busy("stopping the trial")
            return True
        if not self._checking:
            return False
        self._check.cancel()
        self._is_busy("stopping the check")
        return True

    def stop(self) -> None:
        if self._trial is not None:
            self._trial.cancel()
        self._check.close()

    # -- the start -------------------------------------------------------------------------------

    def begin(self) -> None:
        state, draft = self.screen.state, self.screen.draft
        if state is None or draft is None or self._busy or not self.screen.readable():
            return
        config = state.inspected.config
        errors = errors_of(state.findings)
        self._begins = not state.whole and not draft.edited
        if draft.edited:
            self._ask_save(self.begin)
        elif self._begins:
            return  # the question names the folder, which may hold a run
        elif errors or config is None:
            self._ask_errors(errors, config)
        else:
            self._ask_start(config, state.counts()[1])

    def go_on(self) -> None:
        """Ask about the start that waits, if all is known and the pane is still in front."""
        state = self.screen.state
        if self._begins and state is not None and state.whole:
            self._begins = False
            if self.screen.is_active:
                self.begin()

    def _ask_save(self, then: Callable[[], None]) -> None:
        choices = [
            Choice("save and continue", "", "save", "w"),
            Choice("not yet", "back to the config", None, "n"),
        ]
        sentences = ["There are unsaved changes. A run starts from the saved file."]
        self.screen.ask(MenuDialog("save first?", choices, sentences), lambda _: self.screen.files.save(then))

    def _ask_errors(self, errors: tuple[Finding, ...], config: RunConfig | None) -> None:
        told = [f"✗ {_placed(finding)}" for finding in errors[:MOST_TOLD]]
        if len(errors) > MOST_TOLD:
            told.append(f"and {len(errors) - MOST_TOLD} more")
        choices = [Choice("fix them", "list the errors", "list", "f")]
        if config is not None:
            choices.append(Choice("start anyway", "the run's record notes the errors", "force", "!"))
        choices.append(Choice("not yet", "back to the config", None, "n"))
        title = f"{plural(len(errors), 'error')} to fix before the run can start"
        self.screen.ask(MenuDialog(title, choices, told), self._answered)

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
        self.screen.ask(MenuDialog("start training?", choices, sentences), self._answered)

    def run_folder_of(self, config: RunConfig) -> Path:
        """Return the folder for the run: another one if the configured folder already has a run."""
        return self._free_folder() or self._configured_folder(config)

    def _configured_folder(self, config: RunConfig) -> Path:
        request = self.screen.request
        return request.run_dir if request is not None and request.run_dir is not None else config.run_root

    def _free_folder(self) -> Path | None:
        """Return the folder that a start uses instead of the one that the config names."""
        from grpo_tui.present.config_evaluate import free_folder

        return free_folder(self.screen.state.findings) if self.screen.state is not None else None

    def _answered(self, answer: str) -> None:
        if answer == "list":
            self.screen.action_config_findings()
        elif answer == "seeds":
            self._ask_seeds()
        elif answer in ("start", "force"):
            self._start(force=answer == "force")

    def _ask_seeds(self) -> None:
        config = self.screen.state.inspected.config if self.screen.state is not None else None
        if config is not None:
            folder = path_text(self._configured_folder(config), 40)
            self.screen.ask(SeedsDialog(folder), lambda seeds: self._start(force=False, seeds=seeds))

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
            words = self._train_words(replace(request, run_dir=folder) if self._free_folder() else request)
        if force:
            words.append("--force")
        if self._known_whole():
            self._is_busy("starting the training process")
        else:
            self._is_busy("starting: model, data and rewards are checked, then the training process")
        job, started = partial(starting.start_run, words), partial(self._started, folder.absolute())
        self.screen.in_thread("start", job, started)

    def _asks_consent(self, again: Callable[[], None]) -> bool:
        """Ask about code that a start would run and that is not the user's own. Return whether it asked."""
        request, state = self.screen.request, self.screen.state
        config = state.inspected.config if state is not None else None
        if request is None or config is None:
            return False
        launcher = [] if request.launcher is not None else [config.section.launcher or ""]
        codes = needed_to_start(config, self.run_folder_of(config).absolute(), launcher)
        return self.screen.asks_consent(codes, again)

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
        checked = self.screen.worker.checked
        if checked is None or self.screen.draft is None or checked[0] != self.screen.draft.text:
            return False
        return "rewards" in checked[1].done

    def _started(self, folder: Path, ended: tuple[bool, str]) -> None:
        self._is_busy("")
        started, said = ended
        if started:
            self.screen.shell.open_run(folder)
        else:
            self.screen.app.notify(f"It did not start: {said}", severity="error", timeout=30)

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
        trial = self._trial = starting.Trial(self._train_words(request), drills=drills)
        steps = "training two steps on the longest prompts, saving and reloading"
        self._is_busy("running the drills, each in a trial" if drills else steps)
        tell = partial(self.screen.call_later, self._trial_at)
        self.screen.in_thread("trial", partial(trial.run, tell), partial(self._trial_ended, trial))

    def _trial_at(self, stage: str) -> None:
        if self._trial is not None:
            self._is_busy(stage)

    def _trial_ended(self, trial: starting.Trial, result: tuple[bool, str]) -> None:
        self._trial = None
        self._is_busy("")
        came_back, said = result
        if came_back:
            self.screen.changed(typed=True)
            title = "drills" if trial.drills else "trial"
            self.screen.app.push_screen(TextScreen(title, said.strip(), prose=True))
        elif trial.cancelled():
            self.screen.app.notify(said, timeout=30)
        else:
            self.screen.app.notify(f"It cannot train: {said}", severity="error", timeout=30)

    def baseline(self) -> None:
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

        self.screen.app.push_screen(DataScreen(config))


def _placed(finding: Finding) -> str:
    """Return a finding's sentence, preceded by its field unless it names that."""
    field = finding.field
    return finding.message if field is None or field in finding.message else f"{field}: {finding.message}"
