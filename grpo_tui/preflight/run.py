"""`check`: every part of the pre-flight, cheapest first, each told as soon as it is known.

Knows the order of the parts and what each needs; the parts themselves are modules of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Event

from grpo_tui.preflight.machine import Machine
from grpo_tui.preflight.report import PARTS, Part, Preflight
from grpo_tui.preflight.static import Source, Start, static_check

Tell = Callable[[Preflight], None]
"""Called with everything known so far, after each part."""
Progress = Callable[[str], None]
"""Called with one line on what is done now."""


def check(
    source: Source,
    start: Start | None = None,
    *,
    tell: Tell | None = None,
    progress: Progress | None = None,
    cancel: Event | None = None,
    parts: Sequence[Part] = PARTS,
    machine: Machine | None = None,
) -> Preflight:
    """Check a config before it starts.

    Args:
        source: the file, or the text of an editor.
        start: how it would be started.
        tell: called after each part with all that is known.
        progress: called with one line whenever something else is done.
        cancel: set by somebody who does not want the rest any more.
        parts: which parts; the others are left out of the result.
        machine: what the machine has; this one when None.

    Returns:
        What was found; with `cancel` set, as far as it had come.
    """
    start = start or Start()
    result = static_check(source, start, machine)
    if tell is not None:
        tell(result)
    return result
