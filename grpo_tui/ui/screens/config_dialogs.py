"""What the pane Config asks for a list, a mapping or a long text: a value as YAML, typed in an area of lines.

Hands back the text and does nothing itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen

from grpo_tui.core.text import one_line
from grpo_tui.ui.opened import LeftOnce
from grpo_tui.ui.paint import Span
from grpo_tui.ui.screens.dialogs import CLOSE, DialogText, DialogTitle
from grpo_tui.ui.widgets.yaml_area import YamlArea


class ValueDialog(LeftOnce, ModalScreen[str]):
    """A value as YAML, for lists, mappings and long texts.

    Args:
        name: the field.
        kind: its type, as TRL writes it.
        text: the value to begin with.
        check: what is wrong with a text, empty when it fits.
        yaml: whether the text is YAML for the value, rather than the value.
    """

    # Before the text area sees it; what is pasted keeps its line breaks.
    BINDINGS: ClassVar[list[BindingType]] = [
        *CLOSE,
        Binding("ctrl+s", "apply", "apply", priority=True),
    ]

    def __init__(
        self, name: str, kind: str, text: str, check: Callable[[str], str], *, yaml: bool = True
    ) -> None:
        super().__init__()
        self._field, self._kind, self._text, self._check = name, kind, text, check
        self._yaml = yaml

    def compose(self) -> ComposeResult:
        """The field, a text area, what is wrong."""
        with Vertical(classes="dialog"):
            yield DialogTitle(one_line(self._field, 40), "ctrl+s apply   esc back")
            yield DialogText(
                [[Span(f" {one_line(self._kind)}", "dim"), Span("   as YAML" if self._yaml else "", "dim")]]
            )
            yield YamlArea(id="value")
            yield DialogText([()], id="word")

    def on_mount(self) -> None:
        """Ready to type."""
        area = self.query_one(YamlArea)
        area.show_text(self._text)
        area.focus()
        self._tell()

    def on_yaml_area_typed(self, event: YamlArea.Typed) -> None:
        """Say at once what does not fit."""
        self._tell()

    def _tell(self) -> None:
        wrong = self._check(self.query_one(YamlArea).config_text)
        room = max(20, min(self.app.size.width, 76) - 8)
        line = Span(f" ✗ {one_line(wrong, room)}", "bad") if wrong else Span(" ✓ fits", "good")
        self.query_one("#word", DialogText).tell([[line]])

    def action_apply(self) -> None:
        """Hand the text back when it fits."""
        text = self.query_one(YamlArea).config_text
        if not self._check(text):
            self.dismiss(text)

    def action_close(self) -> None:
        """Change nothing."""
        self.dismiss(None)

    def action_config_back(self) -> None:
        """Escape in the text area."""
        self.dismiss(None)
