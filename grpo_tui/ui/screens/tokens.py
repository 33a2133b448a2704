"""A policy's probability for each token of a completion, on top of Generations.

The policy is queried in a thread. Leaving the screen ends the processes started for it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.containers import Container, Vertical
from textual.screen import Screen

from grpo_tui.core.text import one_line
from grpo_tui.core.token_scores import TokenScores
from grpo_tui.present import token_lines
from grpo_tui.present.formatting import duration, plural
from grpo_tui.present.reading import laid_out
from grpo_tui.ui.actions import bindings
from grpo_tui.ui.kit.table import CursorList
from grpo_tui.ui.paint import Line, LinePane, LineScroll, Span, ruled, spans
from grpo_tui.ui.screens.dialogs import Choice, MenuDialog
from grpo_tui.ui.shell import Shell
from grpo_tui.ui.textual_private import LeftOnce
from grpo_tui.ui.widgets.bars import Footer, Header

if TYPE_CHECKING:
    from grpo_tui.rewards.token_asking import AskedPolicy, TokenAsker


class TokensHead(LinePane):
    """Which completion, progress or error, and summary figures."""

    title = ""
    doing = ""
    since = 0.0
    trouble = ""
    scores: TokenScores | None = None

    def lines(self, width: int, height: int) -> list[Line]:
        lines: list[Line] = [ruled([[Span("tokens", "title")], [Span(self.title, "dim")]], width)]
        room = max(20, width - 4)
        if self.doing:
            waited = duration(time.monotonic() - self.since)
            doing = f"{one_line(self.doing, room - 24)}, {waited}"
            lines.append([Span(f" ◌ {doing}", "attention"), Span("   esc stops it", "dim")])
        elif self.trouble:
            lines += [
                [Span(" ✗ " if number == 0 else "   ", "bad"), *line]
                for number, line in enumerate(spans(laid_out([(one_line(self.trouble), "bad")], room - 1)))
            ]
        if self.scores is not None and not self.doing:
            lines += spans(token_lines.head_lines(self.scores, width))
        return lines


class TokensHeat(LineScroll):
    """The tokens as a heat map, or the prompt as the model gets it."""

    scores: TokenScores | None = None
    chosen: int | None = None
    shows_prompt = False
    _rows: tuple[TokenScores, int, list[token_lines.HeatRow]] | None = None

    def _laid(self, scores: TokenScores, width: int) -> list[token_lines.HeatRow]:
        """Return the rows, cached so that moving the mark needs no layout."""
        if self._rows is None or self._rows[0] is not scores or self._rows[1] != width:
            self._rows = (scores, width, token_lines.heat_rows(scores, width))
        return self._rows[2]

    def lines(self, width: int) -> list[Line]:
        scores = self.scores
        if scores is None:
            return []
        room = max(8, width - 2)
        if self.shows_prompt:
            title = f"{plural(scores.prompt_tokens, 'token')}, as the model gets them"
            lines: list[Line] = [ruled([[Span("prompt", "title")], [Span(title, "dim")]], width)]
            return [*lines, *spans(laid_out([(scores.prompt, "text")], room), " ")]
        rows = self._laid(scores, room)
        lines = [line for row in rows for line in spans(row.lines(self.chosen), " ")]
        return [*lines, (), *spans(laid_out([(token_lines.LEGEND, "dim")], room), " ")]

    def show_place(self, place: int) -> None:
        self.chosen = place
        if self.scores is not None and not self.shows_prompt:
            room = max(8, self.scrollable_content_region.width - 2)
            row = token_lines.line_of(self._laid(self.scores, room), place)
            top, height = self.scroll_offset.y, self.size.height
            if not top <= row < top + height - 1:
                self.scroll_to(y=max(0, row - height // 2), animate=False, force=True)
        self.changed()


class TokensHeading(LinePane):
    """Column headings of the list."""

    scores: TokenScores | None = None

    def lines(self, width: int, height: int) -> list[Line]:
        title: Line = ruled([[Span("the most surprising", "title")]], width)
        if self.scores is None:
            return [title, ()]
        return [title, *spans(token_lines.surprising_lines(self.scores, width, 0)[:1])]


class TokenList(CursorList):
    """The most surprising tokens. The one under the cursor is marked in the text."""

    scores: TokenScores | None = None
    _places: Sequence[int] = ()

    @property
    def count(self) -> int:
        return len(self._places)

    @property
    def place(self) -> int | None:
        return self._places[self.cursor] if self.cursor < len(self._places) else None

    def show(self, scores: TokenScores | None) -> None:
        self.scores, self.cursor = scores, 0
        self._places = scores.most_surprising(token_lines.LISTED) if scores is not None else ()
        self.changed()

    def lines(self, width: int) -> list[Line]:
        if self.scores is None:
            return []
        return spans(token_lines.surprising_lines(self.scores, width, token_lines.LISTED, self.place)[1:])


LOOK_S = 0.5
WORDS = {
    "live": ("the live policy", "the current policy, asked at the end of the step; training is not affected"),
    "checkpoint": ("", "saved by the run"),
    "base": ("the base model", "what the run started from"),
}


class TokensScreen(LeftOnce, Screen[None], Shell):
    """The tokens of completion `index` of `count` in a group. `group` is its id; `step` is for the title."""

    BINDINGS = bindings("tokens")
    PANE = "tokens"

    def __init__(self, root: Path, group: int, step: int, index: int, count: int) -> None:
        super().__init__()
        self._root, self._group, self._step, self._index, self._count = root, group, step, index, count
        self._known: tuple[AskedPolicy, ...] = ()
        self._policy: AskedPolicy | None = None
        self._base = False
        """Compare a checkpoint with the base. The live run is always compared with its reference, if any."""
        self._asker: TokenAsker | None = None
        self._busy = False
        self._working = threading.Lock()
        self._cancel = threading.Event()
        self._left = False

    def compose(self) -> ComposeResult:
        yield Header("generations")
        yield TokensHead(id="tokens-head")
        with Container(id="token-parts"):
            yield TokensHeat(id="tokens-heat")
            with Vertical(id="token-list-part"):
                yield TokensHeading(id="tokens-heading")
                yield TokenList(id="token-list")
        yield Footer(self.PANE)

    def on_mount(self) -> None:
        self.query_one(Header).show(self.shell.view)
        self.query_one(Footer).show(self.shell.view)
        self.query_one(TokenList).focus()
        self.set_interval(LOOK_S, self._look)
        self._entitle()
        self._begin("looking for models to ask")
        self.in_thread("tokens", self._find_policies, self._take_policies)

    def on_unmount(self) -> None:
        self._left = True
        self._cancel.set()
        if self._working.acquire(blocking=False):  # otherwise the thread closes it when it is done
            self._close_asker()
            self._working.release()

    def _close_asker(self) -> None:
        if self._asker is not None:
            self._asker.close()

    def _entitle(self) -> None:
        head = self.query_one(TokensHead)
        head.title = f"completion {self._index + 1} of {self._count} of step {self._step:,}"
        head.changed(layout=True)

    def _begin(self, doing: str) -> None:
        head = self.query_one(TokensHead)
        self._busy, head.doing, head.trouble, head.since = True, doing, "", time.monotonic()
        head.changed(layout=True)

    def _look(self) -> None:
        if self._busy:
            self.query_one(TokensHead).changed()

    # -- in the worker thread --------------------------------------------------------------------

    def _find_policies(self) -> Sequence[AskedPolicy] | str:
        from grpo_tui.rewards.generating import GenerateError
        from grpo_tui.rewards.token_asking import policies, run_config
        from grpo_tui.store.connection import RunDatabaseError

        try:
            known = policies(self._root)
            if not known:
                run_config(self._root)  # raises with the reason
        except (GenerateError, RunDatabaseError, OSError) as error:
            return str(error)
        return known

    def _score(self, policy: AskedPolicy, index: int, base: bool) -> TokenScores | str:
        from grpo_tui.rewards.consent import ConsentError
        from grpo_tui.rewards.generating import CancelledError, GenerateError
        from grpo_tui.rewards.token_asking import TokenAsker, completion_of
        from grpo_tui.store.connection import RunDatabaseError

        found: TokenScores | str
        with self._working:
            if self._asker is None:
                self._asker = TokenAsker(self._root, self._tell, self._cancel)
            try:
                row = completion_of(self._root, self._group, index)
                found = self._asker.ask(row, policy, base=base)
            except ConsentError as error:
                found = f"p asks again. {error}"
                self.asks_consent(error.codes, self._start)
            except CancelledError:
                found = "canceled. Press p to ask again"
            except (GenerateError, RunDatabaseError, LookupError, OSError) as error:
                found = str(error)
        if self._left:
            with self._working:
                self._close_asker()
        return found

    def _tell(self, what: str) -> None:
        self.call_later(self._doing, what)

    # -- on the screen ---------------------------------------------------------------------------

    def _doing(self, what: str) -> None:
        head = self.query_one(TokensHead)
        head.doing = what
        head.changed()

    def _take_policies(self, known: Sequence[AskedPolicy] | str) -> None:
        self._end(known if isinstance(known, str) else "")
        if isinstance(known, str):
            self._show(None)
        else:
            self._known = tuple(known)
            self.action_tokens_policy()

    def _take_scores(self, scores: TokenScores | str) -> None:
        self._end(scores if isinstance(scores, str) else "")
        self._show(None if isinstance(scores, str) else scores)

    def _end(self, trouble: str) -> None:
        head = self.query_one(TokensHead)
        self._busy, head.doing, head.trouble = False, "", trouble
        self._cancel.clear()
        head.changed(layout=True)

    def _show(self, scores: TokenScores | None) -> None:
        heat, heading, listed = (
            self.query_one(TokensHeat), self.query_one(TokensHeading), self.query_one(TokenList),
        )  # fmt: skip
        head = self.query_one(TokensHead)
        head.scores = heat.scores = heading.scores = scores
        head.changed(layout=True)
        listed.show(scores)
        heat.chosen = listed.place
        heat.scroll_to(y=0, animate=False, force=True)
        heat.changed()
        heading.changed()

    def on_cursor_list_highlighted(self) -> None:
        place = self.query_one(TokenList).place
        if place is not None:
            self.query_one(TokensHeat).show_place(place)

    def _start(self) -> None:
        policy = self._policy
        if policy is None or self._waits():
            return
        base = policy.kind == "live" or self._base
        self._begin("starting")
        self.in_thread("tokens", partial(self._score, policy, self._index, base), self._take_scores)

    def _waits(self) -> bool:
        if self._busy:
            self.app.notify("The tokens are being scored. Press esc to cancel.")
        return self._busy

    # -- keys ------------------------------------------------------------------------------------

    def action_tokens_back(self) -> None:
        if self._busy and self._policy is not None and not self._cancel.is_set():
            self._cancel.set()
        else:
            self.dismiss(None)

    def action_tokens_policy(self) -> None:
        """Choose a model. If there is only one, it is used at once."""
        if self._waits():
            return
        if len(self._known) <= 1:
            self._take(self._known[0] if self._known else None)
            return
        choices = []
        for policy in self._known:
            name, what = WORDS[policy.kind]
            shown = name or one_line(policy.name, 40)
            if policy.kind == "base":
                what = f"{what}: {one_line(policy.name, 40)}"
            elif policy.step is not None:
                what = _apart(policy.step, self._step)
            choices.append(Choice(shown, what, policy, key={"live": "l", "base": "b"}.get(policy.kind, "")))
        if self._policy in self._known:
            at = self._known.index(self._policy)
        else:
            at = nearest(self._known, self._step)
        self.app.push_screen(MenuDialog("whose probabilities", choices, at=at), self._take)

    def _take(self, policy: AskedPolicy | None) -> None:
        if policy is not None:
            self._policy = policy
            self._start()
        elif self._policy is None:
            self.dismiss(None)

    def action_tokens_base(self) -> None:
        policy = self._policy
        if policy is None or self._waits():
            return
        if policy.kind == "base":
            self.app.notify("The base model is already shown. Press p to choose another policy.")
            return
        if policy.kind == "live":
            self.app.notify(
                "The live policy is compared with the reference that the run has in memory, if it has one; "
                "a checkpoint can be compared with the base model."
            )
            return
        self._base = not self._base
        self._start()

    def action_move(self, by: int) -> None:
        index = self._index + by
        if self._waits() or not 0 <= index < self._count:
            return
        self._index = index
        self._entitle()
        self._start()

    def action_tokens_prompt(self) -> None:
        heat = self.query_one(TokensHeat)
        heat.shows_prompt = not heat.shows_prompt
        heat.scroll_to(y=0, animate=False, force=True)
        heat.changed()

    def action_tokens_copy(self) -> None:
        scores = self.query_one(TokensHead).scores
        if scores is None:
            self.app.notify("There is nothing to copy yet.", severity="warning")
        elif self.query_one(TokensHeat).shows_prompt:
            self.shell.copy("the prompt as the model gets it", scores.prompt)
        else:
            self.shell.copy(f"{len(scores.tokens):,} tokens with their figures", scores.table())


def nearest(known: Sequence[AskedPolicy], step: int) -> int:
    """Return the preselected policy: the live one, else the checkpoint nearest to the completion's step."""
    steps = [
        (abs(policy.step - step), place) for place, policy in enumerate(known) if policy.step is not None
    ]
    return 0 if known[0].kind == "live" or not steps else min(steps)[1]


def _apart(saved: int, step: int) -> str:
    if saved == step:
        return "saved after the step of the completion"
    return f"{plural(abs(saved - step), 'step')} {'after' if saved > step else 'before'} the completion"
