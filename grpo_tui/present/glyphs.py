"""The symbols of the interface, sparklines, and plain ASCII where a locale has no more.

Everything else uses these symbols; `to_ascii` is applied last, when painting.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.cells import cell_len

BLOCKS = "▁▂▃▄▅▆▇"
"""Without the full block, so that curves in adjacent lines stay separate."""

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

_ASCII = str.maketrans(
    {
        "─": "-", "│": "|", "└": "`", "━": "=", "╸": ">", "▲": "^", "▼": "v", "✓": "+", "✗": "x", "●": "*",
        "⚠": "!", "⏸": "=", "▶": ">", "◼": "#", "◌": "o", "◆": "#", "▴": "^", "…": "~", "⏎": "/", "–": "-",
        "┤": "|", "┴": "+", "┼": "+", "┊": ":", "╍": "=", "┈": ".", "↻": "@", "←": "<", "▸": ">",
        "→": ">", "·": ".", "▁": "_", "▂": "_", "▃": ".", "▄": "-", "▅": "=", "▆": "+", "▇": "*", "█": "#",
        "⌂": "~", "°": " ", "×": "x", "±": "~", "↵": "/", "▌": "|", "❙": "|", "“": '"', "”": '"', "’": "'",
        "✂": "c", "░": "%", "▒": "+", "▓": "=", "␍": "r", "÷": "/", "−": "-", "Σ": "S", "▔": "-", "🔎": "> ",
    }
)  # fmt: skip


def state_sign(state: str) -> tuple[str, str]:
    """Return symbol and color role of a state; a plain dot for an unknown one."""
    return STATES.get(state, ("·", "dim"))


def spark(
    values: Sequence[float | None], width: int, low: float | None = None, high: float | None = None
) -> str:
    """Draw a curve one line high: values averaged to `width` blocks, with blanks where values are missing.

    If the ends of the scale are equal, values are at half height, or at the bottom when they are zero.
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
    """Return the text in ASCII and in as many cells, each of an unknown character as `?`."""
    plain = text.replace(" → ", " ->").translate(_ASCII)  # alone, `>` would compare the two values
    return plain if plain.isascii() else "".join(c if c.isascii() else "?" * cell_len(c) for c in plain)


_FEW_GLYPHS = ("linux", "vt", "ansi", "cons", "sun")
"""Prefixes of terminal names whose fonts lack braille and most symbols."""


def few_glyphs(environment: Mapping[str, str]) -> bool:
    """Return whether only ASCII is sure to be shown: an ASCII locale, or a console without such symbols."""
    return ascii_locale(environment) or environment.get("TERM", "").startswith(_FEW_GLYPHS)


def ascii_locale(environment: Mapping[str, str]) -> bool:
    """Return whether the user asked for an ASCII locale.

    Python itself turns `LANG=C` into `LC_CTYPE=C.UTF-8`, so that pair counts as plain C. With nothing set, a
    modern terminal is assumed.
    """
    lang = environment.get("LANG", "")
    chosen = environment.get("LC_ALL") or environment.get("LC_CTYPE") or lang
    if not environment.get("LC_ALL") and chosen == "C.UTF-8" and lang in ("C", "POSIX"):
        return True
    if not chosen:
        return False
    codeset = chosen.partition(".")[2].partition("@")[0].lower().replace("-", "")
    return chosen in ("C", "POSIX") or (bool(codeset) and codeset != "utf8")
