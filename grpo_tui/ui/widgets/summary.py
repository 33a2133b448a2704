"""Lines of Train: reward and progress, health, functions, current phase, settings, and events."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len, chop_cells

from grpo_tui.core.text import one_line, shorten, told_apart, wrapped
from grpo_tui.present.formatting import (
    DOING,
    digits_for,
    duration,
    figure,
    fixed,
    from_here,
    moment,
    percent,
    plural,
    setting,
    within,
)
from grpo_tui.present.glyphs import spark
from grpo_tui.present.train_view import EventRow, FunctionRow, TrainView
from grpo_tui.ui.paint import Line, LinePane, LineScroll, Span, fitting, headed, pad, ruled, spread, width_of

if TYPE_CHECKING:
    from grpo_tui.present.hardware_view import HardwareView, RankRow

WIDEST_BAR = 40
LEAST_CAUSE = 40
"""Minimum length of a cause when the next step needs the remaining room."""


class RunLine(LinePane):
    """A line about the run's current state."""

    _view: TrainView | None = None

    def show(self, view: TrainView) -> None:
        self._view = view
        self.changed()


class RewardLine(RunLine):
    """Reward and its change, group std, zero-std groups, masked completions; progress and time left."""

    def lines(self, width: int, height: int) -> list[Line]:
        view = self._view
        if view is None:
            return [[Span(" Opening the run …", "dim")]]
        reward = [Span(" reward ", "dim"), Span(figure(view.reward), "strong")]
        reward += _change(view) if width >= 34 else []
        parts: list[tuple[int, Line]] = []
        if view.spread is not None:
            parts.append((3, [Span("group std ", "dim"), Span(figure(view.spread))]))
        if view.flat_share is not None:
            role = "attention" if view.flat_share >= 0.5 else "text"
            parts.append((4, [Span("zero-std groups ", "dim"), Span(percent(view.flat_share), role)]))
            ends = [
                f"{percent(share)} at the {end}"
                for share, end in ((view.flat_top, "highest total"), (view.flat_bottom, "lowest total"))
                if share
            ]
            if ends:
                parts.append((5, [Span(", ".join(ends), "dim")]))
        if view.masked_share:
            parts.append((4, [Span("masked ", "dim"), Span(percent(view.masked_share), "attention")]))
        room = max(0, width - width_of(_progress(view, 0)) - 3)
        over = _over(view) if width >= 34 else []
        needed = sum(width_of(part) + 3 for rank, part in parts if rank < 5)
        if width_of(reward) + width_of(over) + needed > room:  # drop the number of steps before a figure
            over = []
        left = fitting([(0, [*reward, *over]), *parts], room)
        return [spread(left, _progress(view, width - width_of(left) - 4), width)]


def _change(view: TrainView) -> list[Span]:
    change = view.reward_change
    if change is None:
        return []
    digits = max(2, digits_for([view.reward]))
    if not fixed(change, digits).strip("-0."):
        return [Span(f" → {fixed(0.0, digits)}", "dim")]
    sign, role = ("▲", "good") if change > 0 else ("▼", "bad")
    if not view.reward_moves:
        role = "dim"
    return [Span(f" {sign} {fixed(abs(change), digits)}", role)]


def _over(view: TrainView) -> list[Span]:
    if view.reward_change is None:
        return []
    return [Span(f" in {plural(min(20, max(1, view.step - view.stage_start - 1)), 'step')}", "dim")]


def _progress(view: TrainView, width: int) -> list[Span]:
    """Return a progress bar, percent and time left, using `width`. Empty when the end is unknown."""
    share = view.progress
    if share is None:
        return []
    words = f"  {share * 100:3.0f} %"
    if view.eta_s is not None:
        left = f"{duration(view.eta_s)} left" if view.state == "training" else ""
        words += f"  {left}" if left else ""
    room = min(WIDEST_BAR, width - len(words) - 1)
    if room < 8:
        return [Span(words.strip()), Span(" ")]
    done = round(share * room)
    return [Span("━" * done, "accent"), Span("─" * (room - done), "rule"), Span(words), Span(" ")]


