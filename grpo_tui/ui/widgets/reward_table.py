"""The samples in Rewards, with a column per function, total and advantage. By group or sorted.

Only visible lines are laid out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar

from rich.cells import cell_len
from textual.binding import BindingType

from grpo_tui.core.findings import Finding
from grpo_tui.core.text import one_line
from grpo_tui.core.text import wrapped as words_wrapped
from grpo_tui.present.formatting import clock, compact, duration, figure, fixed, percent, plural
from grpo_tui.present.rewards_view import (
    ADVANTAGE,
    TOTAL,
    FunctionColumn,
    RewardsView,
    SampleDetail,
    SampleRow,
    Saw,
    cell,
    fitted,
    ordered,
)
from grpo_tui.rewards.score_report import Aggregation
from grpo_tui.ui.kit.table import MOVES, Column, CursorList, Table, cells, heading, row_line
from grpo_tui.ui.paint import (
    Line,
    LinePane,
    LineScroll,
    Span,
    fitting,
    headed,
    pad,
    ruled,
    signed,
    spread,
    width_of,
    wrapped,
)
from grpo_tui.ui.widgets.groups import advantage_cell

LEAST_TEXT = 18
"""Minimum width of the completion, whatever the number of functions."""
WIDEST_NAME = 13
PROMPT_W = 98
"""Width available to a group's heading, however short its completions are."""
WEIGHTS_FROM = 98
"""From this width, the headings include weights."""
TOTAL_W, ADVANTAGE_W, NUMBER_W = 9, 8, 8
NO_MATCH: list[Line] = [
    (),
    [Span("   No sample holds these words.   ", "dim"), Span("esc", "key"), Span(" shows all", "dim")],
]


def sample_columns(
    view: RewardsView, width: int, chosen: int, order: str | int | None = None
) -> list[Column[SampleRow]]:
    """Return the columns. If not all fit, the chosen function and the most important ones are kept."""
    widths = {
        k: max(cell_len(function_heading(view, k, width)) + 2, NUMBER_W, column.changed_w + 2)
        for k, column in enumerate(view.columns)
    }
    room = width - 2 - LEAST_TEXT - TOTAL_W - ADVANTAGE_W
    kind_w = min(22 if width >= 110 else 8, max((cell_len(row.kind) for row in view.rows), default=0))
    if kind_w + sum(widths.values()) >= room:  # tags must not displace functions
        kind_w = min(kind_w, max((cell_len(_short(row.kind)) for row in view.rows), default=0))
    kind_w += 1 if kind_w else 0
    room -= kind_w
    kept: list[int] = []
    for k in sorted(widths, key=lambda k: _rank(view, k, chosen)):
        if widths[k] <= room:
            kept.append(k)
            room -= widths[k]
    hidden = len(view.columns) - len(kept)
    used = sum(widths[k] for k in kept) + TOTAL_W + ADVANTAGE_W + 2 + kind_w
    text_w = max(4, min(width - used, max(view.text_w + 1, PROMPT_W - used)))

    def kind(row: SampleRow) -> Span:
        return Span(row.kind if cell_len(row.kind) < kind_w else _short(row.kind), "dim")

    def text(row: SampleRow) -> Span:
        if row.text.strip():
            return Span(pad(fitted(row.text, text_w), text_w))
        return Span(pad("(white space)" if row.text else "(empty)", text_w), "dim")

    def role(by: str | int) -> str:
        return "accent" if by == order else "strong" if by == chosen else "dim"

    def function(k: int) -> Column[SampleRow]:
        title = function_heading(view, k, width)
        return Column(title, widths[k], partial(_score, view, k), right=True, role=role(k))

    def total(row: SampleRow) -> Span:
        return Span(fixed(row.total, view.digits), "strong")

    return [
        *([Column("", kind_w, kind, gap=1)] if kind_w else []),
        Column(f"+{hidden} hidden, ←→ " if hidden else "", text_w, text, right=True, role="attention"),
        *map(function, sorted(kept)),
        Column(TOTAL, TOTAL_W, total, right=True, role=role(TOTAL)),
        Column(
            "adv", ADVANTAGE_W, lambda row: advantage_cell(row.advantage), right=True, role=role(ADVANTAGE)
        ),
    ]


def _score(view: RewardsView, k: int, row: SampleRow) -> Span:
    text, role = cell(view, row, k)
    return Span(text, "dim" if view.columns[k].muted else role)


def _short(kind: str) -> str:
    """Return a sample's kind without the names of its tags: `gold#`."""
    plain, mark, _ = kind.partition(" #")
    return plain + mark.strip()


