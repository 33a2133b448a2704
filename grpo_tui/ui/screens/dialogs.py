"""Dialogs: confirm, sample a prompt, choose from a list, type words or a path.

They return the user's choice and do nothing themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.events import Key
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Input, TextArea

from grpo_tui.core.seed_noise import read_seeds
from grpo_tui.core.text import one_line, prompt_text, safe, wrapped
from grpo_tui.present.config_yaml import from_edit, to_edit
from grpo_tui.present.formatting import IN_SCRIPT, from_here
from grpo_tui.present.runs_view import ResumeOffer, resume_command
from grpo_tui.present.train_view import TrainView
from grpo_tui.ui.kit.reading import SUSPEND, DialogTitle
from grpo_tui.ui.kit.table import Column, CursorList, Listing
from grpo_tui.ui.paint import Line, LinePane, Span
from grpo_tui.ui.shell import Shell
from grpo_tui.ui.textual_private import LeftOnce

Answer = TypeVar("Answer")
CLOSE: list[BindingType] = [SUSPEND, ("escape", "close", "close")]


class DialogText(LinePane):
    """Fixed lines in a dialog."""

    def __init__(self, lines: list[Line], *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._text = lines

    def tell(self, lines: list[Line]) -> None:
        self._text = lines
        self.changed(layout=True)

    def lines(self, width: int, height: int) -> list[Line]:
        return self._text


class Dialog(LeftOnce, ModalScreen[Answer], Shell):
    """A question over the pane. Escape returns None. `keys` are key hints at the right of the title."""

    BINDINGS: ClassVar[list[BindingType]] = CLOSE
    FIRST: ClassVar[type[Widget]] = Input
    """The widget focused at first."""
    SHAPE: ClassVar[str] = "dialog"
    """CSS classes that set the size of the dialog."""

    def __init__(self, title: str, keys: str) -> None:
        super().__init__()
        self._title, self._keys = title, keys

    def parts(self) -> ComposeResult:
        """Yield the widgets below the title."""
        raise NotImplementedError

    def compose(self) -> ComposeResult:
        with Vertical(classes=self.SHAPE):
            yield DialogTitle(self._title, self._keys)
            yield from self.parts()

    def on_mount(self) -> None:
        self.app.clear_notifications()  # they would cover the question
        if self.focused is None and (found := self.query(self.FIRST)):
            found.first().focus()

    def action_close(self) -> None:
        self.dismiss(None)


class FieldDialog(Dialog[Answer]):
    """A one-line input. `hint` is a sentence below it, `does` says in a word what enter does."""

    def __init__(self, title: str, value: str, hint: str, does: str = "apply", *, id: str) -> None:
        super().__init__(title, f"enter {does}   esc back")
        self._value, self._hint, self._field_id = value, hint, id

    def parts(self) -> ComposeResult:
        yield Input(value=self._value, id=self._field_id)
        rows = wrapped(self._hint, self._room()) or [""]
        yield DialogText([[Span(f" {row}", "dim")] for row in rows], id="word")

    def _room(self) -> int:
        return max(20, min(self.app.size.width, 76) - 8)

    def tell(self, *lines: Line) -> None:
        """Replace the hint, for example with an error."""
        self.query_one("#word", DialogText).tell(list(lines))

    def tell_wrapped(self, sign: str, word: str, role: str) -> None:
        """Replace the hint with a sentence on as many lines as it needs, after a sign."""
        rows = wrapped(one_line(word), self._room())
        self.tell(*([Span(f" {' ' if n else sign} {row}", role)] for n, row in enumerate(rows)))


class YesNo(Dialog[bool]):
    """A yes-or-no question. `yes` and `no` say in a word what each answer does."""

    BINDINGS: ClassVar[list[BindingType]] = [("n", "close", "no"), ("y", "yes", "yes")]

    def __init__(self, title: str, about: Widget, yes: str, no: str) -> None:
        super().__init__(title, "y yes   n no")
        self._about, self._yes, self._no = about, yes, no

    def parts(self) -> ComposeResult:
        yield self._about
        yield DialogText(
            [
                [
                    Span(" y", "key", "screen.yes"), Span(f" {self._yes}", "attention", "screen.yes"),
                    Span("    n", "key", "screen.close"), Span(f" {self._no}", "text", "screen.close"),
                ]
            ]
        )  # fmt: skip

    def action_close(self) -> None:
        self.dismiss(False)

    def action_yes(self) -> None:
        self.dismiss(True)


class TextDialog(Dialog[Answer]):
    """A text to write or edit."""

    # Priority, so that the text area does not get the keys first. Pasted text keeps its line breaks.
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "apply", "apply", priority=True),
        Binding("ctrl+j", "new_line", "new line", priority=True),
    ]
    FIRST = TextArea

    def action_apply(self) -> None:
        """Return what the text asks for."""
        raise NotImplementedError

    def action_new_line(self) -> None:
        self.query_one(TextArea).insert("\n")


class SampleDialog(TextDialog[dict[str, object]]):
    """A prompt to sample, by default the newest one."""

    def __init__(self, view: TrainView) -> None:
        super().__init__("sample the policy now", "enter sample   ctrl+j new line   esc back")
        self._prompt = view.newest_prompt
        self._shown = safe(prompt_text(view.newest_prompt)) if view.newest_prompt is not None else ""

    def parts(self) -> ComposeResult:
        yield TextArea(self._shown, id="sample-prompt", soft_wrap=True)
        yield DialogText([[Span(" Sampled after the current step. Training is not affected.", "dim")]])

    def on_mount(self) -> None:
        """Select all, so that typing replaces the prompt and an arrow key keeps it."""
        self.query_one(TextArea).select_all()

    def action_apply(self) -> None:
        """Return the prompt, with its earlier messages if it has any."""
        text = self.query_one(TextArea).text
        if text.strip():
            self.dismiss({"prompt": with_text(self._prompt, text, self._shown)})


def with_text(prompt: Any, text: str, shown: str) -> Any:
    """Replace the last user message of a prompt. If `text` equals `shown`, return the prompt unchanged."""
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


AROUND = 13
"""Lines of the screen kept free around a list of choices."""
MOST_ABOUT = 6
"""Maximum lines for the description of a choice."""
MOST_LISTED = 14
"""Maximum lines of a list of choices. Longer ones scroll."""
AGAIN = "now; choose again to reverse"
"""Description of the current entry in a list of sort orders."""


@dataclass(frozen=True, slots=True)
class Choice:
    """An entry of a menu.

    Attributes:
        what: What it is or does, in a few words.
        value: Returned by the dialog.
        key: Letter that chooses it directly; empty for none.
        about: Description shown below the list while the cursor is on it.
    """

    name: str
    what: str
    value: Any
    key: str = ""
    about: str = ""


class Told(LinePane):
    """Wrapped sentences above a list, replaced when there is more to say."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.texts: tuple[str, ...] = (text,)

    def tell(self, *texts: str) -> None:
        self.texts = texts
        self.changed()

    def lines(self, width: int, height: int) -> list[Line]:
        rows = [row for text in self.texts for row in wrapped(one_line(text), width - 2)]
        return [[Span(f" {row}", "dim")] for row in rows[:height]]