class HealthLine(LinePane):
    """The run's health in plain words. A failure uses up to three lines and shows the next step in full."""

    _view: TrainView | None = None

    def show(self, view: TrainView) -> None:
        before = self._view
        self._view = view
        if before is None or (before.health, before.trouble, before.state) != (
            view.health,
            view.trouble,
            view.state,
        ):
            size = self.size
            self.changed(layout=self.get_content_height(size, size, size.width) != size.height)

    def get_content_height(self, container: object, viewport: object, width: int) -> int:
        return max(1, min(3, len(self.lines(width, 3))))

    def lines(self, width: int, height: int) -> list[Line]:
        """Return as many whole sentences as fit. A failure is wrapped instead."""
        view = self._view
        if view is None:
            return [()]
        if view.trouble:
            return _wrapped([Span(f"⚠ {view.trouble}", "attention")], width)
        spans = [Span(text, role) for text, role in view.health]
        if view.state in ("failed", "crashed"):
            return _cause_and_way(spans, width)
        shown: list[Span] = []
        sentences = _sentences(spans)
        judged = any(finding.severity != "info" for finding in view.findings)
        most = 3 if judged else 2 if view.state == "stopped" else 1
        for sentence in sentences:
            if not _fits(_wrapped([*shown, *sentence], width), most, width):
                break
            shown += sentence
        return _wrapped(shown, width) if shown else [[Span(" "), *(sentences[0] if sentences else ())]]


def _sentences(spans: list[Span]) -> list[list[Span]]:
    """Group spans into sentences, so that none is shown in part."""
    found: list[list[Span]] = []
    open_one: list[Span] = []
    for span in spans:
        open_one.append(span)
        if span.text.rstrip().endswith((".", "!", "?")):
            found.append(open_one)
            open_one = []
    return [*found, open_one] if open_one else found


def _cause_and_way(spans: list[Span], width: int) -> list[Line]:
    """Return everything if it fits, else a truncated cause and the full next step."""
    cause, *rest = spans
    lines = _wrapped(spans, width)
    room = len(cause.text)
    while not _fits(lines, 3, width) and room > LEAST_CAUSE:
        room -= 4
        lines = _wrapped([Span(shorten(cause.text, room) + " ", cause.role), *rest], width)
    return lines


def _fits(lines: list[Line], most: int, width: int) -> bool:
    return len(lines) <= most and all(width_of(line) <= width for line in lines)


def _pieces(text: str, room: int) -> Iterator[tuple[str, bool]]:
    """Yield words with their spaces, and whether a line may break before each. Splits very long words."""
    for word in re.findall(r" *[^ ]+ *", text):
        parts = chop_cells(word, room) if cell_len(word) > room > 1 else [word]
        yield from ((part, part is not parts[0] or word.startswith(" ")) for part in parts)


def _wrapped(spans: list[Span], width: int) -> list[Line]:
    """Wrap spans to at most three lines. The last one may be too long."""
    lines: list[list[Span]] = [[Span(" ")]]
    for span in spans:
        for word, breaks in _pieces(span.text, width - 3):
            used = width_of(lines[-1]) + cell_len(word.rstrip())
            between = breaks or lines[-1][-1].text.endswith(" ")
            if used > width and between and len(lines) < 3 and len(lines[-1]) > 1:
                lines.append([Span("   ")])
                word = word.lstrip()
            lines[-1].append(Span(word, span.role))
    for line in lines:
        if width_of(line) > width:  # a trailing space at the right edge
            line[-1] = Span(line[-1].text.rstrip(), line[-1].role)
    return list(lines)


CURVE = 10
COLUMNS = (("weight", 7), ("mean", 7), ("contrib", 9))


