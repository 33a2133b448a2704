"""Write a text with tables and charts as Markdown or as one HTML page.

A document is a list of blocks that hold plain text. Everything is escaped here and nowhere else: names,
prompts and messages come from run folders of anyone.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from grpo_tui.core.text import one_line, safe


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading of a level from 1."""

    text: str
    level: int = 1


@dataclass(frozen=True, slots=True)
class Paragraph:
    """Some sentences."""

    text: str


@dataclass(frozen=True, slots=True)
class Items:
    """A list."""

    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells under a head."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Code:
    """Lines as they are, in a language or in none."""

    lines: tuple[str, ...]
    language: str = ""


Block = Heading | Paragraph | Items | Table | Code

_SPECIAL = re.compile(r"[\\`*\[\]~|#!$@]|(?<![^\W_])_|_(?![^\W_])|(?<=:)/(?=/)|(?<=www)\.|^[-+=]")
"""What Markdown would take for markup or a link; an underscore inside a word is none."""
_NUMBERED = re.compile(r"^(\d+)([.)])(?=\s|$)")


def markdown(blocks: Iterable[Block]) -> str:
    """Return a document as Markdown of the GitHub kind."""
    return "\n".join(f"{_markdown(block)}\n" for block in blocks)


def escaped(text: str) -> str:
    """Return a text on one line that Markdown shows as it is."""
    shown = _SPECIAL.sub(r"\\\g<0>", html.escape(one_line(text), quote=False))
    return _NUMBERED.sub(r"\1\\\2", shown)


def _markdown(block: Block) -> str:
    match block:
        case Heading(text, level):
            return f"{'#' * level} {escaped(text)}"
        case Paragraph(text):
            return escaped(text)
        case Items(texts):
            return "\n".join(f"- {escaped(text)}" for text in texts)
        case Table(head, rows):
            lines = [map(escaped, head), ["---"] * len(head), *(map(escaped, row) for row in rows)]
            return "\n".join(f"| {' | '.join(line)} |" for line in lines)
        case Code(lines, language):
            return _fenced(lines, language)


def _fenced(lines: Sequence[str], language: str) -> str:
    """Return lines in a fence that is longer than any in them."""
    text = safe("\n".join(lines))
    fence = "`" * max([3, *(len(ticks) + 1 for ticks in re.findall("`+", text))])
    return f"{fence}{language}\n{text}\n{fence}"
