"""Pane 5: why did this completion get that reward? Find groups and completions, read them, compare them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.containers import Container, Horizontal, Vertical
from textual.screen import Screen
from textual.widgets import Input

from grpo_tui.present.group_card import GroupCard, group_card
from grpo_tui.store.rollouts import absent_fields, rollouts_of
from grpo_tui.ui.actions import bindings
from grpo_tui.ui.pages import Pages
from grpo_tui.ui.paint import Line, LineScroll, Span
from grpo_tui.ui.screens.generation_files import Files
from grpo_tui.ui.screens.generation_reading import CompletionReading
from grpo_tui.ui.switching import KeepsStyles
from grpo_tui.ui.widgets.card_table import CardHeading, CardTable
from grpo_tui.ui.widgets.footer import Footer
from grpo_tui.ui.widgets.group_table import GroupHeading, GroupTable
from grpo_tui.ui.widgets.header import Header
from grpo_tui.ui.widgets.query_state import QueryState
from grpo_tui.ui.widgets.reader import Reader, ReaderHeading

if TYPE_CHECKING:
    from grpo_tui.present.course import ProbeStep, Stretch
    from grpo_tui.present.train_view import TrainView
    from grpo_tui.store.layout import RunFolder
    from grpo_tui.store.rollouts import Rollout
    from grpo_tui.ui.pages import Stores

NO_RUN: list[Line] = [
    (),
    [Span("   No run is open.", "dim")],
    (),
    [Span("   1 ", "key", "app.pane_runs"), Span("shows the runs, ", "dim"), Span("enter", "key"),
     Span(" there opens one", "dim")],
    [Span("   grpo-tui attach RUN", "key"), Span("   opens one at once", "dim")],
    [Span("   grpo-tui completions RUN", "key"), Span("   prints them", "dim")],
]  # fmt: skip
PLACEHOLDER = '/ finds   reward<0.2 and tokens>400   truncated   zero_std   text ~ "wait"   step 40..60'
PARTS = ("list", "card", "reader")
SIZED = "#found-part, #card-part, #card-heading, #card-table, #reader-heading, #reader"
"""What one part over the whole pane hides or stretches."""


class GenerationsScreen(KeepsStyles, Screen[None], CompletionReading, Files):
    """The generations of the open run."""

    BINDINGS = bindings("generations")
    PANE = "generations"

    def __init__(self) -> None:
        super().__init__()
        self._folder: RunFolder | None = None
        self._large = False
        self._brings: int | None = None
        """The group that is fetched to be shown; None once something else is shown."""

    def compose(self) -> ComposeResult:
        """Header, query, the list beside the card and the text, footer."""
        yield Header("generations")
        with Horizontal(id="query-bar"):
            yield Input(placeholder=PLACEHOLDER, id="generation-query", select_on_focus=False)
            yield QueryState(id="query-state")
        with Container(id="generation-parts"):
            with Vertical(id="found-part"):
                yield GroupHeading(id="group-heading")
                yield GroupTable(id="group-table")
            with Vertical(id="card-part"):
                yield CardHeading(id="card-heading")
                yield CardTable(id="card-table")
                yield ReaderHeading(id="reader-heading")
                yield Reader(id="reader")
        yield Footer("generations")

    def on_mount(self) -> None:
        """Follow the open run."""
        self.query_one(GroupTable).waits = NO_RUN
        self.query_one(GroupTable).focus()
        self.shell.view_signal.subscribe(self, self._on_view)
        self._on_view(self.shell.view)

    def on_unmount(self) -> None:
        """End the threads."""
        self._close()

    def on_screen_resume(self) -> None:
        """Show what came meanwhile, or what another pane asks to see."""
        self._on_view(self.shell.view)
        wish = self.shell.take_generations_wish()
        if wish is not None:
            self.show_query(wish[0], group=wish[1])

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
        """Read another run."""
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
        for name, pages in (("generations", self.pages), ("search", self.searches)):
            self.app.run_worker(pages.run, thread=True, group=name, exit_on_error=False)
        self.find()

    def _take_names(self, view: TrainView | None) -> None:
        functions = view.functions if view is not None else ()
        names, weights = tuple(f.name for f in functions), tuple(f.weight for f in functions)
        table, heading = self.query_one(CardTable), self.query_one(CardHeading)
        if (names, weights) != (table.names, table.weights):
            table.names = heading.names = names
            table.weights = heading.weights = weights
            heading.changed()
            table.changed()
            self.show_reading()

    # -- what is chosen --------------------------------------------------------------------------

    def on_group_table_chosen(self, event: GroupTable.Chosen) -> None:
        """Another line of the list; back at the top, what came meanwhile comes in."""
        self.show_chosen()
        self.look_again()

    def on_card_table_chosen(self, event: CardTable.Chosen) -> None:
        """Another completion of the group."""
        self.show_reading()

    def show_chosen(self) -> None:
        """Show what is under the cursor of the list."""
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
        """Fetch a group and show it."""
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
        """Show a group with what the query has found in it."""
        self._brings = None
        self.show_card(card, index, frozenset())
        if not self.line or self.pages is None:
            return
        found = self.found

        def look(stores: Stores) -> list[Rollout]:
            pairs = zip(found.ids, found.group_of, strict=True)  # they may be a million
            return rollouts_of(stores.search.run, [one for one, group in pairs if group == card.id])

        def take(rows: list[Rollout]) -> None:
            if self.card is not None and self.card.id == card.id:
                hits = frozenset(row.index for row in rows)
                first = min(hits, default=0) if index is None else None
                self.show_card(card, first if self.query_one(CardTable).cursor == 0 else None, hits)

        self.pages.ask("hits", look, take, self.cannot_read)

    def go_to_group(self, group: int) -> None:
        """Show a group, in the list when it is there, else alone."""
        table = self.query_one(GroupTable)
        if self._as_completions or not table.go_to(group):
            self._ask_card(group, None)

    # -- keys ------------------------------------------------------------------------------------

    def action_generations_earlier(self) -> None:
        """The step before."""
        self._other_step(0)

    def action_generations_later(self) -> None:
        """The step after."""
        self._other_step(1)

    def _other_step(self, which: int) -> None:
        card = self.card
        if card is None or self.pages is None:
            return

        def take(steps: tuple[int | None, int | None]) -> None:
            group = steps[which]
            if group is None:
                self.app.notify(f"That is the {('first', 'last')[which]} step.", markup=False)
            else:
                self.go_to_group(group)

        self.pages.ask("step", lambda stores: stores.run.groups_in_turn(card.id), take, self.cannot_read)

    def action_generations_group_before(self) -> None:
        """A line up in the list."""
        self.query_one(GroupTable).action_move(-1)

    def action_generations_group_after(self) -> None:
        """A line down in the list."""
        self.query_one(GroupTable).action_move(1)

    def action_generations_visit_before(self) -> None:
        """The same prompt, the time before."""
        self._other_visit(-1)

    def action_generations_visit_after(self) -> None:
        """The same prompt, the next time."""
        self._other_visit(1)

    def _other_visit(self, by: int) -> None:
        if self.card is None:
            return
        groups = [visit.group for visit in self.visits]
        at = groups.index(self.card.id) + by if self.card.id in groups else -1
        if 0 <= at < len(groups):
            self.go_to_group(groups[at])
        else:
            when = "before" if by < 0 else "after"
            self.app.notify(f"The prompt was not answered {when} this.", markup=False)

    def action_generations_what_if(self) -> None:
        """The groups of the list scored again."""
        from grpo_tui.ui.screens.what_if import WhatIfScreen

        groups = tuple(self._groups)
        if self._folder is None or not groups:
            self.app.notify("No group is found that could be scored again.", severity="warning", markup=False)
        else:
            self.app.push_screen(WhatIfScreen(self._folder.root, groups))

    def action_generations_tokens(self) -> None:
        """The tokens of the completion."""
        from grpo_tui.ui.screens.tokens import TokensScreen

        card, row = self.card, self.row
        if self._folder is None or card is None or row is None:
            self.app.notify("No completion is chosen.", severity="warning", markup=False)
        else:
            self.app.push_screen(
                TokensScreen(self._folder.root, card.id, card.step, row.index, len(card.rows))
            )

    def action_generations_newest(self) -> None:
        """The top of the list, where new ones come in."""
        self._focus("list")
        self.query_one(GroupTable).action_first()

    def action_generations_score(self) -> None:
        """The group in Rewards."""
        from grpo_tui.ui.rewards_wish import rewards_of_run

        if self.card is None or self._folder is None:
            self.app.notify("No group is chosen.", severity="warning", markup=False)
        else:
            self.shell.show_rewards(rewards_of_run(self._folder.root, self.card.id))

    def action_generations_course(self) -> None:
        """The run and the prompt over the steps."""
        from grpo_tui.present.course import course, probe_course
        from grpo_tui.ui.screens.course import CourseScreen

        table, searches = self.query_one(CardTable), self.searches
        if searches is None:
            return
        weights = table.weights
        screen = CourseScreen(table.names, self.card)
        self.app.push_screen(screen)
        if (card := self.card) is not None:
            searches.ask("visits", lambda stores: stores.run.visits(card.prompt_key), screen.take_visits)

        def look(stores: Stores) -> tuple[Sequence[Stretch], Sequence[ProbeStep]]:
            stretches = course(stores.run, weights, given_up=screen.left.is_set)
            return stretches, probe_course(stores.run, len(weights))

        searches.ask("course", look, screen.take_run, screen.take_trouble)

    # -- parts -----------------------------------------------------------------------------------

    @property
    def part(self) -> str:
        """The part with the focus."""
        names = {"group-table": "list", "card-table": "card", "reader": "reader"}
        focused = self.focused
        return names.get(focused.id or "", "list") if focused is not None else "list"

    def action_generations_open(self) -> None:
        """From the list to the completions, from there to the text."""
        at = PARTS.index(self.part)
        self._focus(PARTS[min(at + 1, len(PARTS) - 1)])

    def action_generations_back(self) -> None:
        """The way back; at its start the query ends."""
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
        """The part with the focus over the whole pane, or as before."""
        self._large = not self._large
        self._show_only(self.part if self._large else "")

    def _show_only(self, part: str) -> None:
        self.set_state({f"-only-{name}": name == part for name in PARTS}, SIZED)

    def on_descendant_focus(self) -> None:
        """Other keys matter."""
        if self._large:
            self._show_only(self.part)
        self._name_keys()

    def _name_keys(self) -> None:
        footer = self.query_one(Footer)
        footer.parts = (self.part,)
        footer.show(self.shell.view)
