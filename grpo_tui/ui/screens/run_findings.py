"""The open run's findings: a list, and one finding with its remedies.

Both return the user's choice (`chart`, `completions`, `set` or `write`) and do nothing themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType

from grpo_tui.core.commands import REPLAYED
from grpo_tui.core.findings import Remedy
from grpo_tui.core.text import one_line
from grpo_tui.core.text import wrapped as words_wrapped
from grpo_tui.present.formatting import plural, setting
from grpo_tui.present.run_findings import PAGE, RunFinding, to_write
from grpo_tui.ui.kit.reading import ReadingScreen
from grpo_tui.ui.kit.table import Column, CursorList, Table
from grpo_tui.ui.paint import Line, Span, ruled
from grpo_tui.ui.screens.dialogs import Dialog, DialogText, YesNo
from grpo_tui.ui.widgets.yaml_area import SIGNS

STEPS_W = 22


def _sign(one: RunFinding) -> Span:
    return Span(*SIGNS[one.finding.severity]) if one.open else Span("✓", "dim")


def _sentence(one: RunFinding) -> Span:
    return Span(one_line(one.finding.message), "text" if one.open else "dim")


class RunFindingList(Table[RunFinding], inherit_bindings=False):
    """One finding per line: sign, steps, and as much of the sentence as fits."""

    BINDINGS = CursorList.BINDINGS

    def columns(self, width: int) -> Sequence[Column[RunFinding]]:
        return (
            Column("", 2, _sign, gap=1),
            Column("", STEPS_W, lambda one: Span(one.steps, "dim")),
            Column("", max(11, width - STEPS_W - 4), _sentence, gap=1),
        )


class RunFindingsScreen(Dialog[tuple[str, RunFinding]]):
    """The findings of a run: open ones, then ended ones."""

    BINDINGS: ClassVar[list[BindingType]] = [("f", "close", "close")]
    FIRST = RunFindingList
    SHAPE = "dialog -large"

    def __init__(self, found: tuple[RunFinding, ...], run: str, *, live: bool | None) -> None:
        ended = sum(not one.open for one in found)
        title = f"{plural(len(found) - ended, 'finding')} now" + (f", {ended} ended" if ended else "")
        super().__init__(title, "enter open   esc back")
        self._found, self._run, self._live = found, run, live

    def parts(self) -> ComposeResult:
        found = RunFindingList()
        found.rows = self._found
        yield found

    def on_cursor_list_selected(self, event: CursorList.Selected) -> None:
        one = self._found[event.place]
        screen = RunFindingScreen(one, self._run, live=self._live)
        self.ask(screen, lambda what: self.dismiss((what, one)))


def _paragraph(text: str, room: int) -> list[Line]:
    return [[Span("   "), Span(row)] for row in words_wrapped(one_line(text), room)]


def _written(others: tuple[Remedy, ...]) -> list[Line]:
    if not others:
        return []
    head: Line = [Span(" In a new config for the next run, beside that of this run:", "dim")]
    return [
        head,
        *([Span(f" {one.field} ", "strong"), Span(one_line(setting(one.value), 40))] for one in others),
    ]


class RunFindingScreen(ReadingScreen):
    """One finding. Returns `chart`, `completions`, `set` or `write`.

    `run` is the run as typed on a command line. `live` says whether it accepts commands; None for a replay.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        ("enter", "choose('chart')", "open the chart"),
        ("o", "choose('completions')", "open its completions"),
        ("equals_sign", "set", "Change a setting"),
        ("y", "copy", "copy"),
    ]

    def __init__(self, one: RunFinding, run: str, *, live: bool | None) -> None:
        applies = "   = apply" if live and one.change is not None else "   = write" if one.settings else ""
        applies = "" if live is None else applies
        keys = f"enter chart   o completions{applies}   esc back"
        super().__init__(one.finding.id, keys)
        self._one, self._run, self._live = one, run, live

    def lines(self, width: int) -> list[Line]:
        one, room = self._one, max(10, width - 5)
        sign, role, _ = _sign(one)
        lines: list[Line] = [[Span(f" {sign} ", role), Span(one.steps, "strong")]]
        lines += _paragraph(one.finding.message, room)
        lines.append(ruled([[Span("what to do", "title")]], width))
        for remedy in one.finding.remedies:
            applies = self._live and remedy is one.change
            head = Span(" = ", "key", "screen.set") if applies else Span(" ▸ ", "accent")
            rows = words_wrapped(one_line(remedy.text), room)
            lines += [[head if n == 0 else Span("   "), Span(row)] for n, row in enumerate(rows)]
        lines += self._next_run(width)
        if one.meaning:
            lines.append(ruled([[Span("what it means", "title")]], width))
            lines += _paragraph(one.meaning, room)
        return [*lines, [Span(f"   {PAGE}, {one.finding.id}", "dim")]]

    def _next_run(self, width: int) -> list[Line]:
        lines: list[Line] = []
        for title, wanted in (("in the config of the next run", "config"), ("to resume", "resume")):
            written = [text for where, text in to_write(self._one.finding) if where == wanted]
            if written:
                lines.append(ruled([[Span(title, "title")]], width))
            run = f"grpo-tui train {self._run} " if wanted == "resume" else ""
            lines += [[Span(f"   {run}{one_line(text)}", "strong")] for text in written]
        return lines

    def action_choose(self, what: str) -> None:
        self.dismiss(what)

    def action_set(self) -> None:
        """Ask before changing the setting that the run can take and writing the others, or say why not."""
        change, others = self._one.change if self._live else None, self._one.settings
        if self._live is None:
            self.app.notify(REPLAYED, severity="warning")
            return
        if change is not None:
            others = tuple(one for one in others if one.field != change.field)
        elif not others:
            why = "No remedy of this finding is a setting. What helps is listed here."
            self.app.notify(why, severity="warning")
            return
        told: list[Line] = [*self._changes(change), *_written(others)]
        verb = (
            one_line(f"set {change.field} to {setting(change.value)}", 50)
            if change is not None
            else "write a config"
        )

        dialog = YesNo(f"{verb}?", DialogText(told), verb, "change nothing")
        self.ask(dialog, lambda _: self.dismiss("set" if change is not None else "write"))

    def _changes(self, change: Remedy | None) -> list[Line]:
        if change is None:
            return []
        view, name = self.shell.view, str(change.field)
        now = view.settable.get(name) if view is not None else None
        before = f"{setting(now)} → " if now is not None else ""
        return [
            [Span(f" {name} ", "strong"), Span(f"{before}{setting(change.value)}")],
            [Span(" Applied after the current step.", "dim")],
        ]

    def action_copy(self) -> None:
        self.shell.copy("finding", self._one.finding.message)