class FunctionTable(LinePane):
    """One line per reward function under a heading."""

    _rows: tuple[FunctionRow, ...] = ()
    _nothing = ""

    def show(self, rows: tuple[FunctionRow, ...], nothing: str) -> None:
        """Show these functions, or `nothing` without any."""
        if rows != self._rows or nothing != self._nothing:
            taller = len(rows) != len(self._rows)
            self._rows, self._nothing = rows, nothing
            self.changed(layout=taller)

    def get_content_height(self, container: object, viewport: object, width: int) -> int:
        return 1 + max(1, len(self._rows))

    def lines(self, width: int, height: int) -> list[Line]:
        """Return heading and rows. Rows that do not fit are counted."""
        curve = CURVE if width >= 52 else 0
        figures = sum(cells for _, cells in COLUMNS)
        name_width = max(8, width - 1 - figures - (curve + 2 if curve else 0) - 1)
        lines: list[Line] = [self._heading(width, name_width)]
        if not self._rows:
            return [*lines, [Span(f"  {self._nothing}", "dim")]]
        digits = digits_for([row.mean for row in self._rows])
        room = max(1, height - 1)
        shown = self._rows if len(self._rows) <= room else self._rows[: room - 1]
        names = told_apart([row.name for row in self._rows], name_width)
        for row, name in zip(shown, names, strict=False):
            line = [
                Span(" " + pad(name, name_width)),
                Span(pad(_weight(row.weight), 7, right=True), "dim"),
                Span(pad(within(row.mean, 6, max(2, digits)), 7, right=True), "strong"),
                Span(pad(percent(row.share), 9, right=True)),
            ]
            if curve:
                line.append(Span("  " + pad(spark(row.trend, curve), curve), "line"))
            lines.append(line)
        if len(shown) < len(self._rows):
            lines.append([Span(f"  and {len(self._rows) - len(shown)} more", "dim")])
        return lines

    def _heading(self, width: int, name_width: int) -> Line:
        title = "rewards by function" if name_width >= 21 else "rewards"
        words = [(2, title, "title")]
        edge = 1 + name_width
        for name, cells in COLUMNS:
            edge += cells
            words.append((edge - len(name), name, "dim"))
        return headed(words, width)


def _weight(weight: float) -> str:
    """Return three significant digits with at least one decimal: 2.0, 0.5, 0.333, 12.8."""
    return within(weight, 6, 1) if weight % 1 == 0 or abs(weight) >= 1000 else f"{weight:.3g}"


OPENS = "screen.hardware_open"


class NowLine(RunLine):
    """Current phase and its duration, the machine, and the time spent in each phase."""

    def lines(self, width: int, height: int) -> list[Line]:
        view = self._view
        if view is None:
            return [ruled([[Span("now", "title")]], width)]
        head: list[Line] = [[Span("ended" if view.ended else "now", "title")], _phase(view)]
        if view.model_at:
            place = from_here(Path(view.model_at))
            head.append([Span("model in ", "dim"), Span(one_line(place, max(20, width - 40)))])
        shares = _shares(view)
        for machine in _machine(view.hardware):
            for parts in ([*head, shares], head) if shares else (head,):
                if _ruled_fits(parts, machine, width):
                    return [ruled(parts, width, machine)]
        wanted = bool(shares) and (not view.model_at or _ruled_fits([*head, shares], (), width))
        return [ruled([*head, shares] if wanted else head, width)]


def _phase(view: TrainView) -> Line:
    return [Span(f"{view.stage}  "), *_doing(view)] if view.stage else _doing(view)


def _doing(view: TrainView) -> Line:
    if view.state == "paused":
        return [Span(paused_words(view), "strong attention")]
    if view.ended:
        of = f" of {view.total_steps:,}" if view.total_steps else ""
        return [Span(f"{view.state} at step {view.step:,}{of}")]
    if view.state == "broken":
        return [Span("the run cannot be read")]
    behind = [rank for rank in view.ranks if rank.behind]
    if behind:
        return _waited_for(view, behind)
    for_s = f" for {duration(view.phase_s)}" if view.phase_s is not None else ""
    return [Span(f"{doing(view.phase, view.reward_function)}{for_s}")]


def _waited_for(view: TrainView, behind: list[RankRow]) -> Line:
    """Name the rank the others wait for, or count them."""
    first = behind[0]
    since = min((rank.phase_since for rank in behind if rank.phase_since), default=view.now)
    who = f"rank {first.rank}" if len(behind) == 1 else f"{len(behind)} of {len(view.ranks)} ranks"
    for_s = duration(max(0.0, view.now - since))
    return [Span(f"{who} still {doing(first.phase, first.reward_function)} for {for_s}")]


