"""The lines around the form of the pane Config: which file, its state, the help of a field, the plan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from grpo_tui.core.text import one_line, wrapped
from grpo_tui.present.formatting import from_here, plural
from grpo_tui.ui.paint import Line, LinePane, LineScroll, Span, fitting, ruled, spread, width_of
from grpo_tui.ui.widgets.yaml_area import SIGNS

if TYPE_CHECKING:
    from grpo_tui.core.findings import Fix
    from grpo_tui.present.config_view import ConfigView, FieldHelp


class ConfigSummary(LinePane):
    """Which file, whether it is saved, what was found; on the right what goes on."""

    view: ConfigView | None = None
    busy: Line = ()
    state: Line = ()
    """When it was checked in full."""

    def lines(self, width: int, height: int) -> list[Line]:
        """One line."""
        view = self.view
        if view is None:
            return [[Span(" No config is open.", "strong")]]
        title = from_here(view.path) if view.path is not None else view.title
        left: list[tuple[int, Line]] = [(0, [Span(f" {one_line(title, max(12, width // 2 - 8))}", "strong")])]
        if view.unsaved:
            left.append((1, [Span("● unsaved", "attention")]))
        right: list[Span] = [*self.busy] or self._found(view)
        left += [(2, self._found(view))] if self.busy else [(3, self.state)] if self.state else []
        return [spread(fitting(left, width - width_of(right) - 1), right, width)]

    def _found(self, view: ConfigView) -> list[Span]:
        if view.broken is not None:
            line = f" line {view.broken.line}" if view.broken.line is not None else ""
            return [Span(f"✗ not readable{line}  ", "bad")]
        errors, warnings = view.counts()
        found: list[Span] = []
        if errors:
            found.append(Span(f"✗ {plural(errors, 'error')}  ", "bad", "screen.config_findings"))
        if warnings:
            found.append(Span(f"⚠ {plural(warnings, 'warning')}  ", "attention", "screen.config_findings"))
        if not view.whole:
            found.append(Span("checking …  ", "dim"))
        return found or [Span("✓ nothing wrong in the file  ", "good")]


class HelpStrip(LineScroll, can_focus=False):
    """What the chosen field is, what TRL says of it, what we advise, and what was found."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._help: FieldHelp | None = None
        self._refusal = ""

    def show(self, help_: FieldHelp | None, refusal: str = "") -> None:
        """Show this help; `refusal` is why what is being typed does not fit."""
        if (help_, refusal) != (self._help, self._refusal):
            self._help, self._refusal = help_, refusal
            self.scroll_to(y=0, animate=False, force=True)
            self.changed()

    def lines(self, width: int) -> list[Line]:
        """The title, then refusal, findings, advice, and TRL's words."""
        shown = self._help
        if shown is None:
            return [ruled([[Span("help", "title")]], width)]
        parts: list[Line] = [[Span(one_line(shown.name), "title")]]
        parts += [[Span(one_line(part), "dim")] for part in shown.facts if part]
        fix = next((finding.fix for finding in shown.findings if finding.fix is not None), None)
        right = [Span("f ", "key", "screen.config_fix"), Span(fix_words(fix), "strong")] if fix else []
        lines: list[Line] = [ruled(parts, width, right)]
        room = max(10, width - 4)
        if self._refusal:
            lines += _marked("✗", "bad", self._refusal, room)
        for finding in shown.findings:
            lines += _marked(*SIGNS[finding.severity], finding.message, room)
        for sentence in shown.advice:
            lines += _marked("▸", "accent", sentence, room)
        if shown.help:
            lines += _marked(" ", "dim", shown.help, room, "dim")
        return lines


def fix_words(fix: Fix) -> str:
    """What a fix does: the line as it will stand."""
    from grpo_tui.present.config_evaluate import shown

    return (
        f"remove {one_line(fix.field)}" if fix.value is None else f"{one_line(fix.field)}: {shown(fix.value)}"
    )


def _marked(sign: str, role: str, text: str, room: int, text_role: str = "text") -> list[Line]:
    rows = wrapped(one_line(text), room)
    return [[Span(f" {sign if i == 0 else ' '} ", role), Span(row, text_role)] for i, row in enumerate(rows)]


class PlanStrip(LinePane):
    """What the config means in completions, steps, time and memory."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._plan: Sequence[Sequence[tuple[int, Line]]] = ()

    def show(self, plan: Sequence[Sequence[tuple[int, Line]]]) -> None:
        """Show these lines, each as parts by the order in which they give way."""
        taller = len(plan) != len(self._plan)
        self._plan = plan
        self.changed(layout=taller)

    def get_content_height(self, container: object, viewport: object, width: int) -> int:
        """A line for each, and the rule."""
        return 1 + len(self._plan)

    def lines(self, width: int, height: int) -> list[Line]:
        """A rule, and a line for each row of the plan."""
        lines: list[Line] = [ruled([[Span("plan", "title")]], width)]
        return lines + [[Span(" "), *fitting(row, width - 2)] for row in self._plan]