def _rank(view: RewardsView, k: int, chosen: int) -> tuple[bool, bool, bool, float]:
    """Sort key: the chosen function, then changed or failed ones, then by contribution."""
    column = view.columns[k]
    return k != chosen, not column.changed_w, not column.failure, -abs(column.share or 0.0)


def function_heading(view: RewardsView, k: int, width: int) -> str:
    """Return a function's name and weight. Narrow tables omit the weight, which is also listed below."""
    column = view.columns[k]
    name = one_line(column.name, WIDEST_NAME)
    if width < WEIGHTS_FROM:
        return name
    return f"{name} off" if column.muted else f"{name} ×{column.weight:g}"


class SampleTable(Table[Any]):
    """The samples. A row is (group, sample), with sample -1 for a group's heading."""

    OPENS = "screen.rewards_edit"
    MARK = "❙ "

    _view: RewardsView | None = None
    _order: str | int | None = None
    _low_first = False
    _words = ""
    chosen = 0
    """Index of the function whose column is chosen."""

    @property
    def shown(self) -> int:
        return sum(row >= 0 for _, row in self.rows)

    @property
    def selected(self) -> int | None:
        """Index of the sample under the cursor; None when there is none."""
        return self.rows[self.cursor][1] if self.rows else None

    def show(
        self,
        view: RewardsView | None,
        order: str | int | None,
        *,
        low_first: bool,
        words: str = "",
        keep: int | None = None,
    ) -> None:
        """Show the samples that contain the words. The cursor stays on its sample, or moves to `keep`."""
        wanted = self.selected if keep is None else keep
        self._view, self._order, self._low_first, self._words = view, order, low_first, words
        self.rows = ordered(view, order, low_first=low_first, words=words) if view is not None else []
        rows = [row for _, row in self.rows]
        if wanted is not None and wanted in rows:
            self.cursor = rows.index(wanted)
        else:
            self.cursor = next((i for i, row in enumerate(rows) if row >= 0), 0)
        if self.rows:
            self.put(self.cursor)
        else:
            self.changed()

    def put(self, place: int) -> None:
        place = min(max(0, place), max(0, self.count - 1))
        if self.rows and self.rows[place][1] < 0:
            up = place < self.cursor and place > 0
            place += -1 if up else 1
        super().put(place)
        if self.rows and place and self.rows[place - 1][1] < 0 and self.scroll_offset.y == place:
            self.scroll_to(y=place - 1, animate=False, force=True)

    def columns(self, width: int) -> list[Column[SampleRow]]:
        view = self._view
        return [] if view is None else sample_columns(view, width - 1, self.chosen, self._order)

    def heading(self, width: int) -> Line:
        title = "samples" if self._view is None else f"samples, {self._order_words(self._view)}"
        return heading(self.columns(width), width, title, edge=2)

    def _order_words(self, view: RewardsView) -> str:
        only = f"{one_line(self._words, 20)}: {self.shown} of {len(view.rows)}" if self._words else ""
        if self._order is None:
            return only or "by prompt"
        name = self._order if isinstance(self._order, str) else one_line(view.columns[self._order].name, 20)
        return f"by {name}, {'worst' if self._low_first else 'best'} first{only and ', '}{only}"

    def lines(self, width: int) -> Sequence[Line]:
        if self._view is not None and not self.rows:
            return NO_MATCH
        return super().lines(self.size.width)

    def maker(self, width: int) -> Callable[[tuple[int, int], str, str], Line]:
        view, columns = self._view, self.columns(width)

        def line(place: tuple[int, int], mark: str, tail: str) -> Line:
            assert view is not None
            group, index = place
            if index < 0:
                return group_line(view, group, len(mark) + cells(columns))
            return row_line(columns, view.rows[index], mark, tail)

        return line


def group_line(view: RewardsView, number: int, width: int) -> Line:
    """Return a group's heading: prompt, reference answer, mean and std."""
    group = view.groups[number]
    gold = f"   gold {one_line(group.gold, 24)}" if group.gold else ""
    right = [Span(f"mean {figure(group.mean)}  ", "dim"), Span(f"group std {figure(group.std)} ", "dim")]
    if group.flat:
        right = [Span(f"mean {figure(group.mean)}  ", "dim"), Span("zero std: teaches nothing ", "attention")]
    room = max(8, width - cell_len(gold) - 36)
    return spread([Span(f" {one_line(group.prompt, room)}", "strong"), Span(gold, "dim")], right, width)


NAME_W = 22


