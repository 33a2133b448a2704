"""The part of the pane Config that tells what was found, goes there, applies fixes, and explains a field."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen

from grpo_tui.core.findings import Finding, errors_of
from grpo_tui.core.text import one_line, wrapped
from grpo_tui.present.config_view import NO_FIELD, FieldHelp, FieldRow, field_of
from grpo_tui.present.formatting import plural
from grpo_tui.ui.opened import LeftOnce
from grpo_tui.ui.paint import Line, Span, ruled
from grpo_tui.ui.rows import CursorList
from grpo_tui.ui.screens.config_editing import ConfigEditing
from grpo_tui.ui.screens.dialogs import CLOSE, DialogTitle
from grpo_tui.ui.widgets.config_form import ConfigForm
from grpo_tui.ui.widgets.config_lines import fix_words
from grpo_tui.ui.widgets.yaml_area import SIGNS, YamlArea

if TYPE_CHECKING:
    from grpo_tui.config.fields import FieldValue
    from grpo_tui.preflight.report import Preflight


class FindingList(CursorList):
    """Findings, each on as many lines as it takes; the cursor goes from one to the next."""

    def __init__(self, findings: tuple[Finding, ...], found: Preflight | None = None) -> None:
        super().__init__()
        self.findings, self._found = findings, found
        self._tops: list[int] = []

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.findings)

    def lines(self, width: int) -> list[Line]:
        """Severity, place and sentence, and the fix."""
        lines: list[Line] = []
        self._tops = []
        for place, finding in enumerate(self.findings):
            self._tops.append(len(lines))
            lines += finding_rows(finding, width, here=place == self.cursor)
        return [*lines, *(check_rows(self._found, width) if self._found is not None else ())]

    def put(self, place: int) -> None:
        """Put the cursor there, all lines of the finding in sight."""
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
        """The next finding, or the one before."""
        self.put(self.cursor + by)

    def action_page(self, by: int) -> None:
        """A few on."""
        self.put(self.cursor + by * 5)


def finding_rows(finding: Finding, width: int, *, here: bool) -> list[Line]:
    """A finding in full."""
    sign, role = SIGNS[finding.severity]
    tail = " selected" if here else ""
    place = one_line(finding.field or "the whole config", 50)
    line = f"   line {finding.line}" if finding.line is not None else ""
    rows: list[Line] = [
        [
            Span("❙" if here else " ", "accent" + tail),
            Span(f"{sign} ", role + tail),
            Span(place, "strong" + tail),
            Span(line + " ", "dim" + tail),
        ]
    ]
    rows += [[Span("   "), Span(row)] for row in wrapped(one_line(finding.message), max(10, width - 5))]
    if finding.fix is not None:
        rows.append(
            [Span("   f ", "key"), Span(one_line(fix_words(finding.fix), max(10, width - 6)), "strong")]
        )
    return rows


MARKS = {"yes": ("✓", "good"), "no": ("✗", "bad"), "idle": ("·", "dim")}


def check_rows(found: Preflight, width: int) -> list[Line]:
    """What a full check says besides its findings: the list to go through, advice, commands."""
    lines: list[Line] = [()] if found.findings else [[Span(" ✓ Nothing is in the way.", "good")], ()]
    room = max(10, width - 5)
    if found.checklist:
        lines.append(ruled([[Span("before training", "title")]], width))
    for item in found.checklist:
        sign, role = MARKS[item.mark]
        lines.append([Span(f" {sign} ", role), Span(one_line(item.text, room), "strong")])
        lines += [[Span("   "), Span(row, "dim")] for row in wrapped(one_line(item.evidence), room)]
    said = [(advice.message, "accent") for advice in found.advice] + [(note, "text") for note in found.notes]
    if said:
        lines += [(), ruled([[Span("advice", "title")]], width)]
    for text, role in said:
        rows = wrapped(one_line(text), room)
        lines += [[Span(" ▸ " if n == 0 else "   ", role), Span(row)] for n, row in enumerate(rows)]
    return lines


class FindingsScreen(LeftOnce, ModalScreen[tuple[str, Finding]]):
    """All findings; hands back `go` or `fix` and the chosen one."""

    BINDINGS: ClassVar[list[BindingType]] = [*CLOSE, ("F", "close", "close"), ("f", "fix", "fix")]

    def __init__(self, findings: tuple[Finding, ...]) -> None:
        super().__init__()
        self._findings = findings

    def compose(self) -> ComposeResult:
        """A title and the list."""
        with Vertical(classes="dialog -large"):
            yield DialogTitle(plural(len(self._findings), "finding"), "enter go there   f fix   esc back")
            yield FindingList(self._findings)

    def on_mount(self) -> None:
        """Start with the first."""
        self.query_one(FindingList).focus()

    def on_cursor_list_opened(self, event: CursorList.Opened) -> None:
        """Go there."""
        self.dismiss(("go", self._findings[event.place]))

    def action_fix(self) -> None:
        """Apply the fix."""
        at = self.query_one(FindingList).cursor
        finding = self._findings[at] if at < len(self._findings) else None
        if finding is None:
            return
        if finding.fix is not None:
            self.dismiss(("fix", finding))
        else:
            self.app.notify("There is no single value that mends this one.", markup=False)

    def action_close(self) -> None:
        """Back to the form."""
        self.dismiss(None)


class CheckScreen(FindingsScreen):
    """What a full check has found, and what it says besides."""

    def __init__(self, found: Preflight) -> None:
        super().__init__(found.findings)
        self._found = found

    def compose(self) -> ComposeResult:
        """A title and the list."""
        errors = len(errors_of(self._findings))
        verdict = (
            "nothing stops a start" if not errors else f"{plural(errors, 'error')} in the way of a start"
        )
        with Vertical(classes="dialog -large"):
            yield DialogTitle(f"checked: {verdict}", "enter go there   f fix   esc back")
            yield FindingList(self._findings, self._found)


class ConfigFindings(ConfigEditing):
    """What a screen needs to show and mend what was found."""

    def action_config_findings(self) -> None:
        """All of them."""
        view = self.view
        if view is not None and view.findings:
            self.app.push_screen(FindingsScreen(view.findings), self.chosen_finding)
        elif view is not None:
            self.app.notify("Nothing was found.", markup=False)

    def chosen_finding(self, answer: tuple[str, Finding] | None) -> None:
        """Go where a finding is, or apply its fix."""
        if answer is None:
            return
        what, finding = answer
        if what == "fix":
            self.apply(finding)
        self.go_to(finding)

    def go_to(self, finding: Finding) -> None:
        """To the field, or to the line where no field is concerned."""
        view = self.view
        if view is None:
            return
        name = field_of(finding, {field.name for field in view.fields})
        if name is not None and view.broken is None:
            self.to_form(name)
        elif finding.line is not None:
            area = self.query_one(YamlArea)
            area.display = True
            area.go_to(finding.line)
            area.focus()
            self.call_after_refresh(self.show)

    def action_config_next_finding(self) -> None:
        """The next one below the cursor."""
        self._step_finding(1)

    def action_config_previous_finding(self) -> None:
        """The one above."""
        self._step_finding(-1)

    def _step_finding(self, by: int) -> None:
        view = self.view
        if view is None:
            return
        names = [field.name for field in view.fields]
        row = self.query_one(ConfigForm).chosen
        marked = [n for n, field in enumerate(view.fields) if field.severity in ("error", "warning")]
        if not marked:
            self.app.notify("No field has a finding.", markup=False)
            return
        if isinstance(row, FieldRow):
            at = names.index(row.name)
        else:
            at = next((n for n, f in enumerate(view.fields) if row is not None and f.group == row.title), 0)
            at -= by > 0
        beyond = [n for n in marked if (n > at if by > 0 else n < at)]
        self.to_form(names[(beyond or marked)[0 if by > 0 else -1]])

    # -- fixes -----------------------------------------------------------------------------------

    def chosen_fix(self) -> Finding | None:
        """The worst finding of the chosen field that one key mends."""
        name = self.chosen_name()
        if name is None:
            return None
        return next((finding for finding in self.findings_of(name) if finding.fix is not None), None)

    def findings_of(self, name: str) -> tuple[Finding, ...]:
        """What was found of a field, errors first."""
        view = self.view
        if view is None:
            return ()
        names = {field.name for field in view.fields}
        return tuple(f for f in view.findings if field_of(f, names) == name)

    def action_config_fix(self) -> None:
        """Mend the chosen field."""
        finding = self.chosen_fix()
        if finding is not None:
            self.apply(finding)
        elif (name := self.chosen_name()) is not None:
            word = "there is no single value that mends it" if self.findings_of(name) else "nothing was found"
            self.app.notify(f"{one_line(name, 40)}: {word}.", markup=False)

    def apply(self, finding: Finding) -> None:
        """Apply the fix of a finding."""
        if finding.fix is not None and self.readable():
            self.do(lambda draft: draft.apply(finding))

    # -- what a field is -------------------------------------------------------------------------

    def help_of(self, name: str) -> FieldHelp:
        """What is said of a field."""
        value = self.value_of(name)
        found = self.findings_of(name)
        if value is None:
            return FieldHelp(name, (NO_FIELD,), found)
        return FieldHelp(
            name,
            (value.kind, f"default {value.default}"),
            tuple(f for f in found if f.severity != "info"),
            self._advice(name, value),
            " ".join(value.info.help.split()),
        )

    def _advice(self, name: str, value: FieldValue) -> tuple[str, ...]:
        """What we would choose and why, and what the value now does."""
        from grpo_tui.config.advice import advice_on, choice_advice

        advice = advice_on(name)
        if advice is None:
            return ()
        sentences = [f"{advice.choose} {advice.why}"]
        now = choice_advice(name, str(value.value)) if isinstance(value.value, str) else None
        if now is not None:
            sentences.insert(0, f"{value.value}: {now.text}" + (f" {now.formula}" if now.formula else ""))
        sentences += [part for part in (advice.when, advice.cost, advice.older) if part]
        return tuple(sentences)

    def whole_help(self, name: str) -> str:
        """All of it as a text."""
        shown = self.help_of(name)
        value = self.value_of(name)
        parts = [f"{name}\n{' · '.join(shown.facts)}", *shown.advice]
        parts += self._choices_told(name, value)
        parts += [f"{SIGNS[f.severity][0]} {f.message}" for f in self.findings_of(name)]
        return "\n\n".join([*parts, value.info.help if value is not None else ""])

    def _choices_told(self, name: str, value: FieldValue | None) -> list[str]:
        from grpo_tui.config.advice import choice_advice

        told: list[str] = []
        for choice in value.choices if value is not None else ():
            said = choice_advice(name, choice)
            text = " ".join(part for part in (said.text, said.formula, said.source) if part) if said else ""
            told.append(f"{choice}: {text}" if text else choice)
        return ["\n".join(told)] if told else []

    def written(self, name: str) -> str:
        """The field as it stands in a file."""
        from grpo_tui.config.yaml_edit_values import entry

        value = self.value_of(name)
        now = value.value if value is not None else None
        return "\n".join(entry(f"{name.rpartition('.')[2]}:", now, 0, 2))

    def found_by(self, words: str) -> list[str]:
        """Fields that hold all of the words in their names, helps, or our advice, the best first."""
        from grpo_tui.config.field_search import search_fields

        return [found.name for found in search_fields(words)] if self.evaluation is not None else []
