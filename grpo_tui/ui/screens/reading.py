"""Text screens over a pane: a long text, samples of the policy, a diff, the help, a metric's meaning."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from rich.cells import cell_len
from textual.binding import BindingType

from grpo_tui.core.commands import Outcome
from grpo_tui.core.metrics import describe, is_computed
from grpo_tui.core.text import one_line, safe
from grpo_tui.core.text import wrapped as words_wrapped
from grpo_tui.present.events import sampled_texts
from grpo_tui.present.formatting import plural
from grpo_tui.ui.actions import ACTIONS, Action
from grpo_tui.ui.kit.reading import ReadingScreen
from grpo_tui.ui.paint import Line, Span, pad, ruled, wrapped
from grpo_tui.ui.panes import PANES

if TYPE_CHECKING:
    from grpo_tui.present.config_compare import Compared


def _by_words(line: str, room: int) -> list[str]:
    """Wrap a line between words, keeping its indentation."""
    if cell_len(line) <= room:
        return [line]
    indent = line[: min(len(line) - len(line.lstrip(" ")), room // 2)]
    return [indent + row for row in words_wrapped(line, room - len(indent))]


class TextScreen(ReadingScreen):
    """One text to read and copy."""

    BINDINGS: ClassVar[list[BindingType]] = [("enter", "close", "close"), ("y", "copy", "copy")]

    def __init__(self, title: str, text: str, *, prose: bool = False) -> None:
        super().__init__(title, "y copy   esc back")
        self._text, self._prose = text, prose

    def lines(self, width: int) -> list[Line]:
        """Wrap prose between words and anything else at any character, so that nothing changes."""
        room = max(2, width - 2)
        if not self._prose:
            return [[Span(" " + row)] for row in wrapped(self._text, room)]
        return [[Span(" " + row)] for line in safe(self._text).split("\n") for row in _by_words(line, room)]

    def action_copy(self) -> None:
        self.shell.copy(self._title, self._text)


class SampleResult(ReadingScreen):
    """Prompt and completions of a sample."""

    BINDINGS: ClassVar[list[BindingType]] = [("enter", "close", "close")]

    def __init__(self, outcome: Outcome) -> None:
        result = outcome.result
        texts = sampled_texts(outcome)
        shown = result.get("rendered") or result.get("prompt", "")
        before = result.get("before")
        title = f"prompt, after {before} of training" if isinstance(before, str) and before else "prompt"
        prompt = shown if isinstance(shown, str) else json.dumps(shown, ensure_ascii=False)
        self._parts = [(title, prompt)]
        self._parts += [
            (f"completion {i + 1} of {len(texts)}{_length(result, i)}", text) for i, text in enumerate(texts)
        ]
        super().__init__(f"sampled at step {outcome.step:,}", "esc back")

    def lines(self, width: int) -> list[Line]:
        lines: list[Line] = []
        for title, text in self._parts:
            lines.append(ruled([[Span(title, "dim")]], width))
            lines += [[Span("  " + row)] for row in wrapped(text, max(10, width - 3))]
        return lines


def _length(result: Mapping[str, Any], index: int) -> str:
    items = result.get("completions")
    if not isinstance(items, list) or index >= len(items) or not isinstance(items[index], Mapping):
        return ""
    tokens = items[index].get("tokens")
    cut = ", truncated" if items[index].get("truncated") else ""
    return f", {plural(int(tokens), 'token')}{cut}" if isinstance(tokens, int) else ""


ROLES = {"+": "good", "-": "bad", " ": "dim", "@": "rule"}


class DiffScreen(ReadingScreen):
    """Two configs compared."""

    BINDINGS: ClassVar[list[BindingType]] = [("enter", "close", "close"), ("d", "close", "close")]

    def __init__(self, compared: Compared) -> None:
        super().__init__("differences")
        self._compared = compared

    def lines(self, width: int) -> list[Line]:
        compared = self._compared
        count = sum(sign in "+-" for sign, _ in compared.lines)
        if not count:
            return [[Span(" Nothing differs.", "strong")]]
        lines: list[Line] = [
            [Span(" - ", "bad"), Span(one_line(compared.theirs, 40), "text"),
             Span("   + ", "good"), Span(one_line(compared.mine, 30), "text"),
             Span(f"   {plural(count, 'line')}", "dim")]
        ]  # fmt: skip
        for sign, text in compared.lines:
            if sign == "@":
                lines.append(ruled([[Span(text, "dim")]], width))
                continue
            plain, room = safe(text).expandtabs(4), max(8, width - 4)
            spaced = "  " in plain.lstrip(" ") or plain.endswith(" ")  # which words alone do not keep
            for number, row in enumerate(wrapped(plain, room) if spaced else _by_words(plain, room)):
                lines.append([Span(f" {sign if number == 0 else ' '} ", ROLES[sign]), Span(row, ROLES[sign])])
        return lines


OVER_PANES = {
    "train": (
        ("zoom", "a chart over the whole screen"),
        ("chart", "a chart of one run"),
        ("overlay", "a chart of several runs"),
        ("hardware", "u machine"),
    ),
    "config": (("data", "the rows of a config"),),
    "rewards": (("probes", "what the probes showed"),),
    "results": (("chat", "chat with a model"),),
    "generations": (
        ("course", "trends over the run"),
        ("what-if", "what would change"),
        ("tokens", "the tokens of a completion"),
    ),
}
"""Screens that open over a pane and have keys of their own, by their names in `ui/actions.py`."""
FREQUENT = ("train", "runs", "config", "rewards", "generations")


def _sections() -> list[tuple[str, str]]:
    """Return name and title of each section: panes with what opens over them, frequent ones first."""
    order = sorted(PANES, key=lambda pane: FREQUENT.index(pane.id) if pane.id in FREQUENT else len(FREQUENT))
    found: list[tuple[str, str]] = []
    for pane in order:
        found += [(pane.id, f"{pane.key} {pane.name}"), *OVER_PANES.get(pane.id, ())]
    return [*found, ("all", "everywhere")]


WORDS = (
    ("reward", "mean of the weighted total over a step's completions: the measure of progress"),
    ("group std", "standard deviation of the totals within a group, averaged over the step's groups"),
    ("zero-std groups", "fraction of groups that teach nothing: all advantages are 0, or all is masked"),
    ("contrib", "contribution: how much of the within-group variance a function causes; all make 100 %"),
    ("▲ ▼ advantage", "how far a completion's total lies above or below its group, as TRL computed it"),
    ("✂", "truncated at max_completion_length"),
    ("entropy", "how uncertain the policy is about the next token; near 0 it always writes the same"),
    ("loss", "not a measure of progress: advantages are centered, so near 0 or below is healthy"),
    ("chart", "bright: moving average; faint: raw values, for the reward the mean ± group std"),
    ("◆ ▴ ↻", "on a chart's axis: a checkpoint, a changed setting, a resume (in the large chart)"),
)


MOVING = (
    ("↑ ↓", "Move the cursor, or scroll; pgup and pgdn by a page, g and G (or home and end) to the ends."),
    ("click", "Click any key or pane name to do the same."),
)
"""Keys that lists and long texts have everywhere, in addition to the action table."""


class HelpScreen(ReadingScreen):
    """Keys and terms. The pane `first`, named as in the action table, is listed first.

    Without `acting`, actions that change something are left out.
    """

    BINDINGS: ClassVar[list[BindingType]] = [("question_mark", "close", "close")]

    def __init__(self, first: str = "train", *, acting: bool = True) -> None:
        super().__init__("help")
        self._first, self._acting = first, acting

    def lines(self, width: int) -> list[Line]:
        first = (self._first, "zoom") if self._first in ("chart", "overlay") else (self._first,)
        sections = _sections()
        near = [section for name in (*first, "all") for section in sections if section[0] == name]
        lines: list[Line] = []
        for section in near:
            lines += self._pane_lines(*section, width)
        lines.append(ruled([[Span("terms", "title")]], width))
        for word, meaning in WORDS:
            lines += _wrapped(word, meaning, max(10, width - 18))
        lines.append(())
        for section in sections:
            if section not in near:
                lines += self._pane_lines(*section, width)
        return lines[:-1]

    def _pane_lines(self, pane: str, title: str, width: int) -> list[Line]:
        lines: list[Line] = [ruled([[Span(title, "title")]], width)]
        listed = [a for a in ACTIONS if a.pane == pane and a.key and (self._acting or not a.acts)]
        groups = dict.fromkeys(action.group for action in listed)
        for group in groups:
            if len(groups) > 1:
                lines.append([Span(f" {group}", "dim")])
            for action in listed:
                if action.group == group:
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
        for number, row in enumerate(words_wrapped(does, room))
    ]


def _wrapped(word: str, meaning: str, room: int) -> list[Line]:
    rows = words_wrapped(meaning, room)
    return [[Span(" " + pad(word if i == 0 else "", 16), "strong"), Span(row)] for i, row in enumerate(rows)]


DRAWN = (
    "The line is a bias-corrected exponential moving average, as f chooses: with a = 2 / (N + 1) over N "
    "values, s becomes (1 - a) s + a x, divided by 1 - (1 - a)^n after n values. The faint band holds the "
    "lowest and highest raw values; for the reward it is the mean ± the standard deviation inside a group."
)


class MeaningScreen(ReadingScreen):
    """What a metric means."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("enter", "close", "close"),
        ("question_mark", "help", "all keys"),
    ]

    SHAPE = "dialog -meaning"

    def __init__(self, key: str) -> None:
        super().__init__(one_line(describe(key).title, 40), "? all keys   esc back")
        self._key = key

    def lines(self, width: int) -> list[Line]:
        metric = describe(self._key)
        who = "Computed here as" if is_computed(self._key) else "TRL's key"
        parts = [(who, one_line(self._key, 200)), ("means", metric.meaning), ("healthy", metric.healthy)]
        parts.append(("drawn", DRAWN))
        lines: list[Line] = []
        for word, text in parts:
            lines.append([Span(f" {word}", "dim")])
            role = "key" if text == one_line(self._key, 200) else "text"
            lines += [[Span(f"   {row}", role)] for row in words_wrapped(safe(text), max(10, width - 5))]
        return lines

    def action_help(self) -> None:
        self.app.switch_screen(HelpScreen())
