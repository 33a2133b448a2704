"""The few signs of the interface, small curves made of blocks, and plain letters where a locale has no more.

Everything else speaks in these signs; `to_ascii` is applied last, where it is painted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

BLOCKS = "▁▂▃▄▅▆▇"
"""Without the full block, so that curves in neighbouring lines stay apart."""

STATES: Mapping[str, tuple[str, str]] = {
    "starting": ("◌", "accent"),
    "training": ("▶", "good"),
    "paused": ("⏸", "attention"),
    "stopping": ("◼", "attention"),
    "stalled": ("⚠", "attention"),
    "finished": ("✓", "good"),
    "stopped": ("◼", "dim"),
    "failed": ("✗", "bad"),
    "crashed": ("✗", "bad"),
    "broken": ("✗", "bad"),
}
"""State of a run to its sign and the role of its colour."""

_ASCII = str.maketrans(
    {
        "─": "-", "│": "|", "└": "`", "━": "=", "╸": ">", "▲": "^", "▼": "v", "✓": "+", "✗": "x", "●": "*",
        "⚠": "!", "⏸": "=", "▶": ">", "◼": "#", "◌": "o", "◆": "#", "▴": "^", "…": "~", "⏎": "/", "–": "-",
        "┤": "|", "┴": "+", "┼": "+", "┊": ":", "╍": "=", "┈": ".", "↻": "@", "←": "<", "▸": ">",
        "→": ">", "·": ".", "▁": "_", "▂": "_", "▃": ".", "▄": "-", "▅": "=", "▆": "+", "▇": "*", "█": "#",
        "⌂": "~", "°": " ", "×": "x", "±": "~", "↵": "/", "▌": "|", "❙": "|", "“": '"', "”": '"', "’": "'",
        "✂": "c", "░": "%", "▒": "+", "▓": "=", "␍": "r", "÷": "/", "−": "-", "Σ": "S",
    }
)  # fmt: skip


def state_sign(state: str) -> tuple[str, str]:
    """Sign and colour role of a state; an unknown one gets a plain dot."""
    return STATES.get(state, ("·", "dim"))


def spark(
    values: Sequence[float | None], width: int, low: float | None = None, high: float | None = None
) -> str:
    """A curve one line high: the values, averaged to `width` blocks; a missing stretch is a blank.

    Args:
        values: In order of time.
        width: Number of characters, fewer when there are fewer values.
        low: Lower end of the scale, by default the lowest value.
        high: Upper end of the scale, by default the highest value.

    Where both ends are one the values are at half height, at the foot when they are zero.
    """
    if not values or width <= 0:
        return ""
    count = min(width, len(values))
    cells: list[float | None] = []
    for cell in range(count):
        part = values[cell * len(values) // count : (cell + 1) * len(values) // count]
        known = [v for v in part if v is not None]
        cells.append(sum(known) / len(known) if known else None)
    known = [v for v in cells if v is not None]
    if not known:
        return " " * count
    bottom = min(known) if low is None else low
    top = max(known) if high is None else high
    span = top - bottom
    if span <= 1e-12:
        flat = BLOCKS[3 if bottom else 0]
        return "".join(" " if v is None else flat for v in cells)
    last = len(BLOCKS) - 1
    return "".join(
        " " if v is None else BLOCKS[round(min(1, max(0, (v - bottom) / span)) * last)] for v in cells
    )


def to_ascii(text: str) -> str:
    """The text in ASCII, one character for one, unknown ones as `?`."""
    plain = text.translate(_ASCII)
    return plain if plain.isascii() else "".join(c if c.isascii() else "?" for c in plain)


_FEW_GLYPHS = ("linux", "vt", "ansi", "cons", "sun")
"""Terminals, by the start of their name, whose fonts hold no braille and hardly a sign."""


def few_glyphs(environment: Mapping[str, str]) -> bool:
    """True when only ASCII is sure to be shown: an ASCII locale, or a console without such glyphs."""
    return ascii_locale(environment) or environment.get("TERM", "").startswith(_FEW_GLYPHS)


def ascii_locale(environment: Mapping[str, str]) -> bool:
    """True when the person asked for a locale that has no more than ASCII.

    Python itself turns `LANG=C` into `LC_CTYPE=C.UTF-8`, so that pair still counts as plain C; nothing
    set at all is taken as a terminal of today.
    """
    lang = environment.get("LANG", "")
    chosen = environment.get("LC_ALL") or environment.get("LC_CTYPE") or lang
    if not environment.get("LC_ALL") and chosen == "C.UTF-8" and lang in ("C", "POSIX"):
        return True
    if not chosen:
        return False
    codeset = chosen.partition(".")[2].partition("@")[0].lower().replace("-", "")
    return chosen in ("C", "POSIX") or (bool(codeset) and codeset != "utf8")
