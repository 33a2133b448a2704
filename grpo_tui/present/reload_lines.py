"""What checking edited rewards found, as lines: the diff, the recorded groups, and what failed."""

from __future__ import annotations

from grpo_tui.core.text import one_line, wrapped
from grpo_tui.present.train_view import Span
from grpo_tui.present.what_if_lines import what_if_lines
from grpo_tui.rewards.reload_check import ReloadCheck

MOST_GROUPS = 5
ROLES = {"+": "good", "-": "bad", "@": "accent"}


def reload_lines(found: ReloadCheck, width: int) -> list[list[Span]]:
    """Return the check in lines of `width` cells."""
    lines: list[list[Span]] = [
        [(f"  {one_line(line, max(20, width - 2))}", ROLES.get(line[:1], "text"))] for line in found.diff
    ]
    if found.what_if is not None:
        lines += [[], *what_if_lines(found.what_if, width, MOST_GROUPS)]
    if found.diff or found.what_if is not None:
        lines.append([])
    told = [(f"✗ {text}", "bad") for text in (*found.broken, *found.failed)]
    told += [(f"note: {text}", "dim") for text in found.notes]
    if not found.broken and not found.failed:
        told.append(("✓ contract, saved cases, probes and recorded groups: nothing failed", "good"))
    for text, role in told:
        rows = wrapped(one_line(text, 2000), max(20, width - 4))
        lines += [[(f"  {'  ' if number else ''}{row}", role)] for number, row in enumerate(rows)]
    return lines
