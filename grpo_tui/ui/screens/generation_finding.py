"""What the list of Generations holds: a query, an order, groups or completions, and what a live run adds.

Mixed into the screen.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from textual.widgets import Input

from grpo_tui.core.text import one_line
from grpo_tui.present.group_card import GroupCard, group_card
from grpo_tui.store.query import QueryError, read_query
from grpo_tui.store.read_series import total_range
from grpo_tui.store.rollouts import absent_fields, rollouts_of
from grpo_tui.store.search import NEWEST, Found, read_sort
from grpo_tui.ui.paint import Span
from grpo_tui.ui.shell import Shell
from grpo_tui.ui.widgets.card_table import CardTable
from grpo_tui.ui.widgets.group_table import GroupHeading, GroupTable
from grpo_tui.ui.widgets.query_state import QueryState

if TYPE_CHECKING:
    from textual.screen import Screen

    from grpo_tui.store.rollouts import Rollout
    from grpo_tui.ui.pages import Pages, Stores

AGAIN_S = 1.0
REST = 25
"""A list that follows a live run rests so many times as long as the last search took."""


_Answer = tuple[Found | str, Sequence[int], tuple[float, float] | None]
"""What was found or why not, its groups, the ends of the run's totals."""


def _answer(found: Found | str, stores: Stores) -> _Answer:
    """In the thread that searches: of 100,000 completions the groups take some milliseconds."""
    groups = () if isinstance(found, str) else tuple(dict.fromkeys(found.group_of))
    return found, groups, total_range(stores.search.run)


