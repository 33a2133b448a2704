"""What the app tells the terminal besides its screen: title, bell, clipboard; and what it remembers."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from grpo_tui.core.text import one_line, safe
from grpo_tui.present.glyphs import few_glyphs
from grpo_tui.ui.following import FollowingApp
from grpo_tui.ui.preferences import PreferenceFile

if TYPE_CHECKING:
    from grpo_tui.present.train_view import TrainView
    from grpo_tui.ui.title import TerminalTitle

TITLE_EVERY_S = 1.0


class OutwardApp(FollowingApp):
    """An app with preferences, a title in the terminal, a bell and a clipboard."""

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        super().__init__(clock=clock)
        self.ascii_only = few_glyphs(os.environ)
        self._preference_file = PreferenceFile()
        self.preferences, self._trouble = self._preference_file.read()
        self._title: TerminalTitle | None = None
        self._hinted = False
        self._lived: str | None = None
        """The folder of the run that was live at the last look."""

    def on_mount(self) -> None:
        """Say what could not be read, and begin with the title."""
        self._say_trouble(self._trouble)
        self.view_signal.subscribe(self, self._ring)
        self.call_after_refresh(self._begin_title)

    def on_unmount(self) -> None:
        """Give the title back."""
        self.give_back_title()

    # -- preferences -----------------------------------------------------------------------------

    def prefer(self, **changes: Any) -> None:
        """Remember other preferences, named as in `Preferences`."""
        self.preferences, trouble = self._preference_file.change(**changes)
        self._say_trouble(trouble)

    def _say_trouble(self, trouble: str) -> None:
        if trouble:
            self.notify(one_line(trouble, 300), severity="warning", timeout=10, markup=False)

    # -- title -----------------------------------------------------------------------------------

    def _begin_title(self) -> None:
        from grpo_tui.ui.title import TerminalTitle, has_title

        if self._driver is not None and has_title(os.environ):
            self._title = TerminalTitle(self._write, plain=self.ascii_only)
            self.set_interval(TITLE_EVERY_S, self._show_title)

    def _show_title(self) -> None:
        if self._title is not None and self.preferences.title:
            self._title.show(self.view)

    def give_back_title(self) -> None:
        """Put back what stood in the title before; the next second writes it again while the app runs."""
        if self._title is not None:
            self._title.give_back()

    def _write(self, data: str) -> None:
        if self._driver is not None:
            self._driver.write(data)

    def action_app_title(self) -> None:
        """The run in the terminal's title, or not; remembered."""
        self.prefer(title=not self.preferences.title)
        if self.preferences.title:
            self._show_title()
        else:
            self.give_back_title()
        self.notify(f"The terminal's title {'shows' if self.preferences.title else 'leaves out'} the run.")

    # -- bell ------------------------------------------------------------------------------------

    def _ring(self, view: TrainView | None) -> None:
        """Ring once when the run that was seen alive has ended."""
        if view is None:
            self._lived = None
        elif view.live:
            self._lived = view.folder
        elif view.ended and self._lived == view.folder:
            self._lived = None
            if self.preferences.bell:
                self.bell()

    def action_app_bell(self) -> None:
        """Ring when the open run ends, or not; remembered."""
        self.prefer(bell=not self.preferences.bell)
        rings = self.preferences.bell
        self.notify("Rings once when the run ends or fails." if rings else "The bell is off.")

    # -- clipboard -------------------------------------------------------------------------------

    def copy(self, what: str, text: str) -> None:
        """Put a text into the clipboard of the person's own machine, by way of the terminal, and say so."""
        from grpo_tui.ui.clipboard import fitting

        kept, whole = fitting(text), safe(text)
        self.copy_to_clipboard(kept)
        count = f"{len(kept):,} characters"
        if len(kept) < len(whole):
            count = f"the first {len(kept):,} of {len(whole):,} characters; a clipboard takes no more"
        hint = ""
        if os.environ.get("TMUX") and not self._hinted:
            hint, self._hinted = " tmux passes it on with `set -g set-clipboard on`.", True
        self.notify(f"Copied {one_line(what, 60)}: {count}.{hint}", markup=False)

    def copy_to_clipboard(self, text: str) -> None:
        """Write the sequence that a terminal takes into its clipboard, also from inside tmux or screen."""
        from grpo_tui.ui.clipboard import sequences

        self._clipboard = text
        self._write(sequences(text, os.environ))
