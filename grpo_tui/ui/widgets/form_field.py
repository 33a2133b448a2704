"""A field of one line over the value of the form that is being edited."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import BindingType
from textual.events import Blur
from textual.geometry import Region
from textual.message import Message
from textual.widgets import Input

from grpo_tui.present.config_yaml import from_edit, to_edit


class FormField(Input):
    """Shown over one value; hidden at all other times."""

    DEFAULT_CSS = """
    FormField, FormField:focus {
        layer: above; position: absolute; display: none; height: 1; border: none; padding: 0;
        background: $panel; color: $strong;
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [("escape", "give_up", "back")]

    class Tried(Message):
        """The text has changed."""

    class Given(Message):
        """The text was confirmed with enter."""

    class Left(Message):
        """The field was left without a value."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id, select_on_focus=False)
        self.name_edited = ""

    @property
    def text(self) -> str:
        """What stands in it, as it would stand in the file."""
        return from_edit(self.value)

    def open(self, name: str, text: str, region: Region) -> None:
        """Stand over a region of the screen, with this text."""
        self.name_edited = name
        self.styles.offset = (region.x, region.y)
        self.styles.width = region.width
        self.value = to_edit(text)
        self.cursor_position = len(self.value)
        self.display = True
        self.focus()

    def close(self) -> None:
        """Hide."""
        self.name_edited = ""
        self.display = False

    def on_input_changed(self, event: Input.Changed) -> None:
        """Say so while a value is being edited."""
        event.stop()
        if self.name_edited:
            self.post_message(self.Tried())

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Enter."""
        event.stop()
        if self.name_edited:
            self.post_message(self.Given())

    def on_blur(self, event: Blur) -> None:
        """A click elsewhere leaves it."""
        if self.name_edited:
            self.post_message(self.Left())

    def action_give_up(self) -> None:
        """Escape leaves it."""
        self.post_message(self.Left())
