"""Put text into the clipboard of the terminal's own machine, over SSH too, by the sequence OSC 52.

Only what a person asks for is sent. The text goes out in Base64, so nothing in it can end the sequence.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping

from grpo_tui.core.text import safe

MOST_BYTES = 74_994
"""Several terminals drop a longer sequence whole: 100,000 bytes of Base64 less its frame."""
_SCREEN_PIECE = 240
"""GNU screen passes on strings of 256 bytes at most."""


def fitting(text: str) -> str:
    """As much of the text as a clipboard takes, control characters made visible, for a shell may get it."""
    whole = safe(text)
    data = whole.encode("utf-8")
    if len(data) <= MOST_BYTES:
        return whole
    return data[:MOST_BYTES].decode("utf-8", "ignore")


def sequences(text: str, environment: Mapping[str, str]) -> str:
    """What is written to the terminal to have it copy `text`, through tmux or GNU screen too.

    tmux takes OSC 52 itself where `set-clipboard` is `on`, and passes a wrapped one on where
    `allow-passthrough` is; both are written, for they set the same text.
    """
    plain = f"\x1b]52;c;{base64.b64encode(text.encode('utf-8')).decode('ascii')}\x07"
    if environment.get("TMUX"):
        return plain + "\x1bPtmux;" + plain.replace("\x1b", "\x1b\x1b") + "\x1b\\"
    if environment.get("STY"):
        pieces = [plain[i : i + _SCREEN_PIECE] for i in range(0, len(plain), _SCREEN_PIECE)]
        return "".join(f"\x1bP{piece}\x1b\\" for piece in pieces)
    return plain
