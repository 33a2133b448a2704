"""The bytes that undo every mode a full-screen program turns on.

Imports nothing: who mends a terminal after a program that died may be short of memory and time.
"""

from __future__ import annotations

MODES = (
    "\x1b[?2026l"  # synchronized output, first of all: a held frame must not swallow the rest
    "\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?1015l\x1b[?1016l"  # mouse reports
    "\x1b[?1004l\x1b[?2004l\x1b[?2048l\x1b[<u"  # focus, paste, in-band resize, keyboard protocol
    "\x1b[?7h\x1b[?25h\x1b[0m"  # line wrap, cursor, plain text
)
"""Every mode but the alternate screen; harmless when they are undone already."""

TITLE_BACK = "\x1b]2;\x07\x1b[23;0t"
"""Takes the title away, then has the one that was kept put back where a terminal keeps one (XTWINOPS)."""

RESTORE = MODES + "\x1b[?1049l"
"""All of it. On the main screen already, the last one moves the cursor to where the screen was opened."""
