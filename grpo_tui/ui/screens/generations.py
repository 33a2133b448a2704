"""Pane 5, Generations: find, read and compare completions, and see why each got its reward."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from textual import on
from textual.app import ComposeResult
from textual.containers import Container, Horizontal, Vertical
from textual.screen import Screen
from textual.widgets import Input

from grpo_tui.core.text import one_line
from grpo_tui.present.group_card import CardRow, GroupCard, group_card
from grpo_tui.present.reading import foldable
from grpo_tui.store.query import QueryError, read_query
from grpo_tui.store.read_series import total_range
from grpo_tui.store.rollouts import Rollout, absent_fields, rollouts_of
from grpo_tui.store.search import NEWEST, Found, read_sort
from grpo_tui.ui.actions import bindings
from grpo_tui.ui.kit.table import CursorList
from grpo_tui.ui.pages import Pages, Stores
from grpo_tui.ui.paint import Line, LineScroll, Span
from grpo_tui.ui.screens.generation_files import choose_view, export, order_words
from grpo_tui.ui.shell import Shell
from grpo_tui.ui.textual_private import KeepsStyles
from grpo_tui.ui.widgets.bars import Footer, Header
from grpo_tui.ui.widgets.card_table import CardTable, GroupTitle
from grpo_tui.ui.widgets.group_table import GroupTable, QueryState
from grpo_tui.ui.widgets.reader import Reader, ReaderHeading, Reading

if TYPE_CHECKING:
    from grpo_tui.present.course import ProbeStep, Stretch
    from grpo_tui.present.train_view import TrainView
    from grpo_tui.store.layout import RunFolder
    from grpo_tui.store.reader import Visit

NO_RUN: list[Line] = [
    (),
    [Span("   No run is open.", "dim")],
    (),
    [Span("   1 ", "key", "app.pane('runs')"), Span("shows the runs, ", "dim"), Span("enter", "key"),
     Span(" there opens one", "dim")],
    [Span("   grpo-tui attach RUN        ", "key"), Span("opens one directly", "dim")],
    [Span("   grpo-tui completions RUN   ", "key"), Span("prints its completions", "dim")],
]  # fmt: skip
PLACEHOLDER = "/ to search, e.g. reward<0.2"
AGAIN_S = 1.0
REST = 25
"""A search that follows a live run repeats after this many times its own duration."""
PARTS = ("list", "card", "reader")
SORTS = ("", "-reward", "-advantage", "-std", "-mean", "-tokens")
SIZED = "#found-part, #card-part, #group-title, #group-rows, #card-table, #reader-part"
"""Parts that are hidden or resized when one part has the whole pane."""


class GenerationsScreen(KeepsStyles, Screen[None], Shell):
    """The generations of the open run."""

    BINDINGS = bindings("generations")
    PANE = "generations"

    def __init__(self) -> None:
        super().__init__()
        self._folder: RunFolder | None = None
        self._large = False
        self._brings: int | None = None
        """Id of the group being loaded; None once something else is shown."""
        self.pages: Pages | None = None
        self.searches: Pages | None = None
        self.found = Found()
        self.line = ""
        self.newest = 0
        """Id of the run's newest group."""
        self.order = ""
        """Sort order as read by `read_sort`; empty for newest first."""
        self._groups: Sequence[int] = ()
        """Ids of the groups found, without duplicates."""
        self._as_completions = False
        self._cancel = threading.Event()
        self._asked_at = 0.0
        self._goes_to: int | None = None
        self._looks_again = False
        self._unanswered = False
        """The store could not be read for the current query."""
        self.reading = Reading()
        self.card: GroupCard | None = None
        self.visits: tuple[Visit, ...] = ()
        """Appearances of the card's prompt, oldest first."""
        self._marked: tuple[str, str] | None = None

    def compose(self) -> ComposeResult:
        groups, cards = GroupTable(id="group-table"), CardTable(id="card-table")
        yield Header("generations")
        with Horizontal(id="query-bar"):
            yield Input(placeholder=PLACEHOLDER, id="generation-query", select_on_focus=False)
            yield QueryState(id="query-state")
        with Container(id="generation-parts"):
            with Vertical(id="found-part"):
                yield groups.over("group-heading")
                yield groups
            with Vertical(id="card-part"):
                yield GroupTitle(id="group-title")
                with Container(id="card-sides"):
                    with Vertical(id="group-rows"):
                        yield cards.over("card-heading")
                        yield cards
                    with Vertical(id="reader-part"):
                        yield ReaderHeading(id="reader-heading")
                        yield Reader(id="reader")
        yield Footer("generations")

    def on_mount(self) -> None:
        self.query_one(GroupTable).waits = NO_RUN
        self.query_one(GroupTable).focus()
        self.shell.view_signal.subscribe(self, self._on_view)
        self._on_view(self.shell.view)

    def on_unmount(self) -> None:
        self._close()

    def on_screen_resume(self) -> None:
        self._on_view(self.shell.view)
        request = self.shell.take_generations_request()
        if request is not None:
            self.show_query(request[0], group=request[1])

    def _close(self) -> None:
        self._cancel.set()
        for pages in (self.pages, self.searches):
            if pages is not None:
                pages.stop()
        self.pages = self.searches = None

    # -- the run ---------------------------------------------------------------------------------

    def _on_view(self, view: TrainView | None) -> None:
        if not self.is_attached or self is not self.app.screen:
            return
        self.query_one(Header).show(view)
        self._open(self.shell.run_folder)
        self._name_keys()
        self._take_names(view)
        self.read_again()
        table = self.query_one(GroupTable)
        if self._folder is not None and not table.count and not self.query_one(QueryState).searching:
            self.say_why_empty()
            table.changed()
        newest = max((group.id for group in view.groups), default=0) if view is not None else 0
        if newest > self.newest:
            self.newest = newest
            self.look_again()

    def _open(self, folder: RunFolder | None) -> None:
        if folder == self._folder:
            return
        self._close()
        self._folder = folder
        self.forget_found()
        self._marked = None
        self.show_card(None, 0, frozenset())
        if folder is None:
            self.query_one(GroupTable).waits = NO_RUN
            return
        self.query_one(GroupTable).waits = [(), [Span("   Looking through the run …", "dim")]]
        self.pages, self.searches = (Pages(folder.database, self.call_later) for _ in range(2))
        self.in_thread("generations", self.pages.run)
        self.in_thread("search", self.searches.run)
        self.find()

    def _take_names(self, view: TrainView | None) -> None:
        functions = view.functions if view is not None else ()
        names, weights = tuple(f.name for f in functions), tuple(f.weight for f in functions)
        if self.card is not None and self.card.functions:  # a reload or a resume may have changed the list
            known = dict(zip(names, weights, strict=True))
            names = self.card.functions
            weights = tuple(known.get(name, math.nan) for name in names)
        table = self.query_one(CardTable)
        if (names, weights) != (table.names, table.weights):
            table.names, table.weights = names, weights
            table.changed()
            self.show_reading()

    # -- selection -------------------------------------------------------------------------------

    @on(CursorList.Highlighted, "#group-table")
    def _chosen(self) -> None:
        """Show the selected line. At the top, include groups that arrived meanwhile."""
        self.show_chosen()
        self.look_again()

    @on(CursorList.Highlighted, "#card-table")
    def _chosen_completion(self) -> None:
        self.show_reading()

    def show_chosen(self) -> None:
        chosen = self.query_one(GroupTable).selected
        if chosen is None:
            table = self.query_one(GroupTable)
            if table.key is None or table.key in table.unread:
                self.show_card(None, 0, frozenset())
        elif isinstance(chosen, GroupCard):
            self._with_hits(chosen, None)
        elif self.card is not None and self.card.id == chosen.group:
            self._with_hits(self.card, chosen.index)
        else:
            self._ask_card(chosen.group, chosen.index)

    def _ask_card(self, group: int, index: int | None) -> None:
        totals = self.query_one(GroupTable).totals
        self._brings = group

        def take(cards: list[GroupCard]) -> None:
            if cards and self._brings == group:
                self._with_hits(cards[0], index)

        if self.pages is not None:
            self.pages.ask(
                "card",
                lambda s: [
                    group_card(g, totals, absent_fields(s.search.run)) for g in s.run.groups_by_id([group])
                ],
                take,
                self.cannot_read,
            )

    def _with_hits(self, card: GroupCard, index: int | None) -> None:
        """Show a group with the query's matches marked."""
        self._brings = None
        self.show_card(card, index, frozenset())
        if not self.line or self.pages is None:
            return
        found = self.found

        def look(stores: Stores) -> list[Rollout]:
            pairs = zip(found.ids, found.group_of, strict=True)  # up to a million
            return rollouts_of(stores.search.run, [one for one, group in pairs if group == card.id])

        def take(rows: list[Rollout]) -> None:
            if self.card is not None and self.card.id == card.id:
                hits = frozenset(row.index for row in rows)
                first = min(hits, default=0) if index is None else None
                self.show_card(card, first if self.query_one(CardTable).cursor == 0 else None, hits)

        self.pages.ask("hits", look, take, self.cannot_read)

    def go_to_group(self, group: int) -> None:
        table = self.query_one(GroupTable)
        if self._as_completions or not table.go_to(group):
            self._ask_card(group, None)

    # -- keys ------------------------------------------------------------------------------------

    def action_other_step(self, which: int) -> None:
        card = self.card
        if card is None or self.pages is None:
            return

        def take(steps: tuple[int | None, int | None]) -> None:
            group = steps[which]
            if group is None:
                self.app.notify(f"That is the {('first', 'last')[which]} step.")
            else:
                self.go_to_group(group)

        self.pages.ask("step", lambda stores: stores.run.groups_in_turn(card.id), take, self.cannot_read)

    def action_move_group(self, by: int) -> None:
        self.query_one(GroupTable).action_move(by)

    def action_other_visit(self, by: int) -> None:
        if self.card is None:
            return
        groups = [visit.group for visit in self.visits]
        at = groups.index(self.card.id) + by if self.card.id in groups else -1
        if 0 <= at < len(groups):
            self.go_to_group(groups[at])
        else:
            when = "before" if by < 0 else "after"
            self.app.notify(f"The prompt does not appear {when} this step.")

    def action_generations_what_if(self) -> None:
        from grpo_tui.ui.screens.what_if import WhatIfScreen

        groups = tuple(self._groups)
        if self._folder is None or not groups:
            self.app.notify("No group can be scored again.", severity="warning")
        else:
            self.app.push_screen(WhatIfScreen(self._folder.root, groups))

    def action_generations_tokens(self) -> None:
        from grpo_tui.ui.screens.tokens import TokensScreen

        card, row = self.card, self.row
        if self._folder is None or card is None or row is None:
            self.app.notify("No completion is chosen.", severity="warning")
        else:
            self.app.push_screen(
                TokensScreen(self._folder.root, card.id, card.step, row.index, len(card.rows))
            )

    def action_generations_newest(self) -> None:
        self._focus("list")
        self.query_one(GroupTable).action_first()

    def action_generations_score(self) -> None:
        from grpo_tui.ui.requests import rewards_of_run

        if self.card is None or self._folder is None:
            self.app.notify("No group is chosen.", severity="warning")
        else:
            self.shell.show_rewards(rewards_of_run(self._folder.root, self.card.id))

    def action_generations_course(self) -> None:
        from grpo_tui.present.course import course, probe_course
        from grpo_tui.ui.screens.generations_dialogs import CourseScreen

        searches, view = self.searches, self.shell.view
        if searches is None or view is None:
            return
        weights = tuple(function.weight for function in view.functions)
        screen = CourseScreen(tuple(self._functions()), self.card)
        self.app.push_screen(screen)
        if (card := self.card) is not None:
            searches.ask("visits", lambda stores: stores.run.visits(card.prompt_key), screen.take_visits)

        def look(stores: Stores) -> tuple[Sequence[Stretch], Sequence[ProbeStep]]:
            stretches = course(stores.run, weights, given_up=screen.left.is_set)
            return stretches, probe_course(stores.run, len(weights))

        searches.ask("course", look, screen.take_run, screen.take_trouble)

    def action_generations_prompts(self) -> None:
        from grpo_tui.ui.screens.generations_dialogs import open_prompts

        open_prompts(self)

    def action_generations_audit(self) -> None:
        from grpo_tui.ui.screens.generations_dialogs import open_audit

        open_audit(self)

    def action_generations_export(self) -> None:
        export(self)

    def action_generations_views(self) -> None:
        choose_view(self)

    # -- parts -----------------------------------------------------------------------------------

    @property
    def part(self) -> str:
        names = {"group-table": "list", "card-table": "card", "reader": "reader"}
        focused = self.focused
        return names.get(focused.id or "", "list") if focused is not None else "list"

    def action_generations_open(self) -> None:
        at = PARTS.index(self.part)
        self._focus(PARTS[min(at + 1, len(PARTS) - 1)])

    def action_generations_back(self) -> None:
        if isinstance(self.focused, Input):
            self.query_one(Input).value = self.line
            self._focus("list")
        elif self._large:
            self.action_generations_large()
        elif self.part != "list":
            self._focus(PARTS[PARTS.index(self.part) - 1])
        elif self.line:
            self.show_query("")
        elif self.query_one(GroupTable).count:
            self.query_one(GroupTable).action_first()

    def _focus(self, part: str) -> None:
        widgets: dict[str, type[LineScroll]] = {"list": GroupTable, "card": CardTable, "reader": Reader}
        self.query_one(widgets[part]).focus()

    def action_generations_large(self) -> None:
        self._large = not self._large
        self._show_only(self.part if self._large else "")

    def _show_only(self, part: str) -> None:
        self.set_state({f"-only-{name}": name == part for name in PARTS}, SIZED)

    def on_descendant_focus(self) -> None:
        if self._large:
            self._show_only(self.part)
        self._name_keys()

    def _name_keys(self) -> None:
        footer = self.query_one(Footer)
        footer.parts = (self.part,)
        footer.show(self.shell.view)

    # -- finding ---------------------------------------------------------------------------------

    def _functions(self) -> list[str]:
        view = self.shell.view
        return [function.name for function in view.functions] if view is not None else []

    def forget_found(self) -> None:
        self._cancel.set()
        self.found, self._groups, self.newest = Found(), (), 0
        self.query_one(GroupTable).forget()

    @property
    def follows(self) -> bool:
        """Whether new groups are added: true at the top of a list sorted newest first."""
        table = self.query_one(GroupTable)
        return table.cursor == 0 and table.scroll_offset.y == 0 and not self.order

    def look_again(self) -> None:
        """Repeat the search if a live run has new groups and the list follows."""
        if self.newest <= self.found.newest_group or not self.is_attached:
            return
        if not self.follows:
            self._show_state()
            return
        if self.query_one(QueryState).searching:
            return  # retried when it ends; restarting with each view would never let a long search end
        rest = self._asked_at + max(AGAIN_S, REST * self.found.seconds) - time.monotonic()
        if rest <= 0:
            self.find(again=True)
        elif not self._looks_again:
            self._looks_again = True
            self.set_timer(rest, self._rested)

    def _rested(self) -> None:
        self._looks_again = False
        self.look_again()

    def find(self, *, again: bool = False) -> None:
        """Run the query in a thread. A running search is canceled.

        A list that follows shows its first page before the search is complete, unless it is a repeated search
        (`again`).
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
                    self.call_later(take_part, _answer(found, stores))

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
                self.query_one(QueryState).searching, self._goes_to = False, None
                self.query_one(GroupTable).waits = [(), [Span(f"   ✗ {why}", "bad")]]
                self.cannot_read(why)

        pages.ask("find", look, take, failed)
        self.query_one(QueryState).searching = True
        self._show_state()

    def _take(self, answer: _Answer, *, whole: bool = True) -> None:
        found, groups, totals = answer
        state, table = self.query_one(QueryState), self.query_one(GroupTable)
        state.searching = not whole
        if isinstance(found, str):
            state.trouble, self._goes_to = found, None
            self._show_state()
            return
        followed = self.follows
        for note in found.notes:
            if note not in self.found.notes:
                self.app.notify(one_line(note, 300), severity="warning")
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
        if whole:
            self.look_again()

    def say_why_empty(self) -> None:
        """Explain an empty list from the newest view. A search may end before the first view arrives."""
        state, table = self.query_one(QueryState), self.query_one(GroupTable)
        if state.trouble or state.unread:
            return
        view = self.shell.view
        none = view.no_groups if view is not None else "Reading the run …"
        hint = one_line(self.found.hint, 200)
        told = f"No match{': ' if hint else ''}{hint}."
        table.waits = [(), [Span(f"   {told if self.found.of else none}", "dim")]]

    def _keys(self) -> Sequence[int]:
        return self.found.ids if self._as_completions else self._groups

    def _line_of(self, group: int) -> int | None:
        """Return the list's id for a group: its own, or that of its first completion found."""
        if not self._as_completions:
            return group
        return next(
            (one for one, of in zip(self.found.ids, self.found.group_of, strict=True) if of == group), None
        )

    def _show_state(self) -> None:
        state, table = self.query_one(QueryState), self.query_one(GroupTable)
        state.found, state.line = self.found, self.line
        state.newer = self.newest > self.found.newest_group > 0 and not self.follows
        state.changed()
        if table.order != order_words(self.order):
            table.order = order_words(self.order)
            table.changed()

    def on_group_table_wanted(self, event: GroupTable.Wanted) -> None:
        if self.pages is None:
            return
        keys, table = event.keys, self.query_one(GroupTable)
        totals = table.totals

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
            if len(keys) > 1:  # one unreadable entry must not hide the others
                for key in keys:
                    self.on_group_table_wanted(GroupTable.Wanted((key,), of_completions=event.of_completions))
                return
            table.fail(keys[0], why)
            self.cannot_read(why)
            if keys[0] == table.key:
                self.show_chosen()

        self.pages.ask(f"lines {keys[0]}", look, take, failed)

    def read_again(self) -> None:
        """Retry what could not be read: the file may be readable again."""
        if self._unanswered:
            self.find()
        self.query_one(GroupTable).ask_again()

    def cannot_read(self, why: str) -> None:
        """Show why part of the run cannot be read; an empty sentence clears it."""
        state = self.query_one(QueryState)
        state.unread = why
        state.changed()
        self.query_one(GroupTable).changed()

    def action_generations_query(self) -> None:
        self.query_one(Input).focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        state = self.query_one(QueryState)
        try:
            read_query(event.value, self._functions())
            state.trouble = ""
        except QueryError as error:
            state.trouble = error.sentence
        state.changed()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        try:
            read_query(event.value, self._functions())
        except QueryError as error:
            self.app.notify(one_line(error.sentence, 300), severity="warning")
            return
        self.line = event.value.strip()
        self.query_one(GroupTable).focus()
        self.find()

    def show_query(self, line: str, *, group: int | None = None, order: str | None = None) -> None:
        self.query_one(Input).value = line
        self.line, self._goes_to = line.strip(), group
        self.order = self.order if order is None else order
        self.find()

    def action_generations_kind(self) -> None:
        table = self.query_one(GroupTable)
        chosen = table.selected
        self._as_completions = not self._as_completions
        go_to = None
        if chosen is not None:
            go_to = self._line_of(chosen.id if isinstance(chosen, GroupCard) else chosen.group)
        self.query_one(GroupTable).show(self._keys(), of_completions=self._as_completions, go_to=go_to)
        self._show_state()

    def action_generations_sort(self) -> None:
        from grpo_tui.ui.screens.dialogs import AGAIN, Choice, MenuDialog

        fields = [*SORTS, *(f"-{_field(name)}" for name in self.query_one(CardTable).names)]
        choices = [Choice(order_words(f), AGAIN if f == self.order else "", f) for f in fields]
        at = next((n for n, field in enumerate(fields) if field in (self.order, _reversed(self.order))), 0)
        self.ask(MenuDialog("sort by", choices, at=at), self._sort)

    def _sort(self, field: str) -> None:
        self.order = _reversed(field) if field == self.order else field
        self.find()

    # -- reading the chosen completion -----------------------------------------------------------

    @property
    def row(self) -> CardRow | None:
        return self.query_one(CardTable).selected

    def show_card(self, card: GroupCard | None, index: int | None, hits: frozenset[int]) -> None:
        """Show a group. With `index` None the cursor stays, or goes to the first match in a new group."""
        table, heading = self.query_one(CardTable), self.query_one(GroupTitle)
        same = card is not None and self.card is not None and card.id == self.card.id
        if index is None:
            index = table.cursor if same else min(hits, default=0)
        self.card = heading.card = card
        self._take_names(self.shell.view)
        shared = self.query_one(GroupTable).shared
        heading.short = shared.left_out(card.prompt.strip()) if card is not None else ""
        heading.changed()
        table.show(card, index, hits)
        if not same:
            self.visits = ()
            if self.reading.view == "diff":
                self.reading = replace(self.reading, view="text", against=("", ""))
            self._ask_visits()
        self.show_reading()

    def show_reading(self) -> None:
        row, heading = self.row, self.query_one(ReaderHeading)
        heading.card, heading.row, heading.reading = self.card, row, self.reading
        heading.changed()
        table, reader = self.query_one(CardTable), self.query_one(Reader)
        reader.weights = table.weights
        reader.show(self.card, row, self.reading, table.names)

    def _ask_visits(self) -> None:
        card = self.card
        if card is None or self.pages is None:
            return

        def take(visits: list[Visit]) -> None:
            if self.card is not None and self.card.id == card.id:
                self.visits = tuple(visits)

        self.pages.ask("visits", lambda stores: stores.run.visits(card.prompt_key), take)

    def action_move_completion(self, by: int) -> None:
        self.query_one(CardTable).action_move(by)

    def action_generations_fold(self) -> None:
        row = self.row
        names = foldable(row.text) if row is not None else []
        if not names:
            self.app.notify("Nothing to fold: no tags and no code.")
            return
        now = self.reading.folded
        wanted = [frozenset[str](), frozenset(names[:1]), frozenset(names)]
        steps = [folded for n, folded in enumerate(wanted) if folded not in wanted[:n]]
        at = steps.index(now) if now in steps else 0
        self.reading = replace(self.reading, view="text", folded=steps[(at + 1) % len(steps)])
        self.show_reading()

    def action_turn(self, view: str) -> None:
        now = "text" if self.reading.view == view else view
        self.reading = replace(self.reading, view=now)  # type: ignore[arg-type]
        self.show_reading()

    def action_generations_mark(self) -> None:
        card, row = self.card, self.row
        if card is None or row is None:
            return
        self._marked = (f"completion {row.index + 1} of step {card.step:,}", row.text)
        self.app.notify(f"Press d to compare with {self._marked[0]}.")

    def action_generations_diff(self) -> None:
        """Compare with the next candidate. After the last one, show the text alone."""
        card, row = self.card, self.row
        if card is None or row is None:
            return
        others: list[tuple[str, str]] = []
        if self._marked is not None:
            others.append(self._marked)
        for word, place in (("best", card.best), ("worst", card.worst)):
            if place is not None and card.kind == "mixed" and place != row.index:
                others.append((f"the {word}, {place + 1}", card.rows[place].text))
        earlier = [v for v in self.visits if (v.attempt, v.step) < (card.attempt, card.step)]
        if earlier and earlier[-1].best is not None:
            others.append((f"the best of step {earlier[-1].step:,}", earlier[-1].best))
        if not others:
            others = [(f"completion {r.index + 1}", r.text) for r in card.rows if r.index != row.index][:1]
        names = [name for name, _ in others]
        now = self.reading.against[0] if self.reading.view == "diff" else ""
        at = names.index(now) + 1 if now in names else 0
        if at < len(others):
            self.reading = replace(self.reading, view="diff", against=others[at])
        else:
            self.reading = replace(self.reading, view="text", against=("", ""))
        self.show_reading()

    def action_generations_copy(self) -> None:
        card, row = self.card, self.row
        if card is None or row is None:
            self.app.notify("No completion is chosen.", severity="warning")
            return
        if self.reading.view == "prompt":
            self.shell.copy("the prompt", "\n".join(text for _, text in card.messages))
            return
        what = f"completion {row.index + 1} of step {card.step:,}, “{one_line(card.prompt.strip(), 40)}”"
        self.shell.copy(what, row.text)


_Answer = tuple[Found | str, Sequence[int], tuple[float, float] | None]
"""Result or error of a search, ids of its groups, and the run's lowest and highest total."""


def _answer(found: Found | str, stores: Stores) -> _Answer:
    """Collect the groups in the searching thread: this takes milliseconds for 100,000 completions."""
    groups = () if isinstance(found, str) else tuple(dict.fromkeys(found.group_of))
    return found, groups, total_range(stores.search.run)


def _reversed(order: str) -> str:
    """Return the reverse order. Empty is newest first."""
    if order in ("", "step"):
        return "" if order else "step"
    return order[1:] if order.startswith("-") else f"-{order}"


def _field(name: str) -> str:
    plain = name.replace("_", "").isalnum()
    return f"rewards.{name}" if plain else f'rewards."{name}"'