class Finding(Shell):
    """What a screen with a query, its state and a list can do."""

    pages: Pages | None = None
    searches: Pages | None = None
    found = Found()
    line = ""
    """The query in force."""
    newest = 0
    """The newest group of the run."""
    order = ""
    """As `found.read_sort` reads it; empty for the newest first."""
    _groups: Sequence[int] = ()
    """Those of what was found, each once."""
    _as_completions = False
    _cancel = threading.Event()
    _asked_at = 0.0
    _goes_to: int | None = None
    _looks_again = False
    _unanswered = False
    """Whether the store could not be read for the query in force."""

    @property
    def _screen(self) -> Screen[Any]:
        return cast("Screen[Any]", self)

    def show_chosen(self) -> None:
        """Show what is under the cursor of the list."""
        raise NotImplementedError

    def _functions(self) -> list[str]:
        """Names of the run's reward functions, which a query may have alone."""
        view = self.shell.view
        return [function.name for function in view.functions] if view is not None else []

    def forget_found(self) -> None:
        """Another run."""
        self._cancel.set()
        self.found, self._groups, self.newest = Found(), (), 0
        self._screen.query_one(GroupTable).forget()

    @property
    def follows(self) -> bool:
        """True at the top of a list that begins with the newest: new groups then come in."""
        table = self._screen.query_one(GroupTable)
        return table.cursor == 0 and table.scroll_offset.y == 0 and not self.order

    def look_again(self) -> None:
        """Find again what is found now, when a live run has moved on and somebody is at its top."""
        if self.newest <= self.found.newest_group or not self._screen.is_attached:
            return
        if not self.follows:
            self._show_state()
            return
        rest = self._asked_at + max(AGAIN_S, REST * self.found.seconds) - time.monotonic()
        if rest <= 0:
            self.find(again=True)
        elif not self._looks_again:
            self._looks_again = True
            self._screen.set_timer(rest, self._rested)

    def _rested(self) -> None:
        self._looks_again = False
        self.look_again()

    def find(self, *, again: bool = False) -> None:
        """Look for what the query asks; what is found comes later, a search that runs is given up.

        At the top of a list that begins with the newest, the first page comes before the search is done.

        Args:
            again: Whether the list shows what was found by the same query a moment ago.
        """
        pages = self.searches
        if pages is None:
            return
        self._cancel.set()
        cancel, self._unanswered = threading.Event(), False
        self._cancel = cancel
        self._asked_at = time.monotonic()
        line, sort = self.line, self.order
        in_parts = not again and not sort and self._goes_to is None

        def look(stores: Stores) -> _Answer:
            def tell(found: Found) -> None:
                if found.searched < found.of:
                    self._screen.call_later(take_part, _answer(found, stores))

            try:
                found: Found | str = stores.search.find(
                    line,
                    read_sort(sort) if sort else NEWEST,
                    cancel=cancel,
                    on_part=tell if in_parts else None,
                )
            except QueryError as error:
                found = error.sentence
            return _answer(found, stores)

        def take_part(answer: _Answer) -> None:
            if cancel is self._cancel and not cancel.is_set() and self.follows:
                self._take(answer, whole=False)

        def take(answer: _Answer) -> None:
            if cancel is self._cancel:
                self._take(answer)

        def failed(why: str) -> None:
            if cancel is self._cancel:
                self._unanswered = True
                self._screen.query_one(QueryState).searching, self._goes_to = False, None
                self._screen.query_one(GroupTable).waits = [(), [Span(f"   ✗ {why}", "bad")]]
                self.cannot_read(why)

        pages.ask("find", look, take, failed)
        self._screen.query_one(QueryState).searching = True
        self._show_state()

    def _take(self, answer: _Answer, *, whole: bool = True) -> None:
        found, groups, totals = answer
        state, table = self._screen.query_one(QueryState), self._screen.query_one(GroupTable)
        state.searching = not whole
        if isinstance(found, str):
            state.trouble, self._goes_to = found, None
            self._show_state()
            return
        followed = self.follows
        for note in found.notes:
            if note not in self.found.notes:
                self._screen.app.notify(one_line(note, 300), severity="warning", markup=False)
        self.found, self._groups, state.trouble, state.unread = found, groups, found.trouble, ""
        table.measure(totals)
        self.say_why_empty()
        keys = self._keys()
        go_to = None if self._goes_to is None else self._line_of(self._goes_to)
        if go_to is None and followed and len(keys):
            go_to = keys[0]
        self._goes_to = None
        table.show(keys, of_completions=self._as_completions, go_to=go_to)
        self._show_state()
        self.show_chosen()

    def say_why_empty(self) -> None:
        """Say why the list is empty, by the newest view; a search may end before the first one comes."""
        state, table = self._screen.query_one(QueryState), self._screen.query_one(GroupTable)
        if state.trouble or state.unread:
            return
        view = self.shell.view
        none = view.no_groups if view is not None else "No completion was recorded."
        hint = one_line(self.found.hint, 200)
        told = f"Nothing is found by this query{': ' if hint else ''}{hint}."
        table.waits = [(), [Span(f"   {told if self.found.of else none}", "dim")]]

    def _keys(self) -> Sequence[int]:
        return self.found.ids if self._as_completions else self._groups

    def _line_of(self, group: int) -> int | None:
        """What stands for a group in the list: its number, or that of its first completion found."""
        if not self._as_completions:
            return group
        return next(
            (one for one, of in zip(self.found.ids, self.found.group_of, strict=True) if of == group), None
        )

    def _show_state(self) -> None:
        state, heading = self._screen.query_one(QueryState), self._screen.query_one(GroupHeading)
        state.found, state.line = self.found, self.line
        state.newer = self.newest > self.found.newest_group > 0 and not self.follows
        state.changed()
        heading.of_completions = self._as_completions
        heading.order = order_words(self.order)
        heading.changed()

    def on_group_table_wanted(self, event: GroupTable.Wanted) -> None:
        """Bring what came into sight."""
        if self.pages is None:
            return
        keys, totals, table = (
            event.keys,
            self._screen.query_one(GroupTable).totals,
            self._screen.query_one(GroupTable),
        )

        def look(stores: Stores) -> Sequence[GroupCard | Rollout]:
            if event.of_completions:
                return rollouts_of(stores.search.run, keys)
            absent = absent_fields(stores.search.run)
            return [group_card(group, totals, absent) for group in stores.run.groups_by_id(keys)]

        def take(brought: Sequence[GroupCard | Rollout]) -> None:
            if event.of_completions == table.of_completions:
                table.take(brought)
                if not table.unread:
                    self.cannot_read("")

        def failed(why: str) -> None:
            if event.of_completions != table.of_completions:
                return
            if len(keys) > 1:  # one that is spoilt does not keep the others away
                for key in keys:
                    self.on_group_table_wanted(GroupTable.Wanted((key,), of_completions=event.of_completions))
                return
            table.fail(keys[0], why)
            self.cannot_read(why)
            if keys[0] == table.key:
                self.show_chosen()

        self.pages.ask(f"lines {keys[0]}", look, take, failed)

    def read_again(self) -> None:
        """Ask anew for what could not be read; the file may have come back."""
        if self._unanswered:
            self.find()
        self._screen.query_one(GroupTable).ask_again()

    def cannot_read(self, why: str) -> None:
        """Say beside the query what of the run cannot be read; an empty sentence when all can."""
        state = self._screen.query_one(QueryState)
        state.unread = why
        state.changed()
        self._screen.query_one(GroupTable).changed()

    # -- keys ------------------------------------------------------------------------------------

    def action_generations_query(self) -> None:
        """Type a query."""
        self._screen.query_one(Input).focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Say at once where a query is not understood."""
        state = self._screen.query_one(QueryState)
        try:
            read_query(event.value, self._functions())
            state.trouble = ""
        except QueryError as error:
            state.trouble = error.sentence
        state.changed()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Find."""
        try:
            read_query(event.value, self._functions())
        except QueryError as error:
            self._screen.app.notify(one_line(error.sentence, 300), severity="warning", markup=False)
            return
        self.line = event.value.strip()
        self._screen.query_one(GroupTable).focus()
        self.find()

    def show_query(self, line: str, *, group: int | None = None, order: str | None = None) -> None:
        """Find by a query that came from elsewhere."""
        self._screen.query_one(Input).value = line
        self.line, self._goes_to = line.strip(), group
        self.order = self.order if order is None else order
        self.find()

    def action_generations_kind(self) -> None:
        """Single completions, or groups."""
        table = self._screen.query_one(GroupTable)
        chosen = table.selected
        self._as_completions = not self._as_completions
        go_to = None
        if chosen is not None:
            go_to = self._line_of(chosen.id if isinstance(chosen, GroupCard) else chosen.group)
        self._screen.query_one(GroupTable).show(
            self._keys(), of_completions=self._as_completions, go_to=go_to
        )
        self._show_state()

    def action_generations_sort(self) -> None:
        """Choose the order."""
        from grpo_tui.ui.screens.choosing import Choice, MenuDialog

        names = self._screen.query_one(CardTable).names
        fields = [
            "",
            "-reward",
            "-advantage",
            "-std",
            "-mean",
            "-tokens",
            *(f"-{_field(name)}" for name in names),
        ]
        choices = [Choice(order_words(field), "", field) for field in fields]

        def chosen(field: Any) -> None:
            if field is not None:
                self.order = field
                self.find()

        at = fields.index(self.order) if self.order in fields else 0
        self._screen.app.push_screen(MenuDialog("sort by", choices, at=at), chosen)

    def action_generations_turn(self) -> None:
        """The other way round."""
        line = self.order or "-step"
        self.order = line[1:] if line.startswith("-") else f"-{line}"
        if self.order == "-step":
            self.order = ""
        self.find()


def order_words(sort: str) -> str:
    """An order in words."""
    if not sort:
        return "newest first"
    if sort == "step":
        return "oldest first"
    name, first = sort.lstrip("-"), "highest" if sort.startswith("-") else "lowest"
    return f"{first} {one_line(name.removeprefix('rewards.').strip(chr(34)), 24)} first"


def _field(name: str) -> str:
    plain = name.replace("_", "").isalnum()
    return f"rewards.{name}" if plain else f'rewards."{name}"'