def doing(phase: str, reward_function: str | None = None) -> str:
    """Return what happens in a phase, in words."""
    if phase == "reward" and reward_function:
        return f"scoring with {reward_function}"
    return DOING.get(phase, phase)


def _shares(view: TrainView) -> Line:
    if view.state == "paused":
        return ()
    return [
        Span(f"{'  ' if i else ''}{name} {percent(share)}", "dim")
        for i, (name, share) in enumerate(view.phase_shares)
        if share >= 0.005
    ]


def _machine(hardware: HardwareView | None) -> list[Line]:
    """Return the machine's figures in versions from long to short. Warnings are kept longest."""
    if hardware is None:
        return []
    figures: list[Line] = [[Span(words, "text", OPENS)] for words in hardware.figures]
    if not hardware.warnings:
        return figures
    first, more = hardware.warnings[0], len(hardware.warnings) - 1
    sign = Span(f"⚠ {first.short}" + (f" and {more} more" if more else ""), "attention", OPENS)
    return [*([*line, Span("   "), sign] for line in figures), [sign]]


def _ruled_fits(parts: list[Line], right: Line, width: int) -> bool:
    return 2 + sum(map(width_of, parts)) + 4 * (len(parts) - 1) + 1 + width_of(right) + 3 <= width


def paused_words(view: TrainView) -> str:
    """Return the sentence for a paused run."""
    for_s = f" for {duration(view.phase_s)}" if view.phase_s is not None else ""
    return f"⏸ paused at step {view.step:,}{for_s}; memory stays allocated; P resumes"


class EventLines(LinePane):
    """The run's newest events, as many as fit."""

    _events: tuple[EventRow, ...] = ()
    _nothing = ""
    _now = 0.0

    def show(self, view: TrainView) -> None:
        self._events, self._now, self._nothing = view.events, view.now, view.no_events
        self.changed()

    def lines(self, width: int, height: int) -> list[Line]:
        if not self._events:
            return [[Span(f"   {self._nothing}", "dim")]]
        lines: list[Line] = []
        shown = self._events[: max(1, height)]
        steps = [f"step {event.step:,}" if event.step is not None else "now" for event in shown]
        cells = max(11, 2 + max(map(len, steps)))
        for event, step in zip(shown, steps, strict=True):
            when = moment(event.at, self._now)
            line = [
                Span(f" {event.sign} ", event.role),
                Span(pad(step, cells), "dim"),
                Span(event.text, "bad" if event.role == "bad" else "text"),
            ]
            if width_of(line) + len(when) + 3 <= width:
                line += [Span(" " * (width - width_of(line) - len(when) - 1)), Span(when, "dim")]
            lines.append(line)
        return lines


class RunSettings(LineScroll):
    """One setting a line, the most important first."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._recorded: Sequence[tuple[str, str]] | None = None
        self._now: Mapping[str, Any] = {}

    def show(self, recorded: Sequence[tuple[str, str]] | None, now: Mapping[str, Any]) -> None:
        """Show the recorded settings (None while they are being read) and the current values by name."""
        if (recorded, now) != (self._recorded, self._now):
            self._recorded, self._now = recorded, now
            self.changed()

    def lines(self, width: int) -> Sequence[Line]:
        title = ruled([[Span("settings", "title")]], width)
        recorded = self._recorded
        if not recorded:
            word = "Reading the settings …" if recorded is None else "No settings were recorded."
            return [title, [Span(f"  {word}", "dim")]]
        lines: list[Line] = [title]
        known = dict(recorded)
        others = [(name, setting(value)) for name, value in self._now.items() if name not in known]
        for name, value in (*recorded, *others):
            lines += _row([Span(f" {name}", "dim")], [Span(value)], width)
            now = setting(self._now[name]) if name in self._now else value
            if now != value:
                lines.append(spread((), [Span(f"now {now}", "attention")], width))
        return lines


def _row(name: list[Span], value: list[Span], width: int) -> list[Line]:
    if width_of(name) + width_of(value) + 2 <= width:
        return [spread(name, value, width)]
    return [name, *([Span(f"   {row}")] for row in wrapped(value[0].text, max(1, width - 3)))]
