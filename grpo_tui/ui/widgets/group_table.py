"""The matches of a query: groups or single completions, one per line.

Only visible lines are laid out, and their data is requested when they scroll into view.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from rich.cells import cell_len
from textual.message import Message

from grpo_tui.core.text import one_line
from grpo_tui.present.formatting import digits_for, plural, within
from grpo_tui.present.glyphs import spark
from grpo_tui.present.group_card import KINDS, MOST_BARS, GroupCard, SharedBeginning, bars
from grpo_tui.store.rollouts import Rollout
from grpo_tui.store.search import Found
from grpo_tui.ui.kit.table import Column, Table, heading, row_line
from grpo_tui.ui.paint import Line, LinePane, Span, fitting, pad
from grpo_tui.ui.widgets.card_table import counted
from grpo_tui.ui.widgets.groups import advantage_cell

CURVE = 16


class QueryState(LinePane):
    """Number of matches and progress, on one line beside the query."""

    found = Found()
    line = ""
    trouble = ""
    unread = ""
    """Why part of the run cannot be read."""
    searching = False
    newer = False
    """The run has new groups that are not listed because the user reads further down."""

    def lines(self, width: int, height: int) -> list[Line]:
        if trouble := self.trouble or self.unread:
            room = max(1, width - 4)
            shorter = (trouble, trouble.partition(" (")[0], trouble.partition(";")[0])
            told = next((words for words in shorter if cell_len(words) <= room), shorter[-1])
            return [[Span(" ✗ ", "bad"), Span(one_line(told, room), "bad")]]
        found = self.found
        parts: list[tuple[int, Line]] = []
        if self.searching and (found.seconds > 0.3 or found.searched < found.of):
            parts.append((1, [Span("◌ searching", "attention")]))
        if self.newer:
            parts.append((1, [Span("newer ones: g", "attention", "screen.generations_newest")]))
        if self.line:
            parts.append((0, [Span(f"{found.count:,}", "strong"), Span(f" of {found.of:,}", "dim")]))
            parts.append((2, [Span(f"in {plural(found.groups, 'group')}", "dim")]))
            if found.over_steps and found.count:
                shares = [bucket.hits / bucket.of if bucket.of else 0.0 for bucket in found.over_steps]
                parts.append((3, [Span(spark(shares, CURVE, 0.0), "accent"), Span(" over steps", "dim")]))
                if found.began is not None:
                    parts.append((4, [Span(f"since step {found.began.first_step:,}", "text")]))
        elif found.of:
            parts.append((0, [Span(plural(found.of, "completion"), "dim")]))
            parts.append((2, [Span(f"in {plural(found.groups, 'group')}", "dim")]))
        return [[Span(" "), *fitting(parts, width - 2, gap=2)]]


KEPT = 2_000
AHEAD = 40
"""Lines beyond the visible ones that are requested too."""
STEP_W, NUMBER_W, ADVANTAGE_W, TOKENS_W = 6, 8, 7, 8
KIND_W = 13
LEAST_PROMPT = 34
"""Minimum width of a prompt. There are fewer blocks if it would get less."""


class GroupTable(Table[Any]):
    """A list of ids. Posts `Wanted` for visible ones whose data is missing."""

    OPENS = "screen.generations_open"

    class Wanted(Message):
        """Posted when visible groups or completions are not loaded. `keys` are their ids."""

        def __init__(self, keys: tuple[int, ...], *, of_completions: bool) -> None:
            super().__init__()
            self.keys, self.of_completions = keys, of_completions

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._known: OrderedDict[int, GroupCard | Rollout] = OrderedDict()
        self._asked: set[int] = set()
        self.unread: dict[int, str] = {}
        """Why a requested line could not be loaded, by id."""
        self.of_completions = False
        self.totals: tuple[float, float] | None = None
        self.shared = SharedBeginning()
        """What the prompts of all loaded groups begin with."""
        self.order = ""

    # -- content ---------------------------------------------------------------------------------

    @property
    def key(self) -> int | None:
        """Id of the group or completion under the cursor."""
        return self.rows[self.cursor] if self.cursor < len(self.rows) else None

    @property
    def selected(self) -> GroupCard | Rollout | None:
        """Group or completion under the cursor; None until it is loaded."""
        key = self.key
        return None if key is None else self._known.get(key)

    def show(self, keys: Sequence[int], *, of_completions: bool, go_to: int | None = None) -> None:
        """Show these ids. The cursor moves to `go_to`, by default its previous id, or else to the top."""
        same = of_completions == self.of_completions
        wanted = go_to if go_to is not None else self.key if same else None
        if not same:
            self._known.clear()
        self.rows, self.of_completions = keys, of_completions
        self._asked.clear()
        self.unread.clear()
        self.put(_place(keys, wanted) or 0)

    def measure(self, totals: tuple[float, float] | None) -> None:
        """Set the run's lowest and highest total. A change drops all cards, whose kinds depend on them."""
        if totals != self.totals:
            self.totals = totals
            self._known.clear()

    def forget(self) -> None:
        self.rows, self.totals, self.shared = (), None, SharedBeginning()
        self._known.clear()
        self._asked.clear()
        self.unread.clear()
        self.cursor = 0
        self.changed()

    def take(self, brought: Iterable[GroupCard | Rollout]) -> None:
        here, brought = self.key, tuple(brought)
        for one in brought:
            self._known[one.id] = one
            if isinstance(one, GroupCard):
                self.shared = self.shared.seen(one.prompt.strip())
            self._known.move_to_end(one.id)
            self._asked.discard(one.id)
            self.unread.pop(one.id, None)
        while len(self._known) > KEPT:
            self._known.popitem(last=False)
        self.changed()
        if here is not None and any(one.id == here for one in brought):
            self.moved()

    def ask(self) -> None:
        top = self.scroll_offset.y
        seen = self.rows[max(0, top - AHEAD) : top + self._height + AHEAD]
        wanted = tuple(key for key in seen if key not in self._known and key not in self._asked)
        if wanted:
            self._asked.update(wanted)
            self.post_message(self.Wanted(wanted, of_completions=self.of_completions))

    def fail(self, key: int, why: str) -> None:
        self.unread[key] = why
        self.changed()

    def ask_again(self) -> None:
        self._asked -= self.unread.keys()
        self.ask()

    def go_to(self, key: int) -> bool:
        """Move the cursor to an id. Return False when it is not listed."""
        place = _place(self.rows, key)
        if place is None:
            return False
        self.put(place)
        self.moved()
        return True

    def put(self, place: int) -> None:
        super().put(place)
        self.ask()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self.ask()

    def on_resize(self) -> None:
        super().on_resize()
        self.ask()

    # -- lines -----------------------------------------------------------------------------------

    def columns(self, width: int) -> Sequence[Column[Any]]:
        if self.of_completions:
            return completion_columns(width)
        return group_columns(width, self.totals, self.shared)

    def heading(self, width: int) -> Line:
        """Return the line over the list, leaving a cell free for the scroll bar."""
        title = "completions" if self.of_completions else "groups"
        title += f", {self.order}" if self.order else ""
        return heading(self.columns(width - 1), width - 1, title)

    def maker(self, width: int) -> Callable[[int, str, str], Line]:
        columns, known, unread = self.columns(width), dict(self._known), dict(self.unread)

        def line(key: int, mark: str, tail: str) -> Line:
            if (one := known.get(key)) is not None:
                return row_line(columns, one, mark, tail)
            word, role = (f"✗ {unread[key]}", "bad") if key in unread else ("…", "dim")
            return [Span(mark, "accent" + tail), Span(pad(word, width - 1), role + tail)]

        return line


