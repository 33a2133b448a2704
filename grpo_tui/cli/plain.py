"""Tell whether a screen can be shown where the output goes, and say in a sentence what comes instead.

Knows terminals by name and by the system's database of them; knows nothing of screens.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Mapping

from grpo_tui.core.text import one_line
from grpo_tui.present.glyphs import ascii_locale, to_ascii

KNOWN = (
    "xterm",
    "screen",
    "tmux",
    "rxvt",
    "linux",
    "alacritty",
    "kitty",
    "foot",
    "wezterm",
    "ghostty",
    "konsole",
)
WITHOUT = ("", "dumb", "unknown", "network", "dialup", "emacs")


def can_place_text(environment: Mapping[str, str]) -> bool:
    """True unless the terminal is known to have no means of putting text at a place.

    A name that the system's database (terminfo) does not know is taken for a terminal newer than it.
    """
    name = environment.get("TERM", "")
    if name in WITHOUT:
        return False
    if name.startswith(KNOWN):
        return True
    import curses

    try:
        curses.setupterm(name, sys.__stdout__.fileno() if sys.__stdout__ is not None else 1)
        return curses.tigetstr("cup") is not None
    except (curses.error, OSError, ValueError):
        return True


def terminal_width() -> int:
    """Cells of a line: as COLUMNS says, else of the terminal that the output goes to; 120 without one."""
    return shutil.get_terminal_size((120, 24)).columns


def print_lines(lines: Iterable[Iterable[tuple[str, str]]]) -> None:
    """Print lines of spans without their colours, in ASCII where the locale has no more."""
    plain = ascii_locale(os.environ)
    for line in lines:
        text = "".join(part for part, _ in line).rstrip()
        print(to_ascii(text) if plain else text)


def has_screen(instead: str) -> bool:
    """True when the screen can be shown; on a terminal that cannot, says what comes instead.

    Args:
        instead: What is printed instead, such as `a line per step`.
    """
    if not sys.stdout.isatty():
        return False
    if can_place_text(os.environ):
        return True
    name = one_line(os.environ.get("TERM", ""), 30)
    kind = f"TERM={name}" if name else "TERM is not set, so this terminal"
    print(f"grpo-tui: {kind} cannot show the screen; {instead} instead", file=sys.stderr, flush=True)
    return False
