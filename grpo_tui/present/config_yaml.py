"""Color YAML by keys, comments, numbers and signs, and make text safe to edit.

This looks at single lines and is not a parser: a broken file is colored as far as possible, never rejected.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

Piece = tuple[int, int, str]
"""Start, end (exclusive) and color role of a piece."""

MOST_LINES = 5_000
"""Longer texts stay plain: every key press colors all lines again."""

_KEY = re.compile(
    r"""(?P<before>\s*(?:-\s+)*)(?P<key>"[^"]*"|'[^']*'|[^\s#'"\[\]{},&*!|>%@`-][^:#]*?|-[^\s:#][^:#]*?)\s*:(?=\s|$)"""
)
_DASH = re.compile(r"\s*(?:-(?:\s+|$))+")
_BLOCK = re.compile(r"(?:^|[:\-]\s+|\s)[|>][+\-0-9]*\s*(?:#.*)?$")
_PART = re.compile(
    r"""(?P<comment>(?:(?<=\s)|^)\#.*)"""
    r"""|(?P<quoted>"(?:[^"\\]|\\.)*"?|'(?:[^']|'')*'?)"""
    r"""|(?P<flow_key>[\w.\-]+(?=\s*:(?:\s|$)))"""
    r"""|(?P<sign>[\[\]{},&*|>]|:(?=\s|$))"""
    r"""|(?P<plain>[^\s\[\]{},]+)"""
)  # fmt: skip
_SCALAR = re.compile(
    r"(?:true|false|yes|no|on|off|null|none|~|[+-]?(?:\d[\d_]*\.?\d*|\.\d+)(?:e[+-]?\d+)?|\.inf|\.nan)",
    re.IGNORECASE,
)
ROLES = {"comment": "dim", "quoted": "text", "flow_key": "accent", "sign": "dim"}
VALUE_ROLE = "line3"


def pieces(lines: Sequence[str]) -> list[list[Piece]]:
    """Return the colored pieces of every line, in order. The rest is plain text."""
    if len(lines) > MOST_LINES:
        return [[] for _ in lines]
    found: list[list[Piece]] = []
    block: int | None = None  # indentation of the key of the current text block
    for line in lines:
        indent = len(line) - len(line.lstrip(" "))
        if block is not None:
            if not line.strip() or indent > block:
                found.append([])
                continue
            block = None
        found.append(_line(line))
        if _BLOCK.search(line) and not line.lstrip().startswith("#"):
            block = indent
    return found


def _line(line: str) -> list[Piece]:
    found: list[Piece] = []
    at = 0
    if dash := _DASH.match(line):
        at = dash.end()
        start = at - len(dash[0].lstrip())
        found.append((start, at, "dim"))
    if key := _KEY.match(line):
        found.append((key.start("key"), key.end("key"), "accent"))
        found.append((key.end() - 1, key.end(), "dim"))
        at = key.end()
    for part in _PART.finditer(line, at):
        kind = part.lastgroup or "plain"
        if kind == "plain":
            words = part[0].rstrip()
            if _whole_value(line, part.start(), part.end()) and _SCALAR.fullmatch(words):
                found.append((part.start(), part.end(), VALUE_ROLE))
        elif kind != "quoted":
            found.append((part.start(), part.end(), ROLES[kind]))
    return found


def _whole_value(line: str, start: int, end: int) -> bool:
    """Return whether the word is the whole value: `8` is a number, the `8` of `8 GPUs` is not."""
    before, after = line[:start].rstrip(), line[end:].lstrip()
    return (not before or before[-1] in ":[,{-") and (not after or after[0] in ",]}#")


# -- text that can be edited ---------------------------------------------------------------------------

_PRIVATE = 0xF0000
"""While edited, characters that a terminal obeys, or that end a line in an editor but not in YAML, are
replaced by private ones, one cell wide.
"""
_CARRIED = (
    *(code for code in range(0x20) if code not in (0x09, 0x0A)), 0x7F, *range(0x80, 0xA0), 0xAD, 0x34F, 0x61C,
    0x115F, 0x1160, *range(0x200B, 0x2010), *range(0x2028, 0x202F), *range(0x2060, 0x2070), 0x3164,
    *range(0xFE00, 0xFE10), 0xFEFF, 0xFFA0, *range(0xFFF9, 0xFFFC), *range(0xD800, 0xE000),
)  # fmt: skip
_CARRY = {code: chr(_PRIVATE + code) for code in _CARRIED}
_BACK = {_PRIVATE + code: chr(code) for code in _CARRIED}
_GLYPHS = {
    **{_PRIVATE + code: "�" for code in _CARRIED},
    **{_PRIVATE + code: chr(0x2400 + code) for code in range(0x20)},
    _PRIVATE + 0x7F: "␡",
    **dict.fromkeys(_CARRIED, "�"),
    **{code: chr(0x2400 + code) for code in range(0x20) if code not in (0x09, 0x0A)},
    0x7F: "␡",
}  # fmt: skip


def to_edit(text: str) -> str:
    """Return the text in a form that is safe in an editor; `from_edit` restores it byte for byte."""
    whole = "\r\n" in text and text.count("\r\n") == text.count("\n") == text.count("\r")
    if whole:
        return "\r\n".join(part.translate(_CARRY) for part in text.split("\r\n"))
    return text.translate(_CARRY)


def from_edit(text: str) -> str:
    """Undo `to_edit`."""
    return text.translate(_BACK)


def glyphs(text: str) -> str:
    """Return one edited line as shown, character by character; control characters become visible."""
    return text if text.isascii() and text.isprintable() else text.translate(_GLYPHS)
