"""Dialogs of Rewards: a completion to edit, a weight, the source of samples, probes, the next reward.

They return the user's choice and do nothing themselves.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.widgets import Input, TextArea

from grpo_tui.core.text import one_line, safe, wrapped
from grpo_tui.present.formatting import compact, plural
from grpo_tui.present.rewards_view import fitted
from grpo_tui.rewards.probes import TOTAL, ProbeReport, described, looks_at
from grpo_tui.rewards.sample_sources import Origin
from grpo_tui.store.query import QueryError, read_query
from grpo_tui.ui import paint
from grpo_tui.ui.actions import bindings
from grpo_tui.ui.kit.reading import FullReadingScreen, ReadingScreen
from grpo_tui.ui.kit.table import CursorList
from grpo_tui.ui.paint import Line, Span, pad, ruled, signed, width_of
from grpo_tui.ui.screens.dialogs import Choice, Choices, Dialog, DialogText, FieldDialog, TextDialog

if TYPE_CHECKING:
    from grpo_tui.rewards.next_reward import Growth


FILE_NAME = "rewards.py"


class CompletionDialog(TextDialog[str]):
    """A completion to write or edit. `gold` is the reference answer, empty if unknown."""

    def __init__(self, title: str, prompt: str, gold: str, text: str) -> None:
        super().__init__(title, "enter score   ctrl+j new line   esc back")
        self._prompt, self._gold, self._text = prompt, gold, text
        self._shown = safe(text)

    def parts(self) -> ComposeResult:
        gold = [Span(f"   gold {one_line(self._gold, 30)}", "dim")] if self._gold else []
        yield DialogText([[Span(f" {one_line(self._prompt, 60)}", "strong"), *gold]])
        yield TextArea(self._shown, id="completion", soft_wrap=True)

    def on_mount(self) -> None:
        area = self.query_one(TextArea)
        area.move_cursor(area.document.end)

    def action_apply(self) -> None:
        """Return the text. If it was not edited, return the original including control characters."""
        text = self.query_one(TextArea).text
        self.dismiss(self._text if text == self._shown else text)


class WeightDialog(FieldDialog[float]):
    """A weight to type."""

    def __init__(self, name: str, weight: float) -> None:
        hint = "For these samples only; the config does not change."
        super().__init__(f"weight of {one_line(name, 40)}", f"{weight:g}", hint, id="weight")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        try:
            weight = float(event.value.replace(",", "."))
        except ValueError:
            weight = math.nan
        if math.isfinite(weight):
            self.dismiss(weight)
        else:
            self.tell([Span(" ✗ That is not a number.", "bad")])


class SourceDialog(Dialog[Origin]):
    """Source of the samples. `dataset` says whether the config has a dataset."""

    FIRST = Choices

    def __init__(self, run: Path | None, *, dataset: bool) -> None:
        super().__init__("samples from", "enter choose   tab file   esc back")
        rows = "rows of the dataset" if dataset else "built-in questions"
        self._run = run
        self._choices = [
            Choice("reference and wrong answers", f"of 4 {rows}", Origin("gold")),
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

    def parts(self) -> ComposeResult:
        others = [" a file: JSONL, TRL's parquet, cases"]
        if self._run is not None:
            others.append(" or of the run: a step such as 40, or where reward<1 and truncated")
        else:
            others.append(" Open a run (1) to choose from its completions too.")
        yield Choices(self._choices, 0)
        yield DialogText([(), *([Span(other, "dim")] for other in others)])
        yield Input(placeholder="samples.jsonl", id="source-file")
        yield DialogText([()], id="word")

    def on_cursor_list_selected(self, event: CursorList.Selected) -> None:
        self.dismiss(self._choices[event.place].value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
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
        try:
            read_query(where)
        except QueryError as error:
            self.query_one("#word", DialogText).tell([[Span(f" ✗ {one_line(error.sentence, 68)}", "bad")]])
            return
        self.dismiss(Origin("run", run=self._run, where=where))


class NewFileDialog(FieldDialog[Path]):
    """Name of a new rewards file."""

    def __init__(self) -> None:
        hint = "It starts with correctness. Press ctrl+n to add the next rewards one at a time."
        super().__init__("a new rewards file", _free_name(), hint, "create", id="rewards-file")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        path = Path(event.value.strip()).expanduser()
        word = ""
        if path.suffix != ".py":
            word = "A rewards file is Python: its name ends in .py."
        elif path.exists():
            word = f"{one_line(str(path), 50)} already exists."
        elif not path.parent.is_dir():
            word = f"There is no folder {one_line(str(path.parent), 50)}."
        if word:
            self.tell([Span(f" ✗ {word}", "bad")])
        else:
            self.dismiss(path)


def _sentence(text: str) -> str:
    return text if text.endswith((".", "?", "!")) else f"{text}."


def _free_name() -> str:
    """Return `rewards.py`, or `rewards_2.py` and so on if it exists."""
    stem, number, name = FILE_NAME.removesuffix(".py"), 2, FILE_NAME
    while Path(name).exists():
        name, number = f"{stem}_{number}.py", number + 1
    return name


class NextRewardScreen(ReadingScreen):
    """The next reward to add, or what to fix first."""

    BINDINGS: ClassVar[list[BindingType]] = [("enter", "add", "add"), ("y", "copy", "copy")]

    def __init__(self, seen: Growth, section: str, config: Path | None) -> None:
        stage = seen.advice.stage
        title, keys = "the next reward", "esc back"
        if stage is not None:
            also = f" and {one_line(config.name, 24)}" if config is not None else ""
            title = f"next: {stage.name}"
            keys = f"enter add to {one_line(seen.file.name, 24)}{also}   y copy   esc back"
        super().__init__(title, keys)
        self._advice, self._section = seen.advice, section

    def lines(self, width: int) -> list[Line]:
        advice = self._advice
        lines: list[Line] = [
            [Span(f" {row}", "strong")] for row in wrapped(_sentence(advice.says), max(10, width - 2))
        ]
        for sentence in advice.mend:
            lines += signed("✗", "bad", wrapped(sentence, max(10, width - 5)))
        if advice.mend:
            lines += [(), [Span(" Back in the pane p shows the completions, e opens the source.", "dim")]]
        if advice.stage is not None:
            lines += [(), *([Span(f"   {row}")] for row in advice.stage.source.strip("\n").split("\n"))]
            lines += [(), [Span(" In the config:", "dim")], ()]
            lines += [[Span(f"   {row}")] for row in self._section.rstrip("\n").split("\n")]
        return lines

    def action_add(self) -> None:
        self.dismiss(self._advice.stage is not None)

    def action_copy(self) -> None:
        if self._section:
            self.shell.copy("the lines of the config", self._section)


HEADINGS = {"fooled": "accepts what it should reject", "unfair": "rejects what it should accept"}
KIND_W = 28


def probed_word(report: ProbeReport) -> str:
    """Summarize the outcome in a few words."""
    kinds = {kind.kind for kind in report.kinds if kind.fault == "fooled"}
    unfair = {kind.kind for kind in report.kinds if kind.fault == "unfair"}
    if report.failed:
        return "⚠ probes failed"
    fooled = f"{plural(len(kinds), 'attack')} work{'s' * (len(kinds) == 1)}" if kinds else ""
    refused = f"{plural(len(unfair), 'correct variant')} rejected" if unfair else ""
    told = ", ".join(part for part in (fooled, refused) if part)
    return f"⚠ probes: {told}" if told else "✓ probes"


class ProbesScreen(FullReadingScreen):
    """Results of the probes."""

    BINDINGS = bindings("probes")
    PANE, OVER = "probes", "rewards"

    def __init__(self, report: ProbeReport) -> None:
        super().__init__()
        self._report, self.whole = report, False

    def action_probes_whole(self) -> None:
        self.whole = not self.whole
        self.body.changed()
        self.body.refresh()

    def lines(self, width: int) -> list[Line]:
        report = self._report
        where = "built-in questions" if report.made_up else "rows of the dataset"
        what = f"{report.probes} completions for {report.rows} {where}: attacks, and respelled right answers"
        lines: list[Line] = [[Span(f" {row}", "dim")] for row in wrapped(what, max(10, width - 2))]
        names = [function.info.name for function in report.functions]
        if any(kind.function == TOTAL for kind in report.kinds):
            names.append(TOTAL)
        failures = {f.info.name: f.failure for f in report.functions if f.failure is not None}
        for name in names:
            lines.append(())
            failure = failures.get(name)
            lines += self._function(name, "" if failure is None else failure.text, width)
        return lines

    def _function(self, name: str, failure: str, width: int) -> list[Line]:
        kinds = [kind for kind in self._report.kinds if kind.function == name]
        title = "the weighted total" if name == TOTAL else one_line(name, 40)
        aspect = self._report.aspects.get(name)
        if failure:
            return [
                ruled([[Span(title, "title")]], width),
                [Span(f" ✗ {one_line(failure, max(10, width - 4))}", "bad")],
            ]
        lines: list[Line] = [ruled([[Span(title, "title")], [Span(described(aspect))]], width)]
        if not kinds and looks_at(aspect):
            lines.append([Span(" ✓ nothing fools it", "good")])
        for fault, heading in HEADINGS.items():
            mine = [kind for kind in kinds if kind.fault == fault]
            if mine:
                sign, role = ("✗", "bad") if fault == "fooled" else ("⚠", "attention")
                lines.append([Span(f" {sign} {heading}", role)])
            for kind in mine:
                example = kind.example
                room = max(10, width - 8)
                line = [
                    Span("   " + pad(kind.kind, KIND_W), "strong"),
                    Span(f"{compact(example.score):>6} of {compact(example.right):<6}"),
                    Span(f"  {kind.rows} of {plural(kind.of, 'row')}", "dim"),
                ]
                why = Span(f"   {example.why}", "dim")
                if width_of([*line, why]) < width:
                    lines.append([*line, why])
                else:
                    lines += [
                        line,
                        *([Span(f"      {row}", "dim")] for row in wrapped(example.why, room)),
                    ]
                rows = (
                    paint.wrapped(example.text, room)
                    if self.whole
                    else [fitted(one_line(example.text), room)]
                )
                lines += [[Span("      " + row)] for row in rows]
        return lines
