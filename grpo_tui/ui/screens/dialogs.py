"""What is asked once, and what is shown until it is closed: confirm, set a value, sample a prompt."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.events import Key
from textual.screen import ModalScreen
from textual.widgets import Input, TextArea

from grpo_tui.core.commands import Outcome
from grpo_tui.core.text import one_line, prompt_text, safe, shorten
from grpo_tui.present.events import sampled_texts
from grpo_tui.present.formatting import plural, setting
from grpo_tui.present.train_view import TrainView
from grpo_tui.ui.actions import Action
from grpo_tui.ui.opened import LeftOnce
from grpo_tui.ui.paint import Line, LinePane, LineScroll, Span, ruled, wrapped

CLOSE: list[BindingType] = [("escape", "close", "close")]
LEAST_TITLE = 8
"""Cells of a dialog's title that its keys never take."""


class DialogText(LinePane):
    """Lines of a dialog that do not change with its size."""

    def __init__(self, lines: list[Line], *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._text = lines

    def tell(self, lines: list[Line]) -> None:
        """Show other lines."""
        self._text = lines
        self.changed(layout=True)

    def get_content_height(self, container: object, viewport: object, width: int) -> int:
        """As many as there are."""
        return len(self._text)

    def lines(self, width: int, height: int) -> list[Line]:
        """The lines as given."""
        return self._text


class DialogTitle(LinePane):
    """The ruled first line of a dialog."""

    def __init__(self, title: str, keys: str) -> None:
        super().__init__()
        self._title, self._keys = title, keys

    def lines(self, width: int, height: int) -> list[Line]:
        """Title at the left, keys at the right; the title is cut before a key is left out."""
        title = shorten(self._title, max(LEAST_TITLE, width - cell_len(self._keys) - 6))
        return [ruled([[Span(title, "title")]], width, [Span(self._keys, "dim")])]


class ConfirmDialog(LeftOnce, ModalScreen[bool]):
    """Asks once, and says what will happen."""

    BINDINGS: ClassVar[list[BindingType]] = [*CLOSE, ("n", "close", "no"), ("y", "yes", "yes")]

    def __init__(self, asked: Action, view: TrainView) -> None:
        super().__init__()
        self._asked, self._view = asked, view

    def compose(self) -> ComposeResult:
        """The question and its two answers."""
        asked, view = self._asked, self._view
        label = asked.label.capitalize()
        with Vertical(classes="dialog"):
            yield DialogTitle(f"{label}?", "y yes   n no")
            yield DialogText(
                [
                    [Span(f" {asked.help}", "strong")],
                    [Span(f" {view.name}, step {view.step:,}. It can go on later with --resume.", "dim")],
                    (),
                    [
                        Span(" y", "key", "screen.yes"), Span(f" {label.lower()}", "attention", "screen.yes"),
                        Span("    n", "key", "screen.close"), Span(" keep training", "text", "screen.close"),
                    ],
                ]
            )  # fmt: skip

    def action_close(self) -> None:
        """No."""
        self.dismiss(False)

    def action_yes(self) -> None:
        """Yes."""
        self.dismiss(True)


class SetDialog(LeftOnce, ModalScreen[dict[str, object]]):
    """The settings that can change in mid-run, each with its value now."""

    BINDINGS: ClassVar[list[BindingType]] = CLOSE
    NAMES = ("learning_rate", "temperature", "reward_weights")

    def __init__(self, view: TrainView) -> None:
        super().__init__()
        self._functions = [function.name for function in view.functions]
        self._now = {
            name: setting(view.settings[name]) if name in view.settings else "" for name in self.NAMES
        }

    def compose(self) -> ComposeResult:
        """A field per setting."""
        with Vertical(classes="dialog"):
            yield DialogTitle("set", "tab next   enter apply   esc leave as it is")
            for name in self.NAMES:
                label = [Span(f" {name}", "strong")]
                if name == "reward_weights":
                    label.append(Span("   " + ", ".join(self._functions), "dim"))
                yield DialogText([label])
                yield Input(value=safe(self._now[name]), id=f"set-{name}")
            yield DialogText(
                [[Span(" Taken at the next safe point, wholly or not at all.", "dim")]], id="set-word"
            )

    def on_mount(self) -> None:
        """Start at the first field."""
        self.query_one("#set-learning_rate", Input).focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Hand back what changed, or say what is wrong."""
        if not self.is_active:  # enter may come twice before the first one is done
            return
        changed: dict[str, object] = {}
        for name in self.NAMES:
            text = self.query_one(f"#set-{name}", Input).value.strip()
            if text == self._now[name]:
                continue
            try:
                changed[name] = read_setting(name, text, len(self._functions))
            except ValueError as error:
                self.query_one("#set-word", DialogText).tell([[Span(f" ✗ {one_line(str(error))}", "bad")]])
                self.query_one(f"#set-{name}", Input).focus()
                return
        if changed:
            self.dismiss(changed)
        else:
            self.query_one("#set-word", DialogText).tell([[Span(" Nothing is changed yet.", "attention")]])

    def action_close(self) -> None:
        """Change nothing."""
        self.dismiss(None)


def read_setting(name: str, text: str, functions: int) -> float | list[float]:
    """A setting's value from what was typed.

    Raises:
        ValueError: It is no number, or not one per reward function.
    """
    words = text.replace(",", " ").split() if name == "reward_weights" else [text]
    try:
        values = [float(word) for word in words]
    except ValueError:
        raise ValueError(f"{name}: “{text}” is not a number") from None
    if name != "reward_weights":
        return values[0]
    if functions and len(values) != functions:
        raise ValueError(
            f"reward_weights: {plural(functions, 'number')} wanted, one per function, not {len(values)}"
        )
    return values


class SampleDialog(LeftOnce, ModalScreen[dict[str, object]]):
    """A prompt to sample, the newest one to begin with."""

    # Before the text area sees it: a prompt of several lines is pasted or broken with ctrl+j.
    BINDINGS: ClassVar[list[BindingType]] = [
        *CLOSE,
        Binding("enter", "sample", "sample", priority=True),
        Binding("ctrl+j", "new_line", "new line", priority=True),
    ]

    def __init__(self, view: TrainView) -> None:
        super().__init__()
        self._prompt = view.newest_prompt
        self._shown = safe(prompt_text(view.newest_prompt)) if view.newest_prompt is not None else ""

    def compose(self) -> ComposeResult:
        """A text area."""
        with Vertical(classes="dialog"):
            yield DialogTitle("sample the policy now", "enter sample   ctrl+j new line   esc back")
            yield TextArea(self._shown, id="sample-prompt", soft_wrap=True)
            yield DialogText(
                [[Span(" Done at the next safe point; no later number of the run changes.", "dim")]]
            )

    def on_mount(self) -> None:
        """Ready to type: what is typed replaces the prompt, an arrow key keeps it."""
        area = self.query_one(TextArea)
        area.select_all()
        area.focus()

    def action_sample(self) -> None:
        """Hand back the prompt, with its other messages when only the last was edited."""
        text = self.query_one(TextArea).text
        if not text.strip():
            return
        self.dismiss({"prompt": with_text(self._prompt, text, self._shown)})

    def action_new_line(self) -> None:
        """Break the line."""
        self.query_one(TextArea).insert("\n")

    def action_close(self) -> None:
        """Sample nothing."""
        self.dismiss(None)


def with_text(prompt: Any, text: str, shown: str) -> Any:
    """The prompt with its last user message replaced by `text`; unchanged text gives the prompt as it was."""
    if prompt is not None and text == shown:
        return prompt
    if not isinstance(prompt, list):
        return text
    messages: list[Mapping[str, Any]] = [dict(message) for message in prompt]
    turns = [i for i, message in enumerate(messages) if message.get("role") == "user"]
    if not turns:
        return text
    messages[turns[-1]] = {**messages[turns[-1]], "content": text}
    return messages[: turns[-1] + 1]


class TextLines(LineScroll):
    """Texts one under the other, wrapped, each with a heading."""

    def __init__(self, parts: list[tuple[str, str]]) -> None:
        super().__init__()
        self._parts = parts

    def lines(self, width: int) -> list[Line]:
        """Wrapped at the width; control characters are visible by now."""
        lines: list[Line] = []
        room = max(10, width - 3)
        for title, text in self._parts:
            lines.append(ruled([[Span(title, "dim")]], width))
            lines += [[Span("  " + row)] for row in wrapped(text, room)]
        return lines


class SampleResult(LeftOnce, ModalScreen[None]):
    """What the policy made of a prompt."""

    BINDINGS: ClassVar[list[BindingType]] = [*CLOSE, ("q", "close", "close"), ("enter", "close", "close")]

    def __init__(self, outcome: Outcome) -> None:
        super().__init__()
        self._outcome = outcome

    def compose(self) -> ComposeResult:
        """Prompt and completions, scrollable."""
        result = self._outcome.result
        texts = sampled_texts(self._outcome)
        shown = result.get("rendered") or result.get("prompt", "")
        before = result.get("before")
        title = f"prompt, after {before} of training" if isinstance(before, str) and before else "prompt"
        parts = [(title, shown if isinstance(shown, str) else json.dumps(shown, ensure_ascii=False))]
        parts += [
            (f"completion {i + 1} of {len(texts)}{_length(result, i)}", text) for i, text in enumerate(texts)
        ]
        with Vertical(classes="dialog -large"):
            yield DialogTitle(f"sampled at step {self._outcome.step:,}", "esc back")
            yield TextLines(parts)

    def on_mount(self) -> None:
        """Ready to scroll."""
        self.query_one(TextLines).focus()

    def on_key(self, event: Key) -> None:
        """The list's keys scroll."""
        lines = self.query_one(TextLines)
        if event.key == "j":
            lines.scroll_relative(y=1, animate=False)
        elif event.key == "k":
            lines.scroll_relative(y=-1, animate=False)

    def action_close(self) -> None:
        """Back to the run."""
        self.dismiss(None)


def _length(result: Mapping[str, Any], index: int) -> str:
    items = result.get("completions")
    if not isinstance(items, list) or index >= len(items) or not isinstance(items[index], Mapping):
        return ""
    tokens = items[index].get("tokens")
    cut = ", cut off" if items[index].get("truncated") else ""
    return f", {plural(int(tokens), 'token')}{cut}" if isinstance(tokens, int) else ""