class FunctionRows(CursorList, inherit_bindings=False):
    """One row per function under a heading."""

    BINDINGS: ClassVar[list[BindingType]] = MOVES

    _view: RewardsView | None = None

    @property
    def count(self) -> int:
        """Number of rows including the heading, which the cursor never reaches."""
        return 1 + len(self._view.columns) if self._view is not None else 0

    @property
    def chosen(self) -> int:
        """Index of the function under the cursor."""
        return max(0, self.cursor - 1)

    def show(self, view: RewardsView | None) -> None:
        self._view = view
        self.cursor = min(max(1, self.cursor), max(1, self.count - 1))
        self.styles.height = max(1, min(self.count, 7))
        self.changed()

    def choose(self, k: int) -> None:
        self.put(k + 1)

    def put(self, place: int) -> None:
        super().put(max(1, place))

    def action_open(self) -> None:
        self.screen.run_worker(self.run_action("screen.rewards_source"))

    def watch_has_focus(self, focused: bool) -> None:
        super().watch_has_focus(focused)
        self.post_message(self.Turned())  # the keys change

    def lines(self, width: int) -> list[Line]:
        view = self._view
        if view is None:
            return []
        return [self._heading(width), *(self._row(k, c, width) for k, c in enumerate(view.columns))]

    def _heading(self, width: int) -> Line:
        title = "weights" if self.has_focus else "functions"
        words = [(2, title, "title"), (NAME_W + 4, "weight", "dim"), (NAME_W + 13, "contrib", "dim")]
        words += [(NAME_W + 23, "scored", "dim"), (NAME_W + 32, "scores", "dim")]
        if width >= 100:
            words += [(NAME_W + 56, "time", "dim"), (NAME_W + 64, "correlates with", "dim")]
        return headed(words, width)

    def _row(self, k: int, column: FunctionColumn, width: int) -> Line:
        here = k == self.chosen
        tail = " selected" if here and self.has_focus else ""
        weight = "off" if column.muted else f"{column.weight:g}"
        line = [
            Span("❙ " if here else "  ", "accent" + tail),
            Span(pad(column.name, NAME_W), ("dim" if column.muted else "strong") + tail),
            Span(pad(weight, 8, right=True), ("attention" if column.muted else "text") + tail),
        ]
        if column.failure:
            room = max(8, width - NAME_W - 16)
            return [*line, Span("   ✗ " + pad(one_line(column.failure, room), room), "bad" + tail)]
        share = "–" if column.muted or column.share is None else percent(column.share)
        line += [
            Span(pad(share, 11, right=True), "text" + tail),
            Span(pad(percent(column.coverage), 9, right=True),
                 ("text" if column.coverage == 1 else "attention") + tail),
            Span("   " + pad(_range(column), 24), "text" + tail),
        ]  # fmt: skip
        if width >= 100:
            like = f"{one_line(column.like[0], 20)} {column.like[1]:+.2f}" if column.like else ""
            line += [
                Span(pad(_time(column.seconds), 6, right=True), "dim" + tail),
                Span("   " + pad(like, max(1, width - NAME_W - 66)), "dim" + tail),
            ]
        return [*line, Span(" " * max(0, width - width_of(line)), "text" + tail)]


def _range(column: FunctionColumn) -> str:
    if column.low is None:
        return "none"
    if column.low == column.high:
        return f"{compact(column.low)} always"
    return f"{compact(column.low)} {column.histogram} {compact(column.high)}"


def _time(seconds: float | None) -> str:
    if seconds is None:
        return ""
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


FEW = 3
"""At this height or less, the completion is put on one line."""
LEFT_W = 24
SIGNS = {"error": ("✗", "bad"), "warning": ("⚠", "attention"), "info": ("●", "accent")}
WORDS = {"sum_then_normalize": "sum, then normalize", "normalize_then_sum": "normalize, then sum"}