class Paragraph(LinePane):
    """Wrapped sentences, the first one emphasized."""

    def __init__(self, sentences: Sequence[str], *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._sentences = sentences

    def lines(self, width: int, height: int) -> list[Line]:
        lines: list[Line] = []
        for number, sentence in enumerate(self._sentences):
            role = "dim" if number else "strong"
            lines += [[Span(f" {row}", role)] for row in wrapped(one_line(sentence), width - 2)]
        return [*lines, ()] if lines else []


class Choices(Listing[Choice]):
    """The list of choices."""

    MARK = "❙ "

    def __init__(self, choices: Sequence[Choice], at: int) -> None:
        super().__init__()
        self.rows, self.cursor = choices, at

    def on_mount(self) -> None:
        self.styles.height = min(self.count, MOST_LISTED, max(4, self.app.size.height - AROUND))
        self.call_after_refresh(self.put, self.cursor)

    def columns(self, width: int) -> list[Column[Choice]]:
        letters = 3 if any(choice.key for choice in self.rows) else 0
        longest = max((cell_len(choice.name) for choice in self.rows), default=0)
        name_w = min(longest + 2, max(12, width // 2))
        return [
            Column("", letters, lambda choice: Span(choice.key, "key")),
            Column("", name_w, lambda choice: Span(one_line(choice.name), "strong")),
            Column("", max(2, width - name_w - letters - 2), _what, gap=1),
        ]


def _what(choice: Choice) -> Span:
    return Span(one_line(choice.what), "dim")


class About(LinePane):
    """Description of the choice under the cursor, with room for the longest one."""

    def __init__(self, longest: int) -> None:
        super().__init__()
        self._longest, self._text = longest, ""

    def tell(self, text: str) -> None:
        self._text = text
        self.changed()

    def get_content_height(self, container: object, viewport: object, width: int) -> int:
        """Return the same height for every choice, so that the dialog does not jump."""
        return 1 + min(MOST_ABOUT, self._longest * 5 // (4 * max(10, width - 2)) + 1) if self._longest else 0

    def lines(self, width: int, height: int) -> list[Line]:
        return [(), *([Span(f" {row}")] for row in wrapped(one_line(self._text), width - 2))]


class MenuDialog(Dialog[Any]):
    """Choose one of several entries. `at` is the initial position of the cursor."""

    FIRST = Choices

    def __init__(
        self, title: str, choices: Sequence[Choice], sentences: Sequence[str] = (), at: int = 0
    ) -> None:
        super().__init__(one_line(title, 50), "enter choose   esc back")
        self._choices, self._sentences, self._at = choices, sentences, at

    def parts(self) -> ComposeResult:
        yield Paragraph(self._sentences)
        yield Choices(self._choices, self._at)
        yield About(max((len(choice.about) for choice in self._choices), default=0))

    def on_mount(self) -> None:
        self.on_cursor_list_highlighted()

    def on_cursor_list_highlighted(self) -> None:
        self.query_one(About).tell(self._choices[self.query_one(Choices).cursor].about)

    def on_cursor_list_selected(self, event: CursorList.Selected) -> None:
        self.dismiss(self._choices[event.place].value)

    def on_key(self, event: Key) -> None:
        wanted = [c for c in self._choices if c.key and c.key == event.character]
        if wanted:
            event.stop()
            self.dismiss(wanted[0].value)


class StopDialog(MenuDialog):
    """Ask how to stop a run, and return the command. A run cannot save while its model loads."""

    def __init__(self, view: TrainView, *, saves: bool) -> None:
        choices = [
            Choice("keep training", "", None, "n"),
            Choice("stop and save", "after the current step, with a checkpoint", "stop", "y"),
            Choice("stop without saving", "loses the steps since the last checkpoint", "stop_now", "w"),
        ]
        if not saves:
            choices = [choices[0], Choice("stop", "nothing is trained yet", "stop_now", "y")]
        about = [f"{view.name} is still loading."]
        if saves:
            command = resume_command(from_here(Path(view.folder)))
            where = ", in its script" if command == IN_SCRIPT else ""
            about = [f"{view.name}, step {view.step:,}. To continue it later{where}:", f"  {command}"]
        super().__init__("stop?", choices, about)


class WordsDialog(FieldDialog[str]):
    """Words on one line. Empty input is a valid answer. `refusal` says why these words were not taken."""

    def __init__(self, title: str, words: str, hint: str, refusal: str = "") -> None:
        super().__init__(title, one_line(words), one_line(hint), id="words")
        self._refusal = refusal

    def on_mount(self) -> None:
        super().on_mount()
        if self._refusal:
            self.tell_wrapped("✗", self._refusal, "bad")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.dismiss(event.value)


class SeedsDialog(FieldDialog[list[int]]):
    """Seeds, separated by commas."""

    def __init__(self, folder: str) -> None:
        hint = one_line(
            f"one run for each, one after the other, in {folder}-seed-N; complete ones are skipped"
        )
        super().__init__("train several seeds", "1,2,3", hint, "start", id="seeds")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        try:
            self.dismiss(read_seeds(event.value))
        except ValueError as error:
            self.tell([Span(f" {one_line(str(error))}", "attention")])


class PathDialog(FieldDialog[Path]):
    """A file name.

    Args:
        check: Returns why a path is not usable, or "".
        does: What enter does, in a word.
        replaces: An existing file may be replaced, after a second enter.
    """

    def __init__(
        self,
        title: str,
        value: str,
        check: Callable[[Path], str],
        hint: str = "",
        *,
        does: str = "write",
        replaces: bool = False,
    ) -> None:
        super().__init__(one_line(title, 50), to_edit(value), hint, does, id="path")
        self._check, self._replaces, self._warned = check, replaces, ""

    def on_input_submitted(self, event: Input.Submitted) -> None:
        text = from_edit(event.value).strip()
        path = Path(text).expanduser()
        wrong = self._check(path) if text else "type the name of a file"
        if wrong:
            self.tell_wrapped("✗", wrong, "bad")
        elif self._replaces and path.exists() and self._warned != text:
            self._warned = text
            word = f"it already exists. Press enter again to replace {one_line(path.name, 24)}"
            self.tell_wrapped("⚠", word, "attention")
        else:
            self.dismiss(path)


class ResumeDialog(YesNo):
    """Confirm a resume: from which checkpoint, and which steps are repeated."""

    def __init__(self, offer: ResumeOffer) -> None:
        self._command = resume_command(from_here(offer.path))
        super().__init__(f"resume {offer.name}?", Paragraph(offer.lines), "resume", "leave it")

    def parts(self) -> ComposeResult:
        about, answers = super().parts()
        yield about
        yield DialogText([[Span(f" {self._command}", "dim")], ()])
        yield answers
