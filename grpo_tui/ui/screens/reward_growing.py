"""A rewards file from the pane Rewards: begin one, and add the next reward when those there work.

Mixed into the screen, with the dialogs it opens. Trying and writing are the lab's thread's.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input

from grpo_tui.core.text import one_line
from grpo_tui.core.text import wrapped as words_wrapped
from grpo_tui.present.formatting import from_here
from grpo_tui.ui.opened import LeftOnce
from grpo_tui.ui.paint import Line, LineScroll, Span
from grpo_tui.ui.rewards_wish import RewardsWish
from grpo_tui.ui.screens.dialogs import CLOSE, DialogText, DialogTitle
from grpo_tui.ui.screens.probes import probed_word
from grpo_tui.ui.shell import Shell
from grpo_tui.ui.widgets.reward_lines import RewardsSummary

if TYPE_CHECKING:
    from textual.screen import Screen

    from grpo_tui.rewards.next_reward import Growth
    from grpo_tui.rewards.scoring import Report
    from grpo_tui.ui.lab_worker import LabWorker
    from grpo_tui.ui.messages import GrowthSeen, RewardAdded

FILE_NAME = "rewards.py"


class RewardGrowing(Shell):
    """The keys that begin a rewards file and let it grow."""

    worker: LabWorker | None = None
    report: Report | None = None
    _wish: RewardsWish | None = None

    @property
    def _grown(self) -> Screen[Any]:
        return cast("Screen[Any]", self)

    def action_rewards_new(self) -> None:
        """Ask for the name of a new rewards file, write it and open it."""

        def named(path: Path | None) -> None:
            if path is not None:
                self._begin(path)

        self._grown.app.push_screen(NewFileDialog(), named)

    def _begin(self, path: Path) -> None:
        from grpo_tui.rewards.next_reward import start_file, with_reward
        from grpo_tui.rewards.scoring import config_of_functions
        from grpo_tui.rewards.templates import Task, TemplateError

        try:
            stage = start_file(path, Task())
        except (OSError, TemplateError) as error:
            reason = getattr(error, "strerror", None) or error
            self._grown.app.notify(one_line(f"{path}: {reason}", 200), severity="warning", markup=False)
            return
        file = path.absolute()
        wish = RewardsWish(path.name, lambda: with_reward(config_of_functions([]), file, stage))
        self.shell.show_rewards(wish)
        where = one_line(from_here(path), 60)
        self._grown.app.notify(f"{where} has one reward; e edits it, n adds the next.", markup=False)

    def action_rewards_next(self) -> None:
        """Try the rewards, and show which comes next; without any, begin a file."""
        if self.worker is not None and self.report is not None:
            self.worker.grow()
        else:
            self.action_rewards_new()

    def on_growth_seen(self, message: GrowthSeen) -> None:
        """Show the next reward, or what to mend first."""
        if self._grown.app.screen is not self._grown:
            return
        seen, wish = message.seen, self._wish
        if seen.probed is not None:
            summary = self._grown.query_one(RewardsSummary)
            summary.probed = probed_word(seen.probed)
            summary.changed()
        config = self.worker.config_file if self.worker is not None else None
        if wish is None or wish.run is not None:
            config = None  # what a run was started with stays what it was

        def chosen(add: bool | None) -> None:
            if add and seen.advice.stage is not None and self.worker is not None:
                self.worker.add(seen, seen.advice.stage, config)

        self._grown.app.push_screen(NextRewardScreen(seen, message.section, config), chosen)

    def on_reward_added(self, message: RewardAdded) -> None:
        """Say where it stands."""
        file = one_line(from_here(message.file), 60)
        if message.config is not None:
            said = f"{message.name} stands in {file} and in {one_line(message.config.name, 40)}."
        else:
            said = f"{message.name} stands in {file}; no config names it yet."
        self._grown.app.notify(said, timeout=8, markup=False)


class NewFileDialog(LeftOnce, ModalScreen[Path]):
    """The name of a new rewards file."""

    BINDINGS: ClassVar[list[BindingType]] = CLOSE

    def compose(self) -> ComposeResult:
        """A field with a name in it."""
        with Vertical(classes="dialog"):
            yield DialogTitle("a new rewards file", "enter begin   esc back")
            yield Input(value=_free_name(), id="rewards-file")
            text = " It begins with correctness; n then adds the next, one at a time."
            yield DialogText([[Span(text, "dim")]], id="word")

    def on_mount(self) -> None:
        """Ready to type."""
        self.query_one(Input).focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Hand the name back, or say why it cannot be."""
        path = Path(event.value.strip()).expanduser()
        word = ""
        if path.suffix != ".py":
            word = "A rewards file is Python: its name ends in .py."
        elif path.exists():
            word = f"{one_line(str(path), 50)} is there already and stays as it is."
        elif not path.parent.is_dir():
            word = f"There is no folder {one_line(str(path.parent), 50)}."
        if word:
            self.query_one("#word", DialogText).tell([[Span(f" ✗ {word}", "bad")]])
        else:
            self.dismiss(path)

    def action_close(self) -> None:
        """Begin none."""
        self.dismiss(None)


