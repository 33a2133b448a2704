"""Dialogs of Train: settings to change, the findings of the run, and edited rewards to load after a yes.

They return the user's choice and do nothing themselves.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.suggester import SuggestFromList
from textual.widgets import Input

from grpo_tui.config import live_settings
from grpo_tui.core.commands import REPLAYED
from grpo_tui.core.exchange import rebuilt
from grpo_tui.core.findings import Remedy
from grpo_tui.core.probe_changes import NAME
from grpo_tui.core.text import one_line, safe, wrapped
from grpo_tui.present.formatting import duration, plural, setting
from grpo_tui.present.run_findings import PAGE, RunFinding, to_write
from grpo_tui.present.train_view import TrainView
from grpo_tui.ui.kit.reading import ReadingScreen
from grpo_tui.ui.kit.table import Column, CursorList, Listing
from grpo_tui.ui.paint import Line, Span, ruled, spans
from grpo_tui.ui.screens.dialogs import Dialog, DialogText, YesNo
from grpo_tui.ui.widgets.yaml_area import SIGNS

if TYPE_CHECKING:
    from grpo_tui.rewards.reload_check import ReloadCheck
    from grpo_tui.ui.starting import Ended


USUAL = ("learning_rate", "temperature", "reward_weights")
"""Settings with a line of their own."""
OTHERS = tuple(name for name in live_settings.LIVE if name not in USUAL)
RATE_FAR = 10
"""A learning rate is asked about sooner than another number."""
WIDTH = 73
AT_ONCE = "Applied together after the current step. With @step:500, after step 500."


class SetDialog(Dialog[dict[str, object]]):
    """Ask for new values of settings. The usual ones have a field each, and the others are typed by name.

    Attributes:
        typed: What was sent, by the id of its field. With a `refusal`, the dialog comes back with it.
        at: The id of the field from which it was sent.
    """

    def __init__(
        self, view: TrainView, typed: Mapping[str, str] | None = None, refusal: str = "", at: str = ""
    ) -> None:
        super().__init__("set", "tab next   enter apply   esc cancel")
        self.typed, self.at = dict(typed or {}), at
        self._refusal = refusal
        self._functions = [function.name for function in view.functions]
        self._values = view.settable
        self._now = {name: setting(view.settings[name]) if name in view.settings else "" for name in USUAL}
        self._rate = view.settings.get("learning_rate")
        self._asked: object = None
        self._wrong = False
        """Whether the last line says what is wrong, which stays until something is typed."""

    def parts(self) -> ComposeResult:
        for name in USUAL:
            label = [Span(f" {name}", "strong")]
            if name == "reward_weights":
                label.append(Span("   " + ", ".join(self._functions), "dim"))
            yield DialogText([label])
            yield self._field(name, safe(self._now[name]))
        such = "   such as beta=0.02 top_p=0.9@step:500"
        yield DialogText([[Span(" other settings", "strong"), Span(such, "dim")]])
        starts = [f"{name}+=" if name == NAME else f"{name}=" for name in OTHERS]
        yield self._field("others", suggester=SuggestFromList(starts))
        yield DialogText([[Span(" because", "strong"), Span("   for the history of the run", "dim")]])
        yield self._field("because")
        yield DialogText([[Span(f" {AT_ONCE}", "dim")]], id="set-word")

    def _field(self, name: str, value: str = "", suggester: SuggestFromList | None = None) -> Input:
        value = self.typed.get(f"set-{name}", value)
        return Input(value=value, id=f"set-{name}", suggester=suggester)

    def on_mount(self) -> None:
        if self._refusal:
            self._wrong = True
            self._tell([f"✗ {self._refusal}"], "bad")
            self.set_focus(self.query_one(f"#{self.at}"))

    def on_descendant_focus(self, event: Any) -> None:
        if isinstance(self.focused, Input) and not self._wrong:
            self._explain(self.focused)

    def on_input_changed(self, event: Input.Changed) -> None:
        if event.value == self.typed.get(str(event.input.id)):  # the dialog came back with it
            return
        self._wrong = False
        if event.input is self.focused:
            self._explain(event.input)

    def _explain(self, field: Input) -> None:
        name = str(field.id).removeprefix("set-")
        if name == "others":
            words, prompt = _others(field.value)
            name = words[-1].partition("=")[0] if words and not field.value.endswith(" ") else ""
            name = NAME if prompt or name.rstrip("+-") == NAME else name
        row = live_settings.LIVE.get(name)
        if row is not None:
            value = self._values.get(name)
            now = f", now {setting(value)}" if name in self._values else ""
            self._tell([f"{name}{now}. {row.what}. Counts {row.from_when}."], "dim")
        elif field.id == "set-others":
            near = [other for other in OTHERS if name.lower() in other] or list(OTHERS)
            self._tell([" ".join(near)], "dim")
        else:
            self._tell([self._when()], "dim")

    def _when(self) -> str:
        """Say when what is typed is applied. One setting that waits holds the others back."""
        typed, _ = _others(self.query_one("#set-others", Input).value)
        fields = {name: self.query_one(f"#set-{name}", Input).value.strip() for name in USUAL}
        words = [*typed, *(f"{name}={text}" for name, text in fields.items() if text != self._now[name])]
        late = live_settings.waiting(word.partition("=")[0] for word in words if "@" not in word)
        if not late:
            return AT_ONCE
        return f"Applied together at the next generation, from which {', '.join(late)} can change."

    def _tell(self, texts: list[str], role: str) -> None:
        lines: list[Line] = [[Span(f" {line}", role)] for text in texts for line in wrapped(text, WIDTH)]
        self.query_one("#set-word", DialogText).tell(lines)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        if not self.is_active:  # enter may come twice before the first one is done
            return
        try:
            changed = self._changed()
        except _WrongError as wrong:
            self._wrong = True
            self._tell([f"✗ {one_line(str(wrong))}"], "bad")
            wrong.field.focus()
            return
        if not changed:
            self._tell(["Nothing is changed yet."], "attention")
            return
        far = [words for name, value in _each(changed) if (words := self._far(name, value))]
        if far and self._asked != changed:
            self._asked = changed
            self._tell([f"⚠ {one_line(', '.join(far))}. Press enter again to apply it."], "attention")
            return
        self.typed = {str(field.id): field.value for field in self.query(Input)}
        self.at = str(event.input.id)
        because = self.query_one("#set-because", Input).value.strip()
        self.dismiss(changed | ({"yes": True} if far else {}) | ({"because": because} if because else {}))

    def _far(self, name: str, value: object) -> str:
        if name == "learning_rate":
            return live_settings.far_from(name, self._rate, value, RATE_FAR)
        return live_settings.far_from(name, self._values.get(name), value, live_settings.FAR)

    def _changed(self) -> dict[str, Any]:
        """Return the settings whose value was changed, as arguments of `set`.

        Raises:
            _WrongError: A value cannot be used.
        """
        changed: dict[str, Any] = {}
        for name in USUAL:
            field = self.query_one(f"#set-{name}", Input)
            if (text := field.value.strip()) == self._now[name]:
                continue
            try:
                value, step = live_settings.at_step(text)
                _put(changed, name, read_setting(name, value, len(self._functions)), step)
            except ValueError as error:
                raise _WrongError(str(error), field) from None
        field = self.query_one("#set-others", Input)
        words, prompt = _others(field.value)
        if (change := live_settings.probe_change(prompt)) is not None:
            _put(changed, *change)
        for word in words:
            name, equals, text = word.partition("=")
            try:
                if name not in OTHERS:
                    raise ValueError(live_settings.unlike(name))
                if not equals or not text:
                    raise ValueError(f"{name} has no value. Write it as {name}=…")
                value, step = live_settings.at_step(text)
                _put(changed, name, live_settings.live_value(name, value, {}), step)
            except ValueError as error:
                raise _WrongError(str(error), field) from None
        return changed


def _others(typed: str) -> tuple[list[str], str]:
    """Return the words of the other settings, and the change of a probe prompt that ends them."""
    found = re.search(rf"(?:^|\s)({NAME}[+-]=.*)$", typed, re.DOTALL)
    return typed[: found.start()].split() if found else typed.split(), found[1].strip() if found else ""


def _put(changed: dict[str, Any], name: str, value: object, step: int | None) -> None:
    """Add a setting to the arguments of `set`; with a step, to its schedule."""
    args = changed if step is None else changed.setdefault("schedule", {}).setdefault(str(step), {})
    args[name] = value


def _each(changed: dict[str, Any]) -> list[tuple[str, object]]:
    """Return every setting in the arguments of `set`, scheduled or not."""
    at_once = [(name, value) for name, value in changed.items() if name != "schedule"]
    return at_once + [pair for later in changed.get("schedule", {}).values() for pair in later.items()]


class _WrongError(ValueError):
    """A value that cannot be used, and the field where it was typed."""

    def __init__(self, words: str, field: Input) -> None:
        super().__init__(words)
        self.field = field


def read_setting(name: str, text: str, functions: int) -> float | list[float]:
    """Read a setting's value from what was typed.

    Raises:
        ValueError: A value is not a number or out of range, or the weights are not one per function.
    """
    if name != "reward_weights":
        return float(live_settings.live_value(name, text, {}))
    values = [float(value) for value in live_settings.live_value(name, text.replace(",", " ").split(), {})]
    if not all(map(math.isfinite, values)):
        raise ValueError(f"{name} takes finite numbers, not “{text}”")
    if functions and len(values) != functions:
        raise ValueError(
            f"reward_weights: give {plural(functions, 'number')}, one per function, not {len(values)}"
        )
    return values


STEPS_W = 22


def _sign(one: RunFinding) -> Span:
    return Span(*SIGNS[one.finding.severity]) if one.open else Span("✓", "dim")


def _sentence(one: RunFinding) -> Span:
    return Span(one_line(one.finding.message), "text" if one.open else "dim")


class RunFindingList(Listing[RunFinding]):
    """One finding per line: sign, steps, and as much of the sentence as fits."""

    def columns(self, width: int) -> Sequence[Column[RunFinding]]:
        return (
            Column("", 2, _sign, gap=1),
            Column("", STEPS_W, lambda one: Span(one.steps, "dim")),
            Column("", max(11, width - STEPS_W - 4), _sentence, gap=1),
        )


class RunFindingsScreen(Dialog[tuple[str, RunFinding]]):
    """The findings of a run: open ones, then ended ones."""

    BINDINGS: ClassVar[list[BindingType]] = [("f", "close", "close")]
    FIRST = RunFindingList
    SHAPE = "dialog -large"

    def __init__(self, found: tuple[RunFinding, ...], run: str, *, live: bool | None) -> None:
        ended = sum(not one.open for one in found)
        title = f"{plural(len(found) - ended, 'finding')} now" + (f", {ended} ended" if ended else "")
        super().__init__(title, "enter open   esc back")
        self._found, self._run, self._live = found, run, live

    def parts(self) -> ComposeResult:
        found = RunFindingList()
        found.rows = self._found
        yield found

    def on_cursor_list_selected(self, event: CursorList.Selected) -> None:
        one = self._found[event.place]
        screen = RunFindingScreen(one, self._run, live=self._live)
        self.ask(screen, lambda what: self.dismiss((what, one)))


def _paragraph(text: str, room: int) -> list[Line]:
    return [[Span("   "), Span(row)] for row in wrapped(one_line(text), room)]


def _written(others: tuple[Remedy, ...]) -> list[Line]:
    if not others:
        return []
    head: Line = [Span(" In a new config for the next run, beside that of this run:", "dim")]
    return [
        head,
        *([Span(f" {one.field} ", "strong"), Span(one_line(setting(one.value), 40))] for one in others),
    ]


class RunFindingScreen(ReadingScreen):
    """One finding. Returns `chart`, `completions`, `set` or `write`.

    `run` is the run as typed on a command line. `live` says whether it accepts commands; None for a replay.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        ("enter", "choose('chart')", "open the chart"),
        ("o", "choose('completions')", "open its completions"),
        ("equals_sign", "set", "Change a setting"),
        ("y", "copy", "copy"),
    ]

    def __init__(self, one: RunFinding, run: str, *, live: bool | None) -> None:
        applies = "   = apply" if live and one.change is not None else "   = write" if one.settings else ""
        applies = "" if live is None else applies
        keys = f"enter chart   o completions{applies}   esc back"
        super().__init__(one.finding.id, keys)
        self._one, self._run, self._live = one, run, live

    def lines(self, width: int) -> list[Line]:
        one, room = self._one, max(10, width - 5)
        sign, role, _ = _sign(one)
        lines: list[Line] = [[Span(f" {sign} ", role), Span(one.steps, "strong")]]
        lines += _paragraph(one.finding.message, room)
        lines.append(ruled([[Span("what to do", "title")]], width))
        for remedy in one.finding.remedies:
            applies = self._live and remedy is one.change
            head = Span(" = ", "key", "screen.set") if applies else Span(" ▸ ", "accent")
            rows = wrapped(one_line(remedy.text), room)
            lines += [[head if n == 0 else Span("   "), Span(row)] for n, row in enumerate(rows)]
        lines += self._next_run(width)
        if one.meaning:
            lines.append(ruled([[Span("what it means", "title")]], width))
            lines += _paragraph(one.meaning, room)
        return [*lines, [Span(f"   {PAGE}, {one.finding.id}", "dim")]]

    def _next_run(self, width: int) -> list[Line]:
        lines: list[Line] = []
        for title, wanted in (("in the config of the next run", "config"), ("to resume", "resume")):
            written = [text for where, text in to_write(self._one.finding) if where == wanted]
            if written:
                lines.append(ruled([[Span(title, "title")]], width))
            run = f"grpo-tui train {self._run} " if wanted == "resume" else ""
            lines += [[Span(f"   {run}{one_line(text)}", "strong")] for text in written]
        return lines

    def action_choose(self, what: str) -> None:
        self.dismiss(what)

    def action_set(self) -> None:
        """Ask before changing the setting that the run can take and writing the others, or say why not."""
        change, others = self._one.change if self._live else None, self._one.settings
        if self._live is None:
            self.app.notify(REPLAYED, severity="warning")
            return
        if change is not None:
            others = tuple(one for one in others if one.field != change.field)
        elif not others:
            why = "No remedy of this finding is a setting. What helps is listed here."
            self.app.notify(why, severity="warning")
            return
        told: list[Line] = [*self._changes(change), *_written(others)]
        verb = (
            one_line(f"set {change.field} to {setting(change.value)}", 50)
            if change is not None
            else "write a config"
        )

        dialog = YesNo(f"{verb}?", DialogText(told), verb, "change nothing")
        self.ask(dialog, lambda _: self.dismiss("set" if change is not None else "write"))

    def _changes(self, change: Remedy | None) -> list[Line]:
        if change is None:
            return []
        view, name = self.shell.view, str(change.field)
        now = view.settable.get(name) if view is not None else None
        before = f"{setting(now)} → " if now is not None else ""
        return [
            [Span(f" {name} ", "strong"), Span(f"{before}{setting(change.value)}")],
            [Span(" Applied after the current step.", "dim")],
        ]

    def action_copy(self) -> None:
        self.shell.copy("finding", self._one.finding.message)


