"""Questions that any pane asks: one of several things, some words, the name of a file.

Each hands back what was chosen and does nothing itself; none knows what it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.events import Key
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import Input

from grpo_tui.core.text import one_line, wrapped
from grpo_tui.present.config_yaml import from_edit, to_edit
from grpo_tui.ui.opened import LeftOnce
from grpo_tui.ui.paint import Line, LinePane, Span, pad
from grpo_tui.ui.rows import CursorList
from grpo_tui.ui.screens.dialogs import CLOSE, DialogText, DialogTitle

AROUND = 13
"""Lines of the screen that a list of choices leaves to what stands around it."""
MOST_ABOUT = 6
"""Lines of what is said of a choice."""
MOST_LISTED = 14
"""Lines of a list of choices; a longer one scrolls."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One thing that can be chosen.

    Attributes:
        name: its word.
        what: what it is or does.
        value: what is handed back.
        key: a letter that chooses it at once, empty for none.
        about: what is said below the list while the cursor is on it.
    """

    name: str
    what: str
    value: Any
    key: str = ""
    about: str = ""


class Paragraph(LinePane):
    """Sentences, wrapped at the dialog's width, the first one strong."""

    def __init__(self, sentences: Sequence[str], *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._sentences = sentences

    def get_content_height(self, container: object, viewport: object, width: int) -> int:
        """As many lines as the sentences take."""
        return len(self.lines(width, 0))

    def lines(self, width: int, height: int) -> list[Line]:
        """Wrapped; the last line is empty."""
        lines: list[Line] = []
        for number, sentence in enumerate(self._sentences):
            role = "dim" if number else "strong"
            lines += [[Span(f" {row}", role)] for row in wrapped(one_line(sentence), width - 2)]
        return [*lines, ()] if lines else []


class Choices(CursorList):
    """The things to choose from."""

    def __init__(self, choices: Sequence[Choice], at: int) -> None:
        super().__init__()
        self.choices = choices
        self.cursor = at

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.choices)

    class Moved(Message):
        """Another one is under the cursor."""

    def on_mount(self) -> None:
        """Take the height that there is, and bring the one it begins with into sight."""
        self.styles.height = min(len(self.choices), MOST_LISTED, max(4, self.app.size.height - AROUND))
        self.call_after_refresh(self.put, self.cursor)

    def moved(self) -> None:
        """Say so."""
        self.post_message(self.Moved())

    def lines(self, width: int) -> list[Line]:
        """Key, name and what it is."""
        letters = 3 if any(choice.key for choice in self.choices) else 0
        longest = max((cell_len(choice.name) for choice in self.choices), default=0)
        name_w = min(longest + 2, max(12, width // 2))
        lines: list[Line] = []
        for place, choice in enumerate(self.choices):
            here = place == self.cursor
            tail = " selected" if here and self.has_focus else ""
            lines.append(
                [
                    Span("❙ " if here else "  ", "accent" + tail),
                    Span(pad(choice.key, letters), "key" + tail),
                    Span(pad(one_line(choice.name), name_w), "strong" + tail),
                    Span(
                        pad(one_line(choice.what), max(1, width - name_w - letters - 3)) + " ", "dim" + tail
                    ),
                ]
            )
        return lines


class About(LinePane):
    """What the choice under the cursor is, in as many lines as the longest of them takes."""

    def __init__(self, longest: int) -> None:
        super().__init__()
        self._longest, self._text = longest, ""

    def tell(self, text: str) -> None:
        """Say this."""
        self._text = text
        self.changed()

    def get_content_height(self, container: object, viewport: object, width: int) -> int:
        """The same for every choice, so that nothing jumps."""
        return 1 + min(MOST_ABOUT, self._longest * 5 // (4 * max(10, width - 2)) + 1) if self._longest else 0

    def lines(self, width: int, height: int) -> list[Line]:
        """Wrapped."""
        return [(), *([Span(f" {row}")] for row in wrapped(one_line(self._text), width - 2))]


class MenuDialog(LeftOnce, ModalScreen[Any]):
    """One of several things, or none.

    Args:
        title: what is asked.
        choices: what can be chosen.
        sentences: what a person should know before.
        at: where the cursor begins.
    """

    BINDINGS: ClassVar[list[BindingType]] = CLOSE

    def __init__(
        self, title: str, choices: Sequence[Choice], sentences: Sequence[str] = (), at: int = 0
    ) -> None:
        super().__init__()
        self._title, self._choices, self._sentences, self._at = title, choices, sentences, at

    def compose(self) -> ComposeResult:
        """Title, sentences and the list."""
        with Vertical(classes="dialog"):
            yield DialogTitle(one_line(self._title, 50), "enter choose   esc back")
            yield Paragraph(self._sentences)
            yield Choices(self._choices, self._at)
            yield About(max((len(choice.about) for choice in self._choices), default=0))

    def on_mount(self) -> None:
        """Start with the choices."""
        self.query_one(Choices).focus()
        self.on_choices_moved()

    def on_choices_moved(self) -> None:
        """Say what the one under the cursor is."""
        self.query_one(About).tell(self._choices[self.query_one(Choices).cursor].about)

    def on_cursor_list_opened(self, event: CursorList.Opened) -> None:
        """Hand the choice back."""
        self.dismiss(self._choices[event.place].value)

    def on_key(self, event: Key) -> None:
        """A letter chooses at once."""
        wanted = [c for c in self._choices if c.key and c.key == event.character]
        if wanted:
            event.stop()
            self.dismiss(wanted[0].value)

    def action_close(self) -> None:
        """Choose nothing."""
        self.dismiss(None)


class WordsDialog(LeftOnce, ModalScreen[str]):
    """Some words on one line; empty ones are an answer too.

    Args:
        title: what they are for.
        words: to begin with.
        hint: a sentence under the field.
    """

    BINDINGS: ClassVar[list[BindingType]] = CLOSE

    def __init__(self, title: str, words: str, hint: str) -> None:
        super().__init__()
        self._title, self._words, self._hint = title, one_line(words), one_line(hint)

    def compose(self) -> ComposeResult:
        """A field."""
        with Vertical(classes="dialog"):
            yield DialogTitle(self._title, "enter apply   esc back")
            yield Input(value=self._words, id="words")
            yield DialogText([[Span(f" {self._hint}", "dim")]])

    def on_mount(self) -> None:
        """Ready to type."""
        self.query_one(Input).focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Hand the words back."""
        self.dismiss(event.value)

    def action_close(self) -> None:
        """Change nothing."""
        self.dismiss(None)


class PathDialog(LeftOnce, ModalScreen[Path]):
    """The name of a file.

    Args:
        title: what it is for.
        value: the name to begin with.
        check: why a path will not do, empty when it will.
        hint: a sentence below the field.
        does: what enter does, in a word.
        replaces: whether a file that is there is replaced, after a second enter.
    """

    BINDINGS: ClassVar[list[BindingType]] = CLOSE

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
        super().__init__()
        self._title, self._value, self._check, self._hint = title, value, check, hint
        self._does, self._replaces, self._warned = does, replaces, ""

    def compose(self) -> ComposeResult:
        """A field."""
        with Vertical(classes="dialog"):
            yield DialogTitle(one_line(self._title, 50), f"enter {self._does}   esc back")
            yield Input(value=to_edit(self._value), id="path")
            yield DialogText([[Span(f" {self._hint}", "dim")]], id="word")

    def on_mount(self) -> None:
        """Ready to type."""
        self.query_one(Input).focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Hand the path back, or say why not."""
        text = from_edit(event.value).strip()
        path = Path(text).expanduser()
        wrong = self._check(path) if text else "type the name of a file"
        if wrong:
            self._say("✗", wrong, "bad")
        elif self._replaces and path.exists() and self._warned != text:
            self._warned = text
            word = f"it is there already; enter once more replaces {one_line(path.name, 24)}"
            self._say("⚠", word, "attention")
        else:
            self.dismiss(path)

    def _say(self, sign: str, word: str, role: str) -> None:
        room = max(20, min(self.app.size.width, 76) - 8)
        rows = wrapped(one_line(word), room)
        lines: list[Line] = [[Span(f" {' ' if n else sign} {row}", role)] for n, row in enumerate(rows)]
        self.query_one("#word", DialogText).tell(lines)

    def action_close(self) -> None:
        """Choose nothing."""
        self.dismiss(None)
