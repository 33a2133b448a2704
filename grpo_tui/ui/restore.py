"""The escape sequences that undo every mode a full-screen program turns on.

Must not import anything: it is used to repair a terminal after a crash, when memory and time may be short.
"""

from __future__ import annotations

MODES = (
    "\x1b[?2026l"  # synchronized output, first: an open frame must not hold back the rest
    "\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?1015l\x1b[?1016l"  # mouse reports
    "\x1b[?1004l\x1b[?2004l\x1b[?2048l\x1b[<u"  # focus, paste, in-band resize, keyboard protocol
    "\x1b[?7h\x1b[?25h\x1b[0m"  # line wrap, cursor, plain text
)
"""Resets every mode except the alternate screen. Harmless if a mode is already off."""

TITLE_BACK = "\x1b]2;\x07\x1b[23;0t"
"""Clears the title, then restores the saved one on terminals with a title stack (XTWINOPS)."""

RESTORE = MODES + "\x1b[?1049l"
"""Also leaves the alternate screen. On the main screen this moves the cursor to where the program started."""
