"""What the pane Rewards asks: a completion to edit, a weight, where samples shall come from.

Each hands back what was chosen and does nothing itself.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, TextArea

from grpo_tui.core.text import one_line, safe
from grpo_tui.rewards.sources import Origin
from grpo_tui.store.query import QueryError, read_query
from grpo_tui.ui.opened import LeftOnce
from grpo_tui.ui.paint import Span
from grpo_tui.ui.rows import CursorList
from grpo_tui.ui.screens.choosing import Choice, Choices
from grpo_tui.ui.screens.dialogs import CLOSE, DialogText, DialogTitle


class CompletionDialog(LeftOnce, ModalScreen[str]):
    """A completion to write or to change.

    Args:
        title: what is done.
        prompt: what it answers.
        gold: the right answer, empty when it is not known.
        text: the completion to begin with.
    """

    # Before the text area sees it; what is pasted keeps its line breaks.
    BINDINGS: ClassVar[list[BindingType]] = [
        *CLOSE,
        Binding("enter", "score", "score", priority=True),
        Binding("ctrl+j", "new_line", "new line", priority=True),
    ]

    def __init__(self, title: str, prompt: str, gold: str, text: str) -> None:
        super().__init__()
        self._title, self._prompt, self._gold, self._text = title, prompt, gold, text
        self._shown = safe(text)

    def compose(self) -> ComposeResult:
        """What is asked, and a text area."""
        gold = [Span(f"   gold {one_line(self._gold, 30)}", "dim")] if self._gold else []
        with Vertical(classes="dialog"):
            yield DialogTitle(self._title, "enter score   ctrl+j new line   esc back")
            yield DialogText([[Span(f" {one_line(self._prompt, 60)}", "strong"), *gold]])
            yield TextArea(self._shown, id="completion", soft_wrap=True)

    def on_mount(self) -> None:
        """Ready to type, at the end."""
        area = self.query_one(TextArea)
        area.move_cursor(area.document.end)
        area.focus()

    def action_score(self) -> None:
        """Hand back the text; what was not touched comes back as it was, control characters and all."""
        text = self.query_one(TextArea).text
        self.dismiss(self._text if text == self._shown else text)

    def action_new_line(self) -> None:
        """Break the line."""
        self.query_one(TextArea).insert("\n")

    def action_close(self) -> None:
        """Change nothing."""
        self.dismiss(None)


class WeightDialog(LeftOnce, ModalScreen[float]):
    """One weight, typed."""

    BINDINGS: ClassVar[list[BindingType]] = CLOSE

    def __init__(self, name: str, weight: float) -> None:
        super().__init__()
        self._function, self._weight = name, weight

    def compose(self) -> ComposeResult:
        """A field."""
        with Vertical(classes="dialog"):
            yield DialogTitle(f"weight of {one_line(self._function, 40)}", "enter apply   esc back")
            yield Input(value=f"{self._weight:g}", id="weight")
            yield DialogText(
                [[Span(" For these samples alone; the config stays as it is.", "dim")]], id="word"
            )

    def on_mount(self) -> None:
        """Ready to type."""
        self.query_one(Input).focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Hand the number back, or say that it is none."""
        try:
            weight = float(event.value.replace(",", "."))
        except ValueError:
            weight = math.nan
        if math.isfinite(weight):
            self.dismiss(weight)
        else:
            self.query_one("#word", DialogText).tell([[Span(" ✗ That is no number.", "bad")]])

    def action_close(self) -> None:
        """Change nothing."""
        self.dismiss(None)


class SourceDialog(LeftOnce, ModalScreen[Origin]):
    """Where the samples shall come from.

    Args:
        run: the run that is open, None without one.
        dataset: whether the config has a dataset.
    """

    BINDINGS: ClassVar[list[BindingType]] = CLOSE

    def __init__(self, run: Path | None, *, dataset: bool) -> None:
        super().__init__()
        rows = "rows of the dataset" if dataset else "made-up questions"
        self._run = run
        self._choices = [
            Choice("gold and wrong answers", f"of 4 {rows}", Origin("gold")),
            Choice("more of them", f"of 16 {rows}", Origin("gold", rows=16)),
            Choice("probes", "completions that try to fool a reward", Origin("probes")),
        ]
        if run is not None:
            name = one_line(run.name, 30)
            self._choices += [
                Choice("newest step", f"of {name}", Origin("run", run=run)),
                Choice("best group", f"of {name}, by its mean", Origin("run", run=run, step="best")),
                Choice("worst group", f"of {name}, by its mean", Origin("run", run=run, step="worst")),
            ]

    def compose(self) -> ComposeResult:
        """The choices, and a field for a file or a step."""
        others = [" a file: JSONL, TRL's parquet, cases"]
        if self._run is not None:
            others.append(" or of the run: a step such as 40, or where reward<1 and truncated")
        else:
            others.append(" Once a run is open (1), what it wrote is offered too.")
        with Vertical(classes="dialog"):
            yield DialogTitle("samples from", "enter choose   tab file   esc back")
            yield Choices(self._choices, 0)
            yield DialogText([(), *([Span(other, "dim")] for other in others)])
            yield Input(placeholder="samples.jsonl", id="source-file")
            yield DialogText([()], id="word")

    def on_mount(self) -> None:
        """Start with the choices."""
        self.query_one(Choices).focus()

    def on_cursor_list_opened(self, event: CursorList.Opened) -> None:
        """Hand the choice back."""
        self.dismiss(self._choices[event.place].value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Hand a file or a step back, or say that there is none."""
        text = event.value.strip()
        if text.isdigit() and self._run is not None:
            self.dismiss(Origin("run", run=self._run, step=int(text)))
            return
        word, _, where = text.partition(" ")
        if word.lower() == "where" and self._run is not None:
            self._ask(where.strip())
            return
        path = Path(text).expanduser()
        if text and path.is_file():
            self.dismiss(Origin("file", file=path))
            return
        word = f" ✗ There is no file {one_line(text, 50)} here." if text else " Type the name of a file."
        self.query_one("#word", DialogText).tell([[Span(word, "bad" if text else "attention")]])

    def _ask(self, where: str) -> None:
        """Hand a query back that can be understood."""
        try:
            read_query(where)
        except QueryError as error:
            self.query_one("#word", DialogText).tell([[Span(f" ✗ {one_line(error.sentence, 68)}", "bad")]])
            return
        self.dismiss(Origin("run", run=self._run, where=where))

    def action_close(self) -> None:
        """Leave the samples as they are."""
        self.dismiss(None)
