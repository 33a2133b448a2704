"""On top of Generations: the prompts of the run by class, completions to audit, and trends over the steps."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic

from textual.app import ComposeResult
from textual.binding import BindingType

from grpo_tui.core.prompt_memory import CLASSES, PromptMemory
from grpo_tui.core.text import one_line, prompt_text
from grpo_tui.present.course import ProbeStep, Stretch, course_lines, probe_lines, visit_lines
from grpo_tui.present.formatting import compact, percent, plural
from grpo_tui.present.glyphs import spark
from grpo_tui.present.prompt_memory import right_line
from grpo_tui.store.prompt_memory import PromptMemories, groups_of_prompt, prompt_memories, with_prompts
from grpo_tui.ui.actions import bindings
from grpo_tui.ui.kit.reading import FullReadingScreen
from grpo_tui.ui.kit.table import Column, CursorList, Listing, Row
from grpo_tui.ui.paint import Line, Span, ruled, spans
from grpo_tui.ui.screens.dialogs import Answer, Dialog, Told

if TYPE_CHECKING:
    from grpo_tui.present.group_card import GroupCard
    from grpo_tui.store.reader import Visit
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


class PromptTable(Listing[PromptRow]):
    """One prompt per line: class, visits, first and last rate, text."""

    def columns(self, width: int) -> Sequence[Column[PromptRow]]:
        return (
            Column("class", 11, lambda row: Span(row[0].kind, "strong"), gap=1),
            Column("seen", 7, lambda row: Span(f"{row[0].visits:,}"), right=True),
            Column("first", 7, lambda row: Span(percent(row[0].first)), right=True),
            Column("last", 7, lambda row: Span(percent(row[0].last)), right=True),
            Column("  prompt", max(10, width - 34), lambda row: Span(f"  {row[1]}")),
        )


class ListingScreen(Dialog[Answer], Generic[Row, Answer]):
    """Rows to choose from, below sentences about them. Both are read after the screen is shown."""

    FIRST: ClassVar[type[Listing[Any]]]
    SHAPE = "dialog -large"
    WAITS: ClassVar[str]

    def parts(self) -> ComposeResult:
        table = self.FIRST()
        yield Told(self.WAITS)
        yield table.over("listing-heading")
        yield table

    def show(self, told: Sequence[str], rows: Sequence[Row]) -> None:
        """Show what was read, unless the screen has been closed."""
        if self.is_attached:
            self.query_one(Told).tell(*told)
            table = self.query_one(self.FIRST)
            table.rows = rows
            table.changed()


class PromptsScreen(ListingScreen[PromptRow, PromptMemory]):
    """The prompts by class. Returns the chosen one."""

    BINDINGS: ClassVar[list[BindingType]] = [("p", "close", "close")]
    FIRST = PromptTable
    WAITS = "Reading the prompts …"

    def __init__(self, read: Callable[[PromptsScreen], None]) -> None:
        super().__init__("prompts over the run", "enter its completions   esc back")
        self._read = read

    def on_mount(self) -> None:
        self._read(self)  # no earlier: an answer that comes before the widgets would be lost

    def take(self, answer: tuple[PromptMemories, list[PromptRow]]) -> None:
        found, rows = answer
        told = ", ".join(f"{count:,} {kind}" for kind, count in found.counts().items())
        more = f"  (the first {len(rows):,} are listed)" if len(rows) < len(found.prompts) else ""
        self.show([*([told + more] if found.prompts else []), right_line(found)], rows)

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
        searches.ask("prompts", read_prompts, screen.take, lambda why: screen.show([why], ()))

    over.ask(PromptsScreen(read), chosen)


@dataclass(frozen=True, slots=True)
class AuditRow:
    """A kind of attack with its count over the run, or one refused completion with its step."""

    what: str
    when: str
    reward: float | None
    text: str
    query: str


def audit_rows(found: dict[str, Any]) -> tuple[list[str], list[AuditRow]]:
    """Return what is said above the list, and its rows, from the output of `doctor RUN --audit --json`."""
    rows = [
        AuditRow(
            one["kind"],
            f"{one['count']:>5,} {spark(list(map(float, one['stretches'])), 12, low=0.0)}",
            one["reward"],
            one["example"]["text"],
            one["where"],
        )
        for one in found["attacks"]
    ]
    for one in found["refused"]:
        place = one["place"]
        query = f"group=={place['group']} and index=={place['index']}"
        refused = f"✗ {', '.join(one['by'])}"
        rows.append(AuditRow(refused, f"step {place['step']:,}", place["reward"], place["text"], query))
    of = f" of {found['groups']:,} of {found['of_groups']:,} groups"
    part = of if found["groups"] < found["of_groups"] else ""
    none = "" if found["attacks"] else " None looks like one of them."
    read = plural(found["completions"], "completion")
    told = [f"{read}{part} compared with the attacks of `grpo-tui probe`.{none}"]
    if found["opinions"]:
        told.append(
            f"Top rewards of the newest groups, checked by {', '.join(found['opinions'])}: "
            f"{found['refused_in_all']:,} of {found['top']:,} refused."
        )
    else:
        told.append("No second opinion: all rewards are equal, or there is nothing to compare with.")
    return told, rows


class AuditTable(Listing[AuditRow]):
    """What it is, how often over the run or at which step, the reward, and a text."""

    def columns(self, width: int) -> Sequence[Column[AuditRow]]:
        return (
            Column("attack, or ✗ refused by", 28, lambda row: Span(one_line(row.what, 27), "strong"), gap=1),
            Column("over the run", 19, lambda row: Span(row.when), gap=1),
            Column("reward", 7, lambda row: Span(compact(row.reward)), right=True),
            Column("  text", max(10, width - 58), lambda row: Span(f"  {one_line(row.text)}")),
        )


class AuditScreen(ListingScreen[AuditRow, str]):
    """Completions to read. Returns the query that finds the chosen ones."""

    BINDINGS: ClassVar[list[BindingType]] = [("a", "close", "close")]
    FIRST = AuditTable
    WAITS = "Reading the completions …"

    def __init__(self, words: Sequence[str]) -> None:
        super().__init__("completions to audit", "enter read   esc back")
        self._words = words

    def on_mount(self) -> None:
        from grpo_tui.ui.starting import Child

        self._child = Child(self._words, ())
        self.in_thread("audit", self._read, lambda found: self.show(*found))

    def on_unmount(self) -> None:
        self._child.cancel()

    def _read(self) -> tuple[list[str], list[AuditRow]]:
        """Read in a child process, so that thousands of texts never hold up the screen. Runs in a thread."""
        ended = self._child.run()
        return audit_rows(json.loads(ended.printed)) if ended.code == 0 else ([ended.trouble], [])

    def on_cursor_list_selected(self, event: CursorList.Selected) -> None:
        self.dismiss(self.query_one(AuditTable).rows[event.place].query)


def open_audit(over: GenerationsScreen) -> None:
    """Show the completions to audit of the open run, and the chosen ones in Generations."""
    folder = over.shell.run_folder
    if folder is not None:
        over.ask(AuditScreen(["doctor", str(folder.root), "--audit", "--json"]), over.show_query)


class CourseScreen(FullReadingScreen):
    """Trends over the run, and of the prompt of `card` if there is one."""

    BINDINGS = bindings("course")
    PANE, OVER = "course", "generations"

    def __init__(self, names: Sequence[str], card: GroupCard | None) -> None:
        super().__init__()
        self._names, self._card = tuple(names), card
        self._found: tuple[Sequence[Stretch], Sequence[ProbeStep]] | None = None
        self._visits: Sequence[Visit] = ()
        self._trouble = ""
        self.left = threading.Event()
        """Set when the screen is closed, to stop reading."""

    def lines(self, width: int) -> list[Line]:
        lines: list[Line] = [ruled([[Span("trends over the run", "title")]], width)]
        stretches, probes = self._found or ((), ())
        if self._trouble:
            lines.append([Span(f"  ✗ {one_line(self._trouble, max(20, width - 6))}", "bad")])
        elif self._found is None:
            lines.append([Span("  Looking through the run …", "dim")])
        else:
            lines += spans(course_lines(stretches, self._names, width))
        if probes:
            lines += [(), ruled([[Span("probe prompts", "title")]], width)]
            lines += spans(probe_lines(probes, self._names, width))
        if self._card is not None:
            prompt = one_line(self._card.prompt.strip(), max(12, width - 40))
            lines += [(), ruled([[Span("this prompt", "title")], [Span(f"“{prompt}”", "strong")]], width)]
            lines += spans(visit_lines(self._visits, self._card.id, width))
        return lines

    def on_unmount(self) -> None:
        self.left.set()

    def take_run(self, found: tuple[Sequence[Stretch], Sequence[ProbeStep]]) -> None:
        self._found = found
        self.body.changed()

    def take_trouble(self, why: str) -> None:
        self._trouble = why
        self.body.changed()

    def take_visits(self, visits: Sequence[Visit]) -> None:
        self._visits = visits
        self.body.changed()
