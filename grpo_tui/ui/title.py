"""The title of the terminal: state and step of the open run, for who looks at a row of tabs.

Written only when it changes; what stood there before is put back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from grpo_tui.core.text import one_line
from grpo_tui.present.glyphs import state_sign, to_ascii
from grpo_tui.ui.restore import TITLE_BACK

if TYPE_CHECKING:
    from grpo_tui.present.train_view import TrainView

MOST_CELLS = 80
KEEP = "\x1b[22;0t"
"""XTWINOPS: the terminal keeps its title on a stack; ignored where there is none."""
WITHOUT = ("dumb", "linux", "unknown", "vt", "ansi", "cons", "sun")
"""Terminals, by the start of their name, that have no title and may print the sequence."""


def has_title(environment: Mapping[str, str]) -> bool:
    """True when the terminal is of a kind that has a title."""
    name = environment.get("TERM", "")
    return bool(name) and not name.startswith(WITHOUT)


def title_of(view: TrainView | None, *, plain: bool = False) -> str:
    """The title for a view: `▶ 57/120 demo-add, grpo-tui`; never with a control character."""
    if view is None:
        return "grpo-tui"
    sign = state_sign(view.state)[0]
    step = f"{view.step}/{view.total_steps}" if view.total_steps else str(view.step)
    text = one_line(f"{sign} {step} {view.name} — grpo-tui", MOST_CELLS)
    return to_ascii(text.replace("—", "-")) if plain else text


class TerminalTitle:
    """Writes the title.

    Args:
        write: Writes to the terminal.
        plain: Whether only ASCII can be shown.
    """

    def __init__(self, write: Callable[[str], object], *, plain: bool = False) -> None:
        self._write, self._plain = write, plain
        self._shown: str | None = None

    def show(self, view: TrainView | None) -> None:
        """Show this view."""
        title = title_of(view, plain=self._plain)
        if title != self._shown:
            self._write(f"{KEEP if self._shown is None else ''}\x1b]2;{title}\x07")
            self._shown = title

    def give_back(self) -> None:
        """Put back what stood there before."""
        if self._shown is not None:
            self._write(TITLE_BACK)
        self._shown = None
