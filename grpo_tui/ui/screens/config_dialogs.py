"""Dialogs of Config: a YAML value to edit, findings, and results of the full check.

They return the user's choice and do nothing themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from grpo_tui.core.findings import Finding, errors_of
from grpo_tui.core.text import one_line, wrapped
from grpo_tui.present.formatting import plural
from grpo_tui.ui.kit.table import CursorList
from grpo_tui.ui.paint import Line, Span, ruled, signed
from grpo_tui.ui.screens.dialogs import Dialog, DialogText
from grpo_tui.ui.widgets.config_form import fix_words
from grpo_tui.ui.widgets.yaml_area import SIGNS, YamlArea

if TYPE_CHECKING:
    from grpo_tui.preflight.report import Preflight


class ValueDialog(Dialog[str]):
    """A YAML editor for lists, mappings and long texts.

    Args:
        kind: The field's type, as TRL writes it.
        check: Returns what is wrong with a text, or "".
        yaml: The text is the value in YAML; otherwise the value itself.
    """

    # Priority, so that the text area does not get the key first.
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "apply", "apply", priority=True),
    ]
    FIRST = YamlArea

    def __init__(
        self, name: str, kind: str, text: str, check: Callable[[str], str], *, yaml: bool = True
    ) -> None:
        super().__init__(one_line(name, 40), "ctrl+s apply   esc back")
        self._kind, self._text, self._check = kind, text, check
        self._yaml = yaml

    def parts(self) -> ComposeResult:
        kind = [Span(f" {one_line(self._kind)}", "dim"), Span("   as YAML" if self._yaml else "", "dim")]
        yield DialogText([kind])
        yield YamlArea(id="value")
        yield DialogText([()], id="word")

    def on_mount(self) -> None:
        self.query_one(YamlArea).show_text(self._text)
        self._tell()

    def on_yaml_area_typed(self, event: YamlArea.Typed) -> None:
        self._tell()

    def _tell(self) -> None:
        wrong = self._check(self.query_one(YamlArea).config_text)
        room = max(20, min(self.app.size.width, 76) - 8)
        line = Span(f" ✗ {one_line(wrong, room)}", "bad") if wrong else Span(" ✓ fits", "good")
        self.query_one("#word", DialogText).tell([[line]])

    def action_apply(self) -> None:
        text = self.query_one(YamlArea).config_text
        if not self._check(text):
            self.dismiss(text)

    def action_config_back(self) -> None:
        self.dismiss(None)


class FindingList(CursorList):
    """Findings in full, each on several lines. The cursor moves from one to the next."""

    def __init__(self, findings: tuple[Finding, ...], found: Preflight | None = None) -> None:
        super().__init__()
        self.findings, self._found = findings, found
        self._tops: list[int] = []

    @property
    def count(self) -> int:
        return len(self.findings)

    def lines(self, width: int) -> list[Line]:
        lines: list[Line] = []
        self._tops = []
        for place, finding in enumerate(self.findings):
            self._tops.append(len(lines))
            lines += finding_rows(finding, width, here=place == self.cursor)
        return [*lines, *(check_rows(self._found, width) if self._found is not None else ())]

    def put(self, place: int) -> None:
        """Move the cursor and scroll all lines of the finding into view."""
        self.cursor = min(max(0, place), max(0, self.count - 1))
        self.changed()
        if not self._tops:
            return
        top = self._tops[self.cursor]
        last = self.cursor + 1 >= self.count
        end = len(self._lines) if last else self._tops[self.cursor + 1]
        if top < self.scroll_offset.y:
            self.scroll_to(y=top, animate=False, force=True)
        elif end > self.scroll_offset.y + self._height:
            self.scroll_to(y=min(top, end - self._height), animate=False, force=True)

    def action_move(self, by: int) -> None:
        self.put(self.cursor + by)

    def action_page(self, by: int) -> None:
        self.put(self.cursor + by * 5)


def finding_rows(finding: Finding, width: int, *, here: bool) -> list[Line]:
    """Return a finding in full."""
    sign, role = SIGNS[finding.severity]
    tail = " selected" if here else ""
    place = one_line(finding.field or "", 50)
    line = f"line {finding.line}" if finding.line is not None else "" if place else "the whole config"
    rows: list[Line] = [
        [
            Span("❙" if here else " ", "accent" + tail),
            Span(f"{sign} ", role + tail),
            Span(place, "strong" + tail),
            Span(f"{'   ' if place and line else ''}{line} ", "dim" + tail),
        ]
    ]
    rows += [[Span("   "), Span(row)] for row in wrapped(one_line(finding.message), max(10, width - 5))]
    if finding.fix is not None:
        rows.append(
            [Span("   f ", "key"), Span(one_line(fix_words(finding.fix), max(10, width - 6)), "strong")]
        )
    return rows


MARKS = {"yes": ("✓", "good"), "warning": ("⚠", "attention"), "no": ("✗", "bad"), "idle": ("·", "dim")}


def check_rows(found: Preflight, width: int) -> list[Line]:
    """Return the other results of a full check: checklist, advice and notes."""
    lines: list[Line] = [()] if found.findings else [[Span(" ✓ No errors.", "good")], ()]
    room = max(10, width - 5)
    if found.checklist:
        lines.append(ruled([[Span("before training", "title")]], width))
    for item in found.checklist:
        sign, role = MARKS[item.mark]
        lines.append([Span(f" {sign} ", role), Span(one_line(item.text, room), "strong")])
        lines += [
            [Span("   "), Span(row, "dim")]
            for row in wrapped(one_line(item.evidence_beside(found.findings)), room)
        ]
    said = [(advice.message, "accent") for advice in found.advice] + [(note, "text") for note in found.notes]
    if said:
        lines += [(), ruled([[Span("advice", "title")]], width)]
    for text, role in said:
        lines += signed("▸", role, wrapped(one_line(text), room))
    return lines


class FindingsScreen(Dialog[tuple[str, Finding]]):
    """All findings. Returns `go`, `fix` or `all` with the selected one."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("l", "close", "close"),
        ("f", "fix", "fix"),
        ("ctrl+f", "fix_all", "fix all"),
    ]
    FIRST = FindingList
    SHAPE = "dialog -large"

    def __init__(
        self, findings: tuple[Finding, ...], title: str = "", found: Preflight | None = None
    ) -> None:
        title = title or plural(len(findings), "finding")
        super().__init__(title, "enter go there   f fix   ctrl+f fix all   esc back")
        self._findings, self._found = findings, found

    def parts(self) -> ComposeResult:
        yield FindingList(self._findings, self._found)

    def on_cursor_list_selected(self, event: CursorList.Selected) -> None:
        self.dismiss(("go", self._findings[event.place]))

    def action_fix(self) -> None:
        at = self.query_one(FindingList).cursor
        finding = self._findings[at] if at < len(self._findings) else None
        if finding is None:
            return
        if finding.fix is not None:
            self.dismiss(("fix", finding))
        else:
            self.app.notify("There is no single value that fixes this.")

    def action_fix_all(self) -> None:
        if self._findings:
            self.dismiss(("all", self._findings[0]))


class CheckScreen(FindingsScreen):
    """Findings and other results of a full check."""

    def __init__(self, found: Preflight) -> None:
        errors = len(errors_of(found.findings))
        verdict = plural(errors, "error") if errors else "ready to start"
        super().__init__(found.findings, f"checked: {verdict}", found)
