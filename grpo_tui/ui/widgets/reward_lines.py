"""What stands around the samples of the pane Rewards: summary, findings, the chosen sample in full."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpo_tui.core.text import one_line
from grpo_tui.core.text import wrapped as words_wrapped
from grpo_tui.present.formatting import clock, duration, plural
from grpo_tui.present.rewards_view import fitted
from grpo_tui.ui.paint import Line, LinePane, LineScroll, Span, fitting, ruled, spread, wrapped

if TYPE_CHECKING:
    from grpo_tui.core.findings import Finding
    from grpo_tui.present.rewards_view import RewardsView, SampleDetail, Saw

FEW = 3
"""With so few lines the completion is put on one."""
LEFT_W = 24
"""Cells that are kept for whose rewards these are."""
SIGNS = {"error": ("✗", "bad"), "warning": ("⚠", "attention"), "info": ("●", "accent")}
WORDS = {"sum_then_normalize": "sum, then normalize", "normalize_then_sum": "normalize, then sum"}


class RewardsSummary(LinePane):
    """Whose rewards, how many samples, what is found; below, what goes on and what has changed."""

    view: RewardsView | None = None
    title = ""
    trouble = ""
    busy: Line = ()
    probed = ""
    weighing = False
    """Whether the keys are those of the weights."""

    def lines(self, width: int, height: int) -> list[Line]:
        """Two lines."""
        return [self._what(width), self._state(width)]

    def _what(self, width: int) -> Line:
        view = self.view
        if view is None:
            return [Span(f" {self.title or 'No rewards are open.'}", "strong")]
        groups = "" if len(view.groups) == len(view.rows) else f" in {plural(len(view.groups), 'group')}"
        left: list[tuple[int, Line]] = [
            (0, [Span(f" {one_line(view.title, 36)}", "strong")]),
            (1, [Span(plural(len(view.rows), "sample") + groups)]),
            (2, [Span(view.origin, "dim")]),
            (3, [Span(modes_words(view), "dim" if view.own_modes else "attention")]),
        ]
        right = self._found(view, width)
        return spread(fitting(left, width - sum(len(s.text) for s in right) - 1), right, width)

    def _found(self, view: RewardsView, width: int) -> list[Span]:
        errors, warnings = view.counts()
        line: list[Span] = []
        if errors:
            line.append(Span(f"✗ {plural(errors, 'error')}  ", "bad"))
        if warnings:
            line.append(Span(f"⚠ {plural(warnings, 'warning')}  ", "attention"))
        if not view.whole:
            line.append(Span("checking …  ", "dim"))
        sound = not self.probed.startswith("⚠")
        if view.whole and not line and sound:
            line.append(Span("✓ no faults found  ", "good"))
        if self.probed:
            room = width - sum(len(span.text) for span in line) - LEFT_W
            told = self.probed if len(self.probed) < room else self.probed.partition(":")[0]
            line.append(Span(f"{told}  ", "good" if sound else "attention"))
        return line

    def _state(self, width: int) -> Line:
        if self.busy:
            return self.busy
        if self.trouble:
            return [Span(f" ✗ {one_line(self.trouble, width - 4)}", "bad")]
        view = self.view
        if view is None:
            return ()
        if self.weighing:
            return self._modes(view)
        left = [Span(f" scored at {clock(view.scored_at)} in {_short(view.took_s)}", "dim")]
        if not view.own_modes:
            left.append(Span(f"   {modes_words(view)}, not as in the config", "attention"))
        if view.reason:
            left.append(Span(f"   {view.reason}", "text"))
        if view.changed:
            left.append(Span(f"   {plural(view.changed, 'score')} changed, old→new", "accent"))
        elif view.reason.endswith("saved"):
            left.append(Span("   no score changed", "dim"))
        return left

    def _modes(self, view: RewardsView) -> Line:
        scaled = view.aggregation == "sum_then_normalize"
        line = [
            Span(" g", "key", "screen.rewards_scale"),
            Span(f" scale {view.scale}" + ("" if scaled else " (not used)"), "text" if scaled else "dim"),
            Span("   c", "key", "screen.rewards_combine"),
            Span(f" {WORDS.get(view.aggregation, view.aggregation)}"),
        ]
        if not view.own_modes:
            line.append(Span("   not as in the config", "attention"))
        return line


def modes_words(view: RewardsView) -> str:
    """How totals become advantages; TRL scales by nothing else when it sums what was normalized."""
    words = WORDS.get(view.aggregation, view.aggregation)
    return f"scale {view.scale}; {words}" if view.aggregation == "sum_then_normalize" else words


def _short(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds < 10 else duration(seconds)


class FindingLines(LineScroll):
    """What is wrong with the rewards, errors first."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._findings: tuple[Finding, ...] = ()
        self._whole = True
        self._trouble = ""

    def show(self, view: RewardsView | None, trouble: str) -> None:
        """Show what was found, and what hinders the lab."""
        self._findings = view.findings if view is not None else ()
        self._trouble = trouble
        self._whole = view is None or view.whole
        self.changed()

    def fit(self, most: int) -> None:
        """Take the lines that are needed, at most so many."""
        lines = len(self.lines(max(20, self.size.width or self.screen.size.width)))
        self.styles.height = min(most, lines)
        self.changed()

    def lines(self, width: int) -> list[Line]:
        """A rule, then each finding, wrapped."""
        lines: list[Line] = [ruled([[Span("findings", "title")]], width)]
        found = [(SIGNS[f.severity], f.message) for f in self._findings]
        if self._trouble:
            found.insert(0, (SIGNS["error"], self._trouble))
        if not found and not self._whole:
            lines.append([Span("  The functions are being looked at …", "dim")])
        elif not found:
            lines.append([Span("  Nothing is wrong with these functions on these samples.", "dim")])
        for (sign, role), message in found:
            for number, row in enumerate(words_wrapped(one_line(message), max(10, width - 4))):
                lines.append([Span(f" {sign} " if number == 0 else "   ", role), Span(row)])
        return lines


