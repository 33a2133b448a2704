"""The list of what was found: groups, or single completions, a line each, of any number.

Only the visible lines are made; what they need is asked for when it comes into sight.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import ClassVar

from textual.binding import BindingType
from textual.message import Message

from grpo_tui.core.text import one_line
from grpo_tui.present.formatting import digits_for, fixed, plural, within
from grpo_tui.present.glyphs import spark
from grpo_tui.present.group_card import KINDS, MOST_BARS, GroupCard, SharedBeginning, bars
from grpo_tui.store.rollouts import Rollout
from grpo_tui.store.search import Found
from grpo_tui.ui.kit.table import MOVES, CursorList, LazyLines
from grpo_tui.ui.paint import Line, LinePane, Span, fitting, headed, pad
from grpo_tui.ui.widgets.card_table import counted
from grpo_tui.ui.widgets.groups import advantage_sign

CURVE = 16


class QueryState(LinePane):
    """One line beside the query."""

    found = Found()
    line = ""
    trouble = ""
    unread = ""
    """What of the run cannot be read."""
    searching = False
    newer = False
    """Whether the run has moved on while a person reads further down."""

    def lines(self, width: int, height: int) -> list[Line]:
        if trouble := self.trouble or self.unread:
            return [[Span(" ✗ ", "bad"), Span(one_line(trouble, max(1, width - 4)), "bad")]]
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
"""Cards kept at once."""
AHEAD = 40
"""Lines beyond those in sight that are asked for too."""
STEP_W, NUMBER_W, ADVANTAGE_W, TOKENS_W = 6, 8, 7, 8
KIND_W = 13
LEAST_PROMPT = 34
"""Cells that a prompt keeps beside the blocks, of which there are fewer instead."""


class GroupTable(CursorList, inherit_bindings=False):
    """What was found; `Highlighted` is posted when the cursor moved, `Wanted` when cards are missing."""

    BINDINGS: ClassVar[list[BindingType]] = MOVES

    class Wanted(Message):
        """These are in sight and not known yet: numbers of groups, or of completions."""

        def __init__(self, keys: tuple[int, ...], *, of_completions: bool) -> None:
            super().__init__()
            self.keys, self.of_completions = keys, of_completions

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._keys: Sequence[int] = ()
        self._known: OrderedDict[int, GroupCard | Rollout] = OrderedDict()
        self._asked: set[int] = set()
        self.unread: dict[int, str] = {}
        """Why lines that were asked for were not brought."""
        self.of_completions = False
        self.totals: tuple[float, float] | None = None
        self.shared = SharedBeginning()
        """Of the prompts of all groups that were brought."""
        self.waits: list[Line] = []
        """What is said where nothing was found."""

    # -- what there is ---------------------------------------------------------------------------

    @property
    def count(self) -> int:
        return len(self._keys)

    @property
    def key(self) -> int | None:
        """Number of the group, or of the completion, under the cursor."""
        return self._keys[self.cursor] if self.cursor < len(self._keys) else None

    @property
    def selected(self) -> GroupCard | Rollout | None:
        """What is under the cursor, when it was brought already."""
        key = self.key
        return None if key is None else self._known.get(key)

    def show(self, keys: Sequence[int], *, of_completions: bool, go_to: int | None = None) -> None:
        """Show these; the cursor goes to one of them, by default to the one it was on, else to the top."""
        same = of_completions == self.of_completions
        wanted = go_to if go_to is not None else self.key if same else None
        if not same:
            self._known.clear()
        self._keys, self.of_completions = keys, of_completions
        self._asked.clear()
        self.unread.clear()
        self.put(_place(keys, wanted) or 0)

    def measure(self, totals: tuple[float, float] | None) -> None:
        """Hold totals against these ends of the run; kinds that were told by others are told anew."""
        if totals != self.totals:
            self.totals = totals
            self._known.clear()

    def forget(self) -> None:
        """Another run: nothing that is known is good any more."""
        self._keys, self.totals, self.shared = (), None, SharedBeginning()
        self._known.clear()
        self._asked.clear()
        self.unread.clear()
        self.cursor = 0
        self.changed()

    def take(self, brought: Iterable[GroupCard | Rollout]) -> None:
        """Take in what was asked for."""
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
        """Ask for what is in sight and not known."""
        top = self.scroll_offset.y
        seen = self._keys[max(0, top - AHEAD) : top + self._height + AHEAD]
        wanted = tuple(key for key in seen if key not in self._known and key not in self._asked)
        if wanted:
            self._asked.update(wanted)
            self.post_message(self.Wanted(wanted, of_completions=self.of_completions))

    def fail(self, key: int, why: str) -> None:
        """Say in its line why it was not brought."""
        self.unread[key] = why
        self.changed()

    def ask_again(self) -> None:
        """Ask anew for what could not be brought."""
        self._asked -= self.unread.keys()
        self.ask()

    def go_to(self, key: int) -> bool:
        """Put the cursor on it; False when it is not in the list."""
        place = _place(self._keys, key)
        if place is None:
            return False
        self.put(place)
        self.moved()
        return True

    def put(self, place: int) -> None:
        """Put the cursor there and ask for what comes into sight."""
        super().put(place)
        self.ask()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self.ask()

    def on_resize(self) -> None:
        super().on_resize()
        self.ask()

    def action_open(self) -> None:
        """A second click goes on to the completions, as enter does."""
        self.screen.run_worker(self.run_action("screen.generations_open"))

    # -- lines -----------------------------------------------------------------------------------

    def lines(self, width: int) -> LazyLines | list[Line]:
        """One line each, made when it is looked at."""
        if not self._keys:
            return self.waits
        # All that a line depends on stands still here: lines are compared with what they were before.
        keys, known, unread, totals = self._keys, dict(self._known), dict(self.unread), self.totals
        cursor, focused, shared = self.cursor, self.has_focus, self.shared

        def line(number: int) -> Line:
            one = known.get(keys[number])
            tail = " selected" if number == cursor and focused else ""
            head = Span("❙" if number == cursor else " ", "accent" + tail)
            if one is None:
                why = unread.get(keys[number])
                word, role = ("…", "dim") if why is None else (f"✗ {why}", "bad")
                return [head, Span(pad(word, width - 1), role + tail)]
            if isinstance(one, GroupCard):
                return [
                    head,
                    *group_spans(one, totals, width - 1, tail, shared.left_out(one.prompt.strip())),
                ]
            return [head, *completion_spans(one, width - 1, tail)]

        return LazyLines(len(keys), line)


def _place(keys: Sequence[int], wanted: int | None) -> int | None:
    """Where a number stands among up to a million, None where it does not."""
    try:
        return None if wanted is None else keys.index(wanted)
    except ValueError:
        return None


def group_spans(
    card: GroupCard, totals: tuple[float, float] | None, width: int, tail: str, short: str
) -> list[Span]:
    """Step, prompt, totals as blocks, mean, spread, kind; `short` is the prompt that does not fit whole."""
    word, role = KINDS[card.kind]
    room = width - STEP_W - 2 * NUMBER_W - KIND_W
    bar = bars(card, totals, next((n for n in (MOST_BARS, 8, 4) if room - n > LEAST_PROMPT), 1))
    right = [
        Span(_number(card.mean), "strong" + tail),
        Span(_number(card.spread), "text" + tail),
        Span(pad("  " + word, KIND_W), role + tail),
    ]
    bar_w = len(bar) if room - len(bar) > LEAST_PROMPT else 0
    room = max(4, room - (bar_w + 1 if bar_w else 0))
    step = Span(pad(f"{card.step:,}", STEP_W - 1, right=True) + " ", "dim" + tail)
    whole = card.prompt.strip()
    told = one_line(whole if len(whole) < room else short, room - 1)
    prompt = Span(pad(told, room), ("text" if whole else "dim") + tail)
    middle = [Span(pad(bar, bar_w) + " ", "accent" + tail)] if bar_w else []
    return [step, prompt, *middle, *right]


def _number(value: float | None) -> str:
    return pad(within(value, NUMBER_W - 1, max(2, digits_for([value]))), NUMBER_W, right=True)


def completion_spans(row: Rollout, width: int, tail: str) -> list[Span]:
    """Step, the completion, its total, advantage and tokens."""
    sign, role = advantage_sign(row.advantage)
    masked = " masked" if row.masked else ""
    room = max(4, width - STEP_W - NUMBER_W - ADVANTAGE_W - TOKENS_W - 2 - len(masked))
    written = row.completion[: 4 * room + 400].strip()
    text = one_line(written, room - 1) if written else "(empty)"
    return [
        Span(pad(f"{row.step:,}", STEP_W - 1, right=True) + " ", "dim" + tail),
        Span(pad(text, room), ("text" if written else "dim") + tail),
        Span(masked, "attention" + tail),
        Span(_number(row.reward), "strong" + tail),
        Span(pad(f"{sign}{fixed(abs(row.advantage))}", ADVANTAGE_W, right=True), role + tail),
        Span(pad(counted(row.tokens), TOKENS_W, right=True), "dim" + tail),
        Span(" ✂" if row.truncated else "  ", "attention" + tail),
    ]


class GroupHeading(LinePane):
    """The rule over the list: words over their columns."""

    of_completions = False
    order = ""
    """How the list is sorted, in a word or two."""

    def lines(self, width: int, height: int) -> list[Line]:
        ends: tuple[tuple[str, int], ...]
        if self.of_completions:
            ends = (("total", NUMBER_W), ("adv", ADVANTAGE_W), ("tokens", TOKENS_W))
            at = width - 2 - sum(wide for _, wide in ends) - 1
            title = "completions"
        else:
            ends = (("mean", NUMBER_W), ("std", NUMBER_W))
            at = width - 1 - sum(wide for _, wide in ends) - KIND_W
            title = "groups"
        words = [(2, f"{title}, {self.order}" if self.order else title, "title")]
        for word, wide in ends:
            at += wide
            words.append((at - len(word), word, "dim"))
        if not self.of_completions:
            words.append((at + 2, "kind", "dim"))
        return [headed(words, width - 1)]
