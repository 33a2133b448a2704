"""The part of the pane Config that says what a run will be, checks it, and starts it.

Knows the plan and the findings; the start itself is the command's, in a process of its own.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from grpo_tui.core.findings import errors_of
from grpo_tui.core.text import one_line
from grpo_tui.present.config_plan import plan_lines
from grpo_tui.present.formatting import from_here, plural
from grpo_tui.ui.config_messages import StartEnded
from grpo_tui.ui.paint import Line, Span
from grpo_tui.ui.screens.config_dialogs import Choice, MenuDialog
from grpo_tui.ui.screens.config_files import ConfigFiles

if TYPE_CHECKING:
    from grpo_tui.config.run_config import RunConfig

MOST_TOLD = 4
"""Errors that the question before a start names."""


class ConfigStart(ConfigFiles):
    """What a screen needs to start its config."""

    _starting: str = ""

    def plan_rows(self) -> list[list[tuple[int, Line]]]:
        """The plan's lines for the strip."""
        plan = self.evaluation.plan if self.evaluation is not None else None
        return [
            [(rank, [Span(text, role) for text, role in part]) for rank, part in line]
            for line in plan_lines(plan)
        ]

    def busy_line(self) -> Line:
        """What goes on."""
        return [Span(f"◌ {self._starting}  ", "attention")] if self._starting else ()

    def action_config_start(self) -> None:
        """Ask once, with what will happen; errors hold it back."""
        view, draft = self.view, self.draft
        if view is None or draft is None or self._starting:
            return
        if view.broken is not None:
            self.readable()
            return
        if draft.edited:
            self._save_first()
            return
        errors = errors_of(view.findings)
        config = self.evaluation.inspected.config if self.evaluation is not None else None
        if errors or config is None:
            told = [f"✗ {f.field or 'config'}: {f.message}" for f in errors[:MOST_TOLD]]
            more = [f"and {len(errors) - MOST_TOLD} more"] if len(errors) > MOST_TOLD else []
            choices = [Choice("mend it", "list what was found", "list", "F")]
            title = f"{plural(len(errors), 'error')} hold the start back"
            self.app.push_screen(MenuDialog(title, choices, [*told, *more]), self._answered)
            return
        warnings = view.counts()[1]
        sentences = [
            f"Train {config.model} into {one_line(from_here(self.run_folder_of(config)), 60)}.",
            *([f"⚠ {plural(warnings, 'warning')}: F lists them."] if warnings else []),
            "Leaving the screen does not stop it.",
        ]
        choices = [
            Choice("start", "training begins, shown in Train", "start", "y"),
            Choice("not yet", "back to the config", None, "n"),
        ]
        self.app.push_screen(MenuDialog("start training?", choices, sentences), self._answered)

    def run_folder_of(self, config: RunConfig) -> Path:
        """Where the run would go."""
        wish = self.wish
        if wish is not None and wish.run_dir is not None:
            return wish.run_dir
        written = config.grpo.get("output_dir")
        name = config.path.stem if config.path is not None else "run"
        return Path(written) if written else Path("outputs") / name

    def _save_first(self) -> None:
        choices = [
            Choice("save and start", "", "save", "w"),
            Choice("not yet", "back to the config", None, "n"),
        ]
        sentences = ["There are changes that are not saved; a run starts from the file."]
        self.app.push_screen(MenuDialog("save first?", choices, sentences), self._answered)

    def _answered(self, answer: str | None) -> None:
        if answer == "save":
            self.save(then=self.action_config_start)
        elif answer == "list":
            self.action_config_findings()
        elif answer == "start":
            self._start()

    def _start(self) -> None:
        wish = self.wish
        evaluation = self.evaluation
        if wish is None or evaluation is None or evaluation.inspected.config is None:
            return
        folder = self.run_folder_of(evaluation.inspected.config)
        words = [str(wish.path)]
        for override in wish.overrides:
            words += ["--set", override]
        if wish.run_dir is not None:
            words += ["--run-dir", str(wish.run_dir)]
        if wish.launcher is not None:
            words += ["--launcher", wish.launcher]
        self._starting = "starting the training process"
        self.show()
        self.run_worker(partial(self._launch, words, folder), thread=True, group="start", exit_on_error=False)

    def _launch(self, words: list[str], folder: Path) -> None:
        from grpo_tui.ui.resuming import start_run

        started, said = start_run(words)
        self.post_message(StartEnded(folder.absolute(), started, said))

    def on_start_ended(self, message: StartEnded) -> None:
        """Show the run, or say why there is none."""
        self._starting = ""
        self.show()
        if message.started:
            self.shell.open_run(message.folder)
        else:
            self.app.notify(
                message.said, title="It did not start", severity="error", timeout=30, markup=False
            )

    def action_config_baseline(self) -> None:
        """To Rewards, on this config, where `b` lets the model answer."""
        wish = self.rewards_wish()
        if wish is not None:
            self.shell.show_rewards(wish)
        elif self.view is not None:
            self.app.notify("Save it first: w.", markup=False)
