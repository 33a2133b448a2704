"""The lower part of Train: groups, log, events, answers before and after; which one shows, and how large."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from grpo_tui.ui.pages import Pages
from grpo_tui.ui.paint import LineScroll
from grpo_tui.ui.rows import CursorList
from grpo_tui.ui.shell import Shell
from grpo_tui.ui.widgets.before_after_list import BeforeAfterList
from grpo_tui.ui.widgets.chart import Chart
from grpo_tui.ui.widgets.event_list import EventSection
from grpo_tui.ui.widgets.footer import Footer
from grpo_tui.ui.widgets.groups import GroupList
from grpo_tui.ui.widgets.log_section import LogSection

if TYPE_CHECKING:
    from textual.screen import Screen

    from grpo_tui.present.train_view import TrainView
    from grpo_tui.store.layout import RunFolder
    from grpo_tui.ui.switching import KeepsStyles

PARTS = ("groups", "log", "event-list", "before-after")
SIZED = "#charts, #health-line, #functions, #events, #now"
"""What gives way to the answers before and after, and to a part over the whole pane."""


class LowerParts(Shell):
    """What a screen with these parts can do; mixed into it."""

    _part_wanted = ""
    _large = False
    _pages: Pages | None = None
    _pages_of: RunFolder | None = None

    @property
    def _screen(self) -> Screen[Any]:
        return cast("Screen[Any]", self)

    def charts_shown(self) -> TrainView | None:
        """The view that is on the screen; a screen that can hold one gives that."""
        return self.shell.view

    @property
    def part(self) -> str:
        """The part that shows, `groups`, `log`, `event-list` or `before-after`."""
        return next(name for name in PARTS if self._screen.query_one(f"#{name}").display)

    def show_parts(self, view: TrainView) -> None:
        """Show this view in the part that is on the screen."""
        self._open_pages()
        screen = self._screen
        screen.query_one(GroupList).show(view, view.no_groups)
        screen.query_one(BeforeAfterList).show(view.before_after)
        screen.query_one(LogSection).look(view.now)
        screen.query_one(EventSection).look(view)

    def choose_part(self, view: TrainView | None) -> None:
        """Show what was asked for, else before and after once a run has them, else the groups."""
        screen = self._screen
        ready = view is not None and view.before_after is not None
        wanted = self._part_wanted or ("before-after" if ready else "groups")
        if wanted == "before-after" and not ready:
            wanted = "groups"
        cast("KeepsStyles", screen).set_state(
            {"-after": wanted == "before-after", "-large": self._large}, SIZED
        )
        focused = isinstance(screen.focused, LineScroll) or screen.focused is None
        turned = not screen.query_one(f"#{wanted}").display
        for name in PARTS:
            screen.query_one(f"#{name}").display = name == wanted
        if focused and turned:
            self._focus_part(wanted)
        screen.query_one(Footer).parts = (wanted, "large") if self._large else (wanted,)

    def _focus_part(self, name: str) -> None:
        part = self._screen.query_one(f"#{name}")
        (part if isinstance(part, LineScroll) else part.query_one(CursorList)).focus()

    def _turn_to(self, part: str, *, large: bool | None = None) -> None:
        self._part_wanted = part
        self._large = self._large if large is None else large
        view = self.charts_shown()
        self.choose_part(view)
        self._focus_part(self.part)
        if view is not None:
            self.show_parts(view)
            self._screen.query_one(Footer).show(view)

    def _open_pages(self) -> None:
        """Read pages of the run that is open now."""
        folder = self.shell.run_folder
        if folder == self._pages_of:
            return
        self.close_pages()
        self._pages_of = folder
        if folder is not None:
            self._pages = Pages(folder.database, self._screen.call_later)
            self._screen.run_worker(self._pages.run, thread=True, group="pages", exit_on_error=False)
        screen = self._screen
        for part in (
            screen.query_one(LogSection),
            screen.query_one(EventSection),
            screen.query_one(GroupList),
        ):
            part.follow(self._pages)

    def close_pages(self) -> None:
        """Read no more."""
        if self._pages is not None:
            self._pages.stop()
        self._pages = self._pages_of = None

    # -- keys ------------------------------------------------------------------------------------

    def action_view_log(self) -> None:
        """Log, groups, and the answers before and after where there are some, in turn."""
        view = self.charts_shown()
        order = ["groups", "log"]
        if view is not None and view.before_after is not None:
            order = ["before-after", "log", "groups"]
        now = self.part if self.part in order else order[0]
        self._turn_to(order[(order.index(now) + 1) % len(order)])

    def action_view_groups(self) -> None:
        """The newest groups over the whole pane, and back."""
        large = not (self._large and self.part == "groups")
        self._turn_to("groups" if large else "", large=large)

    def action_view_events(self) -> None:
        """All events over the whole pane, and back."""
        shown = self.part == "event-list"
        self._turn_to("" if shown else "event-list", large=not shown)

    def action_view_large(self) -> None:
        """The lower part over the whole pane, and back."""
        self._turn_to(self._part_wanted, large=not self._large)

    def action_view_back(self) -> None:
        """End a search, else make the part small again, else go back to the groups."""
        if self.part == "log" and self._screen.query_one(LogSection).end_search():
            return
        if self._large or self._part_wanted:
            self._turn_to(
                "" if self.part == "event-list" or not self._large else self._part_wanted, large=False
            )

    def action_part_end(self) -> None:
        """Back to the newest, and follow it."""
        part = self._screen.query_one(f"#{self.part}")
        if isinstance(part, LogSection):
            part.log_list.action_last()
        elif isinstance(part, EventSection):
            part.event_list.action_first()
        elif isinstance(part, GroupList):
            part.action_first()

    def action_log_search(self) -> None:
        """Search the log."""
        self._turn_to("log")
        self._screen.query_one(LogSection).search()

    def action_log_next(self) -> None:
        """The next hit."""
        self._turn_to("log")
        self._screen.query_one(LogSection).next_hit(forward=True)

    def action_log_previous(self) -> None:
        """The hit before."""
        self._turn_to("log")
        self._screen.query_one(LogSection).next_hit(forward=False)

    def action_log_level(self) -> None:
        """Other levels."""
        self._turn_to("log")
        self._screen.query_one(LogSection).turn_level()

    def action_groups_score(self) -> None:
        """The completions of the chosen group in Rewards."""
        from grpo_tui.ui.rewards_wish import rewards_of_run

        chosen, folder = self._screen.query_one(GroupList).selected, self.shell.run_folder
        if chosen is None or folder is None:
            self._screen.app.notify("No completion is recorded yet.", severity="warning", markup=False)
        else:
            self.shell.show_rewards(rewards_of_run(folder.root, chosen[0].id))

    def action_groups_inspect(self) -> None:
        """The chosen group in Generations."""
        chosen = self._screen.query_one(GroupList).selected
        self.shell.show_generations(group=None if chosen is None else chosen[0].id)

    def action_part_copy(self) -> None:
        """Copy what is under the focus."""
        focused = self._screen.focused
        if isinstance(focused, Chart) and focused.newest:
            self.shell.copy(f"newest value of {focused.key}", focused.newest)
            return
        part = self._screen.query_one(f"#{self.part}")
        if isinstance(part, LogSection | EventSection | GroupList):
            part.copy()
