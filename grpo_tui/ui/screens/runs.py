"""Pane 1, Runs: every run here with its state, and details of the selected one."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.screen import Screen
from textual.widgets import Input

from grpo_tui.core.text import one_line, shell_word, wrapped
from grpo_tui.present.formatting import DOING, IN_SCRIPT, figure, from_here, moment, plural
from grpo_tui.present.glyphs import spark, state_sign
from grpo_tui.present.runs_filter import SYNTAX, branch, read_filter, with_forks
from grpo_tui.ui.actions import Action, action, bindings
from grpo_tui.ui.kit.table import Column, Table, cells, fit, heading
from grpo_tui.ui.needs import Listed, refusal
from grpo_tui.ui.paint import Line, LinePane, Span, fitting, pad, ruled, spread
from grpo_tui.ui.shell import Shell
from grpo_tui.ui.textual_private import KeepsStyles
from grpo_tui.ui.widgets.bars import Footer, Header

if TYPE_CHECKING:
    from grpo_tui.present.runs_view import ResumeOffer, RunRow
    from grpo_tui.present.train_view import TrainView


ORDERS: dict[str, Callable[[RunRow], tuple[Any, ...]]] = {
    "reward": lambda row: (row.reward is None, -(row.reward or 0.0)),
    "name": lambda row: (row.name.lower(),),
    "state": lambda row: (not row.live, row.state, -(row.seen_at or 0.0)),
}
"""Sort keys. The default order is live runs first, then the newest heartbeat, with forks under their run."""


TIMES_S = 5.0
"""How often ages are updated while no run changes."""


class RunsSummary(LinePane):
    """Number of runs, filter, marks, and the column headings."""

    rows: tuple[RunRow, ...] = ()
    shown: tuple[RunRow, ...] = ()
    words = ""
    trouble = ""
    order = ""
    marked = 0
    complete = False
    places = ""

    def lines(self, width: int, height: int) -> list[Line]:
        if not self.rows:
            return [self._empty(), ()]
        live = sum(row.live for row in self.rows)
        parts: list[tuple[int, Line]] = [
            (0, [Span(plural(len(self.rows), "run"), "strong")]),
            (4, [Span(f"{live} live", "good" if live else "dim")]),
        ]
        if self.trouble:
            parts.append((1, [Span(self.trouble, "attention")]))
        elif self.words:
            match = "1 matches" if len(self.shown) == 1 else f"{len(self.shown)} match"
            parts.append((1, [Span(f"{match} “{self.words}”; esc shows all", "attention")]))
        if self.marked:
            parts.append((2, [Span(f"● {self.marked} marked", "attention")]))
        if self.order:
            parts.append((3, [Span(f"by {self.order}", "accent")]))
        left = [Span(" "), *fitting(parts, width - 2)]
        right = [Span(f"{self.places} ", "dim")] if self.complete else [Span("still looking … ", "dim")]
        return [spread(left, right, width), heading(run_columns(self.shown, width - 1), width)]

    def _empty(self) -> Line:
        if not self.complete:
            return [Span(f" Looking for runs under {self.places} …", "dim")]
        return [Span(f" No runs under {self.places} yet.", "strong")]


class EmptyRuns(LinePane):
    """What to do when there are no runs."""

    def lines(self, width: int, height: int) -> list[Line]:
        return [
            (),
            [
                Span("   grpo-tui demo          ", "key"),
                Span("a real GRPO run of a tiny model, on the CPU", "dim"),
            ],
            [Span("   grpo-tui train CONFIG  ", "key"), Span("a run of your own TRL config", "dim")],
            (),
            [Span("   New runs appear here.", "dim")],
        ]


class RunsScreen(KeepsStyles, Screen[None], Shell):
    """The list of runs."""

    AUTO_FOCUS = "#runs-table"  # not the filter, which would receive keys typed early
    BINDINGS = bindings("runs")

    def __init__(self) -> None:
        super().__init__()
        self._marked: list[Path] = []
        self._order = ""
        self._resuming: Path | None = None

    def compose(self) -> ComposeResult:
        yield Header("runs")
        yield Input(placeholder=SYNTAX, id="runs-filter")
        yield RunsSummary(id="runs-summary")
        yield EmptyRuns(id="runs-empty")
        yield RunsTable(id="runs-table")
        yield RunDetail(id="run-detail")
        yield Footer("runs")

    def on_mount(self) -> None:
        self.query_one("#runs-filter", Input).display = False
        self.query_one("#runs-summary", RunsSummary).places = self.shell.places
        self.shell.runs_signal.subscribe(self, self._on_rows)
        self.shell.view_signal.subscribe(self, self._on_view)
        self._on_rows((self.shell.rows, self.shell.rows_complete))
        self._on_view(self.shell.view)
        self.query_one(RunsTable).focus()
        self.set_interval(TIMES_S, self._go_on)

    def _go_on(self) -> None:
        if self.is_current:
            self._show()

    @property
    def listed(self) -> Listed:
        return Listed(self.query_one(RunsTable).selected, len(self._marked))

    # -- showing ---------------------------------------------------------------------------------

    def _on_rows(self, listed: tuple[tuple[RunRow, ...], bool]) -> None:
        summary = self.query_one("#runs-summary", RunsSummary)
        summary.rows, summary.complete = listed
        self._show()

    def _on_view(self, view: TrainView | None) -> None:
        self.query_one(Header).show(view)

    def _show(self) -> None:
        summary = self.query_one("#runs-summary", RunsSummary)
        words, now = self.query_one("#runs-filter", Input).value.strip(), self.shell.clock()
        wanted = read_filter(words)
        shown = wanted.of(summary.rows, now)
        shown = tuple(sorted(shown, key=ORDERS[self._order])) if self._order else with_forks(shown)
        if summary.complete:
            known = {row.path for row in summary.rows}
            self._marked = [path for path in self._marked if path in known]
        summary.shown, summary.words, summary.trouble = shown, one_line(words, 40), wanted.trouble
        summary.order, summary.marked = self._order, len(self._marked)
        summary.changed()
        self.query_one(RunsTable).show(shown, now, frozenset(self._marked))
        self.query_one("#runs-empty").display = summary.complete and not summary.rows
        self._show_chosen()

    def _show_chosen(self) -> None:
        listed = self.listed
        self.query_one(RunDetail).show(listed.row, self.shell.clock())
        self.query_one(Footer).show(self.shell.view, listed)

    def on_cursor_list_highlighted(self) -> None:
        self._show_chosen()

    def on_resize(self) -> None:
        """Lay out again: the headings depend on the width."""
        self.query_one("#runs-summary", RunsSummary).changed()
        self.call_after_refresh(self._show_chosen)

    # -- filter, order, marks --------------------------------------------------------------------

    def on_input_changed(self, event: Input.Changed) -> None:
        self._show()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        if not event.value.strip():
            event.input.display = False
        self.query_one(RunsTable).focus()

    def action_runs_filter(self) -> None:
        field = self.query_one("#runs-filter", Input)
        field.display = True
        self.set_focus(field)

    def action_runs_clear(self) -> None:
        field = self.query_one("#runs-filter", Input)
        if not field.display and self._marked:
            self._marked = []
            self._show()
        field.value = ""
        field.display = False
        self.query_one(RunsTable).focus()

    def action_runs_mark(self) -> None:
        """Mark or unmark the run and move to the next one, as file managers do."""
        row = self._allowed(action("runs.mark"))
        if row is None:
            return
        if row.path in self._marked:
            self._marked.remove(row.path)
        else:
            self._marked.append(row.path)
        self.query_one(RunsTable).action_move(1)
        self._show()

    def action_runs_copy(self) -> None:
        row = self._allowed(action("runs.copy"))
        if row is not None:
            self.shell.copy(
                f"the command that opens {row.name}",
                f"grpo-tui attach {shlex.quote(str(row.path.resolve()))}",
            )

    def action_runs_config(self) -> None:
        from grpo_tui.ui.requests import ConfigRequest

        row = self._allowed(action("runs.config"))
        if row is None:
            return
        path = Path(row.config_path)
        if row.config_path and path.is_file():
            self.shell.show_config(ConfigRequest(path))
        else:
            word = (
                f"its file {row.config_path} is gone" if row.config_path else "it was started without a file"
            )
            self.app.notify(f"{row.name}: {word}; `grpo-tui check RUN` shows what it ran.")

    def action_runs_overlay(self) -> None:
        from grpo_tui.ui.screens.chart import OverlayScreen

        reason = refusal(action("runs.overlay"), self.shell.view, self.listed)
        if reason is not None:
            self.app.notify(reason, severity="warning")
        else:
            self.app.push_screen(OverlayScreen(tuple(self._marked)))

    def action_runs_sort(self) -> None:
        orders = ["", *ORDERS]
        self._order = orders[(orders.index(self._order) + 1) % len(orders)]
        self._show()

    # -- the run under the cursor ----------------------------------------------------------------

    def on_cursor_list_selected(self) -> None:
        """Open the run on a second click, without the checks that keys have."""
        row = self.query_one(RunsTable).selected
        if row is not None:
            self.shell.open_run(row.path)

    def action_runs_open(self) -> None:
        row = self._allowed(action("runs.open"))
        if row is not None:
            self.shell.open_run(row.path)

    def action_runs_replay(self) -> None:
        row = self._allowed(action("runs.replay"))
        if row is not None:
            self.shell.open_run(row.path, replay=True)

    def action_move(self, by: int) -> None:
        self.query_one(RunsTable).action_move(by)

    def action_runs_resume(self) -> None:
        """Look for the checkpoint in a thread, then ask."""
        row = self._allowed(action("runs.resume"))
        if row is None:
            return
        if self._resuming is not None:
            self.app.notify(f"{one_line(self._resuming.name, 60)} is being resumed. Please wait.")
            return
        from grpo_tui.present.runs_view import read_offer

        self.in_thread("resume", partial(read_offer, row), self._ask_to_resume)

    def _ask_to_resume(self, offer: ResumeOffer) -> None:
        from grpo_tui.ui.screens.dialogs import ResumeDialog

        if offer.refusal:
            self.app.notify(offer.refusal, severity="warning", timeout=10)
        elif self.app.screen is self:
            self.ask(ResumeDialog(offer), lambda _: self._start(offer))

    def _start(self, offer: ResumeOffer) -> None:
        from grpo_tui.rewards.consent import needed_to_resume

        if self.asks_consent(needed_to_resume(offer.path), partial(self._start, offer)):
            return
        self._resuming = offer.path
        self.app.notify(f"{offer.name}: starting from {offer.checkpoint} …")
        from grpo_tui.ui.starting import resume_run

        self.in_thread("resume", partial(resume_run, offer.path), partial(self._resumed, offer))

    def _resumed(self, offer: ResumeOffer, ended: tuple[bool, str]) -> None:
        self._resuming = None
        started, said = ended
        if not started:
            self.app.notify(f"{offer.name} was not resumed: {said}", severity="error", timeout=20)
            return
        self.app.notify(f"{offer.name}: {said}")
        if self.app.screen is self:
            self.shell.open_run(offer.path)

    def _allowed(self, asked: Action) -> RunRow | None:
        """Return the run under the cursor if the action is available for it. Otherwise say why not."""
        listed = self.listed
        reason = refusal(asked, self.shell.view, listed)
        if reason is not None:
            self.app.notify(reason, severity="warning")
            return None
        return listed.row


LABEL_W = 13
MOST_CHECKPOINTS = 8
CURVE_W, DETAIL_CURVE_W = 15, 48


class RunDetail(LinePane):
    """Details of the selected run, under the list."""

    _row: RunRow | None = None
    _now = 0.0

    def show(self, row: RunRow | None, now: float) -> None:
        self._row, self._now = row, now
        if self.display:
            self.changed()

    def lines(self, width: int, height: int) -> list[Line]:
        row = self._row
        if row is None:
            return []
        began = f"began {_when(row.started_at)}   " if row.started_at else ""
        right = [Span(f"{began}{moment(row.seen_at, self._now)}", "dim")]
        lines: list[Line] = [ruled([[Span(row.name, "title")], _standing(row)], width, right)]
        lines += _story(row, width)
        if row.reward is not None:
            lines.append(_course(row, width))
        lines.append(_labelled("checkpoints", [_checkpoints(row)]))
        if row.forked_from is not None:
            place = one_line(from_here(row.forked_from.parent))
            parent = pad(f"{one_line(row.forked_from.name)} of {place}", width - LABEL_W)
            lines.append(_labelled("forked from", [Span(parent)]))
        parts = [
            [Span(text, "text")]
            for text in (_typed(row.model_path), _typed(row.config_path), one_line(from_here(row.path)))
            if text
        ]
        lines.append(_labelled("from", fitting(list(enumerate(parts)), width - LABEL_W)))
        lines.append(_way_on(row, width))
        return lines[:height]


def _standing(row: RunRow) -> Line:
    sign, role = state_sign(row.state)
    step = f" at step {row.step:,}" if row.step else ""
    total = f" of {row.total_steps:,}" if row.step and row.total_steps else ""
    return [Span(f"{sign} {row.state}", role), Span(step + total, "text")]


def _story(row: RunRow, width: int) -> list[Line]:
    if row.trouble or row.cause:
        role = "bad" if row.state in ("failed", "crashed", "broken") else "attention"
        rows = wrapped(row.trouble or row.cause, width - 2)
        if len(rows) > 2:
            rows = [rows[0], pad(" ".join(rows[1:]), width - 2)]
        return [[Span(f" {text}", role)] for text in rows]
    words = {
        "finished": "It completed all its steps.",
        "stopped": "It was stopped.",
        "paused": "It is paused; memory stays allocated.",
        "stalled": "It is running but has made no progress for a while.",
    }.get(row.state, f"It is {DOING[row.phase]} now." if row.phase in DOING else f"It is {row.state}.")
    again = f" Start number {row.attempt}." if row.attempt > 1 else ""
    return [[Span(f" {words}{again}", "text")]]


def _course(row: RunRow, width: int) -> Line:
    known = [value for value in row.curve if value is not None]
    line = [Span(f"{figure(known[0])} → " if known else "", "dim"), Span(figure(row.reward), "strong")]
    line.append(Span("   " + spark(row.curve, min(DETAIL_CURVE_W, max(0, width - 40))), "line"))
    return _labelled("reward", line)


def _checkpoints(row: RunRow) -> Span:
    if not row.checkpoints and not row.torn:
        return Span("none", "dim")
    shown = row.checkpoints[-MOST_CHECKPOINTS:]
    more = len(row.checkpoints) - len(shown)
    text = f"{more} older, " if more else ""
    text += ", ".join(f"{step:,}" for step in shown)
    if row.torn:
        text += f"{'; ' if shown else ''}not complete: {', '.join(f'{step:,}' for step in row.torn[-3:])}"
    return Span(text)


def _typed(path: str) -> str:
    return from_here(Path(path)) if path.startswith("/") else path


def _way_on(row: RunRow, width: int) -> Line:
    path = from_here(row.path)
    if row.trouble:
        return []
    if row.live or row.state == "finished" or not row.checkpoints:
        line = [Span("enter", "key", "screen.runs_open"), Span(" opens it")]
        if row.ended and row.state != "finished":
            line.append(Span("; no complete checkpoint to resume from", "dim"))
            return _labelled("next step", line)
        word = "attach" if row.live else "compare"
        return _labelled("next step", [*line, Span(f"   grpo-tui {word} {shell_word(path)}", "dim")])
    from grpo_tui.present.runs_view import resume_command

    command = resume_command(path)
    line = [Span("R", "key", "screen.runs_resume"), Span(f" resumes from checkpoint-{row.checkpoints[-1]}")]
    if command == IN_SCRIPT:
        line = [Span("start its script again to continue")]
    return _labelled("next step", [*line, Span(f"   {command}", "dim")])


def _labelled(label: str, line: Line) -> Line:
    return [Span(" " + pad(label, LABEL_W - 1), "dim"), *line]


def _when(at: float) -> str:
    return time.strftime("%d %b %H:%M", time.localtime(at))


class RunsTable(Table["RunRow"]):
    """Runs with a cursor and marks."""

    ALWAYS_LIT = True

    _now = 0.0
    marked: frozenset[Path] = frozenset()

    def show(self, rows: tuple[RunRow, ...], now: float, marked: frozenset[Path] = frozenset()) -> None:
        """Show these runs. The cursor stays on its run even if that moves."""
        chosen = self.selected.path if self.selected else None
        self.rows, self._now, self.marked = rows, now, marked
        places = [i for i, row in enumerate(rows) if row.path == chosen]
        top = self.scroll_offset.y
        in_sight = top <= self.cursor < top + self.scrollable_content_region.height
        self.cursor = places[0] if places else min(self.cursor, max(0, len(rows) - 1))
        if in_sight:
            self.put(self.cursor)
        else:
            self.changed()

    def action_move(self, by: int) -> None:
        """Move the cursor. Unlike in other lists, it starts from its own row even when out of view."""
        if self.rows:
            self.put(self.cursor + by)
            self.moved()

    def columns(self, width: int) -> list[Column[RunRow]]:
        # The same width as for the heading, which does not know whether a scroll bar is shown.
        room = self.outer_size.width - 1
        columns = run_columns(self.rows, room, self._now, self.marked, self.selected)
        return [*columns, Column("", max(0, width - 1 - cells(columns)), lambda row: Span(""))]


def run_columns(
    rows: Sequence[RunRow],
    width: int,
    now: float = 0.0,
    marked: frozenset[Path] = frozenset(),
    chosen: RunRow | None = None,
) -> list[Column[RunRow]]:
    """Return the columns that fit beside the cursor. `chosen` is the row under it."""
    names = max((cell_len(branch(row.generation) + row.name) for row in rows), default=8) + 2
    models = max((cell_len(row.trouble or row.model) for row in rows), default=0) + 2
    configs = max((cell_len(row.config) for row in rows), default=0) + 2
    name_w = max(8, min(names, max(14, width // 4)))
    model_w = min(models, max(12, width // 4)) if models > 2 else 0
    config_w = min(configs, 28) if configs > 2 else 0

    def name(row: RunRow) -> Span:
        return Span(branch(row.generation) + row.name, "strong" if row.live or row is chosen else "text")

    def seen(row: RunRow) -> Span:
        return Span(f"  {moment(row.seen_at, now)}", "dim")

    return fit(
        [
            Column("", 2, lambda row: Span("●" if row.path in marked else "", "attention")),
            Column("  state", 12, _state, gap=1),
            Column("run", name_w, name, gap=1, role="title"),
            Column("model", model_w, _model, gap=1, priority=5),
            Column("step", 16, _step, right=True, gap=1, priority=2),
            Column("reward", 9, _reward, right=True, gap=1, priority=1),
            Column("  over time", CURVE_W, _curve, gap=1, priority=4),
            Column("  heartbeat", 15, seen, gap=1, priority=3),
            Column("config", config_w, lambda row: Span(row.config, "dim"), gap=1, priority=6),
        ],
        width - 1,
    )


def _state(row: RunRow) -> Span:
    sign, role = state_sign(row.state)
    return Span(f"{sign} {row.state}", role)


def _model(row: RunRow) -> Span:
    return Span(row.trouble, "bad") if row.trouble else Span(row.model, "dim")


def _step(row: RunRow) -> Span:
    of = f" of {row.total_steps:,}" if row.total_steps else ""
    return Span(f"{row.step:,}{of}" if of or row.step else "")


def _reward(row: RunRow) -> Span:
    return Span("" if row.reward is None else figure(row.reward), "strong")


def _curve(row: RunRow) -> Span:
    return Span("  " + _small_curve(row.curve), "line")


@lru_cache(maxsize=1024)
def _small_curve(values: tuple[float | None, ...]) -> str:
    """Return a sparkline. Cached: it is most of a row's cost, and few runs change between refreshes."""
    return spark(values, CURVE_W - 4)