class RewardsSummary(LinePane):
    """Title, number of samples and findings; below, what is running and what has changed."""

    view: RewardsView | None = None
    title = ""
    trouble = ""
    told_below = False
    """The findings are shown, and the trouble with them."""
    busy: Line = ()
    probed = ""
    weighing = False
    """The weights have the focus, so their keys are shown."""

    def lines(self, width: int, height: int) -> list[Line]:
        return [self._what(width), self._state(width)]

    def _what(self, width: int) -> Line:
        view = self.view
        if view is None:
            return [Span(f" {self.title or 'No rewards are open.'}", "strong")]
        groups = "" if len(view.groups) == len(view.rows) else f" in {plural(len(view.groups), 'group')}"
        left: list[tuple[int, Line]] = [
            (0, [Span(f" {one_line(view.about.title, 36)}", "strong")]),
            (1, [Span(plural(len(view.rows), "sample") + groups)]),
            (2, [Span(view.about.origin, "dim")]),
            (3, [Span(modes_words(view.report.aggregation), "dim" if view.about.own_modes else "attention")]),
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
        if not view.about.whole:
            line.append(Span("checking …  ", "dim"))
        sound = not self.probed.startswith("⚠")
        if view.about.whole and not line and sound and not self.trouble:
            line.append(Span("✓ no problems found  ", "good"))
        if self.probed:
            room = width - sum(len(span.text) for span in line) - LEFT_W
            told = self.probed if len(self.probed) < room else self.probed.partition(":")[0]
            line.append(Span(f"{told}  ", "good" if sound else "attention"))
        return line

    def _state(self, width: int) -> Line:
        if self.busy:
            return self.busy
        if self.trouble and not self.told_below:
            return [Span(f" ✗ {one_line(self.trouble, width - 4)}", "bad")]
        view = self.view
        if view is None:
            return ()
        if self.weighing:
            return self._modes(view)
        scored = f" scored at {clock(view.about.scored_at)} in {_took(view.about.took_s)}"
        left = [Span(scored if view.about.took_s else " not scored here", "dim")]
        if not view.about.own_modes:
            left.append(Span(f"   {modes_words(view.report.aggregation)}, unlike the config", "attention"))
        if view.about.reason:
            left.append(Span(f"   {view.about.reason}", "text"))
        if view.changed:
            left.append(Span(f"   {plural(view.changed, 'score')} changed, old→new", "accent"))
        elif view.about.reason.endswith("saved") and not view.failing_changed:
            left.append(Span("   no score changed", "dim"))
        return left

    def _modes(self, view: RewardsView) -> Line:
        modes = view.report.aggregation
        scale = f" scale {modes.scale_rewards}" + (" (not used)" if modes.normalized else "")
        combined = modes.multi_objective_aggregation
        line = [
            Span(" b", "key", "screen.rewards_scale"),
            Span(scale, "dim" if modes.normalized else "text"),
            Span(f"   {WORDS.get(combined, combined)}", "text", "screen.rewards_combine"),
        ]
        if not view.about.own_modes:
            line.append(Span("   differs from the config", "attention"))
        return line


def modes_words(modes: Aggregation) -> str:
    """Describe how totals become advantages. `scale` is omitted where TRL does not use it."""
    words = WORDS.get(modes.multi_objective_aggregation, modes.multi_objective_aggregation)
    return words if modes.normalized else f"scale {modes.scale_rewards}; {words}"


def _took(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds < 10 else duration(seconds)


class FindingLines(LineScroll):
    """Problems found with the rewards, errors first."""

    _findings: tuple[Finding, ...] = ()
    _whole = True
    _trouble = ""

    def show(self, view: RewardsView | None, trouble: str) -> None:
        self._findings = view.report.findings if view is not None else ()
        self._trouble = trouble
        self._whole = view is None or view.about.whole
        self.changed()

    def fit(self, most: int) -> None:
        """Set the height to the lines needed, at most `most`."""
        lines = len(self.lines(max(20, self.size.width or self.screen.size.width)))
        self.styles.height = min(most, lines)
        self.changed()

    def lines(self, width: int) -> list[Line]:
        lines: list[Line] = [ruled([[Span("findings", "title")]], width)]
        found = [(SIGNS[f.severity], f.message) for f in self._findings]
        if self._trouble:
            found.insert(0, (SIGNS["error"], self._trouble))
        if not found and not self._whole:
            lines.append([Span("  Checking the functions …", "dim")])
        elif not found:
            lines.append([Span("  No problems found on these samples.", "dim")])
        for (sign, role), message in found:
            lines += signed(sign, role, words_wrapped(one_line(message), max(10, width - 4)))
        return lines


class DetailLines(LineScroll):
    """The selected sample: what each function compared, the completion, and what was printed."""

    _detail: SampleDetail | None = None

    def show(self, detail: SampleDetail | None) -> None:
        if detail != self._detail:
            self._detail = detail
            self.scroll_to(y=0, animate=False, force=True)
            self.changed()

    def lines(self, width: int) -> list[Line]:
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
    """Return what a function compared, or that it fails because of this sample. May be empty."""
    if saw.failure and saw.blamed:
        rows = words_wrapped(f"{saw.name} fails on this sample: {saw.failure}", max(10, width - 4))
        return signed("✗", "bad", rows, "bad")
    if not saw.compared:
        return []
    line = [Span(f"  {saw.name} saw  ", "dim")]
    for name, value in saw.compared:
        line += [Span(f"{name} ", "dim"), Span(f"{one_line(value, 60)}   ", "strong")]
    return [line]
