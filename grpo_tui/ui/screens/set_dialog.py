"""The `=` dialog: change settings of a run while it trains, with a line of help for the focused one."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from textual.app import ComposeResult
from textual.suggester import SuggestFromList
from textual.widgets import Input

from grpo_tui.config.live_settings import (
    FAR,
    LIVE,
    at_step,
    far_from,
    live_value,
    probe_change,
    unlike,
    waiting,
)
from grpo_tui.core.probe_changes import NAME
from grpo_tui.core.text import one_line, safe, wrapped
from grpo_tui.present.formatting import plural, setting
from grpo_tui.present.train_view import TrainView
from grpo_tui.ui.paint import Line, Span
from grpo_tui.ui.screens.dialogs import Dialog, DialogText

USUAL = ("learning_rate", "temperature", "reward_weights")
"""Settings with a line of their own."""
OTHERS = tuple(name for name in LIVE if name not in USUAL)
RATE_FAR = 10
"""A learning rate is asked about sooner than another number."""
WIDTH = 74
AT_ONCE = "Applied together after the current step. With @step:500, after step 500."


class SetDialog(Dialog[dict[str, object]]):
    """Ask for new values of settings. The usual ones have a field each, and the others are typed by name.

    Attributes:
        typed: What was sent, by the id of its field. With a `refusal`, the dialog comes back with it.
    """

    def __init__(self, view: TrainView, typed: Mapping[str, str] | None = None, refusal: str = "") -> None:
        super().__init__("set", "tab next   enter apply   esc cancel")
        self.typed = dict(typed or {})
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
        super().on_mount()
        if self._refusal:
            self._wrong = True
            self._tell([f"✗ {self._refusal}"], "bad")

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
        row = LIVE.get(name)
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
        late = waiting(word.partition("=")[0] for word in words if "@" not in word)
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
        because = self.query_one("#set-because", Input).value.strip()
        self.dismiss(changed | ({"yes": True} if far else {}) | ({"because": because} if because else {}))

    def _far(self, name: str, value: object) -> str:
        if name == "learning_rate":
            return far_from(name, self._rate, value, RATE_FAR)
        return far_from(name, self._values.get(name), value, FAR)

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
                value, step = at_step(text)
                _put(changed, name, read_setting(name, value, len(self._functions)), step)
            except ValueError as error:
                raise _WrongError(str(error), field) from None
        field = self.query_one("#set-others", Input)
        words, prompt = _others(field.value)
        if (change := probe_change(prompt)) is not None:
            _put(changed, *change)
        for word in words:
            name, equals, text = word.partition("=")
            try:
                if name not in OTHERS:
                    raise ValueError(unlike(name))
                if not equals or not text:
                    raise ValueError(f"{name} has no value. Write it as {name}=…")
                value, step = at_step(text)
                _put(changed, name, live_value(name, value, {}), step)
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
        return float(live_value(name, text, {}))
    values = [float(value) for value in live_value(name, text.replace(",", " ").split(), {})]
    if not all(map(math.isfinite, values)):
        raise ValueError(f"{name} takes finite numbers, not “{text}”")
    if functions and len(values) != functions:
        raise ValueError(
            f"reward_weights: give {plural(functions, 'number')}, one per function, not {len(values)}"
        )
    return values