LOOK_S = 0.5


class ReloadScreen(ReadingScreen):
    """What the check found. Returns the arguments of the command `reload` after a yes."""

    BINDINGS: ClassVar[list[BindingType]] = [("y", "yes", "yes")]

    def __init__(self, root: Path) -> None:
        from grpo_tui.ui.starting import Child

        super().__init__("reload the rewards", "y reload   j k scroll   esc back")
        self._child = Child(["reload", str(root), "--check", "--json"], ())
        self._since = time.monotonic()
        self.trouble = ""
        self.found: ReloadCheck | None = None

    @property
    def passed(self) -> bool:
        """Whether the files can be loaded into the run."""
        return self.found is not None and not (self.found.broken or self.found.failed)

    def lines(self, width: int) -> list[Line]:
        if self.found is None and not self.trouble:
            waited = duration(time.monotonic() - self._since)
            what = "checking contract, cases, probes and recorded groups"
            return [[Span(f"  ◌ {one_line(what, max(20, width - 12))}, {waited}", "attention")]]
        if self.found is None:
            return [[Span(f"  {row}", "bad")] for row in wrapped(one_line(self.trouble), max(20, width - 4))]
        from grpo_tui.present.what_if_lines import reload_lines
        from grpo_tui.rewards.reload_check import TRY_LATER

        end = "y loads them into the run, from the next generation on"
        if not self.passed:
            end = f"Not loaded. {TRY_LATER if self.found.early else 'Fix the files and press L again'}"
            if not self.found.broken:
                end += ". `grpo-tui reload RUN --force` loads them anyway"
        rows = wrapped(end, max(20, width - 4))
        return [*spans(reload_lines(self.found, width)), [], *([Span(f"  {row}", "strong")] for row in rows)]

    def on_mount(self) -> None:
        self.set_interval(LOOK_S, self._look)
        self.in_thread("reload", self._child.run, self._take)

    def on_unmount(self) -> None:
        self._child.cancel()

    def _look(self) -> None:
        if self.found is None and not self.trouble:
            self.body.changed()

    def _take(self, ended: Ended) -> None:
        """Show what the check found, which ran in a process of its own."""
        from grpo_tui.rewards.reload_check import ReloadCheck
        from grpo_tui.ui.starting import read_object

        body = read_object(ended.printed)
        self.found = rebuilt(ReloadCheck, body) if body is not None else None
        self.trouble = "" if body is not None else ended.trouble or "the check ended without a result"
        self.body.changed()

    def action_yes(self) -> None:
        if self.passed and self.found is not None:
            self.dismiss(self.found.arguments())
