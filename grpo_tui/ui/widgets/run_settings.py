"""The open run's settings as recorded, and what has changed since."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from grpo_tui.core.text import shorten
from grpo_tui.present.formatting import setting
from grpo_tui.ui.paint import Line, LineScroll, Span, ruled, spread, width_of


class RunSettings(LineScroll):
    """One setting a line, the most important first."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._recorded: Sequence[tuple[str, str]] | None = None
        self._now: Mapping[str, Any] = {}

    def show(self, recorded: Sequence[tuple[str, str]] | None, now: Mapping[str, Any]) -> None:
        """Show the recorded settings (None while they are being read) and the current values by name."""
        if (recorded, now) != (self._recorded, self._now):
            self._recorded, self._now = recorded, now
            self.changed()

    def lines(self, width: int) -> Sequence[Line]:
        title = ruled([[Span("settings", "title")]], width)
        recorded = self._recorded
        if not recorded:
            word = "Reading the settings …" if recorded is None else "No settings were recorded."
            return [title, [Span(f"  {word}", "dim")]]
        lines: list[Line] = [title]
        known = dict(recorded)
        others = [(name, setting(value)) for name, value in self._now.items() if name not in known]
        for name, value in (*recorded, *others):
            lines += _row([Span(f" {name}", "dim")], [Span(value)], width)
            now = setting(self._now[name]) if name in self._now else value
            if now != value:
                lines.append(spread((), [Span(f"now {now}", "attention")], width))
        return lines


def _row(name: list[Span], value: list[Span], width: int) -> list[Line]:
    """Return name and value on one line if they fit, else on two."""
    if width_of(name) + width_of(value) + 2 <= width:
        return [spread(name, value, width)]
    return [name, [Span(f"   {shorten(value[0].text, max(1, width - 3))}")]]