def _sentence(text: str) -> str:
    return text if text.endswith((".", "?", "!")) else f"{text}."


def _free_name() -> str:
    """`rewards.py`, or the first of its kind that is not there."""
    stem, number, name = FILE_NAME.removesuffix(".py"), 2, FILE_NAME
    while Path(name).exists():
        name, number = f"{stem}_{number}.py", number + 1
    return name


class NextLines(LineScroll):
    """What comes next and why; its source, and the lines of the config."""

    def __init__(self, seen: Growth, section: str) -> None:
        super().__init__()
        self._seen, self._section = seen, section

    def lines(self, width: int) -> list[Line]:
        """Wrapped words, then texts line by line."""
        advice = self._seen.advice
        lines: list[Line] = [
            [Span(f" {row}", "strong")] for row in words_wrapped(_sentence(advice.says), max(10, width - 2))
        ]
        for sentence in advice.mend:
            for number, row in enumerate(words_wrapped(sentence, max(10, width - 5))):
                lines.append([Span(" ✗ " if number == 0 else "   ", "bad"), Span(row)])
        if advice.mend:
            lines += [(), [Span(" Back in the pane x shows the completions, e opens the source.", "dim")]]
        if advice.stage is not None:
            lines += [(), *([Span(f"   {row}")] for row in advice.stage.source.strip("\n").split("\n"))]
            lines += [(), [Span(" In the config:", "dim")], ()]
            lines += [[Span(f"   {row}")] for row in self._section.rstrip("\n").split("\n")]
        return lines


class NextRewardScreen(LeftOnce, ModalScreen[bool], Shell):
    """The next reward, to be added; or what stands in its way."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *CLOSE, ("q", "close", "close"), ("enter", "add", "add"), ("y", "copy", "copy"),
        ("j", "scroll(1)", "down"), ("k", "scroll(-1)", "up"),
    ]  # fmt: skip

    def __init__(self, seen: Growth, section: str, config: Path | None) -> None:
        super().__init__()
        self._seen, self._section, self._config = seen, section, config

    def compose(self) -> ComposeResult:
        """Title with what enter does, and the lines."""
        stage = self._seen.advice.stage
        with Vertical(classes="dialog -large"):
            if stage is None:
                yield DialogTitle("the next reward", "esc back")
            else:
                also = f" and {one_line(self._config.name, 24)}" if self._config is not None else ""
                keys = f"enter add to {one_line(self._seen.file.name, 24)}{also}   y copy   esc back"
                yield DialogTitle(f"next: {stage.name}", keys)
            yield NextLines(self._seen, self._section)

    def on_mount(self) -> None:
        """Ready to scroll."""
        self.query_one(NextLines).focus()

    def action_add(self) -> None:
        """Add it; where there is none, go back."""
        self.dismiss(self._seen.advice.stage is not None)

    def action_copy(self) -> None:
        """Copy the lines of the config."""
        if self._section:
            self.shell.copy("the lines of the config", self._section)

    def action_scroll(self, by: int) -> None:
        """A line on or back."""
        self.query_one(NextLines).scroll_relative(y=by, animate=False)

    def action_close(self) -> None:
        """Add nothing."""
        self.dismiss(False)