class DetailLines(LineScroll):
    """The chosen sample: what each function saw, the completion, what was printed."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._detail: SampleDetail | None = None

    def show(self, detail: SampleDetail | None) -> None:
        """Show this sample."""
        if detail != self._detail:
            self._detail = detail
            self.scroll_to(y=0, animate=False, force=True)
            self.changed()

    def lines(self, width: int) -> list[Line]:
        """A rule, a line for each function that has something to say, and the text."""
        detail = self._detail
        if detail is None:
            return []
        parts: list[Line] = [[Span(f"sample {detail.number}", "title")]]
        parts.append([Span(one_line(detail.kind, 24), "dim")] if detail.kind else [])
        parts.append(
            [Span(f"“{one_line(detail.prompt, max(12, width - 40 - len(detail.recorded)))}”", "strong")]
        )
        parts.append([Span(f"in the run: {detail.recorded}", "dim")] if detail.recorded else [])
        lines: list[Line] = [ruled([part for part in parts if part], width)]
        lines += [line for saw in detail.saw for line in saw_lines(saw, width)]
        if self.size.height <= FEW:
            return [*lines, [Span("  " + fitted(one_line(detail.completion), width - 3))]]
        lines += [[Span("  " + row)] for row in wrapped(detail.completion, max(8, width - 4))]
        for saw in detail.saw:
            lines += [[Span(f"  {saw.name} printed: ", "dim"), Span(row, "dim")] for row in saw.printed]
        return lines


def saw_lines(saw: Saw, width: int) -> list[Line]:
    """What a function compared, or that it fails because of this sample; else nothing."""
    if saw.failure and saw.blamed:
        rows = words_wrapped(f"{saw.name} fails because of this sample: {saw.failure}", max(10, width - 4))
        return [[Span(" ✗ " if i == 0 else "   ", "bad"), Span(row, "bad")] for i, row in enumerate(rows)]
    if not saw.compared:
        return []
    line = [Span(f"  {saw.name} saw  ", "dim")]
    for name, value in saw.compared:
        line += [Span(f"{name} ", "dim"), Span(f"{one_line(value, 60)}   ", "strong")]
    return [line]
