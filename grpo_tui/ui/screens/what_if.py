"""Score recorded groups with the current rewards or other weights, on top of Generations.

The lab works in a thread. Leaving the screen ends it.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from grpo_tui.core.text import one_line, wrapped
from grpo_tui.present.formatting import duration, plural
from grpo_tui.present.what_if_lines import what_if_lines
from grpo_tui.rewards.lab import Lab
from grpo_tui.rewards.what_if import WhatIf
from grpo_tui.ui.actions import bindings
from grpo_tui.ui.kit.reading import FullReadingScreen
from grpo_tui.ui.paint import Line, Span, ruled, spans
from grpo_tui.ui.requests import rewards_of_run
from grpo_tui.ui.screens.dialogs import WordsDialog

MOST_GROUPS = 400
"""Groups scored again. If there are more, the newest are used."""
LOOK_S = 0.5
STARTING = "loading torch"


class Scoring:
    """One scoring. The screen can cancel it before or after its lab starts.

    `weights` apply to the recorded scores; None scores with the current rewards.
    """

    def __init__(self, weights: tuple[float, ...] | None) -> None:
        self.weights = weights
        self._lab: Lab | None = None
        self._ended = False
        self._turn = threading.Lock()

    def begin(self, lab: Lab) -> None:
        """Set the lab to interrupt when canceled. Raise LabError if it already was. Runs in the thread."""
        from grpo_tui.rewards.lab import LabError

        with self._turn:
            if self._ended:
                raise LabError("canceled")
            self._lab = lab

    def give_up(self) -> None:
        """Cancel. The current call of the lab fails."""
        with self._turn:
            self._ended = True
            if self._lab is not None:
                self._lab.interrupt()


class WhatIfScreen(FullReadingScreen):
    """Recorded groups, newest first, scored again."""

    BINDINGS = bindings("what-if")
    PANE, OVER = "what-if", "generations"

    def __init__(self, root: Path, groups: Sequence[int]) -> None:
        super().__init__()
        self._root, self._groups, self._all = root, tuple(groups[:MOST_GROUPS]), len(groups)
        self._attempt = Scoring(None)
        self._doing, self._since = STARTING, time.monotonic()
        self.trouble = ""
        self.found: WhatIf | None = None

    def lines(self, width: int) -> list[Line]:
        count = len(self._groups if self.found is None else self.found.groups)
        newest = f"the newest {count:,} of {self._all:,} groups"
        asked = f"{newest if self._all > MOST_GROUPS else plural(count, 'group')} scored again"
        lines: list[Line] = [ruled([[Span("what if", "title")], [Span(asked, "dim")]], width)]
        if self.trouble:
            told = wrapped(one_line(self.trouble), max(20, width - 6))
            return [*lines, *([Span(f"  {' ' if n else '✗'} {row}", "bad")] for n, row in enumerate(told))]
        if self.found is None:
            doing = one_line(self._doing, max(20, width - 20))
            return [*lines, [Span(f"  ◌ {doing}, {duration(time.monotonic() - self._since)}", "attention")]]
        return [*lines, *spans(what_if_lines(self.found, width))]

    def on_mount(self) -> None:
        self.set_interval(LOOK_S, self._look)
        self._start(None)

    def on_unmount(self) -> None:
        self._attempt.give_up()

    def _start(self, weights: tuple[float, ...] | None) -> None:
        """Replace the running attempt with one for these weights, or for the current rewards."""
        self._attempt.give_up()
        attempt = self._attempt = Scoring(weights)
        self._doing, self._since = STARTING, time.monotonic()
        self.found, self.trouble = None, ""
        self.body.changed()
        self.in_thread("what if", partial(self._score, attempt), partial(self._take, attempt))

    def _look(self) -> None:
        if self.found is None and not self.trouble:
            self.body.changed()

    def _score(self, attempt: Scoring) -> WhatIf | str:
        """Load the run's rewards, score and compare. Return why if that fails. Runs in a thread."""
        from grpo_tui.rewards.consent import ConsentError
        from grpo_tui.rewards.lab import Lab, LabError
        from grpo_tui.rewards.scoring import config_of_functions
        from grpo_tui.rewards.what_if import what_if_of_run
        from grpo_tui.store.connection import RunDatabaseError
        from grpo_tui.store.layout import RunFolder

        weights = attempt.weights
        try:
            # Reweighting recorded scores needs no rewards, and logs of other tools have none.
            unnamed = weights is not None and not RunFolder(self._root).spec.exists()
            config = config_of_functions(()) if unnamed else rewards_of_run(self._root).config()
            with Lab() as lab:
                attempt.begin(lab)
                if weights is None:
                    lab.load(config)
                else:  # no function is called, so none needs loading
                    lab.config = config
                return what_if_of_run(
                    lab,
                    self._root,
                    self._groups,
                    weights=weights,
                    recorded=weights is not None,
                    tell=lambda name, what: self._tell(attempt, f"{name}: {what}" if name else what),
                )
        except ConsentError as error:
            self.asks_consent(error.codes, self.action_what_if_again)
            return f"ctrl+l asks again. {error}"
        except (LabError, RunDatabaseError, OSError, ValueError) as error:
            return str(error) or type(error).__name__

    def _tell(self, attempt: Scoring, doing: str) -> None:
        if attempt is self._attempt:
            self._doing = doing
            self.call_later(self.body.changed)

    def _take(self, attempt: Scoring, found: WhatIf | str) -> None:
        """Show the result, or what is wrong, unless it is of a replaced attempt."""
        if attempt is self._attempt:
            self.found, self.trouble = (None, found) if isinstance(found, str) else (found, "")
            self.body.changed()

    # -- keys ------------------------------------------------------------------------------------

    def action_what_if_again(self) -> None:
        self._start(None)

    def action_what_if_weights(self) -> None:
        view = self.shell.view
        names = [function.name for function in view.functions] if view is not None else []
        now = " ".join(f"{f.weight:g}" for f in view.functions) if view is not None else ""
        hint = f"One weight for each of {', '.join(names)}. No function is called."

        def chosen(words: str) -> None:
            weights = _numbers(words)
            if weights is None or len(weights) != len(names):
                wanted = f"{plural(len(names), 'number')}, such as {now}"
                self.app.notify(one_line(f"Give {wanted}.", 200), severity="warning")
                return
            self._start(weights)

        self.ask(WordsDialog("weights", now, hint), chosen)


def _numbers(text: str) -> tuple[float, ...] | None:
    """Return the numbers in a line; None if a word is not a finite number."""
    try:
        numbers = tuple(float(part) for part in text.replace(",", " ").split())
    except ValueError:
        return None
    return numbers if all(map(math.isfinite, numbers)) else None
