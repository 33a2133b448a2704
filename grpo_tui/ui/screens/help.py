"""Keys and words: what each key does, from the table of actions, and what the numbers mean."""

from __future__ import annotations

from typing import ClassVar

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen

from grpo_tui.core.text import wrapped
from grpo_tui.ui.actions import ACTIONS, Action
from grpo_tui.ui.opened import LeftOnce
from grpo_tui.ui.paint import Line, LineScroll, Span, pad, ruled
from grpo_tui.ui.screens.dialogs import DialogTitle

PANES = (
    ("train", "4 Train"),
    ("zoom", "a chart over the whole screen"),
    ("chart", "a chart of one run"),
    ("overlay", "a chart of several runs"),
    ("hardware", "u machine"),
    ("runs", "1 Runs"),
    ("config", "2 Config"),
    ("data", "the rows of a config"),
    ("rewards", "3 Rewards"),
    ("probes", "what the probes showed"),
    ("generations", "5 Generations"),
    ("course", "the run over its steps"),
    ("what-if", "what would turn"),
    ("tokens", "the tokens of a completion"),
    ("all", "everywhere"),
)

WORDS = (
    ("reward", "mean of the weighted total over a step's completions: the signal of progress"),
    ("spread", "mean, over the groups of the newest step, of the standard deviation inside a group"),
    ("flat groups", "share of groups that teach nothing: all advantages are 0, or all is masked"),
    ("share", "part of the spread inside groups that a function carries; all of them make 100 %"),
    ("▲ ▼ advantage", "how far a completion's total lies above or below its group, as TRL computed it"),
    ("✂", "cut off at the longest length allowed"),
    ("entropy", "how undecided the policy is about the next token; near 0 it always says the same"),
    ("loss", "no progress signal: advantages are centred, so near 0 or below is healthy"),
    ("chart", "bright: moving average; faint: raw values, for the reward the mean ± spread"),
    ("◆ ▴ ↻", "on a chart's axis: a checkpoint, a changed setting, a resume (in the large chart)"),
)


MOVING = (
    ("↑ ↓", "Move the cursor, or scroll; pgup and pgdn by a page, home and end to the ends."),
    ("click", "Does what the key does, wherever a key or a name of a pane is written."),
)
"""What lists and long texts take everywhere, beside the table of actions."""


class HelpLines(LineScroll):
    """The whole help, scrollable."""

    def __init__(self, first: str) -> None:
        super().__init__()
        self._first = first

    def lines(self, width: int) -> list[Line]:
        """The keys of the pane it was asked for on, those of everywhere, the words, the other panes."""
        first = (self._first, "zoom") if self._first in ("chart", "overlay") else (self._first,)
        near = [pane for name in (*first, "all") for pane in PANES if pane[0] == name]
        lines: list[Line] = []
        for pane in near:
            lines += _pane_lines(*pane, width)
        lines.append(ruled([[Span("what the words mean", "title")]], width))
        for word, meaning in WORDS:
            lines += _wrapped(word, meaning, max(10, width - 18))
        lines.append(())
        for pane in PANES:
            if pane not in near:
                lines += _pane_lines(*pane, width)
        return lines[:-1]


def _pane_lines(pane: str, title: str, width: int) -> list[Line]:
    lines: list[Line] = [ruled([[Span(title, "title")]], width)]
    for action in ACTIONS:
        if action.pane == pane and action.key:
            lines += _key_lines(action, max(10, width - 10))
    if pane == "all":
        lines += [row for key, does in MOVING for row in _rows(key, does, max(10, width - 10))]
    return [*lines, ()]


def _key_lines(action: Action, room: int) -> list[Line]:
    lines = _rows(action.key_alone, action.help, room)
    if action.dangerous:
        asks = Span("  asks once", "attention")
        fits = cell_len(lines[-1][-1].text) + cell_len(asks.text) <= room
        lines[-1:] = [[*lines[-1], asks]] if fits else [lines[-1], [Span(" " * 7), asks]]
    return lines


def _rows(key: str, does: str, room: int) -> list[Line]:
    return [
        [Span(" " + pad(key if number == 0 else "", 8), "key"), Span(row)]
        for number, row in enumerate(wrapped(does, room))
    ]


def _wrapped(word: str, meaning: str, room: int) -> list[Line]:
    rows = wrapped(meaning, room)
    return [[Span(" " + pad(word if i == 0 else "", 16), "strong"), Span(row)] for i, row in enumerate(rows)]


class HelpScreen(LeftOnce, ModalScreen[None]):
    """Keys and words over the pane.

    Args:
        first: the pane it is asked for on, as the table of actions names it.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        ("escape", "close", "close"), ("question_mark", "close", "close"), ("q", "close", "close"),
        ("j", "down", "down"), ("k", "up", "up"),
    ]  # fmt: skip

    def __init__(self, first: str = "train") -> None:
        super().__init__()
        self._first = first

    def compose(self) -> ComposeResult:
        """A title and the lines."""
        with Vertical(classes="dialog -large"):
            yield DialogTitle("help", "j k scroll   esc back")
            yield HelpLines(self._first)

    def on_mount(self) -> None:
        """Ready to scroll."""
        self.query_one(HelpLines).focus()

    def action_close(self) -> None:
        """Back to the pane."""
        self.dismiss(None)

    def action_down(self) -> None:
        """A line on."""
        self.query_one(HelpLines).scroll_relative(y=1, animate=False)

    def action_up(self) -> None:
        """A line back."""
        self.query_one(HelpLines).scroll_relative(y=-1, animate=False)
