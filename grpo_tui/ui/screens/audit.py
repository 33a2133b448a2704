"""Completions of the open run that may have fooled a reward, on top of Generations."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType

from grpo_tui.core.text import one_line
from grpo_tui.present.formatting import compact, plural
from grpo_tui.present.glyphs import spark
from grpo_tui.ui.kit.table import Column, CursorList, Table
from grpo_tui.ui.paint import Span
from grpo_tui.ui.screens.dialogs import Dialog, Told

if TYPE_CHECKING:
    from grpo_tui.ui.screens.generations import GenerationsScreen


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


class AuditTable(Table[AuditRow], inherit_bindings=False):
    """What it is, how often over the run or at which step, the reward, and a text."""

    BINDINGS = CursorList.BINDINGS

    def columns(self, width: int) -> Sequence[Column[AuditRow]]:
        return (
            Column("attack, or ✗ refused by", 28, lambda row: Span(one_line(row.what, 27), "strong"), gap=1),
            Column("over the run", 19, lambda row: Span(row.when), gap=1),
            Column("reward", 7, lambda row: Span(compact(row.reward)), right=True),
            Column("  text", max(10, width - 58), lambda row: Span(f"  {one_line(row.text)}")),
        )


class AuditScreen(Dialog[str]):
    """Completions to read. Returns the query that finds the chosen ones."""

    BINDINGS: ClassVar[list[BindingType]] = [("a", "close", "close")]
    FIRST = AuditTable
    SHAPE = "dialog -large"

    def __init__(self, words: Sequence[str]) -> None:
        super().__init__("completions to audit", "enter read   esc back")
        self._words = words

    def parts(self) -> ComposeResult:
        table = AuditTable(id="audit-table")
        yield Told("Reading the completions …", id="audit-words")
        yield table.over("audit-heading")
        yield table

    def on_mount(self) -> None:
        from grpo_tui.ui.starting import Child

        self._child = Child(self._words, ())
        self.in_thread("audit", self._read, self._take)

    def on_unmount(self) -> None:
        self._child.cancel()

    def _read(self) -> tuple[list[str], list[AuditRow]]:
        """Read in a child process, so that thousands of texts never hold up the screen. Runs in a thread."""
        ended = self._child.run()
        return audit_rows(json.loads(ended.printed)) if ended.code == 0 else ([ended.trouble], [])

    def _take(self, found: tuple[list[str], list[AuditRow]]) -> None:
        told, rows = found
        self.query_one(Told).tell(*told)
        table = self.query_one(AuditTable)
        table.rows = rows
        table.changed()

    def on_cursor_list_selected(self, event: CursorList.Selected) -> None:
        self.dismiss(self.query_one(AuditTable).rows[event.place].query)


def open_audit(over: GenerationsScreen) -> None:
    """Show the completions to audit of the open run, and the chosen ones in Generations."""
    folder = over.shell.run_folder
    if folder is not None:
        over.ask(AuditScreen(["doctor", str(folder.root), "--audit", "--json"]), over.show_query)
