"""How the chosen completion is read in Generations: folded, compared, raw, with its prompt; copied.

Mixed into the screen.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from grpo_tui.core.text import one_line
from grpo_tui.present.reading import foldable
from grpo_tui.ui.pages import Pages
from grpo_tui.ui.shell import Shell
from grpo_tui.ui.widgets.card_table import CardHeading, CardTable
from grpo_tui.ui.widgets.group_table import GroupTable
from grpo_tui.ui.widgets.reader import Reader, ReaderHeading, Reading

if TYPE_CHECKING:
    from textual.screen import Screen

    from grpo_tui.present.group_card import CardRow, GroupCard
    from grpo_tui.store.reader import Visit


class CompletionReading(Shell):
    """What a screen with a card, a table and a reader can do."""

    reading = Reading()
    card: GroupCard | None = None
    visits: tuple[Visit, ...] = ()
    """The times that the prompt of the card was answered, oldest first."""
    _marked: tuple[str, str] | None = None
    pages: Pages | None = None

    @property
    def _screen(self) -> Screen[Any]:
        return cast("Screen[Any]", self)

    @property
    def row(self) -> CardRow | None:
        """The completion that is read."""
        return self._screen.query_one(CardTable).selected

    def show_card(self, card: GroupCard | None, index: int | None, hits: frozenset[int]) -> None:
        """Show a group with the cursor on one completion, by default where it was, or on the first hit."""
        table, heading = self._screen.query_one(CardTable), self._screen.query_one(CardHeading)
        same = card is not None and self.card is not None and card.id == self.card.id
        if index is None:
            index = table.cursor if same else min(hits, default=0)
        self.card = heading.card = card
        shared = self._screen.query_one(GroupTable).shared
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
        """Show the completion under the cursor as it is wished to be read."""
        row, heading = self.row, self._screen.query_one(ReaderHeading)
        heading.card, heading.row, heading.reading = self.card, row, self.reading
        heading.changed()
        table, reader = self._screen.query_one(CardTable), self._screen.query_one(Reader)
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

    # -- keys ------------------------------------------------------------------------------------

    def action_generations_left(self) -> None:
        """The completion before."""
        self._screen.query_one(CardTable).action_move(-1)

    def action_generations_right(self) -> None:
        """The next completion."""
        self._screen.query_one(CardTable).action_move(1)

    def action_generations_fold(self) -> None:
        """Nothing folded, the first block folded, all folded, in turn."""
        row = self.row
        names = foldable(row.text) if row is not None else []
        if not names:
            self._screen.app.notify("Nothing to fold: no tags and no code.", markup=False)
            return
        now = self.reading.folded
        wanted = [frozenset[str](), frozenset(names[:1]), frozenset(names)]
        steps = [folded for n, folded in enumerate(wanted) if folded not in wanted[:n]]
        at = steps.index(now) if now in steps else 0
        self.reading = replace(self.reading, view="text", folded=steps[(at + 1) % len(steps)])
        self.show_reading()

    def action_generations_raw(self) -> None:
        """White space shown, or not."""
        self._turn("raw")

    def action_generations_prompt(self) -> None:
        """The prompt, or the completion again."""
        self._turn("prompt")

    def _turn(self, view: str) -> None:
        now = "text" if self.reading.view == view else view
        self.reading = replace(self.reading, view=now)  # type: ignore[arg-type]
        self.show_reading()

    def action_generations_mark(self) -> None:
        """Compare with this one from now on."""
        card, row = self.card, self.row
        if card is None or row is None:
            return
        self._marked = (f"completion {row.index + 1} of step {card.step:,}", row.text)
        self._screen.app.notify(f"d compares with {self._marked[0]} first.", markup=False)

    def action_generations_diff(self) -> None:
        """The next thing to compare with; after the last one the text alone."""
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
        """Copy the completion, or the prompt that is shown."""
        card, row = self.card, self.row
        if card is None or row is None:
            self._screen.app.notify("No completion is chosen.", severity="warning", markup=False)
            return
        if self.reading.view == "prompt":
            self.shell.copy("the prompt", "\n".join(text for _, text in card.messages))
            return
        what = f"completion {row.index + 1} of step {card.step:,}, “{one_line(card.prompt.strip(), 40)}”"
        self.shell.copy(what, row.text)
