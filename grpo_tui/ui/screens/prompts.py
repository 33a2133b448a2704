"""The prompts of the open run by class, on top of Generations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType

from grpo_tui.core.prompt_memory import CLASSES, PromptMemory
from grpo_tui.core.text import one_line, prompt_text
from grpo_tui.present.formatting import percent
from grpo_tui.present.prompt_memory import right_line
from grpo_tui.store.prompt_memory import PromptMemories, groups_of_prompt, prompt_memories, with_prompts
from grpo_tui.ui.kit.table import Column, CursorList, Table
from grpo_tui.ui.paint import Span
from grpo_tui.ui.screens.dialogs import Dialog, Told

if TYPE_CHECKING:
    from grpo_tui.ui.pages import Stores
    from grpo_tui.ui.screens.generations import GenerationsScreen

MOST_PROMPTS = 2_000
MOST_GROUPS = 100
"""Newest groups of a prompt that its query lists."""
EXCERPT = 300

PromptRow = tuple[PromptMemory, str]


def read_prompts(stores: Stores) -> tuple[PromptMemories, list[PromptRow]]:
    """Read the prompts, by class and then by first appearance, with the start of each text."""
    found = prompt_memories(stores.run)
    order = list(CLASSES)
    first = sorted(found.prompts, key=lambda one: order.index(one.kind))[:MOST_PROMPTS]
    texts = with_prompts(stores.run, first)
    return found, [(one, one_line(prompt_text(prompt).strip(), EXCERPT)) for one, prompt in texts]


class PromptTable(Table[PromptRow], inherit_bindings=False):
    """One prompt per line: class, visits, first and last rate, text."""

    BINDINGS = CursorList.BINDINGS

    def columns(self, width: int) -> Sequence[Column[PromptRow]]:
        return (
            Column("class", 11, lambda row: Span(row[0].kind, "strong"), gap=1),
            Column("seen", 7, lambda row: Span(f"{row[0].visits:,}"), right=True),
            Column("first", 7, lambda row: Span(percent(row[0].first)), right=True),
            Column("last", 7, lambda row: Span(percent(row[0].last)), right=True),
            Column("  prompt", max(10, width - 34), lambda row: Span(f"  {row[1]}")),
        )


class PromptsScreen(Dialog[PromptMemory]):
    """The prompts by class. Returns the chosen one."""

    BINDINGS: ClassVar[list[BindingType]] = [("p", "close", "close")]
    FIRST = PromptTable
    SHAPE = "dialog -large"

    def __init__(self, read: Callable[[PromptsScreen], None]) -> None:
        super().__init__("prompts over the run", "enter its completions   esc back")
        self._read = read

    def parts(self) -> ComposeResult:
        table = PromptTable(id="prompt-table")
        yield Told("Reading the prompts …", id="prompt-counts")
        yield table.over("prompt-heading")
        yield table

    def on_mount(self) -> None:
        self._read(self)  # no earlier: an answer that comes before the widgets would be lost

    def take(self, answer: tuple[PromptMemories, list[PromptRow]]) -> None:
        found, rows = answer
        told = ", ".join(f"{count:,} {kind}" for kind, count in found.counts().items())
        more = f"  (the first {len(rows):,} are listed)" if len(rows) < len(found.prompts) else ""
        self.tell(*([told + more] if found.prompts else []), right_line(found))
        table = self.query_one(PromptTable)
        table.rows = rows
        table.changed()

    def tell(self, *texts: str) -> None:
        self.query_one(Told).tell(*texts)

    def on_cursor_list_selected(self, event: CursorList.Selected) -> None:
        self.dismiss(self.query_one(PromptTable).rows[event.place][0])


def open_prompts(over: GenerationsScreen) -> None:
    """Show the prompts of the open run, and the completions of the chosen one."""
    searches = over.searches
    if searches is None:
        return

    def chosen(one: PromptMemory) -> None:
        searches.ask(
            "prompt-groups",
            lambda stores: groups_of_prompt(stores.run, one.key, MOST_GROUPS),
            lambda groups: over.show_query(" or ".join(f"group=={group}" for group in groups)),
        )

    def read(screen: PromptsScreen) -> None:
        searches.ask("prompts", read_prompts, partial(_take, screen), partial(_tell, screen))

    over.ask(PromptsScreen(read), chosen)


def _take(screen: PromptsScreen, answer: tuple[PromptMemories, list[PromptRow]]) -> None:
    if screen.is_attached:
        screen.take(answer)


def _tell(screen: PromptsScreen, why: str) -> None:
    if screen.is_attached:
        screen.tell(why)