def _place(keys: Sequence[int], wanted: int | None) -> int | None:
    """Return the index of an id, or None. There may be a million ids."""
    try:
        return None if wanted is None else keys.index(wanted)
    except ValueError:
        return None


def group_columns(
    width: int, totals: tuple[float, float] | None, shared: SharedBeginning
) -> list[Column[GroupCard]]:
    """Return step, prompt, totals as blocks, mean, std and kind. `width` includes the cursor."""
    room = width - 1 - STEP_W - 2 * NUMBER_W - KIND_W
    most = next((n for n in (MOST_BARS, 8, 4) if room - n > LEAST_PROMPT), 1)

    def prompt(card: GroupCard) -> list[Span]:
        blocks = bars(card, totals, most)
        bar = f"{blocks} " if blocks and room - len(blocks) > LEAST_PROMPT else ""
        left, whole = max(4, room - len(bar)), card.prompt.strip()
        told = one_line(whole if len(whole) < left else shared.left_out(whole), left - 1)
        return [Span(pad(told, left), "text" if whole else "dim"), Span(bar, "accent")]

    def kind(card: GroupCard) -> Span:
        word, role = KINDS[card.kind]
        return Span("  " + word, role)

    return [
        Column("", STEP_W, _step, right=True, gap=1),
        Column("", max(4, room), prompt),
        Column("mean", NUMBER_W, lambda card: Span(_number(card.mean), "strong"), right=True),
        Column("std", NUMBER_W, lambda card: Span(_number(card.spread)), right=True),
        Column("  kind", KIND_W, kind),
    ]


def completion_columns(width: int) -> list[Column[Rollout]]:
    """Return step, text, total, advantage and tokens. `width` includes the cursor."""
    room = max(4, width - 1 - STEP_W - NUMBER_W - ADVANTAGE_W - TOKENS_W - 2)

    def text(row: Rollout) -> list[Span]:
        masked = " masked" if row.masked else ""
        left = max(4, room - len(masked))
        written = row.completion[: 4 * left + 400].strip()
        told = one_line(written, left - 1) if written else "(empty)"
        return [Span(pad(told, left), "text" if written else "dim"), Span(masked, "attention")]

    return [
        Column("", STEP_W, _step, right=True, gap=1),
        Column("", room, text),
        Column("total", NUMBER_W, lambda row: Span(_number(row.reward), "strong"), right=True),
        Column("adv", ADVANTAGE_W, lambda row: advantage_cell(row.advantage), right=True),
        Column("tokens", TOKENS_W, lambda row: Span(counted(row.tokens), "dim"), right=True),
        Column("", 2, lambda row: Span(" ✂" if row.truncated else "", "attention")),
    ]


def _step(row: GroupCard | Rollout) -> Span:
    return Span(f"{row.step:,}", "dim")


def _number(value: float | None) -> str:
    return within(value, NUMBER_W - 1, max(2, digits_for([value])))
